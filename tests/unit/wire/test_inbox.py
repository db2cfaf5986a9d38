from __future__ import annotations

import contextlib
import itertools
import tracemalloc
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefl.base.crypto.identity import Identity
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import PeerError
from securefl.base.ids import EVERYONE, SERVER, PartyId
from securefl.protocol.kernel.events import Place
from securefl.protocol.messages.base import MAX_FRAME
from securefl.protocol.messages.control import RollCall
from securefl.protocol.messages.masking import MaskedInput
from securefl.protocol.messages.rounds import Reveal
from securefl.protocol.wire.codec import encode
from securefl.protocol.wire.envelope import MAX_PARTS, MIN_FRAME, MIN_PIECE, peek, seal_frame
from securefl.protocol.wire.inbox import (
    MAX_OPEN,
    MAX_SESSIONS,
    RECENT,
    REMEMBERED,
    Delivery,
    Inbox,
    open_relayed,
)
from tests.tiers import examples

from .ends import (
    BODY,
    HEADER,
    IDENTITIES,
    MAX_MESSAGE,
    PIECE,
    PLACE,
    ROSTER,
    RUN,
    A,
    B,
    inbox,
    outbox,
    sealed,
)

LONG = MaskedInput(vector=bytes(range(256)) * 60)
"""Travels in five frames of the smallest limit."""


def refusal(box: Inbox, frame: bytes, now: float = 0.0) -> PeerError:
    with pytest.raises(PeerError) as caught:
        box.accept(frame, "deliverer", now)
    return caught.value


def frames(message: MaskedInput = LONG, count: int = 1) -> list[list[bytes]]:
    sender = outbox()
    return [list(sender.frames(SERVER, PLACE, message)) for _ in range(count)]


def test_one_frame() -> None:
    frame = sealed()
    delivery = Delivery(A, PLACE, MaskedInput(vector=b"masked"), frame, peek(frame, "d").header.session)
    assert inbox().accept(frame, "d", 0.0) == delivery


@given(size=st.integers(0, 30_000), frame_limit=st.sampled_from([MIN_FRAME, MIN_FRAME + 1, MAX_FRAME]))
@settings(max_examples=examples(25), deadline=None)
def test_outbox_to_inbox(size: int, frame_limit: int) -> None:
    message = MaskedInput(vector=InsecureSeededEntropy(size).draw(size))
    parts = list(outbox(frame_limit=frame_limit).frames(SERVER, PLACE, message))
    assert all(len(part) <= frame_limit for part in parts)
    box = inbox()
    *before, last = [box.accept(part, "d", 0.0) for part in parts]
    assert before == [None] * (len(parts) - 1)
    session = peek(parts[0], "d").header.session
    assert last == Delivery(A, PLACE, message, parts[0] if len(parts) == 1 else b"", session)


@given(order=st.permutations(range(5)), repeated=st.integers(0, 4))
@settings(max_examples=examples(30), deadline=None)
def test_parts_in_any_order_with_duplicates(order: list[int], repeated: int) -> None:
    [parts] = frames()
    box = inbox()
    sequence = [parts[i] for i in order]
    sequence.insert(3, parts[order[repeated % 3]])
    delivered = [d for d in (box.accept(part, "d", 0.0) for part in sequence) if d is not None]
    assert [d.message for d in delivered] == [LONG]
    assert [box.accept(part, "d", 0.0) for part in parts] == [None] * 5


def test_interleaved_messages() -> None:
    many = frames(count=MAX_OPEN)
    box = inbox()
    got = [box.accept(part, "d", 0.0) for part in itertools.chain(*zip(*many, strict=True))]
    assert got[: 4 * MAX_OPEN] == [None] * (4 * MAX_OPEN)
    assert [d.message for d in got if d is not None] == [LONG] * MAX_OPEN


def test_senders_are_independent() -> None:
    box = inbox()
    assert box.accept(sealed(), "d", 0.0) is not None
    assert box.accept(sealed(by=B, sender="b"), "d", 0.0) is not None


def test_duplicates_are_dropped() -> None:
    box = inbox()
    assert box.accept(sealed(), "d", 0.0) is not None
    assert box.accept(sealed(), "d", 0.0) is None


def test_same_content_under_a_new_number_is_a_new_message() -> None:
    box = inbox()
    assert box.accept(sealed(), "d", 0.0) is not None
    assert box.accept(sealed(seq=1), "d", 0.0) is not None


def test_unknown_senders_are_the_deliverers_fault() -> None:
    stranger = Identity.generate(PartyId("stranger"), InsecureSeededEntropy(1))
    frame = seal_frame(msgspec.structs.replace(HEADER, sender="stranger"), BODY, stranger)
    error = refusal(inbox(), frame)
    assert error.culprit == "deliverer"
    assert "'stranger'" in error.reason


@pytest.mark.parametrize(
    "changes",
    [{"round": 2}, {"cluster": 0}, {"kind": "Release"}, {"recipient": EVERYONE}, {"attempt": 0}],
    ids=str,
)
def test_equivocation_in_one_frame(changes: dict[str, Any]) -> None:
    box = inbox(me=B)
    box.accept(sealed(recipient=B), "d", 0.0)
    error = refusal(box, sealed(**{"recipient": B, **changes}))
    assert error.culprit == A
    assert "two different messages" in error.reason


def test_equivocation_in_the_body() -> None:
    box = inbox()
    box.accept(sealed(), "d", 0.0)
    assert "two different messages" in refusal(box, sealed(encode(MaskedInput(vector=b"other")))).reason
    assert box.accept(sealed(), "d", 0.0) is None


@pytest.mark.parametrize(
    "changes",
    [{"round": 2}, {"kind": "Release"}, {"parts": 2}, {"parts": 4}, {"recipient": EVERYONE}],
    ids=str,
)
def test_parts_of_two_messages_never_meet(changes: dict[str, Any]) -> None:
    box = inbox(me=B)
    assert box.accept(sealed(PIECE, recipient=B, parts=3), "d", 0.0) is None
    error = refusal(box, sealed(PIECE, **{"recipient": B, "parts": 3, "part": 1, **changes}))
    assert error.culprit == A
    assert "two different messages" in error.reason


def test_fewer_parts_than_promised_at_first() -> None:
    """Found in review: a join over a part that had never come."""
    box = inbox()
    assert box.accept(sealed(PIECE, part=4, parts=6), "d", 0.0) is None
    assert refusal(box, sealed(PIECE, part=0, parts=2)).culprit == A


def test_a_completed_message_takes_no_more_parts() -> None:
    [parts] = frames()
    box = inbox()
    for part in parts:
        box.accept(part, "d", 0.0)
    session = outbox()._session
    extra = sealed(PIECE, session=session, part=5, parts=6)
    assert box.accept(extra, "d", 0.0) is None
    assert "two different messages" in refusal(box, sealed(PIECE, session=session, part=0, parts=6)).reason


def test_kind_of_the_message_must_be_that_of_the_envelope() -> None:
    error = refusal(inbox(), sealed(kind="Release"))
    assert (error.culprit, error.reason) == (A, "envelope says Release, message is MaskedInput")


def test_garbage_in_a_signed_frame_is_the_signers_fault() -> None:
    assert refusal(inbox(), sealed(b"\xc1")).culprit == A


def test_a_refused_frame_of_another_recipient_is_not_remembered() -> None:
    box = inbox()
    refusal(box, sealed(recipient=B))
    assert box.accept(sealed(), "d", 0.0) is not None


def test_restart_begins_a_new_session() -> None:
    box = inbox()
    for process in range(3):
        frame = next(outbox(process=process).frames(SERVER, PLACE, RollCall()))
        assert box.accept(frame, "d", 0.0) is not None
    old = list(outbox(process=0).frames(SERVER, PLACE, RollCall()))
    error = refusal(box, old[0])
    assert error.culprit == "broker"
    assert "earlier session" in error.reason


def test_unfinished_messages_end_with_their_session() -> None:
    box = inbox()
    [parts] = frames()
    for part in parts[:-1]:
        box.accept(part, "d", 0.0)
    box.accept(sealed(session=b"restart!"), "d", 0.0)
    assert refusal(box, parts[-1]).culprit == "broker"


def test_whoever_restarted_often_is_still_heard() -> None:
    """Earlier sessions are refused as far as they are remembered; the present one always counts."""
    box = inbox()
    for start in range(3 * MAX_SESSIONS):
        assert box.accept(sealed(session=start.to_bytes(8, "big")), "d", 0.0) is not None
        assert box.accept(sealed(session=start.to_bytes(8, "big"), seq=1), "d", 0.0) is not None
    last = 3 * MAX_SESSIONS - 1
    for start in range(last - MAX_SESSIONS, last):
        assert refusal(box, sealed(session=start.to_bytes(8, "big"), seq=2)).culprit == "broker"
    assert box.accept(sealed(session=last.to_bytes(8, "big"), seq=2), "d", 0.0) is not None
    assert len(box._senders[A].retired) == MAX_SESSIONS


def test_forgotten_numbers_are_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("securefl.protocol.wire.inbox.REMEMBERED", 60)
    box = inbox()
    for seq in range(62):
        assert box.accept(sealed(seq=seq), "d", 0.0) is not None
    for seq in (0, 1):
        assert "an old sequence number" in refusal(box, sealed(seq=seq)).reason
    for seq in range(2, 62):
        assert box.accept(sealed(seq=seq), "d", 0.0) is None
    assert box.accept(sealed(seq=2**62), "d", 0.0) is not None
    assert box.accept(sealed(seq=62), "d", 0.0) is not None


FRAMES = 100
"""Of a round: more than are remembered whatever round they are of."""


def of_round(round_: int) -> list[bytes]:
    """The frames of a sender that numbers them through; ``seq`` is ``FRAMES`` a round."""
    return [sealed(round=round_, seq=round_ * FRAMES + number) for number in range(FRAMES)]


def test_rounds_before_the_last_are_forgotten_and_stay_refused() -> None:
    box = inbox()
    rounds = [of_round(round_) for round_ in range(4)]
    for frames_ in rounds:
        assert all(box.accept(frame, "d", 0.0) is not None for frame in frames_)
    for frame in (*rounds[2], *rounds[3]):
        assert box.accept(frame, "d", 0.0) is None
    for frame in (*rounds[0], *rounds[1]):
        error = refusal(box, frame)
        assert error.culprit == A
        assert "an old sequence number" in error.reason
    [sender] = box._senders.values()
    assert len(sender.session.seen) == 2 * FRAMES


def test_another_message_under_a_number_of_the_last_two_rounds_is_named() -> None:
    box = inbox()
    for frame in itertools.chain.from_iterable(of_round(round_) for round_ in range(4)):
        box.accept(frame, "d", 0.0)
    other = encode(MaskedInput(vector=b"other"))
    for seq in range(2 * FRAMES, 4 * FRAMES):
        assert "two different messages" in refusal(box, sealed(other, round=3, seq=seq)).reason


def test_what_is_sent_again_as_a_connection_breaks_is_a_duplicate_whatever_its_round() -> None:
    """A broker has some frames under way, which of small messages may be those of many rounds."""
    box = inbox()
    sent = [sealed(round=number // 3, seq=number) for number in range(5 * RECENT)]
    for frame in sent:
        assert box.accept(frame, "d", 0.0) is not None
    assert [box.accept(frame, "d", 0.0) for frame in sent[-RECENT:]] == [None] * RECENT
    [sender] = box._senders.values()
    assert len(sender.session.seen) == RECENT


def test_words_about_earlier_rounds_or_none_outdate_nothing_of_the_present_one() -> None:
    """Found in review of the rule: a process that is back says so (round -1) on a topic of its own, and what
    it had sent of the round, under lower numbers, comes only after it; so may word of a round before."""
    box = inbox()
    for frame in itertools.chain.from_iterable(of_round(round_) for round_ in range(3)):
        box.accept(frame, "d", 0.0)
    late, now = of_round(3), of_round(7)
    for odd in (-1, 1, 2):
        assert box.accept(sealed(round=odd, seq=7 * FRAMES + FRAMES + odd + 1), "d", 0.0) is not None
    assert all(box.accept(frame, "d", 0.0) is not None for frame in now[:50])
    assert all(box.accept(frame, "d", 0.0) is not None for frame in late)
    assert all(box.accept(frame, "d", 0.0) is not None for frame in now[50:])
    assert [box.accept(frame, "d", 0.0) for frame in now] == [None] * FRAMES


def test_whoever_runs_ahead_loses_only_its_own_past() -> None:
    box = inbox()
    for sender, by in (("a", A), ("b", B)):
        for seq in range(FRAMES):
            box.accept(sealed(by=by, sender=sender, round=seq // 50, seq=seq), "d", 0.0)
    for ahead in (2**31 - 2, 2**31 - 1):
        assert box.accept(sealed(round=ahead, seq=FRAMES + ahead), "d", 0.0) is not None
    assert "an old sequence number" in refusal(box, sealed(round=0, seq=0)).reason
    assert box.accept(sealed(round=1, seq=FRAMES), "d", 0.0) is not None
    for seq in range(FRAMES):
        assert box.accept(sealed(by=B, sender="b", round=seq // 50, seq=seq), "d", 0.0) is None


def test_parts_of_a_message_that_is_over_are_not_put_together() -> None:
    """Half of it is forgotten: the other half is refused, and what there was is swept by the clock."""
    box = inbox(max_age=10.0)
    assert box.accept(sealed(PIECE, part=0, parts=3), "d", 0.0) is None
    for round_ in (2, 3):
        for seq in range(1, FRAMES):
            box.accept(sealed(round=round_, seq=(round_ - 2) * FRAMES + seq), "d", 0.0)
    for part in (0, 1, 2):
        assert "an old sequence number" in refusal(box, sealed(PIECE, part=part, parts=3)).reason
    assert box._held == len(PIECE)
    box.sweep(11.0)
    assert box._held == 0


def test_memory_of_a_thousand_rounds() -> None:
    box = inbox()
    for number in range(10):
        for seq in range(8):
            box.accept(sealed(round=number, seq=8 * number + seq), "d", 0.0)
    tracemalloc.start()
    try:
        for number in range(10, 1000):
            for seq in range(8):
                box.accept(sealed(round=number, seq=8 * number + seq), "d", 0.0)
        held, _peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 50_000


def becomes(box: Inbox, frame: bytes) -> str:
    """What becomes of a frame: ``delivered``, ``duplicate``, or the reason why it is refused."""
    try:
        return "duplicate" if box.accept(frame, "d", 0.0) is None else "delivered"
    except PeerError as error:
        return error.reason


@given(
    sent=st.lists(st.tuples(st.integers(0, 30), st.integers(-1, 6), st.booleans()), max_size=80),
    recent=st.integers(1, 5),
)
@settings(max_examples=examples(100), deadline=None)
def test_rules_of_numbers_and_rounds(sent: list[tuple[int, int, bool]], recent: int) -> None:
    """Whatever a sender does: no number is delivered twice, and what came since it began the round before its
    present one is a duplicate, or equivocates."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("securefl.protocol.wire.inbox.RECENT", recent)
        box = inbox()
        taken: dict[int, bytes] = {}
        rounds: list[list[int]] = [[]]
        latest = -1
        for seq, round_, other in sent:
            frame = sealed(encode(MaskedInput(vector=b"other")) if other else BODY, seq=seq, round=round_)
            remembered = {*itertools.chain(*rounds[-2:]), *[*taken][-recent:]}
            came = becomes(box, frame)
            if seq in remembered:
                assert came == "duplicate" if taken[seq] == frame else "two different messages" in came
            elif came == "delivered":
                assert seq not in taken
                taken[seq] = frame
                if round_ > latest:
                    latest = round_
                    rounds.append([])
                rounds[-1].append(seq)
            else:
                assert "an old sequence number" in came
                assert any(seq <= number for number in taken.keys() - remembered)


@given(
    seqs=st.lists(st.integers(0, 40), max_size=60),
)
@settings(max_examples=examples(40), deadline=None)
def test_no_number_is_delivered_twice(seqs: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("securefl.protocol.wire.inbox.REMEMBERED", 5)
        box = Inbox(RUN, SERVER, ROSTER, 2 * MIN_PIECE)
    delivered = []
    refused = []
    for seq in seqs:
        try:
            if box.accept(sealed(seq=seq), "d", 0.0) is not None:
                delivered.append(seq)
        except PeerError as error:
            refused.append(error.reason)
    assert all("an old sequence number" in reason for reason in refused)
    assert len(delivered) == len(set(delivered))


def test_max_message() -> None:
    vector = bytes(MAX_MESSAGE - len(encode(MaskedInput(vector=bytes(70_000)))) + 70_000)
    just, over = MaskedInput(vector=vector), MaskedInput(vector=vector + b"\x00")
    assert len(encode(just)) == MAX_MESSAGE
    for limit in (MIN_FRAME, MAX_FRAME):
        box = inbox()
        *_, last = [box.accept(f, "d", 0.0) for f in outbox(frame_limit=limit).frames(SERVER, PLACE, just)]
        assert last is not None
        *some, last_frame = outbox(process=1, frame_limit=limit).frames(SERVER, PLACE, over)
        assert [box.accept(frame, "d", 0.0) for frame in some] == [None] * len(some)
        assert "exceeds" in refusal(box, last_frame).reason


def test_claims_of_many_parts_cost_nothing() -> None:
    box = inbox()
    assert "exceeds" in refusal(box, sealed(PIECE, parts=MAX_PARTS)).reason
    assert "exceeds" in refusal(box, sealed(b"", part=MAX_PARTS - 1, parts=MAX_PARTS)).reason
    parts = MAX_MESSAGE // MIN_PIECE + 1
    assert box.accept(sealed(PIECE, parts=parts), "d", 0.0) is None
    assert "exceeds" in refusal(box, sealed(PIECE, seq=1, parts=parts + 1)).reason


def test_small_pieces_are_refused() -> None:
    box = inbox()
    assert "all but the last need 3840" in refusal(box, sealed(PIECE[1:], part=0, parts=2)).reason
    assert box.accept(sealed(b"", part=1, parts=2), "d", 0.0) is None


def test_a_refused_part_leaves_the_message_as_it_was() -> None:
    body = encode(LONG)
    pieces = [body[at : at + MIN_PIECE] for at in range(0, len(body), MIN_PIECE)]
    box = inbox()
    box.accept(sealed(pieces[0], parts=5), "d", 0.0)
    refusal(box, sealed(pieces[1], part=1, parts=5, round=9))
    refusal(box, sealed(bytes(MAX_MESSAGE), part=1, parts=5))
    got = [box.accept(sealed(pieces[part], part=part, parts=5), "d", 0.0) for part in range(1, 5)]
    assert got == [None, None, None, Delivery(A, PLACE, LONG, b"", b"session1")]


def test_old_incomplete_messages_are_given_up() -> None:
    [parts] = frames()
    box = inbox(max_age=10.0)
    for part in parts[:-1]:
        box.accept(part, "d", 0.0)
    assert box.accept(parts[-1], "d", 10.5) is None
    box = inbox(max_age=10.0)
    for part in parts[:-1]:
        box.accept(part, "d", 0.0)
    assert box.accept(parts[-1], "d", 10.0) is not None


def test_a_message_that_was_given_up_is_taken_when_it_is_sent_again() -> None:
    """Half of it came before a long outage, all of it after: none of its frames is a duplicate."""
    [parts] = frames()
    box = inbox()
    for part in parts[:3]:
        assert box.accept(part, "d", 0.0) is None
    box.sweep(1e6)
    *before, whole = [box.accept(part, "d", 1e6) for part in parts]
    assert before == [None] * 4
    assert whole == Delivery(A, PLACE, LONG, b"", peek(parts[0], "d").header.session)
    assert [box.accept(part, "d", 1e6) for part in parts] == [None] * 5


@pytest.mark.parametrize("message", [LONG, MaskedInput(vector=b"short")], ids=["parts", "whole"])
def test_a_refused_message_is_taken_once_more_when_it_is_sent_again(message: MaskedInput) -> None:
    """It had overtaken what it follows; in the order in which both are sent again it is in its place."""
    [parts] = [list(outbox().frames(SERVER, PLACE, message))]
    box = inbox()
    box.refuse_last()
    for _ in range(3):
        *_, whole = [box.accept(part, "d", 0.0) for part in parts]
        assert whole is not None
        box.refuse_last()
    *_, whole = [box.accept(part, "d", 0.0) for part in parts]
    assert whole is not None
    assert [box.accept(part, "d", 0.0) for part in parts] == [None] * len(parts), "it was not refused"


def test_a_refused_message_may_not_come_back_as_another_one() -> None:
    box = inbox()
    assert box.accept(sealed(), "d", 0.0) is not None
    box.refuse_last()
    assert "two different messages" in refusal(box, sealed(body=encode(MaskedInput(vector=b"other")))).reason


def test_a_sender_that_fell_silent_is_swept_by_the_clock() -> None:
    """Nobody sends anything any more: 59 MB a sender had stayed for ever at a million parameters."""
    box = inbox(max_age=10.0)
    seen = [(box.expires, box._held)]
    parts = MAX_MESSAGE // MIN_PIECE
    for seq, now in ((0, 1.0), (1, 4.0)):
        for part in range(parts - 1):
            box.accept(sealed(PIECE, seq=seq, part=part, parts=parts), "d", now)
    for now in (5.0, 11.0, 11.5, 99.0):
        box.sweep(now)
        seen.append((box.expires, box._held))
    one = (parts - 1) * MIN_PIECE
    assert seen == [(None, 0), (11.0, 2 * one), (11.0, 2 * one), (14.0, one), (None, 0)]


def test_all_senders_together_keep_to_a_budget() -> None:
    """Who holds most gives up first: one message of everybody is never in the way of a liar's sixteen."""
    box = inbox(budget=3 * MAX_MESSAGE)
    parts = MAX_MESSAGE // MIN_PIECE
    [honest] = frames()
    for piece in honest[:-1]:
        assert box.accept(piece, "d", 0.0) is None
    for seq in range(MAX_OPEN):
        for part in range(parts - 1):
            box.accept(sealed(PIECE, by=B, sender="b", seq=seq, part=part, parts=parts), "d", 0.0)
        assert box._held <= 3 * MAX_MESSAGE
    session = peek(honest[-1], "d").header.session
    assert box.accept(honest[-1], "d", 0.0) == Delivery(A, PLACE, LONG, b"", session)
    assert box._held == sum(one.held for one in box._senders.values()) <= 3 * MAX_MESSAGE


@given(data=st.data())
@settings(max_examples=examples(60), deadline=None)
def test_what_is_held_is_what_is_counted(data: st.DataObject) -> None:
    box = inbox(max_age=5.0, budget=data.draw(st.integers(1, 40)) * MIN_PIECE)
    now = 0.0
    for _ in range(data.draw(st.integers(1, 40))):
        now += data.draw(st.sampled_from([0.0, 1.0, 6.0]))
        by = data.draw(st.sampled_from([A, B]))
        frame = sealed(
            PIECE,
            by=by,
            sender=str(by),
            seq=data.draw(st.integers(0, 5)),
            part=data.draw(st.integers(0, 2)),
            parts=3,
            session=data.draw(st.sampled_from([b"sessionA", b"sessionB"])),
        )
        with contextlib.suppress(PeerError):
            box.accept(frame, "d", now)
        sizes = [one.size for sender in box._senders.values() for one in sender.session.open.values()]
        assert box._held == sum(sizes) == sum(sender.held for sender in box._senders.values())
        assert box._held <= box._budget
        assert (box.expires is None) <= (not sizes)


def test_the_oldest_incomplete_message_makes_room() -> None:
    many = frames(count=MAX_OPEN + 1)
    box = inbox()
    for parts in many:
        box.accept(parts[0], "d", 0.0)
    finished = [[box.accept(part, "d", 0.0) for part in parts[1:]][-1] for parts in many[1:]]
    assert all(delivery is not None for delivery in finished)
    assert [box.accept(part, "d", 0.0) for part in many[0][1:]] == [None] * 4, "it is not whole without"


def test_memory_of_a_sender_that_opens_and_never_finishes() -> None:
    box = inbox()
    parts = MAX_MESSAGE // MIN_PIECE
    tracemalloc.start()
    try:
        for seq in range(2 * MAX_OPEN):
            for part in range(parts - 1):
                box.accept(sealed(PIECE, seq=seq, part=part, parts=parts), "d", 0.0)
        held, _peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 1.5 * MAX_OPEN * MAX_MESSAGE


def test_memory_of_what_is_remembered() -> None:
    assert REMEMBERED * 400 < 10 * 2**20
    box = Inbox(RUN, SERVER, ROSTER, 2 * MIN_PIECE)
    box._max_seen = 50
    for seq in range(120):
        box.accept(sealed(seq=seq), "d", 0.0)
    [sender] = box._senders.values()
    assert len(sender.session.seen) == 50


def test_nobody_but_the_roster_takes_memory() -> None:
    box = inbox()
    for name in ("x", "y", "b"):
        refusal(box, sealed(sender=name))
    assert not box._senders


def relayed(frame: bytes, recipient: PartyId = SERVER) -> Delivery:
    return open_relayed(frame, ROSTER, RUN, recipient, SERVER)


def test_relayed_frames() -> None:
    frame = sealed(encode(Reveal(nonce=bytes(32))), kind="Reveal")
    assert relayed(frame) == Delivery(A, PLACE, Reveal(nonce=bytes(32)), frame)


@pytest.mark.parametrize(
    ("frame", "culprit"),
    [
        pytest.param(b"", SERVER, id="nothing"),
        pytest.param(sealed()[:-1] + b"?", SERVER, id="altered"),
        pytest.param(sealed(by=B), SERVER, id="in another's name"),
        pytest.param(sealed(sender="stranger"), SERVER, id="not on the roster"),
        pytest.param(sealed(run="other"), SERVER, id="of another run"),
        pytest.param(sealed(recipient=B), SERVER, id="to another recipient"),
        pytest.param(sealed(recipient=EVERYONE), SERVER, id="to everyone"),
        pytest.param(sealed(PIECE, parts=2), SERVER, id="a part"),
        pytest.param(sealed(b"\xc1"), A, id="signed garbage"),
        pytest.param(sealed(kind="Reveal"), A, id="signed with another kind"),
    ],
)
def test_bad_relayed_frames(frame: bytes, culprit: str) -> None:
    with pytest.raises(PeerError) as caught:
        relayed(frame)
    assert caught.value.culprit == culprit


def test_place_of_a_delivery_is_the_senders() -> None:
    place = Place(-1, -1, -1, 0)
    frame = next(outbox(SERVER).frames(EVERYONE, place, RollCall()))
    delivery = inbox(me=B).accept(frame, "d", 0.0)
    assert delivery == Delivery(SERVER, place, RollCall(), frame, peek(frame, "d").header.session)
    assert IDENTITIES[SERVER].public.name == SERVER
