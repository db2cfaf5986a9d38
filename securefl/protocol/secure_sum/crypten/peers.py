"""Messages between members inside a computation, sealed so that nobody between them can read them.

The keys are those of share boxes: one X25519 agreement of the attempt's box keys for each two members, one
key for each direction, bound to the attempt. A box is bound to sender, receiver and number, so that it opens
only where it belongs.
"""

from __future__ import annotations

from collections.abc import Mapping

from securefl.base import crypto
from securefl.base.entropy import Entropy
from securefl.base.errors import PeerError
from securefl.base.ids import PartyId


class Peers:
    """One member's sealed lines to all others in one attempt."""

    def __init__(
        self, me: int, box: crypto.KeyPair, others: Mapping[int, tuple[PartyId, bytes]], context: bytes
    ) -> None:
        """Agree on two keys with each other member.

        Args:
            me: this member's number.
            box: its key pair for boxes.
            others: name and public box key of every other member, by number.
            context: what both ends have to agree on: attempt, key list, model, configuration.

        Raises:
            PeerError: a public key of low order.
        """
        self._me = me
        self._context = context
        self._names = {other: name for other, (name, _) in others.items()}
        self._keys: dict[int, tuple[bytes, bytes]] = {}
        for other, (name, public) in others.items():
            try:
                sealer, opener = box.agree(public, context, f"peer {me} to {other}", f"peer {other} to {me}")
            except crypto.BadKeyError as error:
                raise PeerError(name, f"advertised a bad box key ({error})") from error
            self._keys[other] = sealer, opener

    def __repr__(self) -> str:
        return f"Peers(member {self._me} of {len(self._keys) + 1})"

    def seal(self, to: int, number: int, payload: bytes, entropy: Entropy) -> bytes:
        """Seal the message ``number`` to member ``to``; it becomes 28 bytes longer."""
        return crypto.seal_box(self._keys[to][0], payload, self._place(self._me, to, number), entropy)

    def open(self, sender: int, number: int, box: bytes) -> bytes:
        """Open what :meth:`seal` made at ``sender`` for this member.

        Raises:
            PeerError: it is from no other member, or does not open.
        """
        if sender not in self._keys:
            raise PeerError(f"member {sender}", "is no other member of this computation")
        try:
            return crypto.open_box(self._keys[sender][1], box, self._place(sender, self._me, number))
        except crypto.BoxError as error:
            raise PeerError(self._names[sender], f"its message {number} does not open") from error

    def _place(self, sender: int, receiver: int, number: int) -> bytes:
        return crypto.encode("peer message", self._context, sender, receiver, number)
