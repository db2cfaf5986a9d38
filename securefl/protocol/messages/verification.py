"""Messages by which parties verify the server's result of a round (protocol.md, step 12; ADR 0044)."""

from typing import Annotated

from msgspec import Meta

from securefl.protocol.messages import base, rounds

Secrets = Annotated[tuple[tuple[int, base.Key], ...], Meta(max_length=base.MAX_CLUSTER)]
"""(member number, 32 bytes) pairs."""


class RoundClaim(base.Message, frozen=True, kw_only=True):
    """Claimed result of a round. Its digest, the root, is a link of the chain of models."""

    round: Annotated[int, Meta(ge=-1)]
    """-1 for the first model of the run."""
    previous: base.Digest
    """Root of the last confirmed claim; zeros before the first."""
    statement: base.Digest
    sums: Annotated[tuple[base.Digest, ...], Meta(max_length=base.MAX_PARTIES)]
    """Digest of every sum that may be opened, by reclustering and cluster; zeros for a lost one."""
    state: base.Digest
    """Digest of the input of the next step besides the model."""
    model: base.Digest


class OpeningProof(base.Message, frozen=True, kw_only=True):
    """Inputs of a cluster's sum, for some of its members."""

    claim: RoundClaim
    adverts: Annotated[tuple[base.SignedFrame, ...], Meta(max_length=base.MAX_CLUSTER)]
    receipts: Annotated[tuple[base.SignedFrame, ...], Meta(max_length=base.MAX_CLUSTER)]
    """Receipts of the added members, in their order."""
    signature: base.Signature
    """Over the claim and all evidence, sealed parts included."""
    sealed: Annotated[bytes, Meta(max_length=base.MAX_VECTOR)]
    """:class:`Opened`, for the recipient."""
    vectors: Annotated[bytes, Meta(max_length=base.MAX_VECTOR)]
    """Masked vectors of the same members, concatenated."""


class Opened(base.Message, frozen=True, kw_only=True):
    """Plaintext of ``OpeningProof.sealed``."""

    seeds: Secrets
    keys: Secrets
    noise: Secrets


class StepProof(base.Message, frozen=True, kw_only=True):
    """Inputs of the next model, for the round's committee."""

    claim: RoundClaim
    signature: base.Signature
    sealed: Annotated[bytes, Meta(max_length=base.MAX_VECTOR)]
    """:class:`Step`, for the recipient."""


class Step(base.Message, frozen=True, kw_only=True):
    """Plaintext of ``StepProof.sealed``."""

    moments: Annotated[bytes, Meta(max_length=base.MAX_VECTOR)]
    """Optimiser's moments before the step, little-endian float64; then the announced values."""
    totals: Annotated[tuple[Annotated[int, Meta(ge=0)], ...], Meta(max_length=base.MAX_PARTIES)]
    """Members in each sum if groups are hidden; else empty."""
    sums: Annotated[bytes, Meta(max_length=base.MAX_VECTOR)]
    """Ring words in little endian, concatenated."""
    model: Annotated[bytes, Meta(max_length=base.MAX_VECTOR)]
    """Next model, little-endian float32, to distinguish other rounding from a false result."""


class Attest(base.Message, frozen=True, kw_only=True):
    """Attestation that a repeated sum or step gives this root, which all of a round share."""

    root: base.Digest


class ChainedAnnounce(rounds.Announce, frozen=True, kw_only=True):
    """Announcement with the last claim and its attestations."""

    claim: RoundClaim
    attests: Annotated[tuple[base.SignedFrame, ...], Meta(max_length=base.MAX_PARTIES)]
    """Signed, enough for each sum and for the step; empty for the first model."""
    signature: base.Signature
    """Server's, over the claim, the round that begins with it, and the attestations."""


class ChainedReveal(rounds.Reveal, frozen=True, kw_only=True):
    """Nonce of a verified round, with the root (if any) seen confirmed, for newcomers."""

    root: Annotated[bytes, Meta(max_length=32)]
