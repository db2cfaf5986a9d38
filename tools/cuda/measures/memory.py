"""Resident and GPU memory of a command's processes, sampled while it runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from statistics import median
from types import TracebackType
from typing import Any, Final, Self

from tools.cuda.environment import mebibytes, query_gpu

_EVERY: Final = 0.5
"""Seconds from one sample to the next."""
FORKSERVER: Final = "multiprocessing.forkserver"
"""Part of the command line of the process that server and parties are forked from."""


class Memory:
    """Samples the memory of a process and its descendants from a thread, while the context is open.

    Of ``securefl run``, server and parties count, not launcher and broker; their number is the most at one
    time. Sizes are the most of each process in MiB; of several processes the median.

    Args:
        device: with ``cuda`` nvidia-smi is asked, too.
        resident: bytes by process id of the processes that count, of the process with the given id.
    """

    def __init__(self, device: str, resident: Callable[[int], dict[int, int]] | None = None) -> None:
        self._device = device
        self._resident = resident or resident_bytes
        self._pid: int | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample_on, daemon=True)
        self._processes = 0
        self._rss: dict[int, float] = {}
        self._apps: dict[int, float] = {}
        self._strangers = set(_apps()) if device == "cuda" else set()
        self._used_before = _used() if device == "cuda" else None
        self._used: float | None = None

    def watch(self, pid: int) -> None:
        """Begin to sample a process and its descendants."""
        self._pid = pid
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._pid is not None:
            self._thread.join()

    def sample(self, pid: int) -> None:
        """Take one sample."""
        found = self._resident(pid)
        self._processes = max(self._processes, len(found))
        for process, size in found.items():
            self._rss[process] = max(self._rss.get(process, 0.0), size / 2**20)
        if self._device != "cuda":
            return
        for process, mib in _apps().items():
            if process not in self._strangers:
                self._apps[process] = max(self._apps.get(process, 0.0), mib)
        used = _used()
        if used is not None:
            self._used = max(self._used or 0.0, used)

    def fields(self) -> dict[str, Any]:
        """Return the fields of a result; those that nvidia-smi does not print are missing."""
        found: dict[str, Any] = {"processes": self._processes}
        if self._rss:
            found["rss_mib"] = round(median(self._rss.values()))
        if self._apps:
            # In a container nvidia-smi may list processes by ids of the host: they are counted, not matched.
            found["gpu_processes"] = len(self._apps)
            found["gpu_mib"] = round(median(self._apps.values()))
        if self._used is not None and self._used_before is not None:
            found["gpu_total_mib"] = round(self._used - self._used_before)
        return found

    def _sample_on(self) -> None:
        assert self._pid is not None  # noqa: S101 - for the type checker: watch() sets it
        while not self._ended.is_set():
            self.sample(self._pid)
            self._ended.wait(_EVERY)


def resident_bytes(pid: int) -> dict[int, int]:
    """Return bytes by process: of the forked descendants of a process, or of itself if there are none."""
    import psutil  # noqa: PLC0415 - the list of measures needs no packages

    found: dict[int, int] = {}
    try:
        root = psutil.Process(pid)
        for process in root.children(recursive=True):
            try:
                parent = process.parent()
                if parent is not None and parent.ppid() == pid and FORKSERVER in " ".join(parent.cmdline()):
                    found[process.pid] = process.memory_info().rss
            except psutil.Error:
                continue
        return found or {pid: root.memory_info().rss}
    except psutil.Error:
        return {}


def _apps() -> dict[int, float]:
    """Return MiB of GPU memory by process id, as far as nvidia-smi says."""
    rows = query_gpu("compute-apps", "pid,used_memory")
    sizes = [(pid, mebibytes(size)) for pid, size in rows if pid.isdigit()]
    return {int(pid): size for pid, size in sizes if size is not None}


def _used() -> float | None:
    """Return MiB of GPU memory in use by all processes."""
    rows = query_gpu("gpu", "memory.used")
    return mebibytes(rows[0][0]) if rows else None
