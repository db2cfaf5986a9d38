"""Task groups with real machines: open ones told in hellos, hidden ones counted and opened slot by slot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest

from securefl.base.arrays import F32, I64
from securefl.base.ids import PartyId
from securefl.methods.encoding.ring import from_ring, to_ring
from securefl.protocol.kernel.effects import Choose, Finished, Send
from securefl.protocol.kernel.machine import Event
from securefl.protocol.messages.masking import MaskedInput
from securefl.protocol.messages.rounds import SEATS, Hello, Release, SlotCounts
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.round.party import sums as party_sums
from securefl.protocol.round.party.upload import EncodedUpdate
from securefl.protocol.round.shared.groups import random_group
from securefl.protocol.round.shared.plan import RunPlan
from securefl.protocol.round.shared.reports import (
    ClustersDrawn,
    ModelFinal,
    NothingLearned,
    RoundDone,
    RunEffect,
    SatOut,
    SharesReleased,
    SlotsCounted,
    SumOpened,
)
from securefl.protocol.round.shared.slots import slot_uploads
from securefl.scenario.scenario import Scenario
from tests.simulation.world import Node, World, scenario

HIDDEN = {
    "groups__count": "2",
    "groups__mode": "hidden",
    "threshold": "4",
    "min_survivors": "4",
    "clustering__atoms": "4",
    "size": "4",
    "weighting__mode": "ignore",
}
OPEN = {"groups__count": "2", "groups__mode": "open", "size": "2", "weighting__mode": "ignore"}


def parity(party: PartyId, _round: int) -> int:
    return int(party[1:]) % 2


def worth(party: PartyId) -> np.float32:
    """A power of two for each party, so that a sum shows who is in it."""
    return np.float32(2.0 ** int(party[1:]) / 64)


def learn(party: PartyId, _round: int, params: F32) -> F32:
    return params + worth(party)


def world(config: Scenario, choose: Callable[[PartyId, int], int | None] = parity) -> World:
    return World(config, length=3, train=learn, choose=choose)


def members_in(total: float) -> set[str]:
    """Whose worth is in a sum."""
    units = round(total * 64)
    return {f"p{bit:02}" for bit in range(16) if units >> bit & 1}


def opened(finished: World) -> dict[tuple[int, int, int], set[str]]:
    """By round, reclustering and cluster, whose updates each opened sum holds."""
    scale = 2.0**finished.scenario.encoding.scale_bits
    return {
        (one.round, *one.opened.key): members_in(float(from_ring(one.opened.ring)[0]) / scale)
        for one in finished.reports(SumOpened)
    }


def final(finished: World) -> F32:
    (model,) = finished.reports(ModelFinal)
    return model.params


def test_open_clusters_lie_inside_groups_and_each_model_learns_from_its_own() -> None:
    done = world(scenario(8, rounds="2", **OPEN)).run()
    assert isinstance(done.server.outcome, Finished)
    for drawn in done.reports(ClustersDrawn):
        assert sorted(drawn.tasks) == [0, 0, 1, 1]
        for members, task in zip(drawn.clusters[0], drawn.tasks, strict=True):
            assert {parity(party, 0) for party in members} == {task}
    for name in done.parties:
        assert [d.clusters for d in done.reports(ClustersDrawn, name)] == [
            d.clusters for d in done.reports(ClustersDrawn)
        ]
        said = {hello.group for hello in done.messages(Hello, name)}
        assert said == {parity(name, 0)}
    # The mean over the clusters of a group, twice: all have the same weight.
    means = [np.mean([worth(p) for p in done.parties if parity(p, 0) == group]) for group in (0, 1)]
    np.testing.assert_allclose(final(done), np.repeat(means, 3) * 2, rtol=1e-6)


def test_a_group_too_small_for_a_cluster_waits_and_its_model_stays() -> None:
    def lonely(party: PartyId, _round: int) -> int:
        return int(party == "p03")

    done = world(scenario(6, rounds="1", **OPEN), lonely).run()
    (drawn,) = done.reports(ClustersDrawn)
    assert "p03" in drawn.resting
    assert set(drawn.tasks) == {0}
    assert final(done)[3:].tolist() == [0.0, 0.0, 0.0]
    assert final(done)[0] > 0
    (out,) = done.reports(SatOut, PartyId("p03"))
    assert "too small" in out.reason


@pytest.mark.parametrize("mode", [OPEN, HIDDEN])
def test_parties_choose_among_the_models_that_are_there(mode: dict[str, str]) -> None:
    """One to learn, then two, then three; each that begins is a model of its own, and is sent to all."""
    more = {"groups__count": "3", "groups__warmup": "1", "groups__pace": "1", "rounds": "3"}
    lab = World(
        scenario(8, **(mode | more)),
        length=3,
        train=learn,
        choose=lambda party, round_: int(party[1:]) % min(3, 1 + round_),
    )
    asked: dict[int, set[int]] = {}
    told: dict[int, F32] = {}

    def note(
        _node: Node,
        _was: object,
        _event: Event[AnyMessage],
        _is: object,
        effects: Sequence[RunEffect],
    ) -> None:
        for effect in effects:
            if isinstance(effect, Choose):
                asked.setdefault(effect.round, set()).add(effect.params.size)
                told[effect.round] = effect.params

    lab.observers.append(note)
    done = lab.run()
    assert isinstance(done.server.outcome, Finished)
    assert asked == {1: {6}, 2: {9}}
    assert len({one.tobytes() for one in told[2].reshape(3, 3)}) == 3


@pytest.mark.parametrize("mode", [OPEN, HIDDEN])
def test_a_party_without_a_finite_loss_sends_zeros_in_a_group_that_it_draws(mode: dict[str, str]) -> None:
    def fails(party: PartyId, round_: int) -> int | None:
        return None if party == "p00" else parity(party, round_)

    drawn = set()
    for seed in range(1, 7):
        done = World(scenario(8, rounds="1", **mode), 3, seed, learn, choose=fails).run()
        (round_,) = done.reports(RoundDone)
        if "p00" in round_.participants:
            (note,) = done.reports(NothingLearned, PartyId("p00"))
            assert (note.round, note.work, note.reason) == (0, 0, "no finite loss")
            assert "p00" in round_.survivors
        else:
            assert "too small" in done.reports(SatOut, PartyId("p00"))[0].reason
        assert not any("p00" in members for members in opened(done).values()), "its worth is in no sum"
        drawn.add(random_group(done.entropy_of(PartyId("p00")), 0, 2))
        if mode is OPEN:
            (hello,) = done.messages(Hello, PartyId("p00"))
            assert hello.group == random_group(done.entropy_of(PartyId("p00")), 0, 2)
    assert drawn == {0, 1}


def test_who_chooses_too_late_sits_the_round_out() -> None:
    lab = world(scenario(8, rounds="2", **OPEN))
    late = PartyId("p04")
    lab.dawdling[late] = 30.0
    done = lab.run()
    assert isinstance(done.server.outcome, Finished)
    assert [out.reason for out in done.reports(SatOut, late)] == ["had not chosen its task group in time"] * 2
    assert not done.nodes[late].rejects
    assert all(late not in one.participants for one in done.reports(RoundDone))


def test_hidden_slots_open_where_enough_are_in_them_and_nobody_says_a_group() -> None:
    done = world(scenario(8, rounds="2", **HIDDEN)).run()
    assert isinstance(done.server.outcome, Finished)
    assert {hello.group for hello in done.messages(Hello)} == {-1}
    sums = opened(done)
    slots = {(one.round, 1 + slot, one.cluster) for one in done.reports(SlotsCounted) for slot in one.slots}
    assert sums.keys() == slots
    clusters = {d.round: d.clusters for d in done.reports(ClustersDrawn)}
    assert set(clusters[0][0]) == set(clusters[1][0]), "hidden clusters stay for the run"
    for one in done.reports(SlotsCounted):
        members = clusters[one.round][0][one.cluster]
        assert one.counts == tuple(sum(parity(p, 0) == g for p in members) for g in (0, 1))
        assert one.slots == tuple(g for g in (0, 1) if one.counts[g] >= 2)
    assert len({one.seats for one in done.reports(SlotsCounted)}) == 4, "members are told them: drawn afresh"
    for (round_, r, j), found in sums.items():
        assert found == {p for p in clusters[round_][r][j] if parity(p, 0) == r - 1}


def one_odd(party: PartyId, _round: int) -> int:
    return int(party == "p03")


def test_a_slot_of_one_stays_closed_and_no_share_of_it_leaves() -> None:
    done = world(scenario(8, rounds="1", **HIDDEN), one_odd).run()
    counts = {one.counts: one.slots for one in done.reports(SlotsCounted)}
    assert counts == {(3, 1): (0,), (4, 0): (0,)}
    assert {r for _, r, _ in opened(done)} == {1}
    for name in done.parties:
        given = [r for report in done.reports(SharesReleased, name) for r, _ in report.instances]
        assert given == [0, 1]
        assert done.nodes[name].journal.count((0, "released")) == 2
    assert final(done)[3:].tolist() == [0.0, 0.0, 0.0]
    (round_,) = done.reports(RoundDone)
    assert round_.lost == ()


def lying(world_: World, lie: Callable[[tuple[int, ...]], tuple[int, ...]]) -> World:
    """The server tells other seats than it opened."""

    def seam(_event: Event[AnyMessage], effects: tuple[RunEffect, ...]) -> tuple[RunEffect, ...]:
        return tuple(
            Send(e.to, e.place, SlotCounts(seats=lie(e.message.seats)))
            if isinstance(e, Send) and isinstance(e.message, SlotCounts)
            else e
            for e in effects
        )

    world_.server.seam = seam
    return world_


@pytest.mark.parametrize(
    ("lie", "says"),
    [
        (lambda seats: (*seats, 5), "sends group counts that do not fit 4 survivors"),
        (lambda seats: (*seats[:-1], 2 * SEATS), "sends group counts that do not fit 4 survivors"),
    ],
)
def test_counts_that_cannot_be_are_refused_by_parties(
    lie: Callable[[tuple[int, ...]], tuple[int, ...]], says: str
) -> None:
    done = lying(world(scenario(8, rounds="1", **HIDDEN), one_odd), lie).run()
    for name in done.parties:
        assert any(says in reject.reason for reject in done.nodes[name].rejects)
        assert len(done.messages(Release, name)) == 1
    assert opened(done) == {}


def test_a_party_refuses_counts_without_itself() -> None:
    """Four in slot 0, on the seats of the three that are there."""

    def without(seats: tuple[int, ...]) -> tuple[int, ...]:
        return (seats[0], *(seat for seat in seats if seat < SEATS))[:4]

    done = lying(world(scenario(8, rounds="1", **HIDDEN), one_odd), without).run()
    assert any("without this party" in reject.reason for reject in done.nodes[PartyId("p03")].rejects)
    assert len(done.messages(Release, PartyId("p03"))) == 1


def test_a_member_that_lies_about_its_count_closes_its_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes part twice: the counts are then no list of four members, and nothing of the cluster opens."""

    def twice(plan: RunPlan, upload: EncodedUpdate, seat: int) -> tuple[EncodedUpdate, ...]:
        counts, *slots = slot_uploads(plan, upload, seat)
        if seat >= SEATS:
            counts = EncodedUpdate(counts.ring + counts.ring, 0)
        return counts, *slots

    monkeypatch.setattr(party_sums, "slot_uploads", twice)
    done = world(scenario(8, rounds="1", **HIDDEN), one_odd).run()
    told = {one.counts: one.slots for one in done.reports(SlotsCounted)}
    assert told == {(3, 2): (), (4, 0): (0,)}
    assert len(opened(done)) == 1
    assert len({sent.to for sent in done.sent if isinstance(sent.message, SlotCounts)}) == 4


GUESSED, BLIND = True, False
"""Whether a liar knows which seat it empties, or takes from any one."""


@pytest.mark.parametrize(
    ("f", "taken", "guess", "counts", "recovers"),
    [
        pytest.param(0, 0, BLIND, (2, 2), True, id="no colluder reckoned with"),
        pytest.param(1, 0, BLIND, (2, 2), False, id="one reckoned with, and its count moved"),
        pytest.param(1, 1, BLIND, (1, 3), False, id="a second one from a seat that nobody has"),
        pytest.param(1, 1, GUESSED, (1, 3), False, id="or from one that somebody misses"),
        pytest.param(1, 2, GUESSED, (0, 4), False, id="or from two"),
    ],
)
def test_a_member_that_moves_counts_to_a_lone_party(
    f: int,
    taken: int,
    counts: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
    *,
    guess: bool,
    recovers: bool,
) -> None:
    """p03 is with the server. It counts itself in slot 1, where p02 is alone, and takes from slot 0 for it.

    Whether server and liar together then have p02's update, to the last step of the grid. It encodes last, so
    that the test can tell it where the others sit.
    """
    liar, lone, slot = PartyId("p03"), PartyId("p02"), (2, 0)
    uploads: dict[str, EncodedUpdate] = {}
    seats: list[int] = []

    def lies(plan: RunPlan, upload: EncodedUpdate, seat: int) -> tuple[EncodedUpdate, ...]:
        (who,) = members_in(float(from_ring(upload.ring)[0]) / 2.0**plan.scenario.encoding.scale_bits)
        uploads[who] = upload
        counted, *slots = slot_uploads(plan, upload, seat)
        if who != liar:
            seats.append(seat)
            return counted, *slots
        said = np.zeros(2 * SEATS, dtype=np.int64)
        said[seat] = 1 + taken
        here = sorted(one for one in seats if one < SEATS)
        free = next(one for one in range(SEATS) if one not in here)
        for one in here[:taken] if guess else [free] * taken:
            said[one] -= 1
        return EncodedUpdate(to_ring(said, plan.limits.ring_bits), 0), *slots

    monkeypatch.setattr(party_sums, "slot_uploads", lies)
    sums = {"colluders": f, "colluders_per_cluster": f, "k_anonymity": 2}
    config = scenario(
        4,
        rounds="1",
        **HIDDEN,
        **{f"secure_sum__{name}": str(value) for name, value in sums.items()},
    )
    lab = world(config, lambda party, _round: int(party in {liar, lone}))
    done = lab.run()
    assert [one.counts for one in done.reports(SlotsCounted)] == [counts]
    # What the server has of the slot, less what the liar put into it.
    left = [one.opened.ring - uploads[liar].ring for one in done.reports(SumOpened) if one.opened.key == slot]
    holders = {
        name
        for name in done.parties
        if any(slot in given.instances for given in done.reports(SharesReleased, name))
    }
    if recovers:
        (found,) = left
        np.testing.assert_array_equal(found, uploads[lone].ring)
    else:
        assert not left
        assert len(holders) < config.secure_sum.threshold


def test_a_dropout_takes_its_hidden_cluster_along() -> None:
    """With it gone, the difference of two rounds' counts would be its group."""
    config = scenario(8, rounds="2", **HIDDEN)
    lab = world(config)

    def silent(event: Event[AnyMessage], effects: tuple[RunEffect, ...]) -> tuple[RunEffect, ...]:
        return tuple(e for e in effects if not (isinstance(e, Send) and isinstance(e.message, MaskedInput)))

    lab.nodes[PartyId("p02")].seam = silent
    done = lab.run()
    for drawn, round_ in zip(done.reports(ClustersDrawn), done.reports(RoundDone), strict=True):
        (lost,) = (members for members in drawn.clusters[0] if "p02" in members)
        assert set(round_.survivors).isdisjoint(lost)
    assert all(len(one.counts) == 2 and sum(one.counts) == 4 for one in done.reports(SlotsCounted))


def guess(vectors: Mapping[int, I64], sums: Mapping[int, I64]) -> int:
    """The slot in which a party's vector looks most like the opened sum, and least like nothing.

    What a server has of a party: a vector for every slot. It knows the sums, and that the others are zero.
    """
    zero = {slot for slot, vector in vectors.items() if not vector.any()}
    scores = {
        slot: -np.inf if slot in zero else float(np.dot(np.sign(vector), np.sign(sums[slot])))
        for slot, vector in vectors.items()
    }
    return max(scores, key=lambda slot: (scores[slot], -slot))


def test_a_curious_server_guesses_hidden_groups_at_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against what counts alone say, in 12 runs of 8 parties; chance is left by 4 standard deviations in one
    test of 16,000. The same guess on unmasked uploads finds everybody."""
    hits, expected, variance = 0, 0.0, 0.0
    bare_hits, guesses = 0, 0
    for seed in range(12):
        chosen = np.random.default_rng(seed).permutation(np.arange(8) % 2)

        def choose(party: PartyId, _round: int, chosen: I64 = chosen) -> int:
            return int(chosen[int(party[1:])])

        uploads: dict[tuple[int, int], tuple[EncodedUpdate, ...]] = {}

        def kept(
            plan: RunPlan,
            upload: EncodedUpdate,
            seat: int,
            uploads: dict[tuple[int, int], tuple[EncodedUpdate, ...]] = uploads,
        ) -> tuple[EncodedUpdate, ...]:
            made = slot_uploads(plan, upload, seat)
            uploads[len(uploads), seat // SEATS] = made
            return made

        monkeypatch.setattr(party_sums, "slot_uploads", kept)
        lab = World(scenario(8, rounds="1", **HIDDEN), length=64, seed=seed, train=learn, choose=choose)
        done = lab.run()
        clusters = done.reports(ClustersDrawn)[0].clusters
        sums = {one.opened.key: from_ring(one.opened.ring) for one in done.reports(SumOpened)}
        counts = {one.cluster: one.counts for one in done.reports(SlotsCounted)}
        masked: dict[PartyId, dict[int, I64]] = {}
        for sent in done.sent:
            if isinstance(sent.message, MaskedInput) and sent.place.reclustering > 0:
                words = np.frombuffer(sent.message.vector, dtype="<u4").astype(np.uint32)
                masked.setdefault(sent.sender, {})[sent.place.reclustering - 1] = from_ring(words)
        for cluster, members in enumerate(clusters[0]):
            if min(counts[cluster]) < 2:
                continue
            opened_sums = {slot: sums[1 + slot, cluster] for slot in (0, 1)}
            for party in members:
                said = guess(masked[party], opened_sums)
                share = counts[cluster][said] / len(members)
                hits += said == choose(party, 0)
                expected, variance = expected + share, variance + share * (1 - share)
        for (_, group), made in uploads.items():
            bare = {slot: from_ring(made[1 + slot].ring) for slot in (0, 1)}
            bare_hits += guess(bare, bare) == group
            guesses += 1
    assert expected >= 20
    assert abs(hits - expected) < 4 * variance**0.5
    assert bare_hits == guesses == 96
