"""Site in a process of its own, with its own Python environment (docs/adr/0048)."""

from __future__ import annotations

import importlib.util
import math
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from securefl.base.errors import ConfigError
from securefl.training.sites import layout, site
from securefl.training.sites.adapters.offer import Given
from securefl.training.sites.channel import Channel, Region
from securefl.training.sites.load import SiteMaker

START_SECONDS = 120.0
"""Time limit for making a site."""
MOST_NUMBERS = 1 << 31
"""Most numbers of a site's parameters."""
_MOST_DIMENSIONS = 32
_LONGEST_DTYPE = 40
"""Most characters of a dtype."""
_WIDEST = 1 << 10
"""Most bytes of one number or text of a dtype."""
_FLOATS = {"float16", "float32", "float64"}


@dataclass(frozen=True, slots=True)
class SiteProcess:
    """Process of a site apart from its party."""

    python: Path
    """Interpreter of the site's environment."""
    memory: int = 0
    """MB of data that a process may hold; 0 for no limit."""

    @classmethod
    def of_party(cls, python: Path | None, memory: int, *, required: bool) -> SiteProcess | None:
        """Return the process of a party's site; None for the party's own.

        If ``required``, the site may not share the party's process; the default is then this interpreter, and
        all memory of the machine. ``memory`` is in MB; 0 for the default.

        Raises:
            ConfigError: there is no such interpreter, or the system cannot isolate a site.
        """
        if python is None and not required:
            return None
        if python is None:
            python, memory = Path(sys.executable), memory or _machine_megabytes()
        found = cls(python, memory)
        _check(found)
        return found


NOTHING = Given()
"""Arguments for a user's site, which needs only its party's name."""


def site_apart(
    name: str,
    process: SiteProcess,
    seconds: float,
    given: Callable[[str], Given] = lambda _party: NOTHING,
) -> SiteMaker:
    """Return a maker of sites that run ``module:name`` in a process each, without an import here.

    A process has ``seconds`` for a round. ``given`` returns an app's arguments for the party's name.

    Raises:
        ConfigError: the name is not that of a site, there is no such interpreter, or the system is not Linux.
    """
    module, _, member = name.partition(":")
    if not (module and member) or ":" in member:
        raise ConfigError("--site", f"{name!r} does not name a site", "write module:name, as in mysite:Site")
    _check(process)

    def make(party: str) -> ApartSite:
        return ApartSite(name, party, process, seconds, given(party))

    make.__module__, make.__qualname__ = module, member
    return make


def script_apart(
    name: str, script: str, process: SiteProcess, seconds: float, given: Callable[[str], Given]
) -> SiteMaker:
    """Return a maker of sites that run an NVFlare script in a process each.

    ``name`` is as the user wrote it, ``script`` has the absolute path and the arguments. The rest is as for
    :func:`site_apart`.

    Raises:
        ConfigError: there is no such interpreter, or the system is not Linux.
    """
    _check(process)

    def make(party: str) -> ApartSite:
        return ApartSite(name, party, process, seconds, given(party), script)

    make.__module__, make.__qualname__ = "", name
    return make


class ApartSite:
    """Proxy of a site that runs in another process, which is restarted if it has died.

    A late or invalid reply ends the process and costs the round its update.

    Args:
        name: ``module:name``.
        party: owner of the site.
        seconds: limit for a round, including a start.
        script: NVFlare script, in place of ``name``.

    Raises:
        ConfigError: an app is refused.
        SiteError: the site cannot be started, or sends an invalid reply.
    """

    keeps_nothing = True
    """True: given arrays are copied at once and never written to."""

    def __init__(
        self,
        name: str,
        party: str,
        process: SiteProcess,
        seconds: float,
        given: Given = NOTHING,
        script: str = "",
    ) -> None:
        self._process, self._seconds = process, seconds
        self._asked = {"site": name, "party": party, "given": given._asdict(), "script": script}
        self._folder = Path(shlex.split(script)[0]).parent if script else site_folder(name)
        self._round, self._due = -1, 0.0
        self._channel: Channel | None = None
        self._region: Region | None = None
        answer, self._shapes = self._start(time.monotonic() + START_SECONDS)
        self.samples: Any = answer.get("samples")
        self.frozen_sha256 = str(answer.get("frozen_sha256", ""))
        self.averaged = tuple(map(str, answer.get("averaged", ())))
        if answer.get("evaluates") is True:
            self.evaluate = self._evaluate
        self.state_head = answer.get("state_head", {})

    def parameters(self) -> site.Arrays:
        """Return the site's parameters."""
        self._due = time.monotonic() + START_SECONDS
        channel, _ = self._running(self._shapes)
        found = self._arrays(_good(channel.ask({"do": "parameters"}, self._due)).get("arrays"))
        # They are views of this memory; trainings get another region.
        self._region = None
        return found

    def fit(self, parameters: site.Arrays, context: site.RoundContext) -> site.Fitted:
        """Train in the process."""
        answer = self._answer("fit", parameters, context)
        if "kind" in answer:
            raise layout.SiteError(f"fit returned {answer['kind']}, expected (parameters, samples, metrics)")
        if "unnamed" in answer:
            raise layout.SiteError(f"fit returned {answer['unnamed']}, expected arrays by name")
        arrays = self._arrays(answer.get("arrays"))
        return (
            site.Delta(arrays) if answer.get("change") is True else arrays,
            answer.get("samples"),
            answer.get("metrics"),
        )  # type: ignore[return-value]

    def output(self) -> str:
        """Return the output of the process since the last call, up to a limit."""
        return self._channel.output() if self._channel else ""

    def close(self) -> None:
        """End the process and all processes that it started."""
        if self._channel is not None:
            self._channel.close()

    def _evaluate(self, parameters: site.Arrays, context: site.RoundContext) -> site.Judged:
        answer = self._answer("evaluate", parameters, context)
        if "kind" in answer:
            raise layout.SiteError(f"evaluate returned {answer['kind']}, expected (samples, metrics)")
        return answer.get("samples"), answer.get("metrics")  # type: ignore[return-value]

    def _answer(self, what: str, parameters: site.Arrays, context: site.RoundContext) -> dict[str, Any]:
        if context.number != self._round:
            self._round, self._due = context.number, time.monotonic() + self._seconds
        channel, region = self._running(parameters)
        for name, room in region.given.items():
            np.copyto(room, parameters[name])
        number = (context.number, context.planned, context.seed, context.samples)
        return _good(channel.ask({"do": what, "told": number}, self._due))

    def _running(self, names: Iterable[str]) -> tuple[Channel, Region]:
        """Return the process, restarted if it has ended, and its memory for ``names`` in this order."""
        if self._channel is None or self._channel.closed:
            answer, shapes = self._start(self._due)
            if answer.get("samples") != self.samples or shapes != self._shapes:
                self.close()
                raise layout.SiteError("has other samples or parameters after a restart")
        if self._region is None:
            self._share(names, self._due)
        assert self._channel is not None  # noqa: S101 - for mypy
        assert self._region is not None  # noqa: S101 - for mypy
        return self._channel, self._region

    def _start(self, due: float) -> tuple[dict[str, Any], dict[str, tuple[int, ...]]]:
        """Start the process and make its site; return the reply and the shapes of its parameters.

        If the site is refused, the process ends.
        """
        former = self.output()
        self._region = None
        channel = Channel(self._process.python, self._process.memory, self._folder or Path.cwd(), former)
        self._channel = channel
        path = [] if self._folder is None else [str(self._folder)]
        try:
            answer = channel.ask({"do": "open", "path": path, **self._asked}, due)
            return answer, _offered_shapes(answer)
        except BaseException:
            self.close()
            raise

    def _share(self, names: Iterable[str], due: float) -> None:
        assert self._channel is not None  # noqa: S101 - for mypy
        region = Region(layout.Layout({name: self._shapes[name] for name in names}))
        _good(self._channel.share(region, due))
        # Set last: without the mapping, zeros would come back.
        self._region = region

    def _arrays(self, value: Any) -> dict[str, npt.NDArray[Any]]:
        """Return views of the arrays in shared memory; others are zeros that take no memory."""
        assert self._region is not None  # noqa: S101 - for mypy
        found = {}
        for name, (dtype, shape) in _kinds(value).items():
            if dtype in _FLOATS and self._region.shapes.get(name) == shape:
                found[name] = self._region.returned_array(name, dtype)
                continue
            found[name] = _empty(dtype, shape)
            if found[name].dtype.kind == "f" and dtype not in _FLOATS:
                # It would be read as an array of zeros.
                raise layout.SiteError(f"its process describes an array of dtype {dtype!r}")
        return found


def _machine_megabytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 1_000_000


def _check(process: SiteProcess) -> None:
    if sys.platform != "linux":
        reason = "a site in a process of its own needs Linux"
        raise ConfigError("--site-python", reason, "leave it out, or leave out privacy.unit")
    if not process.python.is_file():
        raise ConfigError(
            "--site-python", f"{process.python} is not a file", "name the bin/python of an environment"
        )


def site_folder(name: str) -> Path | None:
    """Return the folder of the module of ``module:name``; None if it is installed or unknown here."""
    top = name.partition(":")[0].partition(".")[0]
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return None
    if spec is None or not (spec.origin or spec.submodule_search_locations):
        return None
    place = spec.submodule_search_locations
    folder = (Path(next(iter(place))) if place else Path(str(spec.origin))).parent.resolve()
    installed = {"site-packages", "dist-packages"} & set(folder.parts) or not folder.is_dir()
    return None if installed else folder


def _good(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the reply, unless it reports a failure."""
    if "error" not in answer:
        return answer
    error = layout.SiteError(_line(answer["error"]))
    error.add_note(f"in the site's process:\n{str(answer.get('traceback'))[:16_384]}")
    raise error


def _offered_shapes(answer: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the parameters in the reply to ``open``.

    Raises:
        ConfigError: the site is refused.
        SiteError: it cannot be made, lacks a member, or its parameters are not arrays.
    """
    if isinstance(answer.get("reason"), str):
        raise ConfigError("--site", _line(answer["reason"]), _line(answer.get("remedy")))
    if "lacking" in _good(answer):
        raise layout.SiteError(f"has no {answer['lacking']}: docs/sites.md says what a site offers")
    return _shapes(answer.get("arrays"))


def _line(value: Any) -> str:
    """Return the first line of a text, truncated."""
    return (str(value).splitlines() or [""])[0][: layout.LONGEST]


def _kinds(value: Any) -> Mapping[str, tuple[str, tuple[int, ...]]]:
    """Return dtypes and shapes by name.

    Raises:
        SiteError: the reply has another form.
    """
    found = {}
    for item in value if isinstance(value, list) else [None]:
        match item:
            case [str(name), str(dtype), list(shape)] if name not in found and _is_shape(shape):
                found[name] = (dtype, tuple(shape))
            case _:
                raise layout.SiteError("its process describes no arrays")
    return found


def _is_shape(shape: list[Any]) -> bool:
    whole = all(type(size) is int and 0 <= size <= MOST_NUMBERS for size in shape)
    return whole and len(shape) <= _MOST_DIMENSIONS and math.prod(shape) <= MOST_NUMBERS


def _shapes(value: Any) -> dict[str, tuple[int, ...]]:
    found = {name: shape for name, (dtype, shape) in _kinds(value).items()}
    if sum(map(math.prod, found.values())) > MOST_NUMBERS:
        raise layout.SiteError(f"its process offers more than {MOST_NUMBERS:,} parameters")
    return found


def _empty(dtype: str, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return an array of zeros, of any shape, that takes no memory."""
    wrong = layout.SiteError(f"its process describes an array of dtype {dtype[:_LONGEST_DTYPE]!r}")
    if len(dtype) > _LONGEST_DTYPE:
        raise wrong
    try:
        kind = np.dtype(dtype)
        if kind.itemsize > _WIDEST:
            raise wrong
        return np.broadcast_to(np.zeros((), kind), shape)
    except (TypeError, ValueError, SyntaxError) as error:
        raise wrong from error
