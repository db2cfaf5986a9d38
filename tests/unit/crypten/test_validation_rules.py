"""Rules of validated sums, one by one: whose word counts, about what, and in which place."""

from __future__ import annotations

import pytest

from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import PeerError, UsageError
from securefl.base.ids import DEALER, SERVER, Instance, PartyId
from securefl.protocol.kernel.effects import Reject, Send
from securefl.protocol.kernel.events import Place, Received
from securefl.protocol.messages.crypten import PeerBox
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.messages.validation import DealRequest, Dealt, DealtTo, Held, Verdict
from securefl.protocol.round.dealer.machine import DealerMachine
from securefl.protocol.secure_sum.crypten import member
from securefl.protocol.secure_sum.crypten.server import check_seed
from securefl.protocol.secure_sum.validated import member as validated_member
from securefl.protocol.secure_sum.validated.dealer import answer, deal_attempt, read_deal
from securefl.protocol.secure_sum.validated.phases import Advertised, Gathering
from securefl.protocol.secure_sum.validated.relayed import read_all, receipts_of
from securefl.protocol.secure_sum.validated.server import AwaitingHeld, CheckedShares, on_share
from securefl.protocol.secure_sum.validated.sketch import sketch_seed
from securefl.protocol.secure_sum.validated.validation import SHARE_NUMBER, accepted_by, validated_lists
from securefl.protocol.wire.outbox import Outbox
from tests.contracts.test_validated_sum import LENGTH, TEST, updates
from tests.contracts.validated_sums import IDENTITIES, NAMES, ROSTER, RUN, ValidatedCluster
from tests.simulation.test_validated import validated
from tests.unit.crypten.driving import drive
from tests.unit.crypten.test_check import CASES, sessions
from tests.unit.crypten.test_check import TEST as CHECK


def signed(sender: PartyId, place: Place, message: AnyMessage) -> bytes:
    outbox = Outbox(RUN, IDENTITIES[sender], InsecureSeededEntropy(5))
    (frame,) = outbox.frames(SERVER, place, message)
    return frame


class TestVerdicts:
    def test_all_others_have_to_accept_and_the_own_word_does_not_count(self) -> None:
        def sets(*said: set[int]) -> dict[int, frozenset[int]]:
            return {number: frozenset(one) for number, one in enumerate(said)}

        assert accepted_by(sets({1, 2}, {0, 2}, {0, 1})) == {0, 1, 2}
        assert accepted_by(sets({1, 2}, {0, 2}, {0})) == {0, 2}
        assert accepted_by(sets({0, 1, 2}, {2}, {1})) == {1, 2}
        assert accepted_by(sets({1}, {2}, {0})) == set()

    def test_receipts_of_the_sum_say_whom_it_holds(self) -> None:
        lists = {validated_lists(b"l", frozenset(of)) for of in ((0, 1, 2), (0, 1), (0, 2))}
        assert len(lists | {validated_lists(b"m", frozenset({0, 1}))}) == 4


class TestRelayedStatements:
    SETUP = ValidatedCluster(3, LENGTH, TEST).setup
    LISTS = b"l" * 32

    def _held(self, name: PartyId, *, attempt: int = 0, lists: bytes = LISTS, shares: int = 0) -> bytes:
        place = self.SETUP.place._replace(attempt=attempt)
        return signed(name, place, Held(lists=lists, shares=bytes([shares]) * 32))

    def _digest(self, *frames: bytes) -> bytes:
        return receipts_of(self.SETUP, (0, 1, 2), self.LISTS, frames, ROSTER)

    def test_of_this_attempt_by_each_member_once_and_under_our_lists(self) -> None:
        good = [self._held(name) for name in NAMES[:3]]
        assert self._digest(*good) == self._digest(*good[::-1])
        for frames, reason in (
            ([*good[:2], self._held(NAMES[2], attempt=1)], "something else than a Held"),
            (
                [*good[:2], signed(NAMES[2], self.SETUP.place, Verdict(accepted=()))],
                "something else than a Held",
            ),
            ([*good, self._held(NAMES[1], shares=1)], "two messages Held of p01"),
            (good[:2], "other members than those on the key list"),
            (
                [*good[:2], self._held(NAMES[2], lists=bytes(32))],
                "sends p02 another key list than this party",
            ),
        ):
            with pytest.raises(PeerError, match=reason) as caught:
                self._digest(*frames)
            assert caught.value.culprit == SERVER

    def test_they_are_returned_with_their_frames(self) -> None:
        frames = [self._held(name) for name in NAMES[:3]]
        said = read_all(self.SETUP, (0, 1, 2), frames, Held, ROSTER)
        assert [said[k][1] for k in range(3)] == frames


def test_the_sketch_depends_on_the_nonce_of_each_member() -> None:
    at, names = Instance(RUN, 0, 0, 0, 0), NAMES[:3]
    nonces = dict.fromkeys(names, bytes(32))
    seeds = {sketch_seed({**nonces, name: b"x" * 32}, at, b"r") for name in names}
    assert len(seeds | {sketch_seed(nonces, at, b"r")}) == 4


def test_an_opened_word_that_is_no_bit_fails_the_check() -> None:
    """The evaluator that deviates turns other bits of its last word than the one that is opened."""
    last = [0, 0]

    def garble(sender: int, payload: bytes) -> bytes:
        last[sender] += 1
        is_the_bit = last[sender] == 1 + 2 * 20 + 1
        return bytes([payload[0] ^ 4]) + payload[1:] if sender == 1 and is_the_bit else payload

    with pytest.raises(PeerError, match="does not open to a bit"):
        drive(sessions(CASES["zeros"], 2, CHECK), garble)


class TestDeals:
    def test_a_member_takes_no_second_one_once_it_has_shared(self) -> None:
        cluster = ValidatedCluster(3, LENGTH, TEST)
        cluster.begin()
        phase = cluster.phases[NAMES[0]]
        assert isinstance(phase, Gathering)
        step = validated_member.share_update(phase, updates(3)[NAMES[0]], InsecureSeededEntropy(1))
        assert isinstance(step.phase, Gathering)
        (dealt, *_) = [message for _, message in cluster.said if isinstance(message, Dealt)]
        with pytest.raises(PeerError, match="the first ones are used"):
            validated_member.on_deal(step.phase, DealtTo(frame=cluster.signed(DEALER, dealt)), ROSTER)

    def test_of_other_checks_are_refused(self) -> None:
        """Three members are dealt for; the fourth one, who is listed, would be in no check."""
        cluster = ValidatedCluster(4, LENGTH, TEST)
        boxes = {}
        for index, name in enumerate(NAMES[:4]):
            tests = tuple(cluster.tests[member] for member in NAMES[:4])
            phase, _ = validated_member.advertise(
                cluster.setup, name, cluster.validation, tests, cluster.of(name)
            )
            assert isinstance(phase, Advertised)
            boxes[index] = phase.base.box
        at, entropy = cluster.setup.instance, InsecureSeededEntropy(1)
        keys = {index: box.public for index, box in boxes.items()}
        for dealt_for, fits in (({0, 1, 2, 3}, True), ({0, 1, 2}, False)):
            some = {index: keys[index] for index in dealt_for}
            message = deal_attempt(at, NAMES[:4], some, b"k" * 32, 64, entropy)[1]

            def read(message: Dealt = message) -> object:
                listed = (0, 1, 2, 3)
                return read_deal(message, at, NAMES[:4], listed, b"k" * 32, 64, 1, boxes[1], DEALER)

            if fits:
                assert read()
                continue
            with pytest.raises(PeerError, match="triples for other checks") as caught:
                read()
            assert caught.value.culprit == DEALER

    def test_under_adverts_of_another_attempt_are_not_made(self) -> None:
        cluster = ValidatedCluster(3, LENGTH, TEST)
        cluster.begin()
        (key_list,) = cluster.key_lists
        request = DealRequest(members=NAMES[:3], adverts=key_list.adverts)
        place = cluster.setup.place
        assert len(answer(request, place, ROSTER, RUN, 64, InsecureSeededEntropy(1))) == 3
        with pytest.raises(PeerError, match="something else than keys of this attempt"):
            answer(request, place._replace(attempt=1), ROSTER, RUN, 64, InsecureSeededEntropy(1))

    def test_are_made_once_for_an_attempt(self) -> None:
        cluster = ValidatedCluster(3, LENGTH, TEST)
        cluster.begin()
        (key_list,) = cluster.key_lists
        request = DealRequest(members=NAMES[:3], adverts=key_list.adverts)
        machine = DealerMachine(RUN, validated(3), ROSTER, InsecureSeededEntropy(1))
        phase, _ = machine.start(0.0)
        event: Received[AnyMessage] = Received(1.0, SERVER, cluster.setup.place, request, b"frame")
        after, effects = machine.step(phase, event)
        assert sum(isinstance(effect, Send) for effect in effects) == 3
        again, effects = machine.step(after, event)
        assert again is after
        (effect,) = effects
        assert isinstance(effect, Reject)
        assert "each is used once" in effect.reason


class TestBlinds:
    @staticmethod
    def _submitted() -> ValidatedCluster:
        cluster = ValidatedCluster(3, LENGTH, TEST)
        cluster.finish(updates(3))
        return cluster

    def test_are_released_for_all_of_a_sum_or_not_at_all(self) -> None:
        phase = self._submitted().phases[NAMES[0]]
        assert isinstance(phase, member.Submitted)
        assert member.seed_for(phase, NAMES[:3]).seed == phase.seed
        for survivors in (NAMES[:2], NAMES[1:3], ()):
            with pytest.raises(UsageError, match="is not a survivor"):
                member.seed_for(phase, survivors)

    def test_are_taken_off_by_their_own_seeds_only(self) -> None:
        cluster = self._submitted()
        assert isinstance(cluster.server, CheckedShares)
        one, two = (cluster.phases[name] for name in NAMES[:2])
        assert isinstance(one, member.Submitted)
        assert isinstance(two, member.Submitted)
        seeds = [member.seed_for(phase, NAMES[:3]) for phase in (one, two)]
        check_seed(cluster.server, NAMES[0], seeds[0])
        with pytest.raises(PeerError, match="released another seed than it advertised") as caught:
            check_seed(cluster.server, NAMES[0], seeds[1])
        assert caught.value.culprit == NAMES[0]


@pytest.mark.parametrize("peer", [0, 3, 7])
def test_the_server_relays_between_two_listed_members_only(peer: int) -> None:
    cluster = ValidatedCluster(4, LENGTH, TEST)
    cluster.begin(NAMES[:3])
    assert isinstance(cluster.server, AwaitingHeld)
    with pytest.raises(
        PeerError, match=f"sends to member {peer}, which is not another listed member"
    ) as caught:
        on_share(cluster.server, NAMES[0], PeerBox(peer=peer, number=1, box=bytes(40)))
    assert caught.value.culprit == NAMES[0]
    _, (to, passed) = on_share(cluster.server, NAMES[0], PeerBox(peer=1, number=SHARE_NUMBER, box=bytes(40)))
    assert (to, passed.peer) == (NAMES[1], 0)
