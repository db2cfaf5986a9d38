"""The seed that nobody chose: commit to nonces, reveal them, hash them all (protocol.md, step 2).

A party that withholds its nonce voids the draw; skipping it instead would let the server choose among the
seeds of all subsets of withheld nonces.
"""

from __future__ import annotations

from collections.abc import Mapping

from securefl.base import crypto
from securefl.base.ids import PartyId, RunId


def commitment(nonce: bytes, run: RunId, round_: int, draw: int, party: PartyId) -> bytes:
    """Return the commitment (32 bytes) to a nonce: hiding, as the nonce has 256 random bits, and binding."""
    return crypto.digest("nonce commitment", run, round_, draw, party, nonce)


def certified_seed(
    nonces: Mapping[PartyId, bytes], run: RunId, round_: int, draw: int, model: bytes, config: bytes
) -> bytes:
    """Return the round's seed (32 bytes) over participants, digests and *all* nonces."""
    fields: list[str | bytes] = []
    for party in sorted(nonces):
        fields += [party, nonces[party]]
    return crypto.digest("round seed", run, round_, draw, model, config, *fields)
