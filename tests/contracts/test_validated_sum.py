"""Validated sums: who is in the sum, what is refused, and what each way of cheating comes to (ADR 0024)."""

from __future__ import annotations

import numpy as np
import pytest

from securefl.base.arrays import Ring
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import PeerError, UsageError
from securefl.base.ids import DEALER, PartyId
from securefl.methods.privacy.norm_check import norm_test
from securefl.protocol.messages.crypten import PeerBox
from securefl.protocol.messages.masking import MaskedInput
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.messages.validation import (
    DealRequest,
    Dealt,
    DealtTo,
    HeldList,
    SketchNonce,
    UpdateShareBox,
    Verdict,
    Verdicts,
)
from securefl.protocol.secure_sum import collecting
from securefl.protocol.secure_sum.validated import member as validated_member
from securefl.protocol.secure_sum.validated import server as validated_server
from securefl.protocol.secure_sum.validated.dealer import answer
from securefl.protocol.secure_sum.validated.phases import NO_RETURN, Checking, Gathering, Holding, Spoiled
from securefl.protocol.secure_sum.validated.server import AwaitingHeld, AwaitingVerdicts
from securefl.protocol.secure_sum.validated.validation import SHARE_NUMBER, accepted_by, is_too_long
from securefl.protocol.wire.codec import encode
from tests.contracts.validated_sums import NAMES, ROSTER, RUN, ValidatedCluster

LENGTH, NORM = 40, 2**16
TEST = norm_test(NORM, 64, 1e-3)


def update(factor: float, seed: int) -> Ring:
    vector = np.random.default_rng(seed).normal(size=LENGTH)
    scaled = np.round(vector / np.linalg.norm(vector) * factor * NORM)
    return scaled.astype(np.int64).view(np.uint64)


def updates(members: int, **factors: float) -> dict[PartyId, Ring]:
    return {name: update(factors.get(name, 0.9), i) for i, name in enumerate(NAMES[:members])}


def total(given: dict[PartyId, Ring], names: tuple[PartyId, ...]) -> Ring:
    ring = np.zeros(LENGTH, np.uint64)
    for name in names:
        ring += given[name]
    return ring


@pytest.mark.parametrize("members", [3, 4, 5])
def test_all_honest_updates_are_in_the_sum(members: int) -> None:
    given = updates(members)
    cluster = ValidatedCluster(members, LENGTH, TEST)
    cluster.finish(given)
    assert cluster.accepted == NAMES[:members]
    np.testing.assert_array_equal(cluster.open(), total(given, cluster.accepted))
    assert cluster.accused == []


def test_an_oversized_update_is_left_out() -> None:
    given = updates(4, p02=10)
    cluster = ValidatedCluster(4, LENGTH, TEST)
    cluster.finish(given)
    assert cluster.accepted == tuple(PartyId(name) for name in ("p00", "p01", "p03"))
    np.testing.assert_array_equal(cluster.open(), total(given, cluster.accepted))


def test_too_few_accepted_open_nothing() -> None:
    cluster = ValidatedCluster(3, LENGTH, TEST)
    cluster.finish(updates(3, p01=2, p02=10))
    assert isinstance(cluster.server, collecting.Lost)
    assert "1 of the updates passed the check, min_survivors is 2" in cluster.server.reason


def test_colluders_among_the_accepted_do_not_make_up_for_honest_ones() -> None:
    cluster = ValidatedCluster(3, LENGTH, TEST, colluders=1)
    cluster.finish(updates(3, p02=10))
    assert isinstance(cluster.server, collecting.Lost)
    assert "fewer than k_anonymity = 2 remain" in cluster.server.reason


TOP = 2**64


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (update(2, 7), update(10, 8)),
        (update(2**16, 7), update(2**40, 8)),
        (np.full(LENGTH, 2**32, np.uint64), np.full(LENGTH, TOP - 2**32, np.uint64)),
        (ends := np.zeros(LENGTH, np.uint64), np.full(LENGTH, 2**63, np.uint64)),
    ],
)
def test_attackers_are_left_out_and_the_sum_is_that_of_the_others(one: Ring, other: Ring) -> None:
    """With CrypTen in place of plain numbers; how often is in tests/statistics/test_norm_check_errors.py."""
    ends[:2] = 2**63
    given = updates(4) | {NAMES[1]: one, NAMES[2]: other}
    cluster = ValidatedCluster(4, LENGTH, TEST)
    cluster.finish(given)
    assert cluster.accepted == (NAMES[0], NAMES[3])
    np.testing.assert_array_equal(cluster.open(), total(given, cluster.accepted))


def test_no_attacker_at_10x_is_counted_whatever_the_sketch() -> None:
    """Over 20 rounds, with processes: scenarios/crypten_validated.toml."""
    for seed in range(4):
        cluster = ValidatedCluster(3, LENGTH, TEST, seed=seed)
        cluster.finish(updates(3, p02=10))
        assert cluster.accepted == NAMES[:2]


class TestTheOwner:
    def test_it_holds_no_share_of_its_own_update_and_is_in_no_check_of_it(self) -> None:
        cluster = ValidatedCluster(3, LENGTH, TEST)
        cluster.begin()
        cluster.share(updates(3))
        for index, name in enumerate(NAMES[:3]):
            phase = cluster.phases[name]
            assert isinstance(phase, Holding)
            assert phase.words.keys() == phase.tuples.keys() == set(phase.core.others)
            assert index not in phase.words

    def test_it_cannot_turn_its_own_bit(self) -> None:
        """Its verdict about itself is refused; left as it was, nothing that it says is about itself."""

        def flip(sender: PartyId, message: AnyMessage) -> AnyMessage:
            if sender == NAMES[2] and isinstance(message, Verdict):
                return Verdict(accepted=(*message.accepted, 2))
            return message

        cluster = ValidatedCluster(3, LENGTH, TEST, tamper=flip)
        with pytest.raises(PeerError, match="p02: accepts updates that it did not check"):
            cluster.finish(updates(3, p02=10))
        assert accepted_by({0: frozenset({1}), 1: frozenset({0}), 2: frozenset({0, 1, 2})}) == {0, 1}

    def test_it_cannot_share_another_update_after_the_receipts(self) -> None:
        """Swap the share after the check: what comes then is refused, and not in the sum."""
        given = updates(4, p02=10)
        cluster = ValidatedCluster(4, LENGTH, TEST)
        cluster.begin()
        early = cluster.phases[NAMES[2]]
        cluster.share(given | {NAMES[2]: update(0.5, 2)})
        assert isinstance(early, Gathering)
        second = validated_member.share_update(early, given[NAMES[2]], cluster.of(NAMES[2]))
        (box, *_) = [message for message in second.outgoing if isinstance(message, PeerBox)]
        with pytest.raises(PeerError, match="sends PeerBox at the wrong time"):
            cluster.deliver(NAMES[3], PeerBox(peer=2, number=box.number, box=box.box))
        for _ in range(3):
            cluster.close()
        counted = given | {NAMES[2]: update(0.5, 2)}
        np.testing.assert_array_equal(cluster.open(), total(counted, NAMES[:4]))

    def test_it_shares_its_update_once(self) -> None:
        cluster = ValidatedCluster(3, LENGTH, TEST)
        cluster.begin()
        phase = cluster.phases[NAMES[0]]
        assert isinstance(phase, Gathering)
        cluster.share({NAMES[0]: update(1, 0)})
        shared = cluster.phases[NAMES[0]]
        assert isinstance(shared, Gathering)
        with pytest.raises(UsageError, match="already shared"):
            validated_member.share_update(shared, update(1, 0), cluster.of(NAMES[0]))
        again = validated_member.share_update(phase, update(1, 9), cluster.of(NAMES[0]))
        (box, *_) = [message for message in again.outgoing if isinstance(message, PeerBox)]
        with pytest.raises(PeerError, match="p00: shares its update twice"):
            cluster.deliver(NAMES[box.peer], PeerBox(peer=0, number=box.number, box=box.box))

    @pytest.mark.parametrize(
        "bad",
        [
            UpdateShareBox(words=bytes(8 * LENGTH - 8)),
            UpdateShareBox(words=bytes(8 * LENGTH + 8)),
            UpdateShareBox(),
            UpdateShareBox(seed=bytes(31)),
        ],
    )
    def test_a_share_of_another_length_is_complained_about(self, bad: UpdateShareBox) -> None:
        cluster = ValidatedCluster(3, LENGTH, TEST)
        cluster.begin()
        sender = cluster.phases[NAMES[2]]
        assert isinstance(sender, Gathering)
        box = sender.core.lines.seal(1, SHARE_NUMBER, encode(bad), InsecureSeededEntropy(1))
        cluster.deliver(NAMES[1], PeerBox(peer=2, number=SHARE_NUMBER, box=box))
        assert isinstance(cluster.phases[NAMES[1]], Spoiled)
        ((accuser, error),) = cluster.accused
        assert (accuser, error.culprit) == (NAMES[1], NAMES[2])


class TestTheRelay:
    """What a server that relays verdicts cannot make members open."""

    @pytest.mark.parametrize(("members", "refused"), [(3, 2), (4, 3)])
    def test_it_cannot_go_on_with_too_few(self, members: int, refused: int) -> None:
        cluster = ValidatedCluster(members, LENGTH, TEST)
        cluster.finish(updates(members, **dict.fromkeys(NAMES[1 : 1 + refused], 10)))
        assert isinstance(cluster.server, collecting.Lost)
        frames = [
            cluster.signed(sender, message)
            for sender, message in cluster.said
            if isinstance(message, Verdict)
        ]
        with pytest.raises(
            PeerError,
            match=r"server: continues .*, although 1 of the updates passed the check, min_survivors is 2",
        ):
            cluster.deliver(NAMES[0], Verdicts(verdicts=tuple(frames)))

    def test_it_cannot_leave_out_or_repeat_a_verdict(self) -> None:
        cluster = ValidatedCluster(4, LENGTH, TEST)
        cluster.begin()
        cluster.share(updates(4))
        cluster.close()
        cluster.close()
        assert isinstance(cluster.server, AwaitingVerdicts)
        frames = [frame for _, frame in sorted(cluster.server.frames.items())]
        for bad in (frames[:3], [*frames[:3], frames[0]]):
            with pytest.raises(PeerError, match="server: relays"):
                cluster.deliver(NAMES[0], Verdicts(verdicts=tuple(bad)))


class TestEvaluators:
    """What the protocol does not stop, as ADR 0024 states it, and how far it goes."""

    def test_one_that_deviates_frames_an_honest_member(self) -> None:
        def frame(sender: PartyId, message: AnyMessage) -> AnyMessage:
            if sender == NAMES[0] and isinstance(message, Verdict):
                return Verdict(accepted=tuple(i for i in message.accepted if i != 1))
            return message

        cluster = ValidatedCluster(4, LENGTH, TEST, tamper=frame)
        with pytest.raises(PeerError, match="a verdict that this member did not give"):
            cluster.finish(updates(4))

    def test_one_that_spoils_the_sum_is_bounded_by_the_last_check(self) -> None:
        def spoil(sender: PartyId, message: AnyMessage) -> AnyMessage:
            if sender == NAMES[1] and isinstance(message, MaskedInput):
                return MaskedInput(vector=bytes([message.vector[0]]) + bytes(8 * LENGTH - 1))
            return message

        cluster = ValidatedCluster(3, LENGTH, TEST, tamper=spoil)
        cluster.finish(updates(3))
        assert is_too_long(cluster.open(), 3 * TEST.norm)

    def test_honest_sums_are_never_too_long(self) -> None:
        same = update(1, 1).view(np.int64)
        assert not is_too_long((3 * same - np.sign(same)).view(np.uint64), 3 * TEST.norm)
        assert is_too_long((3 * same + 40 * np.sign(same)).view(np.uint64), 3 * TEST.norm)
        assert is_too_long(np.array([2**63], np.uint64), 3 * TEST.norm)


class TestTheSketch:
    def test_no_nonce_leaves_before_all_receipts(self) -> None:
        """A server that keeps a receipt back, or shows one twice, learns no nonce."""
        cluster = ValidatedCluster(3, LENGTH, TEST)
        cluster.begin()
        cluster.share(updates(3))
        assert isinstance(cluster.server, AwaitingHeld)
        frames = [frame for _, frame in sorted(cluster.server.held.items())]
        assert not any(isinstance(message, SketchNonce) for _, message in cluster.said)
        for bad in (frames[:2], [*frames[:2], frames[1]], [*frames[:2], bytes(64)]):
            with pytest.raises(PeerError, match="server"):
                cluster.deliver(NAMES[0], HeldList(receipts=tuple(bad)))
        assert isinstance(cluster.phases[NAMES[0]], Holding)

    def test_another_nonce_than_committed_to_names_its_sender(self) -> None:
        def grind(sender: PartyId, message: AnyMessage) -> AnyMessage:
            is_his = sender == NAMES[1] and isinstance(message, SketchNonce)
            return SketchNonce(nonce=bytes(32)) if is_his else message

        cluster = ValidatedCluster(3, LENGTH, TEST, tamper=grind)
        with pytest.raises(PeerError, match="p01: reveals another nonce"):
            cluster.finish(updates(3))

    def test_withholding_a_nonce_costs_the_sum_and_gives_no_second_sketch(self) -> None:
        def withhold(sender: PartyId, message: AnyMessage) -> AnyMessage | None:
            return None if sender == NAMES[1] and isinstance(message, SketchNonce) else message

        cluster = ValidatedCluster(4, LENGTH, TEST, tamper=withhold)
        cluster.finish(updates(4))
        assert isinstance(cluster.server, collecting.Lost)
        assert "the updates cannot be checked: p01 revealed no nonce" in cluster.server.reason
        assert all(isinstance(phase, NO_RETURN) for phase in cluster.phases.values())


class TestSilence:
    def test_before_the_receipts_there_is_another_attempt_with_fresh_shares(self) -> None:
        given = updates(4)
        cluster = ValidatedCluster(4, LENGTH, TEST)
        cluster.begin()
        first = cluster.phases[NAMES[0]]
        cluster.share({name: given[name] for name in NAMES[:3]})
        cluster.close()
        assert cluster.setup.instance.attempt == 1
        remaining = NAMES[:3]
        assert cluster.setup.members == remaining
        cluster.finish({name: given[name] for name in remaining})
        assert cluster.accepted == remaining
        np.testing.assert_array_equal(cluster.open(), total(given, remaining))
        assert first not in cluster.phases.values()

    def test_with_fewer_than_three_left_the_sum_is_lost(self) -> None:
        cluster = ValidatedCluster(3, LENGTH, TEST)
        cluster.begin(NAMES[:2])
        assert isinstance(cluster.server, collecting.Lost)
        assert "validation needs at least 3" in cluster.server.reason

    def test_in_the_middle_of_the_checks_the_sum_is_lost(self) -> None:
        def fall_silent(sender: PartyId, message: AnyMessage) -> AnyMessage | None:
            words = isinstance(message, PeerBox) and message.number < SHARE_NUMBER
            return None if sender == NAMES[1] and (words or isinstance(message, Verdict)) else message

        cluster = ValidatedCluster(3, LENGTH, TEST, tamper=fall_silent)
        cluster.finish(updates(3))
        assert isinstance(cluster.server, collecting.Lost)
        assert "the updates were not checked: p01 did not finish in time" in cluster.server.reason
        for phase in cluster.phases.values():
            if isinstance(phase, Checking):
                for computation in phase.running.values():
                    computation.close()


class TestTheDealer:
    def test_gone_or_slow(self) -> None:
        cluster = ValidatedCluster(3, LENGTH, TEST, tamper=lambda s, m: None if s == DEALER else m)
        cluster.begin()
        cluster.share(updates(3))
        cluster.close()
        assert isinstance(cluster.server, collecting.Lost)
        assert cluster.server.reason == "dealer sent no triples for 3 members"

    def test_dealing_twice(self) -> None:
        cluster = ValidatedCluster(3, LENGTH, TEST)
        cluster.begin()
        (dealt, *_) = [message for _, message in cluster.said if isinstance(message, Dealt)]
        assert isinstance(cluster.server, AwaitingHeld)
        with pytest.raises(PeerError, match="dealer: sends triples for member 0 twice"):
            validated_server.on_dealt(cluster.server, DEALER, dealt, b"frame")
        frame = cluster.signed(DEALER, dealt)
        with pytest.raises(PeerError, match="the first ones are used"):
            cluster.deliver(NAMES[0], DealtTo(frame=frame))

    def test_somebody_else_deals(self) -> None:
        cluster = ValidatedCluster(3, LENGTH, TEST, tamper=lambda s, m: None if s == DEALER else m)
        cluster.begin()
        (dealt, *_) = [message for _, message in cluster.said if isinstance(message, Dealt)]
        assert isinstance(cluster.server, AwaitingHeld)
        with pytest.raises(PeerError, match="is not its dealer"):
            validated_server.on_dealt(cluster.server, NAMES[1], dealt, b"frame")
        with pytest.raises(PeerError, match="server: relays something else than the dealer's triples"):
            cluster.deliver(NAMES[0], DealtTo(frame=cluster.signed(NAMES[1], dealt)))

    def test_triples_of_another_attempt_do_not_open(self) -> None:
        """Used again: a box is bound to its attempt, and whoever gets an old one accuses the dealer."""
        old = ValidatedCluster(3, LENGTH, TEST)
        old.begin()
        (dealt, *_) = [message for _, message in old.said if isinstance(message, Dealt)]
        cluster = ValidatedCluster(3, LENGTH, TEST, seed=2, tamper=lambda s, m: None if s == DEALER else m)
        cluster.begin()
        cluster.deliver(NAMES[0], DealtTo(frame=cluster.signed(DEALER, dealt)))
        ((accuser, error),) = cluster.accused
        assert (accuser, error.culprit) == (NAMES[0], DEALER)

    def test_it_refuses_to_deal_for_fewer_than_three_or_strangers(self) -> None:
        cluster = ValidatedCluster(3, LENGTH, TEST)
        cluster.begin()
        (key_list,) = cluster.key_lists
        for members, adverts, reason in (
            (NAMES[:3], key_list.adverts[:2], "2 members, fewer than 3"),
            (("p00", "p01", "stranger"), key_list.adverts, "members that are not in the roster"),
            (NAMES[:3], (*key_list.adverts, key_list.adverts[0]), "a second or foreign key"),
        ):
            request = DealRequest(members=members, adverts=adverts)
            with pytest.raises(PeerError, match=reason):
                answer(request, cluster.setup.place, ROSTER, RUN, 64, InsecureSeededEntropy(1))
