"""``securefl`` commands within the time of a task, with the memory that they take."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

from tools.cuda.measures.memory import Memory
from tools.cuda.measures.timing import spread
from tools.cuda.unit import Task, TimeIsUpError

_LAST: Final = 2000
"""Characters of an error that are passed on."""
_TO_END: Final = 4.0
"""Seconds that an interrupted command may take to end."""


def call(arguments: Sequence[str], task: Task, log: Path, memory: Memory | None = None) -> int:
    """Run ``securefl`` with these arguments; return its exit code.

    The command is in the group of this process, so that whoever stops this one stops it, too.

    Args:
        arguments: after ``securefl``.
        task: its time is the time of the command.
        log: takes its output.
        memory: watches its processes.

    Raises:
        TimeIsUpError: its time is up; it was interrupted, and has ended.
    """
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "securefl", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # A home that cannot be written to must not matter.
            env={**os.environ, "SECUREFL_STATE": str(log.parent / "state")},
        )
        try:
            if memory is not None:
                memory.watch(process.pid)
            return process.wait(max(0.1, task.left - _TO_END))
        except subprocess.TimeoutExpired:
            raise TimeIsUpError from None
        finally:
            _stop(process)


def measure_rounds(
    arguments: Sequence[str], task: Task, data_dir: Path | None, rounds: int
) -> dict[str, Any]:
    """Run ``securefl run`` or ``simulate`` for some rounds; return seconds a round and memory.

    The first round does not count: it is the one in which caches are filled and kernels are loaded.

    Args:
        arguments: the command, its scenario and its options.
        task: device and time.
        data_dir: of data sets, if it needs any.
        rounds: with the first one.

    Raises:
        TimeIsUpError: its time was up.
        RuntimeError: it failed.
    """
    with TemporaryDirectory(prefix="securefl-cuda-") as folder, Memory(task.device) as memory:
        out, log = Path(folder) / "out", Path(folder) / "log"
        options = [
            "--device",
            task.device,
            "--out",
            str(out),
            "--set",
            f"stop.rounds={rounds}",
            "--set",
            "expect=[]",
        ]
        if data_dir is not None:
            options += ["--data-dir", str(data_dir)]
        began = time.monotonic()
        code = call([*arguments, *options], task, log, memory)
        whole = time.monotonic() - began
        if code != 0:
            text = log.read_text(encoding="utf-8", errors="replace")[-_LAST:]
            raise RuntimeError(f"securefl {' '.join(arguments[:2])}: exit code {code}\n{text}")
        lines = (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        done = [json.loads(line) for line in lines]
    times = [one["seconds"] for one in done]
    counted = times[1:]
    return {
        **spread([one["total"] for one in counted]),
        "training": round(median(one["training"] for one in counted), 4),
        "start_and_end": round(whole - sum(one["total"] for one in times), 1),
        "counted": min(one["counted"] for one in done),
        **memory.fields(),
    }


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Interrupt a command that runs, as Ctrl-C does, and kill it if it does not end."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGINT)
    try:
        process.wait(_TO_END)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
