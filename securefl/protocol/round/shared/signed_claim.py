"""Signatures of claims, apart from the frames that they travel in (ADR 0044, Evidence).

A proof is as long as a cluster's vectors and travels in many frames. This signature is over digests, so that
whoever keeps it with a claim can show later, to somebody who was not there, what the server has claimed and
with which proof, in a few hundred bytes.
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
    """Return a claim as the server signs it.

    Args:
        identity: of the server.
        run: its name.
        claim: what a round came to.
        place: of the sum that is proven, of the round whose step is; of the draw that is announced.
        contents: digest (32 bytes) of what is proven, or of model and attests that are announced.
    """
    signature = identity.sign(DOMAIN + _signed(run, claim, place, contents))
    return SignedClaim(claim=claim, place=place, contents=contents, signature=signature)


def check_signed(signed: SignedClaim, roster: crypto.Roster, run: RunId) -> None:
    """Check that the server has signed a claim.

    Raises:
        PeerError: it has not. That proves nothing of anybody: it is as if nothing had been sent.
    """
    message = DOMAIN + _signed(run, signed.claim, kernel.Place(*signed.place), signed.contents)
    if not roster.server.verify(message, signed.signature):
        raise PeerError(SERVER, "sends a result without a valid signature")


def check_announced(
    message: messages.ChainedAnnounce, place: kernel.Place, model: bytes, roster: crypto.Roster, run: RunId
) -> SignedClaim:
    """Return the claim that the server has signed of an announcement.

    Args:
        message: the announcement.
        place: of its draw.
        model: digest of the round's model.
        roster: of the run.
        run: its name.

    Raises:
        PeerError: the server has not signed it with this model and these attests.
    """
    contents = announced_contents(model, message.attests)
    signed = SignedClaim(claim=message.claim, place=place, contents=contents, signature=message.signature)
    check_signed(signed, roster, run)
    return signed


def step_contents(plain: bytes) -> bytes:
    """Return the digest of all that a step is proven with: the encoded ``Step``, before it is sealed."""
    return crypto.digest("step contents", plain)


def announced_contents(model: bytes, attests: Sequence[bytes]) -> bytes:
    """Return the digest of a round's model, by its digest, and of the attests that it is announced with."""
    return crypto.digest("announced contents", model, *attests)


def _signed(run: RunId, claim: messages.RoundClaim, place: kernel.Place, contents: bytes) -> bytes:
    return crypto.digest("signed claim", run, wire.encode(claim), *place, contents)
