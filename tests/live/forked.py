"""Programs that do not import everything anew: forked from the fork server that runs share."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, cast

from securefl.runtime.children import PRELOAD


@dataclass(frozen=True)
class Forked:
    """``securefl`` with these arguments, as a process of its own."""

    process: ForkServerProcess
    stdout: Path
    stderr: Path

    def wait(self, seconds: float) -> tuple[int | None, str, str]:
        """Exit code (None for one that hangs, and is killed), stdout and stderr."""
        self.process.join(seconds)
        code = self.process.exitcode
        self.process.kill()
        self.process.join()
        return code, self.stdout.read_text(), self.stderr.read_text()


def fork(folder: Path, *arguments: str, training: float = 0.0) -> Forked:
    """Start ``securefl``; what it says goes to new files in ``folder``. Training takes so much longer (s)."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOAD))
    folder.mkdir()
    forked = Forked(
        context.Process(target=_program, args=(folder, arguments, training), daemon=True),
        folder / "stdout",
        folder / "stderr",
    )
    forked.process.start()
    return forked


def _program(folder: Path, arguments: tuple[str, ...], training: float) -> None:
    for stream, name in ((1, "stdout"), (2, "stderr")):
        file = os.open(folder / name, os.O_WRONLY | os.O_CREAT)
        os.dup2(file, stream)
        os.close(file)
    sys.argv = ["securefl", *arguments]
    if training:
        _slow_down(training)
    from securefl.cli.app import main  # noqa: PLC0415 - in the process that it is for

    main()


def _slow_down(seconds: float) -> None:
    """As with a larger model or more data, without the processor time."""
    from securefl.learning.rounds import RoundTrainer  # noqa: PLC0415 - in the process that it is for

    update = RoundTrainer.update

    def slow(*arguments: Any) -> Any:
        time.sleep(seconds)
        return update(*arguments)

    vars_of = cast("Any", RoundTrainer)
    vars_of.update = slow
