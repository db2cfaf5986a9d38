"""CrypTen's communicator over messages of the protocol.

Sending fills an outbox; ``wait`` yields to the machine that carries messages. Payloads are little-endian
64-bit words; CrypTen's ``*_obj`` calls, which use pickle, are rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from securefl.base.errors import PeerError, UsageError
from securefl.base.ids import PartyId
from securefl.protocol.secure_sum.crypten.library import Library
from securefl.protocol.secure_sum.crypten.progress import MAX_AHEAD, Incoming, Outgoing

__all__ = ["MAX_AHEAD", "Communicator", "Incoming", "Mailbox", "Outgoing"]


class Mailbox:
    """Received, unread messages by sender and number, and outgoing ones."""

    def __init__(self, names: Sequence[PartyId], rank: int) -> None:
        self.names = tuple(names)
        self.rank = rank
        self.outbox: list[Outgoing] = []
        self._sent = dict.fromkeys(range(len(names)), 0)
        self._read = dict.fromkeys(range(len(names)), 0)
        self._waiting: dict[tuple[int, int], bytes] = {}

    def deliver(self, messages: Iterable[Incoming]) -> None:
        """Store messages until the computation reads them: all of them, or none.

        Raises:
            PeerError: one is not from another member, is a repetition, or is far ahead.
        """
        new: dict[tuple[int, int], bytes] = {}
        for message in messages:
            self._check(message, new)
            new[message.sender, message.number] = message.payload
        self._waiting.update(new)

    def _check(self, message: Incoming, new: Mapping[tuple[int, int], bytes]) -> None:
        if message.sender == self.rank or not 0 <= message.sender < len(self.names):
            raise PeerError(f"member {message.sender}", "is not another member of this computation")
        name, key = self.names[message.sender], (message.sender, message.number)
        if message.number < self._read[message.sender] or key in self._waiting or key in new:
            raise PeerError(name, f"sends message {message.number} of a computation again")
        if message.number >= self._read[message.sender] + MAX_AHEAD:
            raise PeerError(
                name,
                f"sends message {message.number} of a computation too early, expected one below"
                f" {self._read[message.sender] + MAX_AHEAD}",
            )

    def send(self, to: int, payload: bytes) -> None:
        """Put a message into the outbox."""
        self.outbox.append(Outgoing(to, self._sent[to], payload))
        self._sent[to] += 1

    def take(self, sender: int) -> bytes | None:
        """Return the next message of ``sender``, or None if it has not arrived."""
        payload = self._waiting.pop((sender, self._read[sender]), None)
        if payload is not None:
            self._read[sender] += 1
        return payload

    def drain(self) -> tuple[Outgoing, ...]:
        """Empty and return the outbox."""
        out, self.outbox = tuple(self.outbox), []
        return out


class Communicator:
    """Communicator that CrypTen calls. Ranks are member numbers."""

    BYTES_PER_ELEMENT = 8

    def __init__(self, library: Library, mailbox: Mailbox, wait: Callable[[], None]) -> None:
        self._torch = library.torch
        self._cuda = library.cuda_tensor
        self._box = mailbox
        self._wait = wait
        self._name = mailbox.names[mailbox.rank]

    def get_world_size(self) -> int:
        """Return the number of members."""
        return len(self._box.names)

    def get_rank(self) -> int:
        """Return this member's number."""
        return self._box.rank

    def set_name(self, name: str) -> None:
        """Set the name for CrypTen's own use."""
        self._name = PartyId(name)

    def get_name(self) -> str:
        """Return the name."""
        return self._name

    def isend(self, tensor: Any, dst: int) -> Sent:
        """Send a tensor of 64-bit integers."""
        self._box.send(self._other(dst), self._bytes(tensor))
        return Sent()

    def irecv(self, tensor: Any, src: int) -> Receiving:
        """Return a request whose ``wait`` receives into ``tensor``."""
        return Receiving(self, tensor, self._other(src))

    def send(self, tensor: Any, dst: int) -> None:
        """Send a tensor of 64-bit integers."""
        self.isend(tensor, dst)

    def recv(self, tensor: Any, src: int) -> Any:
        """Return a tensor from ``src``, shaped as ``tensor``."""
        return self._receive(tensor, self._other(src))

    def broadcast(self, tensor: Any, src: int, batched: bool = False) -> Any:
        """Send the tensors of ``src`` to all."""
        items = tensor if batched else [tensor]
        for item in items:
            if src == self.get_rank():
                self._send_all(item)
            else:
                self.irecv(item, src).wait()
        return tensor

    def gather(self, tensor: Any, dst: int) -> list[Any]:
        """Collect all tensors at ``dst``, by rank; ``[None]`` elsewhere."""
        if dst != self.get_rank():
            self.isend(tensor, dst)
            return [None]
        return self._from_all(tensor)

    def all_gather(self, tensor: Any) -> list[Any]:
        """Collect all tensors, by rank."""
        self._send_all(tensor)
        return self._from_all(tensor)

    def scatter(self, scatter_list: list[Any], src: int, size: Any = None, device: Any = None) -> Any:
        """Send each member its tensor of the list of ``src``."""
        rank = self.get_rank()
        if src == rank:
            for other in self._others():
                self.isend(scatter_list[other], other)
            return scatter_list[rank]
        like = scatter_list[rank] if size is None else self._torch.empty(size, dtype=self._torch.long)
        received = self._receive(like, src)
        return received if device is None else received.to(device)

    def reduce(self, tensor: Any, dst: int, op: Any = None, batched: bool = False) -> Any:
        """Return the sum (or XOR) of all tensors at ``dst``, else None."""
        items = tensor if batched else [tensor]
        if dst != self.get_rank():
            for item in items:
                self.isend(item, dst)
            return None
        results = [self._combine(self._from_all(item), op) for item in items]
        return results if batched else results[0]

    def all_reduce(self, tensor: Any, op: Any = None, batched: bool = False) -> Any:
        """Return the sum (or XOR) of all tensors; a batch costs one round."""
        items = tensor if batched else [tensor]
        for item in items:
            self._send_all(item)
        results = [self._combine(self._from_all(item), op) for item in items]
        return results if batched else results[0]

    def barrier(self) -> None:
        """Wait for all members."""
        empty = self._torch.empty(0, dtype=self._torch.long)
        self._send_all(empty)
        self._from_all(empty)

    def send_obj(self, *_args: object, **_options: object) -> None:
        """Refuse: objects travel as pickle, which runs code of the peer."""
        raise UsageError(
            "cannot send or receive objects in CrypTen: unpickling runs code of a peer; exchange"
            " tensors instead"
        )

    recv_obj = broadcast_obj = send_obj

    def _others(self) -> list[int]:
        return [rank for rank in range(self.get_world_size()) if rank != self.get_rank()]

    def _other(self, rank: int) -> int:
        if rank == self.get_rank() or not 0 <= rank < self.get_world_size():
            raise UsageError(
                f"rank of a peer must be from 0 to {self.get_world_size() - 1} and not this member's own,"
                f" found {rank}"
            )
        return rank

    def _send_all(self, tensor: Any) -> None:
        payload = self._bytes(tensor)
        for other in self._others():
            self._box.send(other, payload)

    def _from_all(self, tensor: Any) -> list[Any]:
        return [
            tensor.clone() if rank == self.get_rank() else self._receive(tensor, rank)
            for rank in range(self.get_world_size())
        ]

    def _combine(self, tensors: list[Any], op: Any) -> Any:
        """Return the sum or XOR, the only reductions of shares."""
        kinds = self._torch.distributed.ReduceOp
        total = tensors[0]
        for tensor in tensors[1:]:
            if op is None or op == kinds.SUM:
                total = total + tensor
            elif op == kinds.BXOR:
                total = total ^ tensor
            else:
                raise UsageError(f"op must be SUM or BXOR to reduce shares, found {op}")
        return total

    def _bytes(self, tensor: Any) -> bytes:
        plain = tensor.tensor() if isinstance(tensor, self._cuda) else tensor
        if plain.dtype != self._torch.long:
            raise UsageError(f"shares must have dtype int64, found {plain.dtype}")
        words = plain.detach().cpu().contiguous().numpy()
        return bytes(words.astype("<i8", copy=False).tobytes())

    def _receive(self, like: Any, src: int) -> Any:
        payload = self._box.take(src)
        while payload is None:
            self._wait()
            payload = self._box.take(src)
        count = like.tensor().nelement() if isinstance(like, self._cuda) else like.nelement()
        if len(payload) != 8 * count:
            raise PeerError(
                self._box.names[src], f"sent a share of {len(payload)} bytes, expected {8 * count}"
            )
        words = np.frombuffer(payload, dtype="<i8").astype(np.int64)
        tensor = self._torch.from_numpy(words).reshape(tuple(like.shape))
        return self._cuda(tensor.to(like.device)) if like.is_cuda else tensor


class Sent:
    """Send request, complete at once: the message is in the outbox."""

    def wait(self) -> None:
        """Do nothing."""

    def is_completed(self) -> bool:
        """Return True."""
        return True


@dataclass(slots=True)
class Receiving:
    """Receive request."""

    _communicator: Communicator
    _tensor: Any
    _src: int
    _done: bool = False

    def wait(self) -> None:
        """Block until the message is in the tensor."""
        if not self._done:
            self._tensor.copy_(self._communicator._receive(self._tensor, self._src))
            self._done = True

    def is_completed(self) -> bool:
        """Return True if ``wait`` has returned."""
        return self._done
