"""Evidence in a run directory: what `securefl verify` makes of it."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from securefl.base.errors import ConfigError
from securefl.base.ids import PartyId
from securefl.lab.audit.finding import Severity
from securefl.lab.audit.kept_messages import charges_in, convictions
from securefl.protocol.messages.masking import VectorReceipt
from securefl.protocol.messages.rounds import Endorse
from securefl.protocol.messages.verification import Attest
from securefl.protocol.round.shared.chain import first_link
from securefl.protocol.round.shared.plan import RunPlan
from tests.simulation.lying import distinct, followed, kept_evidence, other_outcome, other_sums, verified
from tests.simulation.test_blame import FAULTS, another_secret, says_twice
from tests.simulation.test_verified_rounds import LIES, one_more, past_rounding
from tests.simulation.world import World
from tests.unit.audit.runs import record
from tests.unit.audit.test_chain import FIRST, breaches, look, ran


def anybodys_plan() -> RunPlan:
    return World(verified(), length=16).plan


def test_a_lie_is_kept_and_convicts_the_server(tmp_path: Path) -> None:
    directory = ran(tmp_path / "run", lie=other_sums(one_more))
    kept = charges_in(directory.path)
    assert kept
    for name in kept:
        assert stat.S_IMODE((directory.path / name).stat().st_mode) == 0o600
    run = look(directory, charges=kept)
    assert (
        "Signed messages prove that the server broke the protocol: it claims another sum of round 0"
        in breaches(run)
    )
    assert run.exit_code == 1
    assert "broke the protocol" not in breaches(look(directory)), "without the files nobody knows"


@pytest.mark.parametrize(
    ("lie", "what"),
    [*FAULTS.items(), ("other seeds", "proves round 0 "), ("-S", "claims another sum of round 0 ")],
)
def test_each_lie_is_convicted_from_the_run_directory_without_the_lab(
    lie: str, what: str, tmp_path: Path
) -> None:
    directory = ran(tmp_path / "run", lie=LIES[lie](), lab=False, settings={"rounds": "1"})
    run = look(directory, charges=charges_in(directory.path))
    assert f"prove that the server broke the protocol: it {what}" in breaches(run)
    assert run.exit_code == 1


@pytest.mark.parametrize(
    ("kind", "changes", "what"),
    [
        (Attest, {"root": bytes(32)}, "attests two outcomes of round 0"),
        (Endorse, {"statement": bytes(32)}, "endorses two statements of round 0"),
        (VectorReceipt, {"input_digest": bytes(32)}, "signs two receipts in round 0"),
    ],
)
def test_two_words_of_a_party_are_convicted_from_the_run_directory(
    kind: type[Any], changes: dict[str, bytes], what: str, tmp_path: Path
) -> None:
    def prepare(world: World) -> None:
        world.nodes[PartyId("p02")].seam = says_twice(kind, **changes)

    made = verified(rounds="1")
    directory = record(tmp_path / "run", made, length=16, train=distinct, lab=False, prepare=prepare)
    run = look(directory, charges=charges_in(directory.path))
    (found, *_) = [one for one in run.findings if "broke the protocol" in one.claim]
    assert (found.severity, found.parties) == (Severity.WARNING, ("p02",))
    assert f"prove that p02 broke the protocol: it {what}" in found.claim


def test_another_secret_is_convicted_from_the_run_directory(tmp_path: Path) -> None:
    directory = ran(tmp_path / "run", lie=another_secret(PartyId("p03"), 0), lab=False)
    run = look(directory, charges=charges_in(directory.path))
    (found,) = [one for one in run.findings if "broke the protocol" in one.claim]
    assert (found.severity, found.parties) == (Severity.WARNING, ("p03",))
    assert "shared another seed secret than it advertised" in found.claim


def test_an_honest_run_keeps_none(tmp_path: Path) -> None:
    directory = ran(tmp_path / "run")
    assert charges_in(directory.path) == {}
    assert not (directory.path / "evidence").exists()


def test_another_runs_evidence_convicts_nobody(tmp_path: Path) -> None:
    directory = ran(tmp_path / "run", lie=other_outcome(params=past_rounding))
    plan, kept = anybodys_plan(), charges_in(directory.path)
    first = first_link(plan, FIRST)
    assert {one.severity for one in convictions(plan, kept, first)} == {Severity.BREACH}
    other = World(verified(rounds="2"), length=16).plan
    (found, *_) = convictions(other, kept, first)
    assert (found.severity, found.parties) == (Severity.NOTE, ())
    assert "proves no fault of a process" in found.claim


def test_a_member_is_a_warning_with_its_name() -> None:
    plan = anybodys_plan()
    with another_secret(min(plan.roster.parties), 0):
        run = followed(verified(rounds="3"))
    (found, *_) = convictions(plan, {"x": kept_evidence(run.world)[0].charge}, None)
    assert (found.severity, found.parties) == (Severity.WARNING, ("p00",))
    assert "shared another seed secret" in found.claim


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "evidence").mkdir()
    (tmp_path / "evidence" / "x.charge").write_bytes(b"\xc0")
    with pytest.raises(ConfigError, match="is not an evidence file"):
        charges_in(tmp_path)
