"""What every secure sum must do; below, what only sums with pairwise masks can be asked."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from securefl.base.arrays import Ring
from securefl.base.crypto import prg
from securefl.base.crypto.agreement import KeyPair
from securefl.base.crypto.shamir import combine
from securefl.base.errors import PeerError, UsageError
from securefl.base.ids import PartyId
from securefl.protocol.messages.masking import ShareBoxes
from securefl.protocol.messages.rounds import InstanceShares
from securefl.protocol.secure_sum import collecting
from securefl.protocol.secure_sum.crypten import member
from securefl.protocol.secure_sum.masking import client, opening
from securefl.protocol.secure_sum.masking.kind import Masking
from securefl.protocol.secure_sum.setup import self_mask_key
from tests.contracts.secure_sums import (
    KINDS,
    NAMES,
    STEPS,
    Case,
    CryptenCluster,
    MaskingCluster,
    Step,
    roster,
)
from tests.tiers import examples


@st.composite
def cases(draw: st.DrawFn, everybody: bool = False, fewest: int = 1) -> Case:
    members = draw(st.integers(fewest, 6))
    threshold = draw(st.integers(fewest, members))
    min_survivors = draw(st.integers(threshold, members))
    silent: Mapping[PartyId, Step] = {}
    if not everybody:
        silent = draw(st.dictionaries(st.sampled_from(NAMES[:members]), st.sampled_from(STEPS)))
    return Case(
        members,
        threshold,
        min_survivors,
        draw(st.sampled_from((32, 64))),
        draw(st.integers(1, 9)),
        silent,
    )


def ring(values: Sequence[int], bits: int) -> Ring:
    return np.array(values, dtype=np.uint32) if bits == 32 else np.array(values, dtype=np.uint64)


def vectors(case: Case, seed: int) -> dict[PartyId, Ring]:
    """Ring words of every size, both ends included."""
    generator = random.Random(seed)
    top = 2**case.ring_bits - 1
    ends = (0, 1, top // 2, top // 2 + 1, top)
    return {
        name: ring(
            [
                generator.choice(ends) if generator.random() < 0.3 else generator.randint(0, top)
                for _ in range(case.length)
            ],
            case.ring_bits,
        )
        for name in case.names
    }


def total(case: Case, inputs: Mapping[PartyId, Ring], names: Sequence[PartyId]) -> Ring:
    columns = zip(*(inputs[n].tolist() for n in names), strict=True)
    return ring([sum(column) % 2**case.ring_bits for column in columns], case.ring_bits)


@pytest.mark.parametrize("kind", KINDS)
class TestEveryKind:
    @settings(max_examples=examples(40), deadline=None)
    @given(data=st.data(), seed=st.integers(0, 2**32 - 1))
    def test_all_members(self, kind: str, data: st.DataObject, seed: int) -> None:
        case = data.draw(cases(everybody=True, fewest=KINDS[kind].fewest))
        inputs = vectors(case, seed)
        outcome = KINDS[kind].run(case, inputs, seed)
        assert outcome.survivors == case.names
        np.testing.assert_array_equal(outcome.ring, total(case, inputs, case.names))

    @settings(max_examples=examples(80), deadline=None)
    @given(data=st.data(), seed=st.integers(0, 2**32 - 1))
    def test_dropouts_at_any_step(self, kind: str, data: st.DataObject, seed: int) -> None:
        """The sum of exactly those who submitted, or nothing; never fewer than min_survivors."""
        case = data.draw(cases(fewest=KINDS[kind].fewest))
        inputs = vectors(case, seed)
        outcome = KINDS[kind].run(case, inputs, seed)
        submitted = tuple(case.alive("receipt"))
        needed = KINDS[kind].needed(case, len(submitted))
        if len(submitted) < case.min_survivors or len(case.alive("release")) < needed:
            assert outcome.ring is None
            return
        assert outcome.survivors == submitted
        np.testing.assert_array_equal(outcome.ring, total(case, inputs, submitted))

    @pytest.mark.parametrize("bits", [32, 64])
    @pytest.mark.parametrize("step", STEPS)
    def test_powers_of_two_show_who_was_counted_and_how_often(self, kind: str, step: Step, bits: int) -> None:
        case = Case(5, 3, 4, bits, length=3, silent={NAMES[2]: step})
        inputs = vectors(case, 5)
        for i, name in enumerate(case.names):
            inputs[name][0] = 1 << i
        outcome = KINDS[kind].run(case, inputs)
        if step == "release" and KINDS[kind].needed(case, 5) == 5:
            assert outcome.ring is None
            return
        assert outcome.ring is not None
        assert int(outcome.ring[0]) == (0b11111 if step == "release" else 0b11011)

    @pytest.mark.parametrize("bits", [32, 64])
    def test_extreme_values_wrap_exactly(self, kind: str, bits: int) -> None:
        case = Case(3, 2, 2, bits, length=2)
        top = ring([2**bits - 1] * 2, bits)
        outcome = KINDS[kind].run(case, dict.fromkeys(case.names, top))
        assert outcome.ring is not None
        assert outcome.ring.tolist() == [2**bits - 3] * 2

    def test_inputs_are_not_changed(self, kind: str) -> None:
        case = Case(3, 2, 2)
        inputs = vectors(case, 1)
        before = {name: vector.copy() for name, vector in inputs.items()}
        KINDS[kind].run(case, inputs)
        for name, vector in before.items():
            np.testing.assert_array_equal(inputs[name], vector)

    def test_many_words_cross_the_chunks_of_the_mask_stream(self, kind: str) -> None:
        case = Case(3, 2, 2, 32, length=70_001)
        inputs = vectors(case, 8)
        np.testing.assert_array_equal(KINDS[kind].run(case, inputs).ring, total(case, inputs, case.names))


def submitted(case: Case, inputs: Mapping[PartyId, Ring] | None = None, seed: int = 1) -> MaskingCluster:
    """A cluster whose members have all submitted."""
    cluster = MaskingCluster(case, seed)
    key_list = cluster.keys(case.names)
    assert key_list is not None
    cluster.unpack(cluster.shares(key_list, case.names))
    for name, vector in (inputs or vectors(case, seed)).items():
        cluster.submit(name, vector)
    return cluster


@settings(max_examples=examples(10), deadline=None)
@given(case=cases(fewest=2), seed=st.integers(0, 2**32 - 1))
@example(case=Case(3, 2, 2, length=1, silent={NAMES[0]: "shares", NAMES[1]: "receipt"}), seed=0)
def test_all_kinds_open_the_same_words(case: Case, seed: int) -> None:
    """With the same entropy, whoever falls silent before the freeze."""
    silent = {name: step for name, step in case.silent.items() if step != "release"}
    case, inputs = replace(case, silent=silent), vectors(case, seed)
    outcomes = [kind.run(case, inputs, seed) for kind in KINDS.values()]
    assert len({outcome.survivors for outcome in outcomes}) == 1
    for outcome in outcomes[1:]:
        np.testing.assert_array_equal(outcome.ring, outcomes[0].ring)


def test_shares_of_a_superseded_crypten_attempt_stay_blind() -> None:
    """A server calls somebody missing whose share it has: without blinds the difference is that update."""
    case = Case(4, 2, 2, 32, length=6)
    inputs, cluster = vectors(case, 3), CryptenCluster(case)
    victim, rest = case.names[2], [name for name in case.names if name != case.names[2]]
    assert cluster.keys(case.names)
    cluster.submit(inputs, case.names, case.names)
    old, old_phases = cluster.inputs, dict(cluster.phases)
    received = ring([0] * case.length, 32)
    for handle in old.inputs.values():
        received += np.frombuffer(cluster.store.get(handle), "<u4")

    cluster.server = collecting.retry(old, frozenset({victim}), max_attempts=8)
    cluster.setup = cluster.server.setup
    assert cluster.keys(rest)
    cluster.submit(inputs, rest, rest)
    opened = cluster.open(rest)
    np.testing.assert_array_equal(opened, total(case, inputs, rest))

    difference = received - opened
    assert not (difference == inputs[victim]).any()
    # The blinds are all that hides it, and no seed of theirs was ever asked for.
    context = old.setup.keys_context(old.key_list)
    for phase in old_phases.values():
        assert isinstance(phase, member.Submitted)
        difference -= prg.expand(self_mask_key(phase.seed, context), case.length, np.uint32)
    np.testing.assert_array_equal(difference, inputs[victim])


CASE = Case(5, 3, 3)


class TestKeys:
    def test_every_attempt_has_fresh_keys_seeds_and_masks(self) -> None:
        case = Case(3, 2, 2)
        secrets: list[bytes] = []
        masks: list[bytes] = []
        for attempt in range(3):
            cluster = MaskingCluster(case, attempt=attempt)
            key_list = cluster.keys(case.names)
            assert key_list is not None
            for phase in cluster.phases.values():
                assert isinstance(phase, client.Advertised)
                secrets += [phase.mask.private, phase.box.private, phase.seed]
            cluster.unpack(cluster.shares(key_list, case.names))
            for phase in cluster.phases.values():
                assert isinstance(phase, client.Ready)
                masks += sorted({key for key, _ in phase.terms})
        assert len(set(secrets)) == len(secrets)
        # Within an attempt every pairwise key occurs at its two ends; across attempts none occurs again.
        assert len(set(masks)) == 3 * (3 + 3)
        assert not set(masks) & set(secrets)

    @pytest.mark.parametrize("reused", ["mask", "box", "both"])
    def test_a_reused_key_is_refused_by_server_and_members(self, reused: str) -> None:
        cluster = MaskingCluster(CASE)
        first, second = NAMES[0], NAMES[1]
        _, one = client.advertise(cluster.setup, first, cluster.of(first))
        _, two = client.advertise(cluster.setup, second, cluster.of(second))
        match reused:
            case "mask":
                bad = msgspec.structs.replace(two, mask_key=one.mask_key)
            case "box":
                bad = msgspec.structs.replace(two, box_key=one.mask_key)
            case _:
                bad = msgspec.structs.replace(two, box_key=two.mask_key)
        assert isinstance(cluster.server, collecting.CollectingKeys)
        state = collecting.on_advert(cluster.server, first, one, cluster.signed(first, one))
        with pytest.raises(PeerError, match="reuses a key") as caught:
            collecting.on_advert(state, second, bad, cluster.signed(second, bad))
        assert caught.value.culprit == second

    def test_a_key_of_low_order_is_refused_with_its_culprit(self) -> None:
        cluster = MaskingCluster(CASE)
        _, advert = client.advertise(cluster.setup, NAMES[1], cluster.of(NAMES[1]))
        for bad in (
            msgspec.structs.replace(advert, mask_key=bytes(32)),
            msgspec.structs.replace(advert, box_key=b"\x01" + bytes(31)),
        ):
            assert isinstance(cluster.server, collecting.CollectingKeys)
            with pytest.raises(PeerError, match="low order") as caught:
                collecting.on_advert(cluster.server, NAMES[1], bad, cluster.signed(NAMES[1], bad))
            assert caught.value.culprit == NAMES[1]


class TestShares:
    def test_a_wrong_share_is_named_and_the_sum_opens_without_it(self) -> None:
        case = CASE
        inputs = vectors(case, 3)
        cluster = submitted(case, inputs)
        everybody = frozenset(case.names)
        releases = {n: cluster.release(n, everybody) for n in case.names}
        liar = NAMES[3]
        owner, share = releases[liar].seed_shares[0]
        wrong = (owner, share[:-1] + bytes([share[-1] ^ 1]))
        forged = msgspec.structs.replace(releases[liar], seed_shares=(wrong, *releases[liar].seed_shares[1:]))
        assert isinstance(forged, InstanceShares)
        with pytest.raises(PeerError, match="wrong seed share") as caught:
            opening.check_release(cluster.inputs, everybody, liar, forged)
        assert caught.value.culprit == liar
        del releases[liar]
        np.testing.assert_array_equal(cluster.open(everybody, releases), total(case, inputs, case.names))

    def test_shares_of_the_wrong_kind_or_too_many_are_refused(self) -> None:
        cluster = submitted(CASE)
        everybody = frozenset(CASE.names)
        without = everybody - {NAMES[4]}
        release = cluster.release(NAMES[0], without)
        with pytest.raises(PeerError, match="seed shares of other members"):
            opening.check_release(cluster.inputs, everybody, NAMES[0], release)
        both = msgspec.structs.replace(
            release, key_shares=(*release.key_shares, (0, release.seed_shares[0][1]))
        )
        assert isinstance(both, InstanceShares)
        with pytest.raises(PeerError, match="key shares of other members"):
            opening.check_release(cluster.inputs, without, NAMES[0], both)

    def test_an_owner_that_advertised_another_secret_is_named_at_the_opening(self) -> None:
        """Consistent shares of a wrong seed pass every hash and fail at the published seed digest."""
        case = CASE
        cluster = submitted(case)
        liar = cluster.inputs.adverts[2]
        tampered = replace(
            cluster.inputs,
            adverts={**cluster.inputs.adverts, 2: msgspec.structs.replace(liar, seed_digest=bytes(32))},
        )
        everybody = frozenset(case.names)
        releases = {n: cluster.release(n, everybody) for n in case.names}
        with pytest.raises(PeerError, match="another self-mask seed") as caught:
            Masking().server.open(tampered, everybody, releases, cluster.store)
        assert caught.value.culprit == NAMES[2]

    @settings(max_examples=examples(30), deadline=None)
    @given(case=cases(), data=st.data())
    def test_never_both_kinds_of_one_member(self, case: Case, data: st.DataObject) -> None:
        cluster = submitted(replace(case, silent={}))
        kept = data.draw(st.sets(st.sampled_from(case.names), min_size=case.min_survivors))
        release = cluster.release(case.names[0], frozenset(kept))
        seeds, keys = {o for o, _ in release.seed_shares}, {o for o, _ in release.key_shares}
        assert not seeds & keys
        assert {case.names[o] for o in seeds} == kept
        assert seeds | keys == set(range(case.members))

    def test_what_the_server_gets_reconstructs_one_kind_only(self) -> None:
        case = CASE
        cluster = MaskingCluster(case)
        key_list = cluster.keys(case.names)
        assert key_list is not None
        secrets = dict(cluster.phases)
        cluster.unpack(cluster.shares(key_list, case.names))
        for name, vector in vectors(case, 1).items():
            cluster.submit(name, vector)
        survivors = frozenset(case.names[:3])
        releases = [cluster.release(n, survivors) for n in case.names[:3]]
        for index, name in enumerate(case.names):
            phase = secrets[name]
            assert isinstance(phase, client.Advertised)
            seeds = {h + 1: dict(r.seed_shares)[index] for h, r in enumerate(releases) if name in survivors}
            keys = {h + 1: dict(r.key_shares)[index] for h, r in enumerate(releases) if name not in survivors}
            if name in survivors:
                assert combine(seeds, case.threshold) == phase.seed
                assert not keys
            else:
                assert KeyPair.from_private(combine(keys, case.threshold)) == phase.mask
                assert not seeds

    def test_releasing_for_too_few_is_our_own_bug(self) -> None:
        cluster = submitted(CASE)
        with pytest.raises(UsageError, match="min_survivors"):
            cluster.release(NAMES[0], frozenset(CASE.names[:2]))

    def test_the_server_opens_nothing_below_min_survivors_or_threshold(self) -> None:
        cluster = submitted(CASE)
        everybody = frozenset(CASE.names)
        releases = {n: cluster.release(n, everybody) for n in CASE.names[:2]}
        with pytest.raises(UsageError, match="threshold"):
            cluster.open(everybody, releases)
        with pytest.raises(UsageError, match="min_survivors"):
            Masking().server.open(cluster.inputs, frozenset(CASE.names[:2]), {}, cluster.store)


class TestBoxes:
    @pytest.mark.parametrize("how", ["garbled", "swapped", "other-shares"])
    def test_a_wrong_box_leads_to_a_complaint_and_a_retry_without_both(self, how: str) -> None:
        case = CASE
        inputs = vectors(case, 9)
        cluster = MaskingCluster(case)
        key_list = cluster.keys(case.names)
        assert key_list is not None
        liar, victim = 1, 3
        other, _ = client.advertise(cluster.setup, NAMES[liar], cluster.entropy.child("other shares"))
        honest = cluster.phases[NAMES[liar]]
        assert isinstance(honest, client.Advertised)

        def tamper(name: PartyId, boxes: ShareBoxes) -> ShareBoxes:
            if name != NAMES[liar]:
                return boxes
            sealed = dict(boxes.boxes)
            match how:
                case "garbled":
                    sealed[victim] = sealed[victim][:-1] + bytes([sealed[victim][-1] ^ 1])
                case "swapped":
                    sealed[victim] = sealed[4]
                case _:
                    forged = replace(other, mask=honest.mask, box=honest.box, advert=honest.advert)
                    _, crooked = client.on_key_list(forged, key_list, roster(), cluster.of(NAMES[liar]))
                    sealed[victim] = dict(crooked.boxes)[victim]
            changed = msgspec.structs.replace(boxes, boxes=tuple(sealed.items()))
            assert isinstance(changed, ShareBoxes)
            return changed

        cluster.unpack(cluster.shares(key_list, case.names, tamper))
        assert cluster.complaints == [(NAMES[victim], NAMES[liar])]
        state = collecting.retry(cluster.inputs, frozenset({NAMES[victim], NAMES[liar]}), max_attempts=2)
        assert isinstance(state, collecting.CollectingKeys)
        assert state.setup.members == (NAMES[0], NAMES[2], NAMES[4])
        assert state.setup.instance.attempt == 1
        cluster.restart(state)
        again = cluster.keys(state.setup.members)
        assert again is not None
        cluster.unpack(cluster.shares(again, state.setup.members))
        for name in state.setup.members:
            cluster.submit(name, inputs[name])
        survivors = frozenset(state.setup.members)
        releases = {n: cluster.release(n, survivors) for n in survivors}
        np.testing.assert_array_equal(
            cluster.open(survivors, releases), total(case, inputs, state.setup.members)
        )

    def test_retries_are_bounded_in_number_and_in_members(self) -> None:
        cluster = submitted(CASE)
        accused = frozenset({NAMES[0], NAMES[1]})
        assert isinstance(collecting.retry(cluster.inputs, accused, max_attempts=1), collecting.Lost)
        three = frozenset({NAMES[0], NAMES[1], NAMES[2]})
        assert isinstance(collecting.retry(cluster.inputs, three, max_attempts=2), collecting.Lost)

    def test_a_phase_holds_no_secret_that_a_later_one_does_not_need(self) -> None:
        cluster = submitted(CASE)
        phase = cluster.phases[NAMES[0]]
        assert isinstance(phase, client.Submitted)
        assert set(phase.__slots__) == {"setup", "me", "held", "lists_digest", "input_digest"}
        assert "held" not in repr(phase)
