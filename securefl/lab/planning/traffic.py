"""Bytes of a party's frames in one round, from real messages, encoded and framed.

A run may differ by longer numbers in headers (rounds above 127), by shorter boxes for last members of
clusters, and by retries, dropouts and smaller frames for some brokers.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass

from securefl.base import crypto
from securefl.base.ids import DEALER, EVERYONE
from securefl.lab.planning.frames import Cohort, Frames, body_of
from securefl.protocol import messages, secure_sum, wire

_HASH = bytes(32)
_WORD = 8
"""Bytes of a word of a validated sum."""
_ADVERT = messages.KeyAdvert(mask_key=_HASH, box_key=_HASH, seed_digest=_HASH, shares_root=_HASH)
_HELD, _NONCE = messages.Held(lists=_HASH, shares=_HASH), messages.SketchNonce(nonce=_HASH)


def member_says(cohort: Cohort, frames: Frames) -> Iterator[tuple[str, int]]:
    """Yield kind and bytes of the frames that a member sends in its instance."""
    yield frames.up(_ADVERT)
    if cohort.kind == "validated":
        yield from _up(frames, _shares(cohort))
        yield frames.up(_HELD)
        yield frames.up(_NONCE)
        yield from _up(frames, _exchanges(cohort))
        yield frames.up(_verdict(cohort))
    yield frames.up(messages.MaskedInput(vector=b""), cohort.parameters * cohort.word)
    yield frames.up(receipt_of(cohort))


def member_hears(cohort: Cohort, frames: Frames) -> Iterator[tuple[str, int]]:
    """Yield kind and bytes of the frames that the server sends to one member alone."""
    m, to = cohort.members, cohort.party
    yield frames.down(to, messages.KeyList(adverts=(frames.signed_size(_ADVERT),) * m))
    if cohort.kind == "validated":
        # Each member is the first to hold one other's update, and the first evaluator of one other.
        yield from _down(cohort, frames, _shares(cohort))
        yield frames.down(to, messages.DealtTo(frame=frames.signed_size(_dealt(cohort), DEALER)))
        yield frames.down(to, messages.HeldList(receipts=(frames.signed_size(_HELD),) * m))
        yield frames.down(to, messages.SketchNonces(nonces=(frames.signed_size(_NONCE),) * m))
        yield from _down(cohort, frames, _exchanges(cohort))
        yield frames.down(to, messages.Verdicts(verdicts=(frames.signed_size(_verdict(cohort)),) * m))


def seed_released(cohort: Cohort, reclustering: int) -> messages.InstanceSeed:
    """Return a member's release for one instance."""
    return messages.InstanceSeed(
        reclustering=reclustering, cluster=cohort.clusters // 2, attempt=0, seed=_HASH
    )


def _up(frames: Frames, boxes: Iterator[tuple[messages.PeerBox, int, int]]) -> Iterator[tuple[str, int]]:
    for message, bulk, times in boxes:
        kind, size = frames.up(message, bulk)
        yield kind, times * size


def _down(
    cohort: Cohort, frames: Frames, boxes: Iterator[tuple[messages.PeerBox, int, int]]
) -> Iterator[tuple[str, int]]:
    for message, bulk, times in boxes:
        kind, size = frames.down(cohort.party, message, bulk)
        yield kind, times * size


def _shares(cohort: Cohort) -> Iterator[tuple[messages.PeerBox, int, int]]:
    """Yield a member's shares of its update: boxes without contents, their bytes, their number."""
    message = messages.PeerBox(peer=cohort.members // 2, number=secure_sum.SHARE_NUMBER, box=b"")
    yield message, crypto.OVERHEAD + body_of(messages.UpdateShareBox(), _WORD * cohort.parameters), 1
    yield message, crypto.OVERHEAD + body_of(messages.UpdateShareBox(seed=_HASH)), cohort.members - 2


def _exchanges(cohort: Cohort) -> Iterator[tuple[messages.PeerBox, int, int]]:
    """Yield the same for all its checks, each of another member's update with all remaining members."""
    m = cohort.members
    message = messages.PeerBox(peer=m // 2, number=m // 2 * secure_sum.CHECK_NUMBERS, box=b"")
    requests = secure_sum.requests_of(m - 1, cohort.projections)
    opened = [((2 if one.kind == "and" else 1), one.size) for one in requests]
    for tensors, size in (*opened, (1, 1)):
        words = messages.CheckWords(payloads=(bytes(_WORD * size),) * tensors)
        yield message, crypto.OVERHEAD + body_of(words), (m - 1) * (m - 2)


def _verdict(cohort: Cohort) -> messages.Verdict:
    return messages.Verdict(accepted=tuple(range(cohort.members - 1)))


def _dealt(cohort: Cohort) -> messages.Dealt:
    correction = _correction(cohort.members, cohort.projections)
    plain = len(wire.encode(_deals(cohort.members, correction)))
    return messages.Dealt(member=cohort.members // 2, key=_HASH, box=bytes(crypto.OVERHEAD + plain))


def _deals(members: int, correction: int) -> messages.Deals:
    """Return a member's triples of all checks; it is the first evaluator in one of them."""
    first = messages.OwnerDeal(owner=0, seed=_HASH, correction=bytes(correction))
    rest = messages.OwnerDeal(owner=0, seed=_HASH, correction=b"")
    return messages.Deals(checks=(first, *(rest,) * (members - 2)))


def _correction(members: int, projections: int) -> int:
    return _WORD * sum(request.size for request in secure_sum.requests_of(members - 1, projections))


_HASH, _SHARE = bytes(32), bytes(33)


@dataclass(frozen=True, slots=True)
class PlannedTraffic:
    """Bytes of frames, signatures and headers included."""

    sent: int
    received: int

    @property
    def total(self) -> int:
        """Both directions."""
        return self.sent + self.received


@functools.lru_cache(maxsize=4096)
def traffic(cohort: Cohort) -> PlannedTraffic:
    """Return a party's bytes in one round without faults."""
    sent = sum(size for _, size in party_says(cohort))
    return PlannedTraffic(sent, sum(size for _, size in server_says(cohort)))


def party_says(cohort: Cohort) -> Iterator[tuple[str, int]]:
    """Yield kind and bytes of the frames that a party sends in one round."""
    whole, instances = Frames(cohort), [Frames(cohort, r) for r in range(cohort.reclusterings)]
    yield whole.up(_hello(cohort))
    yield whole.up(_reveal(cohort))
    for frames in instances:
        if cohort.kind != "masking":
            yield from member_says(cohort, frames)
            continue
        yield frames.up(advert_of(cohort))
        yield frames.up(_boxes(cohort))
        yield frames.up(messages.MaskedInput(vector=b""), cohort.parameters * cohort.word)
        yield frames.up(receipt_of(cohort))
    if cohort.quorum is not None:
        yield whole.up(_ENDORSE)
    yield whole.up(_release(cohort))


def server_says(cohort: Cohort) -> Iterator[tuple[str, int]]:
    """Yield kind and bytes of the frames that the server sends to a party, or to all, in one round."""
    whole, instances = Frames(cohort), [Frames(cohort, r) for r in range(cohort.reclusterings)]
    n, m = cohort.parties, cohort.members
    yield whole.down(EVERYONE, messages.ModelAnnounce(params=b""), cohort.parameters * 4)
    yield whole.down(EVERYONE, messages.Invite(model_digest=_HASH, config_digest=_HASH))
    yield whole.down(EVERYONE, _announce(cohort, whole))
    yield whole.down(EVERYONE, messages.Reveals(reveals=(whole.signed_size(_reveal(cohort)),) * n))
    for frames in instances:
        if cohort.kind != "masking":
            yield from member_hears(cohort, frames)
            continue
        yield frames.down(
            cohort.party, messages.KeyList(adverts=(frames.signed_size(advert_of(cohort)),) * m)
        )
        # All boxes for one member hold the path to its place in the others' trees; the first has the longest.
        box = bytes(_box_sizes(cohort)[0])
        yield frames.down(cohort.party, messages.BoxList(boxes=tuple((index, box) for index in range(1, m))))
    yield whole.down(cohort.party, _freeze(cohort, instances))
    if cohort.quorum is not None:
        # The server waits for all parties, and relays all endorsements.
        yield whole.down(EVERYONE, messages.Certificate(endorsements=(whole.signed_size(_ENDORSE),) * n))


def receipt_of(cohort: Cohort) -> messages.Receipt:
    """Return a member's receipt; in verified rounds it also states the vector."""
    if cohort.verifiers is None:
        return messages.Receipt(lists_digest=_HASH)
    return messages.VectorReceipt(lists_digest=_HASH, input_digest=_HASH)


def claim_of(cohort: Cohort) -> messages.RoundClaim:
    """Return the server's claim about a round's result."""
    sums = (_HASH,) * cohort.sums
    return messages.RoundClaim(
        round=cohort.round, previous=_HASH, statement=_HASH, sums=sums, state=_HASH, model=_HASH
    )


def _reveal(cohort: Cohort) -> messages.Reveal:
    return (
        messages.Reveal(nonce=_HASH)
        if cohort.verifiers is None
        else messages.ChainedReveal(nonce=_HASH, root=_HASH)
    )


def _announce(cohort: Cohort, whole: Frames) -> messages.Announce:
    hellos = (whole.signed_size(_hello(cohort)),) * cohort.parties
    if cohort.verifiers is None:
        return messages.Announce(hellos=hellos)
    attests = (whole.signed_size(messages.Attest(root=_HASH)),) * cohort.attests
    return messages.ChainedAnnounce(
        hellos=hellos, claim=claim_of(cohort), attests=attests, signature=bytes(wire.SIGNATURE)
    )


def _freeze(cohort: Cohort, instances: list[Frames]) -> messages.Freeze:
    receipt = receipt_of(cohort)
    survivors = (cohort.party,) * cohort.parties
    receipts = tuple(frames.signed_size(receipt) for frames in instances for _ in range(cohort.members - 1))
    if cohort.verifiers is None:
        return messages.Freeze(survivors=survivors, attempts=(), receipts=receipts)
    commitments = (_HASH,) * cohort.sums
    return messages.BindingFreeze(
        survivors=survivors, attempts=(), receipts=receipts, commitments=commitments
    )


_ENDORSE = messages.Endorse(statement=_HASH, lists=_HASH, ledger_head=_HASH)


def _hello(cohort: Cohort) -> messages.Hello:
    limits = messages.Limits(
        min_survivors=cohort.min_survivors,
        k_anonymity=cohort.k,
        leakage="veto",
        colluders=0,
        leverage=messages.MILLION,
    )
    return messages.Hello(
        samples=cohort.samples, model_digest=_HASH, config_digest=_HASH, commitment=_HASH, limits=limits
    )


def advert_of(cohort: Cohort) -> messages.KeyAdvert:
    """Return a member's advert."""
    if cohort.kind != "masking":
        return _ADVERT
    return messages.KeyAdvert(
        mask_key=_HASH,
        box_key=_HASH,
        seed_digest=_HASH,
        shares_root=_HASH,
        noise_digests=(_HASH,) * cohort.components,
    )


def _box_sizes(cohort: Cohort) -> list[int]:
    """Return the bytes of a box by holder: paths in the tree of shares differ in length."""
    return [
        crypto.OVERHEAD
        + len(
            wire.encode(
                messages.SharePair(
                    seed_share=_SHARE, key_share=_SHARE, path=path, noise_shares=(_SHARE,) * cohort.components
                )
            )
        )
        for path in crypto.merkle_paths([_HASH] * cohort.members)
    ]


def _boxes(cohort: Cohort) -> messages.ShareBoxes:
    digests = (_HASH,) * (2 + cohort.components)
    # Boxes for all other members: the left-out last one may be shorter.
    boxes = tuple((holder, bytes(size)) for holder, size in enumerate(_box_sizes(cohort)[:-1]))
    return messages.ShareBoxes(boxes=boxes, share_digests=(digests,) * cohort.members)


def _release(cohort: Cohort) -> messages.Release:
    shares = tuple((index, _SHARE) for index in range(cohort.members))
    instances = tuple(
        messages.InstanceShares(
            reclustering=r,
            cluster=cohort.clusters // 2,
            attempt=0,
            seed_shares=shares,
            key_shares=(),
            noise_shares=shares if cohort.components else (),
        )
        if cohort.kind == "masking"
        else seed_released(cohort, r)
        for r in range(cohort.reclusterings)
    )
    return messages.Release(
        sealed=bytes(crypto.SEAL_OVERHEAD + len(wire.encode(messages.ReleasedShares(instances=instances))))
    )
