"""Program of a site in its own process: run by its file, in any environment with numpy.

It imports nothing of securefl except the folder ``adapters`` beside it. Python 3.9 or later, Linux.
"""

import asyncio
import contextlib
import importlib
import importlib.machinery
import importlib.util
import inspect
import json
import mmap
import operator
import os
import random
import resource
import select
import signal
import socket
import struct
import sys
import sysconfig
import threading
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Optional

HEADER = struct.Struct("!4sII")
"""Magic, request's number, bytes of JSON that follow."""
MAGIC = b"SFL1"
WIDE = 8
"""Bytes of each returned number."""


class TrainingRound(NamedTuple):
    """Round of a training, like ``securefl.RoundContext``."""

    number: int
    planned: int
    seed: int
    samples: Optional[int]  # noqa: UP045 - Python 3.9


class Clerk:
    """Handler of requests for one site."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._site: Any = None
        self._held: dict[str, Any] = {}
        self._given: dict[str, Any] = {}
        self._room: dict[str, Any] = {}
        self._places: dict[str, int] = {}

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Handle a request and return the reply."""
        work = {
            "open": self._open,
            "region": self._region,
            "parameters": self._parameters,
            "evaluate": self._evaluate,
            "fit": self._fit,
        }
        return work[asked["do"]](asked)

    def _open(self, asked: dict[str, Any]) -> dict[str, Any]:
        sys.path[:0] = asked["path"]
        self._site = site = _open_site(asked)
        lacking = [name for name in ("samples", "parameters", "fit") if not hasattr(site, name)]
        if lacking:
            return {"lacking": lacking}
        self._held = site.parameters()
        evaluates = getattr(site, "evaluate", None) is not None
        answer = {"samples": _count(site.samples), "evaluates": evaluates, "arrays": _kinds(self._held)}
        if getattr(site, "frozen_sha256", ""):
            answer["frozen_sha256"] = str(site.frozen_sha256)
        if getattr(site, "averaged", ()):
            answer["averaged"] = [str(name) for name in site.averaged]
        if asked["given"]["first"]:
            answer["state_head"] = getattr(site, "state_head", {})
        return answer

    def _region(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Map the shared memory: f32 parameters at its start, results behind them."""
        import numpy as np  # noqa: PLC0415 - after the memory limit is set, and of the site's environment

        _, (descriptor, *_), _, _ = socket.recv_fds(self._channel, 1, 1)  # type: ignore[attr-defined,unused-ignore]
        shared = mmap.mmap(descriptor, asked["bytes"])
        os.close(descriptor)
        # Parameters have the order of this layout, not of an earlier one.
        self._given, self._places, start = {}, {}, 0
        total = sum(length for _, _, length in asked["layout"])
        flat = np.frombuffer(shared, np.float32, total)
        for name, shape, length in asked["layout"]:
            self._given[name] = flat[start : start + length].reshape(shape)
            self._places[name] = 4 * total + WIDE * start
            start += length
        self._room = {"shared": shared}
        return {}

    def _parameters(self, _asked: dict[str, Any]) -> dict[str, Any]:
        return {"arrays": self._put(self._held)}

    def _evaluate(self, asked: dict[str, Any]) -> dict[str, Any]:
        _seed(asked["told"])
        judged = _await_result(self._site.evaluate(dict(self._given), TrainingRound(*asked["told"])))
        if not (isinstance(judged, tuple) and len(judged) == 2):
            return {"kind": _kind(judged)}
        return {"samples": _count(judged[0]), "metrics": _metrics(judged[1])}

    def _fit(self, asked: dict[str, Any]) -> dict[str, Any]:
        _seed(asked["told"])
        fitted = _await_result(self._site.fit(dict(self._given), TrainingRound(*asked["told"])))
        if not (isinstance(fitted, tuple) and len(fitted) == 3):
            return {"kind": _kind(fitted)}
        arrays, used, metrics = fitted
        change = not isinstance(arrays, Mapping) and hasattr(arrays, "arrays")
        arrays = arrays.arrays if change else arrays
        if not isinstance(arrays, Mapping):
            return {"unnamed": type(arrays).__name__}
        answer = {"change": change, "samples": _count(used), "metrics": _metrics(metrics)}
        return {"arrays": self._put(arrays), **answer}

    def _put(self, arrays: Mapping[str, Any]) -> list[list[Any]]:
        """Copy the arrays that fit into the shared memory; return names, dtypes and shapes of all."""
        import numpy as np  # noqa: PLC0415 - as above

        arrays = {name: _native(array) for name, array in arrays.items()}
        kinds = _kinds(arrays)
        for name, dtype, shape in kinds:
            there = self._given.get(name)
            if (
                there is not None
                and list(there.shape) == shape
                and dtype in {"float16", "float32", "float64"}
            ):
                size = int(there.size)
                room = np.frombuffer(self._room["shared"], dtype, size, self._places[name])
                room.reshape(there.shape)[...] = np.asarray(arrays[name])
        return kinds


def _seed(context: list[Any]) -> None:
    """Seed the default generators as a party does around its site."""
    import numpy as np  # noqa: PLC0415 - as above

    seed = int(TrainingRound(*context).seed)
    random.seed(seed)
    np.random.seed([seed & 0xFFFFFFFF, seed >> 32])  # noqa: NPY002 - what a site may use
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        torch.default_generator.manual_seed(seed)
        if torch.cuda.is_initialized():
            torch.cuda.manual_seed(seed)


def _open_site(asked: dict[str, Any]) -> Any:
    """Return the requested site: of a script, or of the object of ``module:name``."""
    offers = _adapter("offer")
    given = offers.Given(**{**asked["given"], "local": tuple(asked["given"]["local"])})
    if asked["script"]:
        return _adapter("nvflare").ScriptSite(asked["script"], asked["party"], given)
    module_name, _, name = asked["site"].partition(":")
    module = importlib.import_module(module_name)
    return offers.offer(getattr(module, name), module, asked["party"], given)


def _adapter(name: str) -> Any:
    """Return a module of the folder ``adapters``, in a package of another name than securefl."""
    package = "securefl_adapters"
    if package not in sys.modules:
        spec = importlib.machinery.ModuleSpec(package, None, is_package=True)
        spec.submodule_search_locations = [str(Path(__file__).with_name("adapters"))]
        sys.modules[package] = importlib.util.module_from_spec(spec)
    return importlib.import_module(f"{package}.{name}")


def _kinds(arrays: Mapping[str, Any]) -> list[list[Any]]:
    import numpy as np  # noqa: PLC0415 - as above

    found = ((name, np.asarray(array)) for name, array in arrays.items())
    return [[str(name), str(array.dtype), list(array.shape)] for name, array in found]


def _native(array: Any) -> Any:
    """Return floating-point numbers in native byte order, of at most 64 bits; others unchanged."""
    import numpy as np  # noqa: PLC0415 - as above

    found = np.asarray(array)
    if found.dtype.kind != "f":
        return found
    native = np.float64 if found.dtype.itemsize > WIDE else found.dtype.newbyteorder("=")
    return found.astype(native, copy=False)


def _count(value: Any) -> Any:
    if isinstance(value, (bool, float, str)):
        return value
    try:
        return operator.index(value)
    except TypeError:
        return repr(value)


def _metrics(found: Any) -> Any:
    if not isinstance(found, Mapping):
        return None
    return {str(name): _number(value) for name, value in found.items()}


def _number(value: Any) -> Any:
    """Convert a metric value for JSON: a number to a float, an array or sequence to a nested list.

    Booleans and text are kept. Any other value becomes its ``repr``.
    """
    if isinstance(value, bool):
        return value
    if getattr(value, "ndim", 0) or isinstance(value, (list, tuple)):
        return [_number(one) for one in value]
    plain = value.item() if getattr(value, "ndim", None) == 0 else value
    if isinstance(plain, (bool, str, bytes, complex)):
        return repr(plain) if isinstance(plain, (bytes, complex)) else plain
    try:
        return float(plain)
    except (TypeError, ValueError):
        return repr(plain)


def _kind(found: Any) -> str:
    return f"{len(found)} things" if isinstance(found, tuple) else type(found).__name__


def _await_result(result: Any) -> Any:
    if not inspect.isawaitable(result):
        return result

    async def wait() -> Any:
        return await result

    return asyncio.run(wait())


def _read(channel: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = channel.recv(size - len(parts))
        if not part:
            _end()
        parts += part
    return bytes(parts)


def _end() -> None:
    os.killpg(0, signal.SIGKILL)


def _watch(descriptor: int) -> None:
    """End this process and its children when the peer has closed the socket."""
    poll = select.poll()
    poll.register(descriptor, select.POLLRDHUP)
    while not poll.poll():
        continue
    _end()


def main(descriptor: int, memory: int) -> None:
    """Answer requests on the socket ``descriptor`` with at most ``memory`` bytes of data (0: no limit)."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory:
        # Data, not addresses, of which libraries reserve many times as much.
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    with contextlib.suppress(OSError):
        # Without memory the machine ends this process before the party's.
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    os.set_inheritable(descriptor, False)  # noqa: FBT003 - takes no names
    channel = socket.socket(fileno=descriptor)
    threading.Thread(target=_watch, args=(descriptor,), daemon=True).start()
    clerk = Clerk(channel)
    while True:
        _, number, length = HEADER.unpack(_read(channel, HEADER.size))
        try:
            reply = clerk.answer(json.loads(_read(channel, length)))
        except SystemExit as error:
            reply = {"error": f"exits with {error.code!r} in place of returning", "traceback": _trace()}
        except BaseException as error:
            reply = {**_failure(error), "traceback": _trace()}
        text = json.dumps(reply).encode()
        channel.sendall(HEADER.pack(MAGIC, number, len(text)) + text)


def _failure(error: BaseException) -> dict[str, str]:
    """Return the failure, and for a refused app also the reason and the remedy."""
    if not hasattr(error, "remedy"):
        return {"error": f"{_place(error)}{type(error).__name__}: {error}"}
    return {"error": str(error), "reason": str(getattr(error, "reason", error)), "remedy": str(error.remedy)}


def _place(error: BaseException) -> str:
    """Return the place of the site's innermost frame, as ``train.py:12 in fit: ``; see ``place_of``."""
    own = str(Path(__file__).parent) + os.sep
    libraries = tuple(
        sysconfig.get_path(kind) + os.sep for kind in ("stdlib", "platstdlib", "purelib", "platlib")
    )
    frames = [
        (frame.f_code.co_filename, line, frame.f_code.co_name)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not frame.f_code.co_filename.startswith(("<", own))
    ]
    if not frames:
        return ""
    site = [frame for frame in frames if not frame[0].startswith(libraries)]
    file, line, function = site[-1] if site else frames[0]
    return f"{Path(file).name}:{line} in {function}: "


def _trace() -> str:
    return traceback.format_exc()[-16_384:]


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
