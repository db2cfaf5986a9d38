"""Drop out and kill, at each step of a round."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from securefl.base.ids import SERVER, PartyId
from securefl.protocol.kernel.effects import Finished, Reject, Report, Send, Train
from securefl.protocol.kernel.events import DeadlinePassed, Place, Received
from securefl.protocol.messages.control import Here, Join
from securefl.protocol.messages.masking import KeyAdvert, MaskedInput, Receipt, ShareBoxes
from securefl.protocol.messages.rounds import Freeze, ModelAnnounce, Release
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.round.shared.reports import SharesReleased
from securefl.runtime.misbehaviour.seam import Action, Crash, Presence
from securefl.runtime.misbehaviour.silence import DropsOut
from securefl.scenario.behaviours import Drop, Kill, Phase
from tests.simulation.world import scenario
from tests.unit.misbehaviour.lab import Lab

MUTE = ("before-keys", "after-keys", "after-shares", "after-masked-input", "after-freeze")
"""Before it has helped to open anything."""
PHASES = (*MUTE, "after-release")
COUNTED = ("after-masked-input", "after-freeze", "after-release")
WORDS: dict[str, set[str]] = {
    "before-keys": set(),
    "after-keys": {"KeyAdvert"},
    "after-shares": {"KeyAdvert", "ShareBoxes"},
    "after-masked-input": {"KeyAdvert", "ShareBoxes", "MaskedInput", "Receipt"},
    "after-freeze": {"KeyAdvert", "ShareBoxes", "MaskedInput", "Receipt"},
    "after-release": {"KeyAdvert", "ShareBoxes", "MaskedInput", "Receipt", "Release"},
}
"""What a silent party says of its instances; two of them differ in whether it hears the freeze."""


def silent(kind: str, phase: Phase, name: str = "p01", rounds: tuple[int, ...] = ()) -> tuple[Drop | Kill]:
    made = Drop if kind == "drop" else Kill
    return (made(phase=phase, parties=(name,), rounds=rounds),)


def said(lab: Lab, name: str) -> set[str]:
    """Kinds of messages that a party sent once it knew its clusters."""
    sent = [s for s in lab.sent if s[0] == name and not isinstance(s[-1], Here | Join)]
    return {type(s[-1]).__name__ for s in sent} - {"Hello", "Reveal"}


@pytest.mark.parametrize(
    ("kind", "phase", "reclusterings"), list(itertools.product(("drop", "kill"), PHASES, ("1", "2")))
)
def test_the_others_sum_is_right_wherever_a_party_falls_silent(
    kind: str, phase: Phase, reclusterings: str
) -> None:
    # In some draws the ledger would keep a second reclustering of five parties closed.
    config = scenario(6, reclusterings=reclusterings, leakage__mode="report")
    lab = Lab(config, {"p01": silent(kind, phase)})
    lab.run()
    assert said(lab, "p01") == WORDS[phase]
    (done,) = lab.rounds_done()
    assert ("p01" in done.survivors) == (phase in COUNTED)
    assert len(done.survivors) == 5 + (phase in COUNTED)
    assert len(done.opened) == 2 * int(reclusterings)
    lab.assert_sums_right(0)
    assert lab.server.rejects == []
    assert lab.nodes[PartyId("p01")].alive == (kind == "drop")


@pytest.mark.parametrize("phase", PHASES)
def test_who_dropped_out_is_back_in_the_next_round(phase: Phase) -> None:
    lab = Lab(scenario(6, rounds="2"), {"p01": silent("drop", phase, rounds=(0,))})
    lab.run()
    assert lab.hints == [("p01", False), ("p01", True)]
    assert len(lab.rounds_done()[1].survivors) == 6
    assert len(lab.sums(1)) == 2
    lab.assert_sums_right(1)


@pytest.mark.parametrize("phase", PHASES)
def test_who_drops_out_of_every_round_comes_back_to_each(phase: Phase) -> None:
    lab = Lab(scenario(6, rounds="3"), {"p01": silent("drop", phase)})
    lab.run()
    assert lab.hints == [("p01", False), ("p01", True), ("p01", False), ("p01", True), ("p01", False)]
    assert [len(done.survivors) for done in lab.rounds_done()] == [5 + (phase in COUNTED)] * 3


def test_the_dead_stay_dead() -> None:
    lab = Lab(scenario(6, rounds="3"), {"p01": silent("kill", "after-shares", rounds=(1,))})
    lab.run()
    assert [len(done.survivors) for done in lab.rounds_done()] == [6, 5, 5]
    assert "p01" not in lab.rounds_done()[2].participants
    for round_ in range(3):
        lab.assert_sums_right(round_)


@pytest.mark.parametrize("phase", MUTE)
def test_more_silence_than_a_cluster_tolerates_opens_nothing(phase: Phase) -> None:
    cast = {name: silent("drop", phase, name) for name in ("p00", "p01")}
    lab = Lab(scenario(3), cast)
    lab.run()
    assert lab.sums(0) == {}
    assert lab.rounds_done()[0].opened == ()


def test_a_hint_spares_the_others_the_wait() -> None:
    lab = Lab(scenario(6), {"p01": silent("drop", "after-keys")})
    lab.run()
    assert lab.now < lab.scenario.deadlines.shares


@pytest.mark.parametrize(
    ("phase", "step"), [("after-keys", "shares"), ("after-shares", "training"), ("after-freeze", "release")]
)
def test_plain_silence_lasts_until_the_deadline_of_the_step_and_costs_nobody_else(
    phase: Phase, step: str
) -> None:
    quiet = Drop(phase=phase, parties=("p01",), rounds=(0,), announced=False)
    plan = scenario(6, rounds="2")
    lab = Lab(plan, {"p01": (quiet,)})
    lab.run()
    assert lab.hints == []
    assert lab.now >= getattr(plan.deadlines, step), "nobody told the server: it waited"
    first, second = lab.rounds_done()
    assert len(first.survivors) == 5 + (phase in COUNTED)
    assert len(second.survivors) == 6, "back in the next round"
    for round_ in range(2):
        assert len(lab.sums(round_)) == 2
        lab.assert_sums_right(round_)


def advert() -> KeyAdvert:
    return KeyAdvert(mask_key=bytes(32), box_key=bytes(32), seed_digest=bytes(32), shares_root=bytes(32))


def boxes() -> ShareBoxes:
    return ShareBoxes(boxes=(), share_digests=((bytes(32), bytes(32)),))


def send(message: AnyMessage, reclustering: int, attempt: int = 0) -> Send[AnyMessage]:
    return Send(SERVER, Place(0, reclustering, 0, attempt), message)


NOTHING_HAPPENED = DeadlinePassed(0.0)


def step(silence: DropsOut, *effects: Action) -> tuple[Action, ...]:
    return silence(NOTHING_HAPPENED, None, effects)


def test_shares_of_a_slow_instance_still_leave_after_those_of_a_fast_one() -> None:
    silence = DropsOut(silent("drop", "after-shares")[0])
    train = Train(0, 0, np.zeros(1, dtype=np.float32))
    adverts = (send(advert(), 0), send(advert(), 1), train)
    assert step(silence, *adverts) == adverts
    assert step(silence, send(boxes(), 0)) == (send(boxes(), 0),)
    masked = (send(MaskedInput(vector=b""), 0), send(Receipt(lists_digest=bytes(32)), 0))
    assert step(silence, *masked) == ()
    assert step(silence, send(boxes(), 1)) == (send(boxes(), 1), Presence(present=False))
    assert step(silence, *masked, Finished("x")) == (Finished("x"),)


def test_a_retry_makes_an_instance_incomplete_again() -> None:
    silence = DropsOut(silent("drop", "after-shares")[0])
    step(silence, send(advert(), 0), send(advert(), 1))
    step(silence, send(boxes(), 0))
    assert step(silence, send(advert(), 0, 1)) == (send(advert(), 0, 1),)
    assert step(silence, send(boxes(), 1)) == (send(boxes(), 1),)
    assert step(silence, send(boxes(), 0, 1)) == (send(boxes(), 0, 1), Presence(present=False))


def test_nothing_is_released_or_said_to_be_after_the_freeze() -> None:
    freeze = Freeze(survivors=("p01",), attempts=(), receipts=())
    event: Received[AnyMessage] = Received(1.0, SERVER, Place(0), freeze)
    wanted: tuple[Action, ...] = (
        Send(SERVER, Place(0), Release(sealed=bytes(60))),
        Report(SharesReleased(0, ((0, 0),))),
    )
    assert DropsOut(silent("drop", "after-freeze")[0])(event, None, wanted) == (Presence(present=False),)
    assert DropsOut(silent("kill", "after-freeze")[0])(event, None, wanted) == (Crash(),)
    refused = (Reject(SERVER, "no"),)
    assert DropsOut(silent("kill", "after-freeze")[0])(event, None, refused) == refused
    other_round = DropsOut(silent("kill", "after-freeze", rounds=(1,))[0])
    assert other_round(event, None, wanted) == wanted


def test_only_the_model_of_a_later_round_ends_silence() -> None:
    silence = DropsOut(silent("drop", "before-keys")[0])
    step(silence, send(advert(), 0))
    join: Send[AnyMessage] = Send(SERVER, Place(-1), Join(config_digest=bytes(32)))
    model = ModelAnnounce(params=b"")
    for sender, round_ in ((SERVER, 0), (PartyId("p02"), 1)):
        event: Received[AnyMessage] = Received(1.0, sender, Place(round_), model)
        assert silence(event, None, (join,)) == ()
    event = Received(1.0, SERVER, Place(1), model)
    assert silence(event, None, (join,)) == (Presence(present=True), join)
