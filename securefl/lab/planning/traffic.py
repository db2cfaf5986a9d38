"""Bytes of a party's frames in one round, from messages of the real types, encoded and framed as they travel.

Nothing is estimated: lengths do not depend on contents. What may differ in a run is the length of numbers in
headers (rounds above 127, sequence numbers), shorter boxes for the last members of some clusters, and what
faults add: retries, dropouts, smaller frames for some brokers.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

from securefl.base.crypto import OVERHEAD, SEAL_OVERHEAD, merkle_paths
from securefl.base.ids import EVERYONE
from securefl.lab.planning.frames import Cohort, Frames
from securefl.lab.planning.traffic_crypten import member_hears, member_says, seed_released
from securefl.protocol.messages import (
    MILLION,
    Announce,
    BoxList,
    Certificate,
    Endorse,
    Freeze,
    Hello,
    InstanceShares,
    Invite,
    KeyAdvert,
    KeyList,
    Limits,
    MaskedInput,
    ModelAnnounce,
    Receipt,
    Release,
    ReleasedShares,
    Reveal,
    Reveals,
    ShareBoxes,
    SharePair,
)
from securefl.protocol.wire import encode

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
    """One party's frames of one round without faults."""
    sent = sum(size for _, size in party_says(cohort))
    return PlannedTraffic(sent, sum(size for _, size in server_says(cohort)))


def party_says(cohort: Cohort) -> Iterator[tuple[str, int]]:
    """Kinds of messages that a party sends in one round, with the bytes of their frames."""
    whole, instances = Frames(cohort), [Frames(cohort, r) for r in range(cohort.reclusterings)]
    yield whole.up(_hello(cohort))
    yield whole.up(Reveal(nonce=_HASH))
    for frames in instances:
        if cohort.kind != "masking":
            yield from member_says(cohort, frames)
            continue
        yield frames.up(_advert(cohort))
        yield frames.up(_boxes(cohort))
        yield frames.up(MaskedInput(vector=b""), cohort.parameters * cohort.word)
        yield frames.up(Receipt(lists_digest=_HASH))
    if cohort.quorum is not None:
        yield whole.up(_ENDORSE)
    yield whole.up(_release(cohort))


def server_says(cohort: Cohort) -> Iterator[tuple[str, int]]:
    """Kinds of messages that the server sends to a party, or to all, in one round."""
    whole, instances = Frames(cohort), [Frames(cohort, r) for r in range(cohort.reclusterings)]
    n, m = cohort.parties, cohort.members
    yield whole.down(EVERYONE, ModelAnnounce(params=b""), cohort.parameters * 4)
    yield whole.down(EVERYONE, Invite(model_digest=_HASH, config_digest=_HASH))
    yield whole.down(EVERYONE, Announce(hellos=(whole.signed(_hello(cohort)),) * n))
    yield whole.down(EVERYONE, Reveals(reveals=(whole.signed(Reveal(nonce=_HASH)),) * n))
    for frames in instances:
        if cohort.kind != "masking":
            yield from member_hears(cohort, frames)
            continue
        yield frames.down(cohort.party, KeyList(adverts=(frames.signed(_advert(cohort)),) * m))
        # All boxes for one member hold the path to its place in the others' trees; the first has the longest.
        box = bytes(_box_sizes(cohort)[0])
        yield frames.down(cohort.party, BoxList(boxes=tuple((index, box) for index in range(1, m))))
    receipts = tuple(f.signed(Receipt(lists_digest=_HASH)) for f in instances for _ in range(m - 1))
    yield whole.down(cohort.party, Freeze(survivors=(cohort.party,) * n, attempts=(), receipts=receipts))
    if cohort.quorum is not None:
        # The server relays all endorsements that it has, and it waits for everybody.
        yield whole.down(EVERYONE, Certificate(endorsements=(whole.signed(_ENDORSE),) * n))


_ENDORSE = Endorse(statement=_HASH, lists=_HASH, ledger_head=_HASH)


def _hello(cohort: Cohort) -> Hello:
    limits = Limits(
        min_survivors=cohort.min_survivors,
        k_anonymity=cohort.k,
        leakage="veto",
        colluders=0,
        leverage=MILLION,
    )
    return Hello(
        samples=cohort.samples, model_digest=_HASH, config_digest=_HASH, commitment=_HASH, limits=limits
    )


def _advert(cohort: Cohort) -> KeyAdvert:
    return KeyAdvert(
        mask_key=_HASH,
        box_key=_HASH,
        seed_digest=_HASH,
        shares_root=_HASH,
        noise_digests=(_HASH,) * cohort.components,
    )


def _box_sizes(cohort: Cohort) -> list[int]:
    """Bytes of a box, by holder: paths in the tree of shares differ in length."""
    return [
        OVERHEAD
        + len(
            encode(
                SharePair(
                    seed_share=_SHARE, key_share=_SHARE, path=path, noise_shares=(_SHARE,) * cohort.components
                )
            )
        )
        for path in merkle_paths([_HASH] * cohort.members)
    ]


def _boxes(cohort: Cohort) -> ShareBoxes:
    digests = (_HASH,) * (2 + cohort.components)
    # All but the own one: without the last, whose box may be shorter, this is what most members send.
    boxes = tuple((holder, bytes(size)) for holder, size in enumerate(_box_sizes(cohort)[:-1]))
    return ShareBoxes(boxes=boxes, share_digests=(digests,) * cohort.members)


def _release(cohort: Cohort) -> Release:
    shares = tuple((index, _SHARE) for index in range(cohort.members))
    instances = tuple(
        InstanceShares(
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
    return Release(sealed=bytes(SEAL_OVERHEAD + len(encode(ReleasedShares(instances=instances)))))
