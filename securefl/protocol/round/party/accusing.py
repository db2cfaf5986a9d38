"""Charges against the server, from what a verifying party has kept of a round (ADR 0044, Evidence)."""

from __future__ import annotations

from collections.abc import Iterator

from securefl.protocol import messages, secure_sum
from securefl.protocol.round.party import phases
from securefl.protocol.round.shared import charges
from securefl.protocol.round.shared.statement import clip_bytes, sent_model


def of_claim(
    verifying: phases.Verifying, announced: charges.SignedClaim | None, signed: charges.SignedClaim
) -> Iterator[charges.Charge]:
    """Return what a claim may contradict: what the server signed before, and what was certified."""
    for earlier in (verifying.signed, announced):
        if earlier is not None:
            yield charges.TwoClaims(first=earlier, second=signed)
    yield charges.OtherStatement(signed=signed, endorsements=verifying.certificate)
    if verifying.record is not None:
        yield charges.OtherParts(signed=signed, record=verifying.record)


def of_announcement(
    past: phases.Past, signed: charges.SignedClaim, model: bytes, attests: tuple[bytes, ...]
) -> Iterator[charges.Charge]:
    """Return what an announcement may contradict: itself, what was announced before, and its attests."""
    verifying = past.verifying
    yield charges.BadAnnouncement(signed=signed, model=model, attests=attests, record=None)
    if past.announced is not None:
        yield charges.TwoClaims(first=past.announced, second=signed)
    if verifying is not None:
        yield from of_claim(verifying, None, signed)
        yield charges.BadAnnouncement(signed=signed, model=model, attests=attests, record=verifying.record)


def opening_charge(
    verifying: phases.Verifying,
    signed: charges.SignedClaim,
    known: secure_sum.Repeatable,
    message: messages.OpeningProof,
    plain: bytes,
) -> Iterator[charges.Charge]:
    """Return what convicts if a proof of a sum fails."""
    if verifying.record is None:
        return
    yield charges.BadOpening(
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
    verifying: phases.Verifying, signed: charges.SignedClaim, previous: messages.RoundClaim, plain: bytes
) -> Iterator[charges.Charge]:
    """Return what convicts if a proof of a step fails."""
    if verifying.record is None:
        return
    params = sent_model(verifying.params) + clip_bytes(verifying.clip)
    yield charges.BadStep(
        signed=signed, record=verifying.record, previous=previous, params=params, step=plain
    )
