"""Quantile clipping in runs of the machines: what the clip follows from, and servers that lie about it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from securefl.base.arrays import F32
from securefl.base.ids import SERVER, PartyId
from securefl.methods.privacy import clip_words
from securefl.protocol.kernel.effects import Send
from securefl.protocol.messages.rounds import Invite, ValuedInvite
from securefl.protocol.round.shared.reports import ClipMoved, ModelStepped, RoundDone
from securefl.protocol.round.shared.statement import model_digest
from tests.simulation.lying import followed, other_outcome
from tests.simulation.world import Op, World, scenario

CLIPPED = {
    "privacy__unit": "party",
    "privacy__multiplier": "0.5",
    "privacy__delta": "0.05",
    "privacy__placement": "threshold",
    "privacy__clip": "{initial = 2.0, rate = 1.0, noise = 0.5}",
    "encoding__scale_bits": "7",
}
VERIFIED = {
    "size": "4",
    "threshold": "3",
    "min_survivors": "3",
    "server": "active",
    "secure_sum__verify": '"committee"',
    "secure_sum__colluders": "2",
    "secure_sum__colluders_per_cluster": "1",
}
PARTIES = 12


def learn(party: PartyId, _round: int, params: F32) -> F32:
    """Return a model at a distance of .5 for each party with an even number, of 8 for the others."""
    step = np.zeros_like(params)
    step[int(party[1:]) % len(step)] = 0.5 if int(party[1:]) % 2 == 0 else 8.0
    return params + step


def world(*, rounds: int = 3, **more: Any) -> World:
    """Return a federation with quantile clipping and the best noise that tables have."""
    settings = {"size": "6", "threshold": "3", "min_survivors": "5", "rounds": str(rounds)}
    overrides = more.pop("overrides", {})
    made = scenario(PARTIES, **{**settings, **CLIPPED, **overrides})
    return World(made, length=16, train=more.pop("train", learn), **more)


def invites(world: World, change: Any, victims: Any = None) -> None:
    """Let the server send other invitations, to all or to some."""

    def seam(_event: Any, effects: Any) -> Any:
        changed: list[Any] = []
        for one in effects:
            if not (isinstance(one, Send) and isinstance(one.message, Invite)):
                changed.append(one)
            elif victims is None:
                changed.append(Send(one.to, one.place, change(one.message)))
            else:
                changed += [
                    Send(name, one.place, change(one.message) if name in victims else one.message)
                    for name in sorted(world.plan.roster.parties)
                ]
        return tuple(changed)

    world.nodes[SERVER].seam = seam


def moves(world: World) -> list[ClipMoved]:
    """Return the reports on the clip."""
    return list(world.reports(ClipMoved))


def test_the_clip_follows_the_share_of_short_updates() -> None:
    """Half of the updates are shorter than 2: the share is .5, but for noise of 4 deviations at most."""
    run = world(rounds=12)
    run.run()
    found = moves(run)
    words = clip_words(run.plan.scenario, run.plan.limits.ring_bits)
    assert words is not None
    assert [one.round for one in found] == list(range(12))
    for before, after in pairwise(found):
        assert before.following == after.clip
    deviation = words.table.std * np.sqrt(PARTIES) / (2 * 2**words.scale * PARTIES)
    shares = [one.share or 0.0 for one in found]
    assert not any((2 * PARTIES * share).is_integer() for share in shares), "each sum of bits has noise"
    first = found[0]
    assert first.clip == 2.0
    assert first.share == pytest.approx(0.5, abs=4 * deviation)
    assert first.following == words.following(2.0, first.share or 0.0)


@pytest.mark.parametrize(("length", "share"), [(0.1, 1.0), (50.0, 0.0)])
def test_shorter_and_longer_updates_pull_the_clip(length: float, share: float) -> None:
    def same(_party: PartyId, _round: int, params: F32) -> F32:
        step = np.zeros_like(params)
        step[0] = length
        return params + step

    run = world(rounds=8, train=same)
    run.run()
    shares = [one.share or 0.0 for one in moves(run)]
    assert np.median(shares[:3]) == pytest.approx(share, abs=0.35)
    assert (moves(run)[2].following < 2.0) == (length < 1.0)


def test_no_update_leaves_more_than_the_clip() -> None:
    """The mean of twelve updates of length 1e6 moves the model by the clip, and noise."""

    def far(_party: PartyId, _round: int, params: F32) -> F32:
        return params + np.float32(250_000.0)

    run = world(rounds=1, train=far)
    run.run()
    (stepped,) = run.reports(ModelStepped)
    # The noise on each of 16 coordinates of the mean of 12 has a deviation of about .1.
    assert stepped.update_norm == pytest.approx(2.0, abs=1.0)


@pytest.mark.parametrize(
    ("clip", "reason"), [(1e7, "outside 1e-06 to 1e+06"), (3.0, "starts the round with another model")]
)
def test_a_clip_that_the_digest_does_not_cover_is_refused(clip: float, reason: str) -> None:
    run = world()
    invites(run, lambda message: replace(message, values={"clip": clip}))
    run.run()
    assert not run.reports(ClipMoved)
    assert any(reason in one.reason for one in run.nodes[PartyId("p00")].rejects)


def test_an_invitation_without_a_clip_is_refused() -> None:
    run = world()
    invites(
        run,
        lambda told: Invite(
            model_digest=told.model_digest, config_digest=told.config_digest, excluded=told.excluded
        ),
    )
    run.run()
    assert any("without the value clip" in one.reason for one in run.nodes[PartyId("p00")].rejects)


def test_a_party_that_is_told_another_clip_gives_nothing() -> None:
    """Its hello is about another start of the round, which the server's own check refuses."""
    run = world(rounds=1)

    def larger(message: ValuedInvite) -> ValuedInvite:
        values = {"clip": 64.0}
        digest = model_digest(np.zeros(16, np.float32), values)
        return replace(message, values=values, model_digest=digest)

    invites(run, larger, victims={PartyId("p03")})
    run.run()
    (done,) = run.reports(RoundDone)
    assert PartyId("p03") not in done.survivors


def test_void_rounds_leave_the_clip() -> None:
    """Nobody releases in round 0: the server states nothing of a clip, and the next round has the same."""
    ops = [Op("drop", f"p{n:02}", "Release", 0) for n in range(PARTIES)]
    run = world(rounds=2, ops=ops)
    run.run()
    told = [s.message.values["clip"] for s in run.sent if isinstance(s.message, ValuedInvite)]
    assert set(told[: len(told) // 2]) == {2.0}
    assert all(one.following == one.clip for one in moves(run) if one.share is None)


class TestVerified:
    def test_every_step_with_its_clip_is_confirmed(self) -> None:
        found = followed(scenario(PARTIES, **{**VERIFIED, **CLIPPED, "rounds": "3"}))
        assert found.confirmed == [0, 1, 2]
        assert not found.refused
        assert len({one.clip for one in found.world.reports(ClipMoved)}) == 3

    def test_a_step_that_no_party_attests_leaves_the_clip(self) -> None:
        """After an unconfirmed round the next one begins with model and clip of the last link."""
        ops = [Op("drop", f"p{n:02}", "Attest", nth) for n in range(PARTIES) for nth in range(2)]
        found = followed(scenario(PARTIES, **{**VERIFIED, **CLIPPED, "rounds": "5"}), ops=ops)
        begun = [one.values["clip"] for one in found.world.messages(ValuedInvite)]
        assert [round_ for round_, _ in found.refused] == [0, 2]
        assert begun[2] == begun[4] == 2.0 != begun[1]
        assert found.confirmed == [4]

    def test_another_clip_than_the_bits_make_is_not_confirmed(self) -> None:
        with other_outcome(values=lambda values: {"clip": 2 * values["clip"]}):
            found = followed(scenario(PARTIES, **{**VERIFIED, **CLIPPED, "rounds": "2"}))
        assert not found.confirmed
        assert "claims another model than the sums" in found.reasons(
            [PartyId(f"p{n:02}") for n in range(PARTIES)]
        )
