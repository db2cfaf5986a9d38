"""The processes of a run as functions of their settings; each closes its transcript, however the run ends."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeAlias

from securefl.base.errors import SecureflError
from securefl.methods.feasibility import check
from securefl.protocol import kernel
from securefl.protocol.round import RunPlan
from securefl.runtime import process, report
from securefl.runtime.launch.heap import limit_arenas, settled
from securefl.runtime.launch.interrupts import detach_wakeup, undisturbed
from securefl.runtime.launch.observer import ObserverSettings, watch
from securefl.runtime.launch.threads import ready_threads

Body: TypeAlias = Callable[
    [process.ProcessSettings, process.OpenWitness], Coroutine[Any, Any, kernel.Finished | kernel.Aborted]
]
"""``run_party`` or ``run_server``."""


class Leader(Protocol):
    """Whoever leaves more of a run than a transcript: a deployment's server."""

    def check(self) -> None:
        """Look at the folder, once it is this process's own, before anything else happens.

        Raises:
            ConfigError: something stands in the way.
        """
        ...

    def begin(self, plan: RunPlan) -> None:
        """Begin to write: all is checked, and the broker reached.

        Raises:
            ConfigError, RunAbortedError: it cannot be written.
        """
        ...


def run_process(
    settings: process.ProcessSettings,
    tell: Callable[[report.News], None],
    body: Body,
    leader: Leader | None = None,
) -> kernel.Finished | kernel.Aborted:
    """Run ``body`` to its end and return how it ended.

    Raises:
        ConfigError: refused; nothing was written. Another process of this name holds the folder, for one, or
            it is the server's and holds a run already.
        RunAbortedError: broker or disk failed; the transcript ends with the reason, or with its last whole
            line where the disk is full.
    """
    limit_arenas()
    ring_bits = check(settings.scenario).ring_bits
    with process.claimed(settings.out, settings.name):
        if leader is not None:
            leader.check()
        return _run(settings, tell, body, ring_bits, leader)


def _run(
    settings: process.ProcessSettings,
    tell: Callable[[report.News], None],
    body: Body,
    ring_bits: int,
    leader: Leader | None,
) -> kernel.Finished | kernel.Aborted:
    opened: list[report.ProcessWitness] = []
    heap = contextlib.ExitStack()

    def open_witness(plan: RunPlan | None) -> process.Witness:
        if leader is not None and plan is not None:
            leader.begin(plan)
        opened.append(report.ProcessWitness(settings, tell, ring_bits, plan))
        # Models and data are there by now.
        heap.enter_context(settled())
        return opened[-1]

    async def to_the_end() -> kernel.Finished | kernel.Aborted:
        asyncio.get_running_loop().set_default_executor(ready_threads())
        outcome = await body(settings, open_witness)
        # Here: behind the loop's end waits a training that nobody needs any more, for as long as it takes.
        for witness in opened:
            witness.close(outcome)
        return outcome

    try:
        with heap, contextlib.ExitStack() as stack:
            with undisturbed():
                # Half a loop complains, at the end of the process, that it cannot be closed.
                runner = stack.enter_context(asyncio.Runner())
                stack.callback(detach_wakeup)
            return runner.run(to_the_end())
    except (Exception, KeyboardInterrupt) as error:
        for witness in opened:
            # The disk may be what failed, and the launcher may be gone: the first error is the one to tell.
            with contextlib.suppress(SecureflError, OSError):
                witness.close(kernel.Aborted(_reason(error)))
        raise


def _reason(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return process.stopped_by(str(error) or "SIGINT")
    return str(error) if isinstance(error, SecureflError) else f"internal error: {error!r}"


def party(
    settings: process.ProcessSettings, tell: Callable[[report.News], None]
) -> kernel.Finished | kernel.Aborted:
    """Run one party to its end."""
    from securefl.runtime.process import run_party  # noqa: PLC0415 - torch: the launcher needs the name only

    return run_process(settings, tell, run_party)


def server(
    settings: process.ProcessSettings, tell: Callable[[report.News], None], leader: Leader | None = None
) -> kernel.Finished | kernel.Aborted:
    """Run the server to its end; ``leader`` leaves more of the run than a transcript."""
    from securefl.runtime.process import run_server  # noqa: PLC0415 - torch: the launcher needs the name only

    return run_process(settings, tell, run_server, leader)


def dealer(
    settings: process.ProcessSettings, tell: Callable[[report.News], None]
) -> kernel.Finished | kernel.Aborted:
    """Run the dealer to its end."""
    return run_process(settings, tell, process.run_dealer)


def observer(settings: process.ProcessSettings, tell: Callable[[report.News], None]) -> None:
    """Observe a local run."""
    watch(ObserverSettings(**process.carried(settings, ObserverSettings)), tell)
