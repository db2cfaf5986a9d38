"""Reading of relayed messages of all members of a validated sum."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from securefl.base import crypto
from securefl.base.errors import PeerError
from securefl.base.ids import SERVER, PartyId
from securefl.protocol import messages, wire
from securefl.protocol.secure_sum.setup import Setup
from securefl.protocol.secure_sum.validated import validation
from securefl.protocol.secure_sum.validated.sketch import nonce_commitment

SaidT = TypeVar("SaidT", messages.Held, messages.SketchNonce, messages.Verdict)


def read_all(
    setup: Setup, listed: Sequence[int], frames: Sequence[bytes], kind: type[SaidT], roster: crypto.Roster
) -> dict[int, tuple[SaidT, bytes]]:
    """Return the listed members' messages of one kind with frames, by number.

    Raises:
        PeerError: of the server: another kind, a repeated member, or a missing one.
    """
    messages_by_index: dict[int, tuple[SaidT, bytes]] = {}
    for frame in frames:
        delivery = wire.open_relayed(frame, roster, setup.instance.run, SERVER, SERVER)
        if delivery.place != setup.place or not isinstance(delivery.message, kind):
            raise PeerError(SERVER, f"relays something else than a {kind.__name__} of {setup.describe()}")
        index = setup.index(delivery.sender)
        if index in messages_by_index:
            raise PeerError(SERVER, f"relays two messages {kind.__name__} of {delivery.sender}")
        messages_by_index[index] = delivery.message, frame
    if messages_by_index.keys() != set(listed):
        raise PeerError(SERVER, f"relays {kind.__name__} of other members than those on the key list")
    return messages_by_index


def receipts_of(
    setup: Setup, listed: Sequence[int], lists: bytes, frames: Sequence[bytes], roster: crypto.Roster
) -> bytes:
    """Return the digest of all receipts; raise as :func:`read_all`, or if lists differ."""
    held = read_all(setup, listed, frames, messages.Held, roster)
    for index, (receipt, _) in held.items():
        if receipt.lists != lists:
            raise PeerError(
                SERVER, f"sends {setup.members[index]} another key list than this party in {setup.describe()}"
            )
    return validation.receipts_digest({index: frame for index, (_, frame) in held.items()})


def nonces_of(
    setup: Setup, commitments: Mapping[int, bytes], frames: Sequence[bytes], roster: crypto.Roster
) -> dict[PartyId, bytes]:
    """Return all members' nonces; raise as :func:`read_all` and :func:`check_nonce`."""
    nonces = read_all(setup, sorted(commitments), frames, messages.SketchNonce, roster)
    for index, (revealed, _) in nonces.items():
        check_nonce(setup, index, commitments[index], revealed)
    return {setup.members[index]: revealed.nonce for index, (revealed, _) in nonces.items()}


def check_nonce(setup: Setup, index: int, commitment: bytes, revealed: messages.SketchNonce) -> None:
    """Raise PeerError of the member if a nonce does not match its commitment."""
    name = setup.members[index]
    if nonce_commitment(revealed.nonce, setup.instance, name) != commitment:
        raise PeerError(name, f"reveals another nonce than it committed to in {setup.describe()}")


def accepted_of(
    setup: Setup, listed: Sequence[int], frames: Sequence[bytes], roster: crypto.Roster, me: int
) -> tuple[frozenset[int], frozenset[int]]:
    """Return the members accepted by all others, and the own verdict; raise as :func:`read_all`."""
    messages_by_index = read_all(setup, listed, frames, messages.Verdict, roster)
    verdicts = {index: frozenset(verdict.accepted) for index, (verdict, _) in messages_by_index.items()}
    return validation.accepted_by(verdicts), verdicts[me]
