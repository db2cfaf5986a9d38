"""Messages by which parties verify what the server makes of a round (protocol.md, step 12; ADR 0044)."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from securefl.protocol.messages.base import (
    MAX_CLUSTER,
    MAX_PARTIES,
    MAX_VECTOR,
    Digest,
    Key,
    Message,
    Signature,
    SignedFrame,
)
from securefl.protocol.messages.rounds import Announce, Reveal

Secrets = Annotated[tuple[tuple[int, Key], ...], Meta(max_length=MAX_CLUSTER)]
"""(member number, 32 bytes)."""


class RoundClaim(Message, frozen=True, kw_only=True):
    """What the server says that a round came to. Its digest, the root, is a link of the chain of models."""

    round: Annotated[int, Meta(ge=-1)]
    """-1 for the model that the run begins with."""
    previous: Digest
    """Root of the last claim that was confirmed; zeros before the first."""
    statement: Digest
    """Of the certificate: survivors, and what fixes every sum."""
    sums: Annotated[tuple[Digest, ...], Meta(max_length=MAX_PARTIES)]
    """Of every sum that may be opened, by reclustering and cluster; zeros for one that is lost."""
    state: Digest
    """What the next step goes on from, besides the model."""
    model: Digest
    """The model that follows."""


class OpeningProof(Message, frozen=True, kw_only=True):
    """Server to some members of a cluster: all that its sum follows from."""

    claim: RoundClaim
    adverts: Annotated[tuple[SignedFrame, ...], Meta(max_length=MAX_CLUSTER)]
    receipts: Annotated[tuple[SignedFrame, ...], Meta(max_length=MAX_CLUSTER)]
    """Of every member whose vector is in the sum, in the order of the members."""
    signature: Signature
    """Of the server, over the claim and all that is proven, what is sealed as well
    (:mod:`securefl.protocol.round.shared.signed_claim`)."""
    sealed: Annotated[bytes, Meta(max_length=MAX_VECTOR)]
    """:class:`Opened`, sealed to the recipient."""
    vectors: Annotated[bytes, Meta(max_length=MAX_VECTOR)]
    """The masked vectors of the same members, one behind the other."""


class Opened(Message, frozen=True, kw_only=True):
    """The plaintext of ``OpeningProof.sealed``."""

    seeds: Secrets
    keys: Secrets
    noise: Secrets


class StepProof(Message, frozen=True, kw_only=True):
    """Server to each member of the round's committee: all that the next model follows from."""

    claim: RoundClaim
    signature: Signature
    """As in :class:`OpeningProof`."""
    sealed: Annotated[bytes, Meta(max_length=MAX_VECTOR)]
    """:class:`Step`, sealed to the recipient."""


class Step(Message, frozen=True, kw_only=True):
    """The plaintext of ``StepProof.sealed``."""

    moments: Annotated[bytes, Meta(max_length=MAX_VECTOR)]
    """Of the optimiser before the step, little-endian float64."""
    totals: Annotated[tuple[Annotated[int, Meta(ge=0)], ...], Meta(max_length=MAX_PARTIES)]
    """Members in each sum, where groups are hidden; nothing elsewhere."""
    sums: Annotated[bytes, Meta(max_length=MAX_VECTOR)]
    """All sums that were opened, one behind the other, ring words in little endian."""
    model: Annotated[bytes, Meta(max_length=MAX_VECTOR)]
    """The model that follows, little-endian float32: it tells another rounding from a lie."""


class Attest(Message, frozen=True, kw_only=True):
    """Verifier to server: what I repeated, which ``Place`` says (a sum or the step), comes to this root.

    One root a round, whatever is attested of it.
    """

    root: Digest


class ChainedAnnounce(Announce, frozen=True, kw_only=True):
    """An announcement where rounds are verified: with the last claim, and who attests it."""

    claim: RoundClaim
    attests: Annotated[tuple[SignedFrame, ...], Meta(max_length=MAX_PARTIES)]
    """As signed, enough for each sum and for the step; none for the run's first model."""
    signature: Signature
    """Of the server, over the claim, the round that begins with it, and the attests."""


class ChainedReveal(Reveal, frozen=True, kw_only=True):
    """A nonce where rounds are verified: with the root that its sender has seen confirmed, for newcomers."""

    root: Annotated[bytes, Meta(max_length=32)]
    """Nothing from one that has not seen it."""
