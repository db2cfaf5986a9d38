"""Process of a site apart: its start, its end, and validated frames of JSON.

A frame is a header and JSON of limited length; arrays are in shared memory. Any other message ends the
process and all processes that it started.
"""

import contextlib
import fcntl
import json
import math
import mmap
import os
import select
import signal
import socket
import subprocess
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from securefl.training.sites import child
from securefl.training.sites.layout import Layout, SiteError

LONGEST = 1 << 22
"""Most bytes of JSON in a reply."""
MOST_OUTPUT = 1 << 16
"""Most bytes of output that are kept until they are taken."""
_CHILD = Path(__file__).with_name("child.py")
_KEPT = {"PATH", "HOME", "LANG", "TMPDIR", "TZ", "USER", "LOGNAME", "LD_LIBRARY_PATH"}
_KEPT_PREFIXES = ("LC_", "CUDA_", "NVIDIA_", "OMP_", "MKL_", "OPENBLAS_")
"""Environment variables that a site's process inherits: none with passwords."""


class Region:
    """Memory shared with a site's process: f32 parameters for it, and space for its results."""

    def __init__(self, layout: Layout) -> None:
        total = layout.length
        self.shapes = layout.shapes
        self.bytes = max(1, (4 + child.WIDE) * total)
        self.descriptor = os.memfd_create("securefl-site", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        weakref.finalize(self, os.close, self.descriptor)
        os.ftruncate(self.descriptor, self.bytes)
        # The other process could truncate it, and reading it would kill this one.
        fcntl.fcntl(
            self.descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        )
        self._shared = mmap.mmap(self.descriptor, self.bytes)
        flat = np.frombuffer(self._shared, np.float32, total)
        self.given: dict[str, npt.NDArray[np.float32]] = {}
        self._places: dict[str, int] = {}
        start = 0
        for name, shape in layout.shapes.items():
            length = math.prod(shape)
            self.given[name] = flat[start : start + length].reshape(shape)
            self._places[name] = 4 * total + child.WIDE * start
            start += length

    @property
    def layout(self) -> list[tuple[str, tuple[int, ...], int]]:
        """Names, shapes and lengths, in order."""
        return [(name, shape, math.prod(shape)) for name, shape in self.shapes.items()]

    def returned_array(self, name: str, dtype: str) -> npt.NDArray[Any]:
        """Return the result for ``name``: a view that the other process may still change."""
        shape = self.shapes[name]
        view = np.frombuffer(self._shared, dtype, math.prod(shape), self._places[name]).reshape(shape)
        view.flags.writeable = False
        return view


class Channel:
    """One process, which answers one request at a time.

    ``memory`` is MB of data, 0 for no limit; ``folder`` the current directory; ``said`` output of an earlier
    process for the log.

    Raises:
        SiteError: the interpreter cannot be started.
    """

    def __init__(self, python: Path, memory: int, folder: Path, last_output: str = "") -> None:
        ours, theirs = socket.socketpair()
        limit = str(memory * 1_000_000)
        try:
            process = subprocess.Popen(  # noqa: S603 - the site's owner names the interpreter
                # Isolated: neither PYTHONPATH nor this folder is searched.
                [python, "-I", "-u", _CHILD, str(theirs.fileno()), limit],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(theirs.fileno(),),
                env=_environment(),
                cwd=folder,
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            raise SiteError(f"{python} cannot be started: {error.strerror}") from error
        finally:
            theirs.close()
        self._socket, self._number = ours, 0
        self._ended = os.pidfd_open(process.pid)
        self._output = _Output(process, last_output)
        self._close = weakref.finalize(self, _end, process, ours, self._ended)
        self.exit_code: int | None = None
        self._process = process

    @property
    def closed(self) -> bool:
        """True if the process has been ended."""
        return not self._close.alive

    def close(self) -> None:
        """End the process and its group."""
        if self._close.alive:
            self._close()
            self._output.finish()

    def output(self) -> str:
        """Return the output since the last call."""
        return self._output.take()

    def share(self, region: Region, due: float) -> dict[str, Any]:
        """Share the memory ``region`` with the process; return the reply, as for :meth:`ask`."""
        return self.ask({"do": "region", "bytes": region.bytes, "layout": region.layout}, due, region)

    def ask(self, what: dict[str, Any], due: float, region: Region | None = None) -> dict[str, Any]:
        """Send a request, with ``region`` if given; return the reply, by the monotonic time ``due``.

        Raises:
            SiteError: the reply is late or has the wrong form. The process has been ended.
        """
        try:
            return self._ask(json.dumps(what).encode(), due, region)
        except BaseException:
            self.close()
            raise

    def _ask(self, text: bytes, due: float, region: Region | None) -> dict[str, Any]:
        self._refuse_unasked()
        self._number += 1
        try:
            self._socket.settimeout(max(0.001, due - time.monotonic()))
            self._socket.sendall(child.HEADER.pack(child.MAGIC, self._number, len(text)) + text)
            if region is not None:
                socket.send_fds(self._socket, [b"R"], [region.descriptor])
        except TimeoutError as error:
            raise SiteError("its process took too long and was killed") from error
        except OSError as error:
            raise SiteError(self._how_it_ended()) from error
        magic, number, length = child.HEADER.unpack(self._read(child.HEADER.size, due))
        if magic != child.MAGIC or number != self._number or not 2 <= length <= LONGEST:
            raise SiteError("its process wrote what is no reply")
        reply = self._read(length, due)
        self._refuse_unasked()
        try:
            answer = json.loads(reply)
        except (ValueError, RecursionError) as error:
            raise SiteError("its process wrote what is no reply") from error
        if not isinstance(answer, dict):
            raise SiteError("its process wrote what is no reply")
        return answer

    def _read(self, size: int, due: float) -> bytearray:
        buffer, at = bytearray(size), 0
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        poll.register(self._ended, select.POLLIN)
        with memoryview(buffer) as view:
            while at < size:
                left = due - time.monotonic()
                if left <= 0:
                    raise SiteError("its process took too long and was killed")
                ready = {descriptor for descriptor, _ in poll.poll(math.ceil(1000 * left))}
                if self._socket.fileno() in ready:
                    at += self._some(view[at:])
                elif self._ended in ready:
                    raise SiteError(self._how_it_ended())
        return buffer

    def _some(self, view: memoryview) -> int:
        with contextlib.suppress(ConnectionError):
            if count := self._socket.recv_into(view):
                return count
        raise SiteError(self._how_it_ended())

    def _refuse_unasked(self) -> None:
        """Check that no data are readable between a reply and the next request."""
        self._socket.settimeout(0)
        try:
            if self._socket.recv(1, socket.MSG_PEEK):
                raise SiteError("its process wrote more than its reply")
        except BlockingIOError:
            return
        except ConnectionError as error:
            raise SiteError(self._how_it_ended()) from error
        raise SiteError(self._how_it_ended())

    def _how_it_ended(self) -> str:
        self.close()
        code = self._process.returncode
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"its process ended ({how})"


class _Output:
    """Output of a process, up to a limit; the rest is discarded, so that the process never blocks."""

    def __init__(self, process: subprocess.Popen[bytes], first_output: str) -> None:
        self._pipe = process.stdout
        self._kept = bytearray(first_output.encode())
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._drain, name="site output", daemon=True)
        self._thread.start()

    def take(self) -> str:
        """Return and clear the kept output."""
        with self._lock:
            output, self._kept = self._kept, bytearray()
        return output.decode(errors="replace")

    def finish(self) -> None:
        """Wait for the last output, but not for a process that keeps the pipe."""
        self._thread.join(1.0)

    def _drain(self) -> None:
        if self._pipe is None:
            return
        with self._pipe as pipe:
            while part := os.read(pipe.fileno(), 1 << 16):
                with self._lock:
                    self._kept += part[: max(0, MOST_OUTPUT - len(self._kept))]


def _environment() -> dict[str, str]:
    return {
        name: value for name, value in os.environ.items() if name in _KEPT or name.startswith(_KEPT_PREFIXES)
    }


def _end(process: subprocess.Popen[bytes], channel: socket.socket, ended: int) -> None:
    """Kill the group before waiting for its leader: until then no other process can have its number."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    channel.close()
    os.close(ended)
