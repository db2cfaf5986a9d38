"""Garbage and replays: refused, and harmless."""

from __future__ import annotations

import pytest

from securefl.base.ids import PartyId
from securefl.scenario.behaviours import Drop, Garbage, Replay
from tests.simulation.world import scenario
from tests.unit.misbehaviour.lab import Lab, shown


@pytest.mark.parametrize("server", ["curious", "active"])
def test_garbage_is_refused_and_the_round_is_right(server: str) -> None:
    noisy = Garbage(parties=("p01",))
    lab = Lab(scenario(6, rounds="2", reclusterings="2", server=server), {"p01": (noisy,)})
    lab.run()
    assert lab.raw > 20
    assert len(lab.server.rejects) == lab.raw
    reasons = " ".join(lab.refusals("server"))
    for expected in ("has 1 bytes", "is malformed", "has a wrong signature"):
        assert expected in reasons
    assert [len(done.survivors) for done in lab.rounds_done()] == [6, 6]
    for round_ in range(2):
        assert len(lab.sums(round_)) >= 2
        lab.assert_sums_right(round_)


def test_replays_are_refused_or_dropped_and_the_round_is_right() -> None:
    nagging = Replay(parties=("p01",))
    lab = Lab(scenario(6, rounds="2", reclusterings="2"), {"p01": (nagging,)})
    lab.run()
    assert {r.culprit for r in lab.server.rejects} == {"p01"}
    kinds = " ".join(lab.refusals("server"))
    for expected in ("Hello", "Reveal", "KeyAdvert", "ShareBoxes"):
        assert expected in kinds or expected.lower() in kinds
    assert [len(done.survivors) for done in lab.rounds_done()] == [6, 6]
    for round_ in range(2):
        lab.assert_sums_right(round_)


@pytest.mark.parametrize("kind", ["garbage", "replay"])
def test_the_rest_of_the_rounds_is_quiet(kind: str) -> None:
    quiet = shown(kind, parties=("p01",), rounds=(7,))
    lab = Lab(scenario(6, rounds="2"), {"p01": (quiet,)})
    lab.run()
    assert lab.server.rejects == []
    assert lab.raw == 0


def test_the_silent_send_no_garbage() -> None:
    cast = (
        Garbage(parties=("p01",)),
        Drop(phase="before-keys", parties=("p01",)),
    )
    lab = Lab(scenario(6), {"p01": cast})
    lab.run()
    talking_steps = (
        7  # that the server is there, roll call, that it leads, model, invitation, announcement, nonces
    )
    assert lab.raw <= talking_steps
    assert PartyId("p01") not in lab.rounds_done()[0].survivors
