"""Evidence on disk: whole, for its owner only, named in the transcript, and not endless."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import patch

import pytest

from securefl.base.crypto import digest
from securefl.base.errors import ConfigError, RunAbortedError
from securefl.protocol.kernel.effects import Finished
from securefl.protocol.messages.verification import RoundClaim
from securefl.protocol.round.shared.blame import FaultFound, NoFaultError
from securefl.protocol.round.shared.charges import (
    Announced,
    Charge,
    Equivocation,
    FalseClaim,
    ShownStep,
    SignedClaim,
    encode_evidence,
)
from securefl.runtime.report import witness as witness_module
from securefl.runtime.report.evidence import keep_evidence, load_evidence
from securefl.runtime.report.witness import MOST_EVIDENCE, MOST_OF_ONE, News, ProcessWitness, Refusal, Remark
from securefl.runtime.transcript.chain import read_transcript
from tests.simulation.world import scenario
from tests.unit.process.processes import settings
from tests.unit.round.samples import plan_of

WORDS = Equivocation(first=bytes(80), second=b"\x01" * 80)
CLAIM = RoundClaim(
    round=0, previous=bytes(32), statement=bytes(32), sums=(), state=bytes(32), model=bytes(32)
)


def words(n: int = 0) -> bytes:
    return encode_evidence(Equivocation(first=bytes([n]) * 80, second=b"\x01" * 80))


def claim(contents: Announced | ShownStep) -> bytes:
    signed = SignedClaim(claim=CLAIM, place=(0, 0, 0, 0), contents=b"", signature=b"")
    return encode_evidence(
        FalseClaim(signed=signed, earlier=(), endorsements=(), record=None, contents=contents)
    )


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_charge_is_kept_for_its_owner_only(tmp_path: Path) -> None:
    path = keep_evidence(tmp_path, words())
    assert load_evidence(path) == WORDS
    assert path.name == digest("charge", words()).hex()[:32] + ".charge"
    assert (mode(path), mode(path.parent)) == (0o600, 0o700)
    assert [one.name for one in path.parent.iterdir()] == [path.name], "nothing is left beside it"


def test_a_write_that_was_cut_off_is_no_obstacle(tmp_path: Path) -> None:
    path = keep_evidence(tmp_path, words())
    path.with_suffix(".tmp").write_bytes(b"half")
    path.unlink()
    assert load_evidence(keep_evidence(tmp_path, words())) == WORDS


@pytest.mark.parametrize("raw", [b"", b"\xc0", b"\x93\xa8TwoWords\xc4\x00", b"\x91" * 5_000])
def test_something_else_is_refused(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "x.charge"
    path.write_bytes(raw)
    with pytest.raises(ConfigError, match="is not an evidence file"):
        load_evidence(path)


def test_a_second_spelling_is_refused(tmp_path: Path) -> None:
    path = keep_evidence(tmp_path, words())
    path.write_bytes(path.read_bytes().replace(b"\xc4\x50", b"\xc5\x00\x50"))
    with pytest.raises(ConfigError, match="is not an evidence file"):
        load_evidence(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_evidence(tmp_path / "none.charge")


def test_a_disk_that_takes_nothing_ends_the_run(tmp_path: Path) -> None:
    (tmp_path / "evidence").write_bytes(b"")
    with pytest.raises(RunAbortedError, match="cannot be written"):
        keep_evidence(tmp_path, words())


def test_refusals_name_their_evidence_and_the_first_of_a_kind_are_kept(tmp_path: Path) -> None:
    told: list[News] = []
    witness = ProcessWitness(settings(tmp_path), told.append, 32)
    given = [("p01", words(n)) for n in range(MOST_EVIDENCE + 1)]
    given += [("p02", words(9)), ("p01", b"")]
    given += [("server", claim(Announced(model=b"", attests=(b"%d" % n,)))) for n in range(MOST_EVIDENCE + 1)]
    given += [("server", claim(ShownStep(previous=CLAIM, params=b"", step=b"")))]
    for culprit, evidence in given:
        witness.record_refusal(1.0, culprit, "sends a confirmation at the wrong time", evidence)
    witness.close(Finished("done"))
    beyond = {given[MOST_EVIDENCE], given[-2]}
    names = [
        None if one in beyond or not one[1] else digest("charge", one[1]).hex()[:32] + ".charge"
        for one in given
    ]
    assert {one.name for one in (tmp_path / "evidence").iterdir()} == {*names} - {None}
    (transcript,) = (tmp_path / "transcripts").iterdir()
    entries = [one.fields for one in read_transcript(transcript).entries if one.kind == "refused"]
    assert [(one["culprit"], one.get("evidence")) for one in entries] == [
        (culprit, name) for (culprit, _), name in zip(given, names, strict=True)
    ]
    assert len([one for one in told if isinstance(one, Refusal)]) == len(given)
    assert len([one for one in told if isinstance(one, Remark)]) == len({*names} - {None})


def test_evidence_that_proves_nothing_keeps_no_proof_out(tmp_path: Path) -> None:
    """Beyond the bound, the first charge of a kind that convicts is kept, and no other one."""
    given = [words(n) for n in range(MOST_EVIDENCE + 3)]
    proofs = {load_evidence(keep_evidence(tmp_path / "other", one)) for one in given[-2:]}

    def judged(charge: Charge, _plan: object) -> FaultFound:
        if charge not in proofs:
            raise NoFaultError("it shows no fault")
        return FaultFound("p01", "attests two outcomes")

    witness = ProcessWitness(settings(tmp_path), lambda _news: None, 32, plan=plan_of(scenario(6)))
    with patch.object(witness_module, "judge", judged):
        for one in given:
            witness.record_refusal(1.0, "p01", "sends a confirmation at the wrong time", one)
    witness.close(Finished("done"))
    kept = {one.name for one in (tmp_path / "evidence").iterdir()}
    wanted = [*given[:MOST_EVIDENCE], given[-2]]
    assert kept == {digest("charge", one).hex()[:32] + ".charge" for one in wanted}


def test_evidence_is_kept_behind_any_number_of_refusals(tmp_path: Path) -> None:
    witness = ProcessWitness(settings(tmp_path), lambda _news: None, 32)
    for _ in range(2 * MOST_OF_ONE):
        witness.record_refusal(1.0, "p01", "is late")
    witness.record_refusal(1.0, "p01", "sends a confirmation at the wrong time", words())
    witness.close(Finished("done"))
    (transcript,) = (tmp_path / "transcripts").iterdir()
    assert [one.fields for one in read_transcript(transcript).entries if "evidence" in one.fields]
    assert len([*(tmp_path / "evidence").iterdir()]) == 1


def test_several_processes_may_find_the_same_lie_at_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        written = list(pool.map(lambda _: keep_evidence(tmp_path, words()), range(400)))
    assert len({*written}) == 1
    assert load_evidence(written[0]) == WORDS
    assert [one.name for one in (tmp_path / "evidence").iterdir()] == [written[0].name]
