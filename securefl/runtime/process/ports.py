"""Ports of a shell besides machine and transport: listeners, notes, computations."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from securefl.base.arrays import F32, F64
from securefl.protocol import kernel, messages, wire
from securefl.protocol.round import AnyReport, RunPlan
from securefl.training import sgd


class Witness(Protocol):
    """A listener to what this process saw and did: transcript, metrics, progress."""

    def report(self, now: float, item: AnyReport) -> None:
        """Take a fact that the machine reports."""
        ...

    def record_refusal(self, now: float, culprit: str, reason: str, evidence: bytes = b"") -> None:
        """Take a refusal, with an encoded charge if there is evidence."""
        ...

    def record_received(self, now: float, delivery: wire.Delivery, *, idle: bool = False) -> None:
        """Take a whole, verified message that came in; ``idle``: it was refused, or changed nothing."""
        ...

    def record_sent(self, now: float, send: kernel.Send[messages.AnyMessage]) -> None:
        """Take a message that is going out."""
        ...

    def waits(self, whom: Collection[str], seconds: float) -> None:
        """Take that this process has been waiting for them for so long; said ever more rarely."""
        ...

    def remark(self, text: str) -> None:
        """Take a sentence for the operator of this process; no transcript has it."""
        ...

    def traffic(self, peer: str, direction: Literal["in", "out"], size: int) -> None:
        """Take the size in bytes of one frame; ``peer`` is who sent it (by topic) or will get it."""
        ...


OpenWitness: TypeAlias = Callable[[RunPlan | None], Witness]
"""Opens a process's witness; of the plan of its run, where it makes one."""


class DurableJournal(Protocol):
    """The store that ``Journal`` effects are written to."""

    def note(self, round_: int, step: str) -> None:
        """Write durably."""
        ...


class DurableState(Protocol):
    """The store that ``Keep`` effects are written to."""

    def keep(self, state: object) -> None:
        """Write durably, and whole or not at all."""
        ...


class DurableAccount(Protocol):
    """The store that ``Enter`` effects are written to."""

    def enter(self, entry: kernel.AccountEntry) -> None:
        """Write durably."""
        ...


@dataclass(frozen=True, slots=True)
class LocalWork:
    """Work that this process can do besides talking, in a worker thread.

    If training or choosing raises an exception of any class, the party sends zeros: only its own log says so.
    A ``SecureflError`` in consulting costs the round its update. Any other error in consulting or evaluating
    is a bug and ends the process.
    """

    train: Callable[[kernel.Train], F64] | None = None
    """What is asked for to the update, f64 ``(d,)``. Never called while it is still at an earlier one."""
    holds_up: bool = False
    """True if training runs a user's code in this process: it may hold the interpreter lock."""
    choose: Callable[[F32], int | None] | None = None
    """All models, f32 ``(k d,)``, to the number of the one that fits best; None where no loss is finite."""
    evaluate: Callable[[F32], sgd.Evaluation | None] | None = None
    """Parameters to how good they are; None where there is nothing to test them on."""
    consult: Callable[[int, F32, tuple[int, ...]], tuple[F64, ...]] | None = None
    """(round, parameters, reclusterings) to gradients of the server's own data, one for each."""
