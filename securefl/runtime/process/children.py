"""Processes of a run on one machine: start and supervision.

A fork server imports the heavy libraries once: 60 processes start in seconds and share them. CUDA would not
survive the fork, and is initialised after it. No child outlives the launcher
(:mod:`securefl.runtime.process.parent_death`).
"""

from __future__ import annotations

import multiprocessing
import os
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from typing import Any

from securefl.base import logs
from securefl.base.errors import EXIT_ABORTED, EXIT_REFUSED, ConfigError, SecureflError, UsageError
from securefl.base.ids import PartyId
from securefl.runtime.process import parent_death
from securefl.runtime.process.settings import ProcessSettings

PRELOAD = (
    "torch",
    "numpy",
    "cryptography.hazmat.primitives.asymmetric.ed25519",
    "cryptography.hazmat.primitives.ciphers.aead",
    "aiomqtt",
    "msgspec",
    "securefl.runtime.process.party_process",
    "securefl.runtime.process.server_process",
    "securefl.runtime.launch.process",
)

_PATIENCE = 15.0
"""Seconds between SIGTERM and SIGKILL."""


@dataclass(frozen=True, slots=True)
class Said:
    """Object that a process sent over its pipe."""

    name: PartyId
    item: object


@dataclass(frozen=True, slots=True)
class Died:
    """End of a process. ``exit_code`` is negative for a signal."""

    name: PartyId
    exit_code: int


@dataclass(frozen=True, slots=True)
class Fatal:
    """Failure that ends a process, sent as its last item."""

    reason: str
    refused: bool
    """True if its configuration was refused (exit code 2)."""
    field: str = ""
    """Field, file or option that was refused."""


Main = Callable[[ProcessSettings, Callable[[Any], None]], object]
"""Function of the settings and of a function that sends to the launcher."""


class Children:
    """Processes of one run, ended on exit from the context."""

    def __init__(self, preload: Sequence[str] = PRELOAD) -> None:
        self._context = multiprocessing.get_context("forkserver")
        # The lifeline comes before slow imports.
        self._context.set_forkserver_preload([parent_death.__name__, *preload])
        with parent_death.as_launcher():
            forkserver.ensure_running()
        self._processes: dict[PartyId, ForkServerProcess] = {}
        self._pipes: dict[PartyId, Connection] = {}

    def __enter__(self) -> Children:
        return self

    def __exit__(self, *_error: object) -> None:
        self.end()

    def start(self, main: Main, settings: ProcessSettings) -> None:
        """Start one process.

        Raises:
            UsageError: a second process of this name.
        """
        if settings.name in self._processes:
            raise UsageError(
                f"cannot start process {settings.name}: a process of this name was started already; use"
                " another name"
            )
        ours, theirs = self._context.Pipe(duplex=False)
        process = self._context.Process(
            target=_child, args=(main, settings, theirs), name=settings.name, daemon=True
        )
        process.start()
        theirs.close()
        self._processes[settings.name] = process
        self._pipes[settings.name] = ours

    def wait(self, timeout: float | None = None) -> list[Said | Died]:
        """Wait for and return items and ends of processes."""
        by_pipe: dict[object, PartyId] = {pipe: name for name, pipe in self._pipes.items()}
        news: list[Said | Died] = []
        for ready in wait(list(self._pipes.values()), timeout):
            name = by_pipe[ready]
            pipe = self._pipes[name]
            try:
                news.append(Said(name, pipe.recv()))
            except (EOFError, OSError):
                # OSError: killed while sending.
                pipe.close()
                del self._pipes[name]
                process = self._processes[name]
                process.join(_PATIENCE)
                news.append(Died(name, process.exitcode if process.exitcode is not None else EXIT_ABORTED))
        return news

    @property
    def running(self) -> bool:
        """True if some process has not been seen to end."""
        return bool(self._pipes)

    def kill(self, name: PartyId) -> None:
        """Kill one process (SIGKILL)."""
        self._processes[name].kill()

    def end(self) -> None:
        """Terminate all processes, then kill those left."""
        for process in self._processes.values():
            if process.is_alive():
                process.terminate()
        deadline = time.monotonic() + _PATIENCE
        for process in self._processes.values():
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
        for pipe in self._pipes.values():
            pipe.close()
        self._pipes.clear()


def _child(main: Main, settings: ProcessSettings, pipe: Connection) -> None:
    parent_death.die_with(os.getppid())
    parent_death.end_when_broken(pipe.fileno())
    parent_death.heed_the_launcher_only()
    logs.apply_level()
    try:
        main(settings, pipe.send)
    except ConfigError as error:
        pipe.send(Fatal(str(error), refused=True, field=error.path))
        raise SystemExit(EXIT_REFUSED) from None
    except SecureflError as error:
        pipe.send(Fatal(str(error), refused=False))
        raise SystemExit(EXIT_ABORTED) from None
    except Exception as error:
        text = f"internal error ({type(error).__name__}: {error})"
        log = settings.out / f"{settings.name}.crash.log"
        try:
            log.write_text(traceback.format_exc(), encoding="utf-8")
            text += f"; please report {log}"
        except OSError as full:
            text += f"; {log} cannot be written: {full.strerror}"
        pipe.send(Fatal(text, refused=False))
        raise SystemExit(EXIT_ABORTED) from None
