"""Processes of a run as functions of their settings; each closes its transcript at any end.

All threads are started at once: an event loop starts another whenever all are busy (a quarter of a megabyte
each). CPython collects the oldest generation once new objects are a quarter of it: after ten thousand rounds,
at a kilobyte each. glibc gives each thread an arena, with holes of many times the model's size. After 20
verified rounds of 1.2 million parameters a server had 1.9 GB and a party 0.9 GB; with one arena 0.8 and 0.5
GB.
"""

import asyncio
import contextlib
import ctypes
import gc
import os
import sys
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier
from typing import Any, Final, Protocol, TypeAlias

from securefl.base import logs
from securefl.base.errors import SecureflError
from securefl.methods.feasibility import check
from securefl.protocol import kernel
from securefl.protocol.round import RunPlan
from securefl.runtime import monitoring, process, report
from securefl.runtime.launch.interrupts import block_signals, detach_wakeup
from securefl.runtime.launch.observer import ObserverSettings, watch

_OBJECTS: Final = 700
"""Maximum new objects before a collection: Python 3.13 waits for 2,000."""
_YOUNG: Final = 5
_OLD: Final = 1
"""Collections of younger generations before an older one; 10 by default."""
_ARENA_MAX: Final = -8
"""``M_ARENA_MAX`` of glibc's ``malloc.h``."""


def limit_arenas() -> None:
    """Let all threads allocate from one arena (glibc only).

    Call it before the process starts threads. ``MALLOC_ARENA_MAX`` in the environment takes precedence.
    """
    if sys.platform == "linux" and "MALLOC_ARENA_MAX" not in os.environ:
        with contextlib.suppress(AttributeError, OSError):
            ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)


@contextmanager
def freeze_garbage() -> Iterator[None]:
    """Exclude existing objects from garbage collection in the context, and collect new ones often."""
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    gc.freeze()
    gc.set_threshold(min(before[0], _OBJECTS), _YOUNG, _OLD)
    # Resets the count of objects.
    gc.collect()
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if not frozen:
            gc.unfreeze()


THREADS: Final = 6
"""For a step, a message, training, testing, a broker's address, and one spare."""


def ready_threads(count: int = THREADS) -> ThreadPoolExecutor:
    """Return a pool whose threads are all started."""
    pool = ThreadPoolExecutor(count, "securefl")
    meeting = Barrier(count)
    try:
        # A waiting thread is busy, so each task needs its own.
        for _ in range(count):
            pool.submit(meeting.wait)
    except BaseException as error:
        # Otherwise they, and the process, would wait for ever.
        meeting.abort()
        if not isinstance(error, RuntimeError):
            pool.shutdown(wait=False)
            raise
        # No more threads: use the existing ones.
    return pool


Body: TypeAlias = Callable[
    [process.ProcessSettings, process.OpenWitness], Coroutine[Any, Any, kernel.Finished | kernel.Aborted]
]


class Leader(Protocol):
    """Recorder of more than a transcript: a deployment's server."""

    @property
    def monitor(self) -> monitoring.RunMonitor:
        """State for metrics, which the leader completes by the records of rounds."""
        ...

    def check(self) -> None:
        """Check the locked folder, before anything else.

        Raises:
            ConfigError: the folder is not free.
        """
        ...

    def begin(self, plan: RunPlan) -> None:
        """Begin to write: all is checked, and the broker is reached.

        Raises:
            ConfigError, RunAbortedError: the write failed.
        """
        ...


def run_process(
    settings: process.ProcessSettings,
    tell: Callable[[report.News], None],
    body: Body,
    leader: Leader | None = None,
) -> kernel.Finished | kernel.Aborted:
    """Run ``body`` to its end and return the outcome.

    With ``settings.metrics_port`` the process serves the metrics of ``leader``, or its own.

    Raises:
        ConfigError: refused, or another process of this name holds the folder; nothing was written.
        RunAbortedError: broker or disk failed; the transcript ends with the reason, if the disk allows.
    """
    limit_arenas()
    ring_bits = check(settings.scenario).ring_bits
    own = monitoring.RunMonitor(settings.run, settings.scenario)
    monitor = own if leader is None else leader.monitor

    def tell_both(news: report.News) -> None:
        monitor.take(settings.name, news)
        tell(news)

    with (
        logs.bind_run(settings.run, settings.name),
        process.claim_folder(settings.out, settings.name),
        serve_metrics(settings, monitor) as url,
    ):
        if url:
            tell(report.Remark(f"metrics at {url}/metrics"))
        if leader is not None:
            leader.check()
        return _run(settings, tell_both, body, ring_bits, leader, monitor)


@contextmanager
def serve_metrics(options: process.MetricsOptions, monitor: monitoring.RunMonitor) -> Iterator[str]:
    """Serve the state of ``monitor`` in the context; yield the URL, empty if the options have no port.

    Raises:
        ConfigError: the address cannot be used, or prometheus_client is missing.
    """
    if options.metrics_port is None:
        yield ""
        return
    with monitoring.monitoring(options.metrics_host, options.metrics_port, monitor) as url:
        yield url


def _run(
    settings: process.ProcessSettings,
    tell: Callable[[report.News], None],
    body: Body,
    ring_bits: int,
    leader: Leader | None,
    monitor: monitoring.RunMonitor,
) -> kernel.Finished | kernel.Aborted:
    opened: list[report.ProcessWitness] = []
    heap = contextlib.ExitStack()

    def open_witness(plan: RunPlan | None) -> process.Witness:
        if leader is not None and plan is not None:
            leader.begin(plan)
        if settings.metrics_port is not None and plan is not None:
            monitor.begin(settings.name, plan, seeded=settings.insecure_seed is not None)
        opened.append(report.ProcessWitness(settings, tell, ring_bits, plan))
        # Models and data are loaded by now.
        heap.enter_context(freeze_garbage())
        return opened[-1]

    async def to_the_end() -> kernel.Finished | kernel.Aborted:
        asyncio.get_running_loop().set_default_executor(ready_threads())
        outcome = await body(settings, open_witness)
        # The loop's end waits even for an obsolete training.
        for witness in opened:
            witness.close(outcome)
        return outcome

    try:
        with heap, contextlib.ExitStack() as stack:
            with block_signals():
                # A half-made loop complains at the end of the process.
                runner = stack.enter_context(asyncio.Runner())
                stack.callback(detach_wakeup)
            return runner.run(to_the_end())
    except (Exception, KeyboardInterrupt) as error:
        for witness in opened:
            # The disk may be the cause, or the launcher gone: raise the first error.
            with contextlib.suppress(SecureflError, OSError):
                witness.close(kernel.Aborted(_reason(error)))
        raise


def _reason(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return process.stopped_by(str(error) or "SIGINT")
    return (
        str(error)
        if isinstance(error, SecureflError)
        else f"internal error of securefl, please report it: {error!r}"
    )


def party(
    settings: process.ProcessSettings, tell: Callable[[report.News], None]
) -> kernel.Finished | kernel.Aborted:
    """Run one party to its end."""
    from securefl.runtime.process import run_party  # noqa: PLC0415 - torch: the launcher needs the name only

    return run_process(settings, tell, run_party)


def server(
    settings: process.ProcessSettings,
    tell: Callable[[report.News], None],
    leader: Leader | None = None,
) -> kernel.Finished | kernel.Aborted:
    """Run the server to its end; ``leader`` records more than a transcript."""
    from securefl.runtime.process import run_server  # noqa: PLC0415 - torch: the launcher needs the name only

    return run_process(settings, tell, run_server, leader)


def dealer(
    settings: process.ProcessSettings, tell: Callable[[report.News], None]
) -> kernel.Finished | kernel.Aborted:
    """Run the dealer to its end."""
    return run_process(settings, tell, process.run_dealer)


def observer(settings: process.ProcessSettings, tell: Callable[[report.News], None]) -> None:
    """Observe a local run."""
    watch(ObserverSettings(**process.shared_fields(settings, ObserverSettings)), tell)
