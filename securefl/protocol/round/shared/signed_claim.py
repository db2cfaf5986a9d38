"""Signatures of claims, independent of frames (ADR 0044, Evidence).

They cover digests: a few hundred bytes show the claim and its proof to a third party later.
"""

from collections.abc import Sequence

from securefl.base import crypto
from securefl.base.errors import PeerError
from securefl.base.ids import SERVER, RunId
from securefl.protocol import kernel, messages, wire
from securefl.protocol.round.shared.charges import SignedClaim

DOMAIN = b"securefl/1/claim\x00"


def sign_claim(
    identity: crypto.Identity, run: RunId, claim: messages.RoundClaim, place: kernel.Place, contents: bytes
) -> SignedClaim:
    """Return the claim signed at ``place``: of the proven sum, of the step's round, or of the announced draw.

    The digest ``contents`` (32 bytes) covers the proof, or the announcement.
    """
    signature = identity.sign(DOMAIN + _claim_digest(run, claim, place, contents))
    return SignedClaim(claim=claim, place=place, contents=contents, signature=signature)


def check_signed(signed: SignedClaim, roster: crypto.Roster, run: RunId) -> None:
    """Raise PeerError, which proves nothing against any party, unless the server signed a claim."""
    message = DOMAIN + _claim_digest(run, signed.claim, kernel.Place(*signed.place), signed.contents)
    if not roster.server.verify(message, signed.signature):
        raise PeerError(SERVER, "sends a result without a valid signature")


def check_announced(
    message: messages.ChainedAnnounce, place: kernel.Place, model: bytes, roster: crypto.Roster, run: RunId
) -> SignedClaim:
    """Return the signed claim of an announcement, at the place of its draw.

    Raises:
        PeerError: the server did not sign it with this model's digest and these attestations.
    """
    contents = announced_contents(model, message.attests)
    signed = SignedClaim(claim=message.claim, place=place, contents=contents, signature=message.signature)
    check_signed(signed, roster, run)
    return signed


def step_contents(plain: bytes) -> bytes:
    """Return the digest of a step's proof: the encoded ``Step`` before sealing."""
    return crypto.digest("step contents", plain)


def announced_contents(model: bytes, attests: Sequence[bytes]) -> bytes:
    """Return the digest of an announcement: its model's digest and attestations."""
    return crypto.digest("announced contents", model, *attests)


def _claim_digest(run: RunId, claim: messages.RoundClaim, place: kernel.Place, contents: bytes) -> bytes:
    return crypto.digest("signed claim", run, wire.encode(claim), *place, contents)
