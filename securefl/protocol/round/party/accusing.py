"""Charges against the server, from what a verifying party has kept of a round (ADR 0044, Evidence)."""

from __future__ import annotations

from collections.abc import Iterator

from securefl.protocol.messages import OpeningProof, RoundClaim
from securefl.protocol.round.party.phases import Past, Verifying
from securefl.protocol.round.shared.charges import (
    BadAnnouncement,
    BadOpening,
    BadStep,
    Charge,
    OtherParts,
    OtherStatement,
    SignedClaim,
    TwoClaims,
)
from securefl.protocol.secure_sum import Repeatable


def of_claim(verifying: Verifying, announced: SignedClaim | None, signed: SignedClaim) -> Iterator[Charge]:
    """Return what a claim may contradict: what the server signed before, and what was certified."""
    for earlier in (verifying.signed, announced):
        if earlier is not None:
            yield TwoClaims(first=earlier, second=signed)
    yield OtherStatement(signed=signed, endorsements=verifying.certificate)
    if verifying.record is not None:
        yield OtherParts(signed=signed, record=verifying.record)


def of_announcement(
    past: Past, signed: SignedClaim, model: bytes, attests: tuple[bytes, ...]
) -> Iterator[Charge]:
    """Return what an announcement may contradict: itself, what was announced before, and its attests."""
    verifying = past.verifying
    yield BadAnnouncement(signed=signed, model=model, attests=attests, record=None)
    if past.announced is not None:
        yield TwoClaims(first=past.announced, second=signed)
    if verifying is not None:
        yield from of_claim(verifying, None, signed)
        yield BadAnnouncement(signed=signed, model=model, attests=attests, record=verifying.record)


def opening_charge(
    verifying: Verifying, signed: SignedClaim, known: Repeatable, message: OpeningProof, plain: bytes
) -> Iterator[Charge]:
    """Return what convicts if a proof of a sum fails."""
    if verifying.record is None:
        return
    yield BadOpening(
        signed=signed,
        record=verifying.record,
        attempt=known.setup.instance.attempt,
        members=known.setup.members,
        sharers=tuple(sorted(known.sharers)),
        added=known.added,
        adverts=message.adverts,
        receipts=message.receipts,
        opened=plain,
        vectors=message.vectors,
    )


def step_charge(
    verifying: Verifying, signed: SignedClaim, previous: RoundClaim, plain: bytes
) -> Iterator[Charge]:
    """Return what convicts if a proof of a step fails."""
    if verifying.record is None:
        return
    params = verifying.params.astype("<f4", copy=False).tobytes()
    yield BadStep(signed=signed, record=verifying.record, previous=previous, params=params, step=plain)
