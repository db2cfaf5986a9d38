"""Ports of a shell besides machine and transport."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from securefl.base.arrays import F32, F64
from securefl.protocol import kernel, messages, wire
from securefl.protocol.round import AnyReport, RunPlan
from securefl.training import sgd


class Witness(Protocol):
    """Recorder of a process's transcript, metrics and progress."""

    def report(self, now: float, item: AnyReport) -> None:
        """Record a report of the machine."""
        ...

    def record_refusal(self, now: float, culprit: str, reason: str, evidence: bytes = b"") -> None:
        """Record a rejection, with an encoded charge as evidence, if any."""
        ...

    def record_received(self, now: float, delivery: wire.Delivery, *, idle: bool = False) -> None:
        """Record a whole, verified message; ``idle``: it was rejected, or changed nothing."""
        ...

    def record_sent(self, now: float, send: kernel.Send[messages.AnyMessage]) -> None:
        """Record a message to be sent."""
        ...

    def record_gone(self, party: str) -> None:
        """Record that the broker reports a party as gone."""
        ...

    def waits(self, whom: Collection[str], seconds: float, asked: int = 0) -> None:
        """Record ``seconds`` of waiting for peers ``whom``, of ``asked`` in this step (0: unknown)."""
        ...

    def remark(self, text: str) -> None:
        """Show a sentence to the operator; transcripts omit it."""
        ...

    def traffic(self, peer: str, direction: Literal["in", "out"], size: int) -> None:
        """Record the bytes of one frame; ``peer`` is its sender (by topic) or recipient."""
        ...


OpenWitness: TypeAlias = Callable[[RunPlan | None], Witness]


class DurableJournal(Protocol):
    """Store of ``Journal`` effects."""

    def note(self, round_: int, step: str) -> None:
        """Write durably."""
        ...


class DurableState(Protocol):
    """Store of ``Keep`` effects."""

    def keep(self, state: object) -> None:
        """Write durably and atomically."""
        ...


class DurableAccount(Protocol):
    """Store of ``Enter`` effects."""

    def enter(self, entry: kernel.AccountEntry) -> None:
        """Write durably."""
        ...


@dataclass(frozen=True, slots=True)
class LocalWork:
    """Computations of a process, performed in a worker thread.

    If training or choosing raises, the party sends zeros, and only its own log shows it. A ``SecureflError``
    in consulting costs the round its update. Other errors are bugs and end the process.
    """

    train: Callable[[kernel.Train], F64] | None = None
    """Function from request to update, f64 ``(d,)``. Calls never overlap."""
    holds_up: bool = False
    """True if a user's training code in this process may hold the interpreter lock."""
    choose: Callable[[F32], int | None] | None = None
    """From all models, f32 ``(k d,)``, to the best one's index; None if no loss is finite."""
    evaluate: Callable[[F32], sgd.Evaluation | None] | None = None
    """Returns None without test data."""
    consult: Callable[[int, F32, tuple[int, ...]], tuple[F64, ...]] | None = None
    """From (round, parameters, reclusterings) to one gradient of the server's data for each."""
