"""Topics between the operator and the agents, and first weights in parts.

All messages are retained: an agent that was away reads them when it connects. The broker may lose, repeat or
withhold them, not change them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from securefl.runtime.agents.submission import Submission
from securefl.runtime.provision import sha256

ROOT: Final = "sfl-agents/1"
PART: Final = 12_000
"""Bytes of the first weights in one message, below each broker's limit of 16 KiB."""
_EARLY_ORDERS: Final = 2**26
_EARLY_NOTICES: Final = 2**18
"""Bytes of early messages that are kept, of the operator and of each machine."""
_OVERHEAD: Final = 512
"""Bytes of a kept message besides its payload."""


class Topics(NamedTuple):
    """Topics of one project."""

    project: str

    @property
    def root(self) -> str:
        """Prefix of all."""
        return f"{ROOT}/{self.project}"

    @property
    def orders(self) -> str:
        """Filter of all that the operator writes."""
        return f"{self.root}/orders/#"

    @property
    def probe(self) -> str:
        """Topic by which the operator notices that it has read all."""
        return f"{self.root}/probe"

    def submission(self, run: str) -> str:
        """Topic of a submission."""
        return f"{self.root}/orders/{run}/submission"

    def stop(self, run: str) -> str:
        """Topic of a stop order."""
        return f"{self.root}/orders/{run}/stop"

    def part(self, run: str, number: int) -> str:
        """Topic of one part of the first weights."""
        return f"{self.root}/orders/{run}/weights/{number}"

    def notice(self, run: str, name: str) -> str:
        """Topic of a machine's notices about a run; either may be ``+``."""
        return f"{self.root}/status/{run}/{name}"

    def read(self, topic: str) -> Address | None:
        """Return what a topic is about; None for a foreign one."""
        if not topic.startswith(self.root + "/"):
            return None
        match topic.removeprefix(self.root + "/").split("/"):
            case ["orders", run, ("submission" | "stop") as kind]:
                return Address(kind, run)
            case ["orders", run, "weights", number] if (
                number.isascii() and number.isdecimal() and len(number) < 8
            ):
                return Address("weights", run, number=int(number))
            case ["status", run, name]:
                return Address("notice", run, name=name)
        return None


class Address(NamedTuple):
    """Kind and subject of a message."""

    kind: str
    run: str
    name: str = ""
    number: int = -1


class EarlyMessages:
    """Messages that came before the submission of their run: retained ones come in any order.

    A machine cannot displace the messages of another one, or of the operator.
    """

    def __init__(self) -> None:
        self._runs: dict[str, dict[Address, bytes]] = {}
        self._used: Counter[str] = Counter()
        """Bytes by sender, which is empty for the operator."""

    def keep(self, address: Address, payload: bytes) -> None:
        """Keep the latest message of a topic, unless its sender has sent too much."""
        kept = self._runs.get(address.run, {})
        more = _size_of(payload) - (_size_of(kept[address]) if address in kept else 0)
        if self._used[address.name] + more <= (_EARLY_NOTICES if address.name else _EARLY_ORDERS):
            self._runs.setdefault(address.run, {})[address] = payload
            self._used[address.name] += more

    def take(self, run: str) -> Mapping[Address, bytes]:
        """Remove and return the messages of a run."""
        kept = self._runs.pop(run, {})
        for address, payload in kept.items():
            self._used[address.name] -= _size_of(payload)
        return kept


def _size_of(payload: bytes) -> int:
    return len(payload) + _OVERHEAD


def parts_of(content: bytes) -> Iterator[bytes]:
    """Yield first weights in parts."""
    for at in range(0, len(content), PART):
        yield content[at : at + PART]


def count_parts(submission: Submission) -> int:
    """Return the number of parts of the first weights."""
    return -(-submission.weights_bytes // PART)


class WeightParts:
    """First weights of one submission as they arrive."""

    def __init__(self, submission: Submission) -> None:
        self._digest = submission.weights_digest
        self._count = count_parts(submission)
        self._bytes = submission.weights_bytes
        self._parts: dict[int, bytes] = {}

    @property
    def missing(self) -> str:
        """Text for people; empty if all parts are there."""
        have = len(self._parts)
        return "" if have == self._count else f"waits for the first weights, {have} of {self._count} parts"

    def put(self, number: int, content: bytes) -> bytes | None:
        """Add a part; return the whole once it is complete and has the digest of the submission.

        If the digest is another one, all parts are dropped.
        """
        last = number == self._count - 1
        size = self._bytes - number * PART if last else PART
        if not 0 <= number < self._count or len(content) != size:
            return None
        self._parts[number] = content
        if len(self._parts) < self._count:
            return None
        whole = b"".join(self._parts[at] for at in range(self._count))
        self._parts.clear()
        return whole if sha256(whole) == self._digest else None
