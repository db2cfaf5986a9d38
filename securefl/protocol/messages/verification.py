"""Messages by which parties verify what the server makes of a round (protocol.md, step 12; ADR 0044)."""

from typing import Annotated

from msgspec import Meta

from securefl.protocol.messages import base, rounds

Secrets = Annotated[tuple[tuple[int, base.Key], ...], Meta(max_length=base.MAX_CLUSTER)]
"""(member number, 32 bytes)."""


class RoundClaim(base.Message, frozen=True, kw_only=True):
    """What the server says that a round came to. Its digest, the root, is a link of the chain of models."""

    round: Annotated[int, Meta(ge=-1)]
    """-1 for the model that the run begins with."""
    previous: base.Digest
    """Root of the last claim that was confirmed; zeros before the first."""
    statement: base.Digest
    """Of the certificate: survivors, and what fixes every sum."""
    sums: Annotated[tuple[base.Digest, ...], Meta(max_length=base.MAX_PARTIES)]
    """Of every sum that may be opened, by reclustering and cluster; zeros for one that is lost."""
    state: base.Digest
    """What the next step goes on from, besides the model."""
    model: base.Digest
    """The model that follows."""


class OpeningProof(base.Message, frozen=True, kw_only=True):
    """Server to some members of a cluster: all that its sum follows from."""

    claim: RoundClaim
    adverts: Annotated[tuple[base.SignedFrame, ...], Meta(max_length=base.MAX_CLUSTER)]
    receipts: Annotated[tuple[base.SignedFrame, ...], Meta(max_length=base.MAX_CLUSTER)]
    """Of every member whose vector is in the sum, in the order of the members."""
    signature: base.Signature
    """Of the server, over the claim and all that is proven, what is sealed as well
    (:mod:`securefl.protocol.round.shared.signed_claim`)."""
    sealed: Annotated[bytes, Meta(max_length=base.MAX_VECTOR)]
    """:class:`Opened`, sealed to the recipient."""
    vectors: Annotated[bytes, Meta(max_length=base.MAX_VECTOR)]
    """The masked vectors of the same members, one behind the other."""


class Opened(base.Message, frozen=True, kw_only=True):
    """The plaintext of ``OpeningProof.sealed``."""

    seeds: Secrets
    keys: Secrets
    noise: Secrets


class StepProof(base.Message, frozen=True, kw_only=True):
    """Server to each member of the round's committee: all that the next model follows from."""

    claim: RoundClaim
    signature: base.Signature
    """As in :class:`OpeningProof`."""
    sealed: Annotated[bytes, Meta(max_length=base.MAX_VECTOR)]
    """:class:`Step`, sealed to the recipient."""


class Step(base.Message, frozen=True, kw_only=True):
    """The plaintext of ``StepProof.sealed``."""

    moments: Annotated[bytes, Meta(max_length=base.MAX_VECTOR)]
    """Of the optimiser before the step, little-endian float64; then the announced values."""
    totals: Annotated[tuple[Annotated[int, Meta(ge=0)], ...], Meta(max_length=base.MAX_PARTIES)]
    """Members in each sum, where groups are hidden; nothing elsewhere."""
    sums: Annotated[bytes, Meta(max_length=base.MAX_VECTOR)]
    """All sums that were opened, one behind the other, ring words in little endian."""
    model: Annotated[bytes, Meta(max_length=base.MAX_VECTOR)]
    """The model that follows, little-endian float32: it tells another rounding from a lie."""


class Attest(base.Message, frozen=True, kw_only=True):
    """Verifier to server: what I repeated, which ``Place`` says (a sum or the step), comes to this root.

    One root a round, whatever is attested of it.
    """

    root: base.Digest


class ChainedAnnounce(rounds.Announce, frozen=True, kw_only=True):
    """An announcement where rounds are verified: with the last claim, and who attests it."""

    claim: RoundClaim
    attests: Annotated[tuple[base.SignedFrame, ...], Meta(max_length=base.MAX_PARTIES)]
    """As signed, enough for each sum and for the step; none for the run's first model."""
    signature: base.Signature
    """Of the server, over the claim, the round that begins with it, and the attests."""


class ChainedReveal(rounds.Reveal, frozen=True, kw_only=True):
    """A nonce where rounds are verified: with the root that its sender has seen confirmed, for newcomers."""

    root: Annotated[bytes, Meta(max_length=32)]
    """Nothing from one that has not seen it."""
