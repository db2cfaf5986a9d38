"""Parallel simulations and trials in processes; results and checkpoints on disk survive an interruption."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from securefl.base.errors import ConfigError, RunAbortedError, SecureflError
from securefl.lab.experiments.record import SeedRecord


class Work(Protocol):
    """Simulation, or trial on a drawn problem."""

    @property
    def seed(self) -> int:
        """Seed of all draws."""

    @property
    def stem(self) -> str:
        """Stem of its files: equal for jobs with equal results."""

    @property
    def rounds(self) -> int:
        """Planned rounds."""

    @property
    def draws(self) -> str:
        """Digest under which clusters are drawn; empty without clusters."""

    @property
    def folder(self) -> Path:
        """Folder of its files."""

    def check_device(self) -> None:
        """Refuse a missing device."""

    def read_finished(self) -> SeedRecord | None:
        """Return an earlier result, if any."""

    def forget(self) -> None:
        """Delete all files of an earlier run."""

    def measure(self, on_round: Callable[[int], None]) -> SeedRecord:
        """Run the job and keep the result."""


OnRound = Callable[[int, int], None]
OnDone = Callable[[int, SeedRecord], None]
OnRefused = Callable[[int, ConfigError], None]

_THREADS: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_PATIENCE: Final = 5.0
"""Seconds between the end and the kill of a worker."""


class _Refused(NamedTuple):
    """Parts of a ``ConfigError`` that refuses a job."""

    path: str
    reason: str
    remedy: str


class _Failed(NamedTuple):
    reason: str


_News = int | SeedRecord | _Refused | _Failed
"""Message of a worker: finished rounds, result, or reason of failure."""


def give_up(_index: int, error: ConfigError) -> None:
    """Raise the error of a refused job."""
    raise error


def run_jobs(
    jobs: Sequence[Work],
    processes: int,
    on_round: OnRound,
    on_done: OnDone,
    on_refused: OnRefused = give_up,
) -> None:
    """Run all jobs, at most ``processes`` at a time; one at a time in this process.

    Raises:
        ConfigError: a job is refused, and ``on_refused`` raises it.
        RunAbortedError: a job failed, or its process died.
    """
    if processes > 1 and len(jobs) > 1:
        _side_by_side(jobs, processes, on_round, on_done, on_refused)
        return
    for index, job in enumerate(jobs):
        try:
            record = job.measure(partial(on_round, index))
        except ConfigError as error:
            on_refused(index, error)
        else:
            on_done(index, record)


def _side_by_side(
    jobs: Sequence[Work], processes: int, on_round: OnRound, on_done: OnDone, on_refused: OnRefused
) -> None:
    with ExitStack() as stack:
        together = min(processes, len(jobs))
        pool = [stack.enter_context(_worker(together)) for _ in range(together)]
        waiting = iter(enumerate(jobs))
        busy: dict[Connection, int] = {}
        for worker in pool:
            _next(worker, waiting, busy)
        while busy:
            for ready in wait(list(busy)):
                pipe = next(pipe for pipe in busy if pipe is ready)
                match _hear(pipe):
                    case int(rounds):
                        on_round(busy[pipe], rounds)
                    case SeedRecord() as record:
                        on_done(busy.pop(pipe), record)
                        _next(pipe, waiting, busy)
                    case _Refused(path, reason, remedy):
                        on_refused(busy.pop(pipe), ConfigError(path, reason, remedy))
                        _next(pipe, waiting, busy)
                    case _Failed(reason):
                        raise RunAbortedError(reason)


def _next(pipe: Connection, waiting: Iterator[tuple[int, Work]], busy: dict[Connection, int]) -> None:
    for index, job in waiting:
        pipe.send(job)
        busy[pipe] = index
        return


def _hear(pipe: Connection) -> _News:
    try:
        news: _News = pipe.recv()
    except (EOFError, OSError):
        return _Failed("the process of a simulation died (out of memory?); give the same command to resume")
    return news


@contextmanager
def _worker(together: int) -> Iterator[Connection]:
    """Start a process that takes jobs, one of ``together``, and end it."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, together), daemon=True)
    with _single_threaded():
        process.start()
    theirs.close()
    try:
        yield ours
    finally:
        _end(process)
        ours.close()


def _end(process: SpawnProcess) -> None:
    process.terminate()
    process.join(_PATIENCE)
    if process.is_alive():
        process.kill()
        process.join()


@contextmanager
def _single_threaded() -> Iterator[None]:
    """Limit processes started in the body to one thread in numerical libraries."""
    former = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in former.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _serve(pipe: Connection, together: int) -> None:
    """Process jobs in a worker, one of ``together`` on a GPU, until the pipe is closed."""
    # Ctrl-C reaches the whole process group; the main process ends workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    from securefl.training.models import share_gpu  # noqa: PLC0415 - torch, which only workers need

    share_gpu(together)
    while True:
        try:
            job: Work = pipe.recv()
        except EOFError:
            return
        try:
            news: _News = job.measure(pipe.send)
        except BrokenPipeError:
            return
        except ConfigError as error:
            news = _Refused(error.path, error.reason, error.remedy)
        except (SecureflError, OSError) as error:
            news = _Failed(str(error))
        pipe.send(news)
