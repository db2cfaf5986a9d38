"""What CrypTen's sums say in one instance, plain and validated, beside the round around them.

A plain sum has adverts, a blinded share and the seed of a blind. A validated one (ADR 0024) has each update
as a share to every other member, and for each of its m - 1 checks as many exchanges among m - 1 evaluators as
the check asks for tuples, and one: an AND opens two masked words for each of its own, a square one (Beaver
1991).
"""

from __future__ import annotations

from collections.abc import Iterator

from securefl.base.crypto import OVERHEAD
from securefl.base.ids import DEALER
from securefl.lab.planning.frames import Cohort, Frames, body_of
from securefl.protocol.messages import (
    CheckWords,
    Deals,
    Dealt,
    DealtTo,
    Held,
    HeldList,
    InstanceSeed,
    KeyAdvert,
    KeyList,
    MaskedInput,
    OwnerDeal,
    PeerBox,
    Receipt,
    SketchNonce,
    SketchNonces,
    UpdateShareBox,
    Verdict,
    Verdicts,
)
from securefl.protocol.secure_sum import CHECK_NUMBERS, SHARE_NUMBER, requests_of
from securefl.protocol.wire import encode

_HASH = bytes(32)
_WORD = 8
"""Bytes of a word of a validated sum."""
_ADVERT = KeyAdvert(mask_key=_HASH, box_key=_HASH, seed_digest=_HASH, shares_root=_HASH)
_HELD, _NONCE = Held(lists=_HASH, shares=_HASH), SketchNonce(nonce=_HASH)


def member_says(cohort: Cohort, frames: Frames) -> Iterator[tuple[str, int]]:
    """Kinds of messages that a member sends in its instance, with the bytes of their frames."""
    yield frames.up(_ADVERT)
    if cohort.kind == "validated":
        yield from _up(frames, _shares(cohort))
        yield frames.up(_HELD)
        yield frames.up(_NONCE)
        yield from _up(frames, _exchanges(cohort))
        yield frames.up(_verdict(cohort))
    yield frames.up(MaskedInput(vector=b""), cohort.parameters * cohort.word)
    yield frames.up(Receipt(lists_digest=_HASH))


def member_hears(cohort: Cohort, frames: Frames) -> Iterator[tuple[str, int]]:
    """Kinds of messages that the server sends to one member, but for what all parties get."""
    m, to = cohort.members, cohort.party
    yield frames.down(to, KeyList(adverts=(frames.signed(_ADVERT),) * m))
    if cohort.kind == "validated":
        # Each member is the first to hold one other's update, and the first evaluator of one other.
        yield from _down(cohort, frames, _shares(cohort))
        yield frames.down(to, DealtTo(frame=frames.signed(_dealt(cohort), DEALER)))
        yield frames.down(to, HeldList(receipts=(frames.signed(_HELD),) * m))
        yield frames.down(to, SketchNonces(nonces=(frames.signed(_NONCE),) * m))
        yield from _down(cohort, frames, _exchanges(cohort))
        yield frames.down(to, Verdicts(verdicts=(frames.signed(_verdict(cohort)),) * m))


def seed_released(cohort: Cohort, reclustering: int) -> InstanceSeed:
    """What a member releases of one instance."""
    return InstanceSeed(reclustering=reclustering, cluster=cohort.clusters // 2, attempt=0, seed=_HASH)


def _up(frames: Frames, boxes: Iterator[tuple[PeerBox, int, int]]) -> Iterator[tuple[str, int]]:
    for message, bulk, times in boxes:
        kind, size = frames.up(message, bulk)
        yield kind, times * size


def _down(
    cohort: Cohort, frames: Frames, boxes: Iterator[tuple[PeerBox, int, int]]
) -> Iterator[tuple[str, int]]:
    for message, bulk, times in boxes:
        kind, size = frames.down(cohort.party, message, bulk)
        yield kind, times * size


def _shares(cohort: Cohort) -> Iterator[tuple[PeerBox, int, int]]:
    """A member's shares of its update: boxes without contents, bytes of these, and how many of them."""
    message = PeerBox(peer=cohort.members // 2, number=SHARE_NUMBER, box=b"")
    yield message, OVERHEAD + body_of(UpdateShareBox(), _WORD * cohort.parameters), 1
    yield message, OVERHEAD + body_of(UpdateShareBox(seed=_HASH)), cohort.members - 2


def _exchanges(cohort: Cohort) -> Iterator[tuple[PeerBox, int, int]]:
    """The same of all its checks: one of each other member, with all but that one and itself."""
    m = cohort.members
    message = PeerBox(peer=m // 2, number=m // 2 * CHECK_NUMBERS, box=b"")
    requests = requests_of(m - 1, cohort.projections)
    opened = [((2 if one.kind == "and" else 1), one.size) for one in requests]
    for tensors, size in (*opened, (1, 1)):
        words = CheckWords(payloads=(bytes(_WORD * size),) * tensors)
        yield message, OVERHEAD + body_of(words), (m - 1) * (m - 2)


def _verdict(cohort: Cohort) -> Verdict:
    return Verdict(accepted=tuple(range(cohort.members - 1)))


def _dealt(cohort: Cohort) -> Dealt:
    correction = _correction(cohort.members, cohort.projections)
    plain = len(encode(_deals(cohort.members, correction)))
    return Dealt(member=cohort.members // 2, key=_HASH, box=bytes(OVERHEAD + plain))


def _deals(members: int, correction: int) -> Deals:
    """One member's triples of all checks; it is the first evaluator in one of them."""
    first = OwnerDeal(owner=0, seed=_HASH, correction=bytes(correction))
    rest = OwnerDeal(owner=0, seed=_HASH, correction=b"")
    return Deals(checks=(first, *(rest,) * (members - 2)))


def _correction(members: int, projections: int) -> int:
    return _WORD * sum(request.size for request in requests_of(members - 1, projections))
