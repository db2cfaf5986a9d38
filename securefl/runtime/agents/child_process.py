"""Process of one run, started by an agent: it ends in good order if the agent is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from securefl.runtime.agents import register

_DIE_WITH_PARENT: Final = Path(__file__).parents[1] / "transport" / "_die_with_parent.py"


class RunProcess:
    """A started process, whose output goes to the run's log."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._sent = set[int]()

    @classmethod
    async def start(cls, known: register.KnownRun, words: Sequence[str], folder: Path) -> RunProcess | None:
        """Start ``securefl``; return None while an earlier process of the run still ends.

        Raises:
            OSError: it cannot be started, or the log cannot be written.
        """
        with known.process_lock() as lock:
            if lock is None:
                return None
            with (known.folder / register.LOG).open("ab") as log:
                # The lock stays with the process, also if this one is killed.
                process = await asyncio.create_subprocess_exec(
                    sys.executable, "-I", "-S", str(_DIE_WITH_PARENT), str(os.getpid()),
                    sys.executable, "-m", "securefl", *words,
                    cwd=folder, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(lock,),
                    start_new_session=True,
                )  # fmt: skip
        return cls(process)

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative for a signal."""
        return self._process.returncode

    def send(self, number: signal.Signals) -> None:
        """Send a signal once."""
        if number not in self._sent and self._process.returncode is None:
            self._sent.add(number)
            self._process.send_signal(number)

    async def wait(self) -> None:
        """Wait for its end."""
        await self._process.wait()
