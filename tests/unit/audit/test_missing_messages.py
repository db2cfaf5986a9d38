"""Voided draws and dropouts: whom the server blamed, and what the transcripts say of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from securefl.base.ids import SERVER, PartyId
from securefl.lab.audit.finding import Finding, Severity
from securefl.lab.audit.load import load
from securefl.lab.audit.missing_messages import never_came
from securefl.lab.audit.recorded import Recorded
from securefl.runtime.misbehaviour.assignment import server_machine
from securefl.runtime.transcript.chain import Entry
from tests.simulation.world import Op, World, scenario
from tests.unit.audit.runs import record
from tests.unit.misbehaviour.lab import shown

VICTIM, ACCOMPLICE = PartyId("p00"), PartyId("p01")


@pytest.fixture(scope="module")
def lied(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Nonces are withheld in round 0, in vain; from round 1 on the victim is left with its accomplices."""
    out = tmp_path_factory.mktemp("lied") / "run"
    accomplices = ["p01", "p02", "p03", "p04"]
    attacks = (
        shown(
            "isolating:WithholdsNonces",
            victim=VICTIM,
            accomplices=[ACCOMPLICE],
            rounds=(0,),
        ),
        shown("isolating:DropsMates", victim=VICTIM, accomplices=accomplices, rounds=(1, 2)),
    )

    def prepare(world: World) -> None:
        world.server.machine = server_machine(world.server.machine, world.plan, attacks)

    record(out, scenario(9, size="4", rounds="4"), prepare=prepare)
    return load(out)


def found(recorded: Recorded) -> list[Finding]:
    return list(never_came(recorded, "views"))


def without(recorded: Recorded, *messages: str) -> Recorded:
    """The same, but the server's transcript does not say that it received such messages."""

    def kept(entry: Entry) -> bool:
        return entry.kind != "received" or entry.fields["message"] not in messages

    (own,) = recorded.transcripts[SERVER]
    fewer = replace(own, entries=tuple(filter(kept, own.entries)))
    return replace(recorded, transcripts={**recorded.transcripts, SERVER: (fewer,)})


def test_each_lie_is_a_breach_that_names_whom_it_is_about(lied: Recorded) -> None:
    draws = [one for one in found(lied) if " voided draw " in one.claim]
    assert [one.claim[18:35] for one in draws] == ["draw 0 of round 0", "draw 1 of round 0"]
    voided = [entry.fields["withheld"] for entry, _ in lied.of(SERVER, "draw_voided")]
    assert [list(one.parties) for one in draws] == voided
    frozen = {e.fields["round"]: e.fields["dropped"] for e, _ in lied.of(SERVER, "survivors_frozen")}
    dropped = [one for one in found(lied) if "dropped out" in one.claim]
    assert [list(one.parties) for one in dropped] == [gone for gone in frozen.values() if gone]
    assert dropped
    assert not frozen[0]
    assert not frozen[3]
    for one in (*draws, *dropped):
        assert one.severity is Severity.BREACH
        assert {e.source for e in one.evidence} == {SERVER, *one.parties}


def test_a_word_against_a_word_is_a_warning(lied: Recorded) -> None:
    for one in found(without(lied, "Reveal", "Receipt")):
        assert one.severity is Severity.WARNING
        assert "it was lost, late or dropped" in one.claim


def test_nobody_says_so(lied: Recorded) -> None:
    alone = without(lied, "Reveal", "Receipt")
    alone = replace(alone, transcripts={SERVER: alone.transcripts[SERVER]})
    assert [one.severity for one in found(alone)] == [Severity.NOTE] * 2
    assert all("No transcript states that the message was sent" in one.claim for one in found(alone))


def test_who_drops_out_along_with_others_is_nobodys_lie(tmp_path: Path) -> None:
    """With all three needed, one party whose input is lost takes its mates along."""
    made = scenario(6, min_survivors="3", threshold="3", deadlines__training="9")
    record(tmp_path / "run", made, ops=(Op("drop", "p04", "MaskedInput"),))
    recorded = load(tmp_path / "run")
    (frozen,) = (entry for entry, _ in recorded.of(SERVER, "survivors_frozen"))
    dropped: Any = frozen.fields["dropped"]
    assert len(dropped) == 3
    (one,) = found(recorded)
    assert one.severity is Severity.WARNING
    assert one.parties == ("p04",)
