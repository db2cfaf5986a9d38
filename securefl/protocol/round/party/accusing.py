"""Evidence against the server, from a verifying party's record (ADR 0044, Evidence)."""

from securefl.protocol import messages, secure_sum
from securefl.protocol.round.party import phases
from securefl.protocol.round.shared import charges
from securefl.protocol.round.shared.statement import start_bytes


def false_claim_evidence(
    past: phases.PartyHistory, signed: charges.SignedClaim, contents: charges.Contents
) -> bytes:
    """Return a rejected claim with the signed values that it may contradict."""
    known, taken = past.verifying, [past.announced]
    if known is not None:
        taken.append(known.signed)
    claim = charges.FalseClaim(
        signed=signed,
        earlier=tuple(one for one in taken if one is not None),
        endorsements=() if known is None else known.certificate,
        record=None if known is None else known.record,
        contents=contents,
    )
    return charges.encode_evidence(claim)


def opening_evidence(
    known: secure_sum.Repeatable, message: messages.OpeningProof, plain: bytes
) -> charges.ShownOpening:
    """Return the contents of an opening, with its secrets ``plain`` decrypted."""
    return charges.ShownOpening(
        attempt=known.setup.instance.attempt,
        members=known.setup.members,
        sharers=tuple(sorted(known.sharers)),
        added=known.added,
        adverts=message.adverts,
        receipts=message.receipts,
        opened=plain,
        vectors=message.vectors,
    )


def step_evidence(
    verifying: phases.VerifiableRound, previous: messages.RoundClaim, plain: bytes
) -> charges.ShownStep:
    """Return the contents of a step, with the model before it."""
    params = start_bytes(verifying.params, verifying.values)
    return charges.ShownStep(previous=previous, params=params, step=plain)
