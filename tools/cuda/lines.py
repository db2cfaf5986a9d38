"""JSON lines: one result a line, on the disk as soon as it is known.

A line has ``kind`` (``environment``, ``test``, ``result`` or ``end``), ``unit`` (a suite or a measure),
``device``, ``machine``, ``run`` (start of the command, UTC), ``code`` (digest of the sources), ``commit``,
and the fields of its kind. ``end`` closes a unit; its ``outcome`` is ``done``, ``failed``, ``stopped``,
``unfinished`` or ``skipped``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

Line = Mapping[str, Any]
NAME: Final = "cuda.jsonl"
DONE: Final = "done"
FAILED: Final = "failed"
STOPPED: Final = "stopped"
UNFINISHED: Final = "unfinished"
SKIPPED: Final = "skipped"


def read_lines(path: Path) -> list[Line]:
    """Return the lines of a file, without a last one that an interruption has cut; none if it is missing.

    Raises:
        ValueError: a line before the last one is not a JSON object.
    """
    if not path.exists():
        return []
    found: list[Line] = []
    texts = path.read_text(encoding="utf-8").splitlines()
    for number, text in enumerate(texts, 1):
        line = object_of(text)
        if line is not None:
            found.append(line)
        elif number < len(texts):
            raise ValueError(f"{path}, line {number}: not a JSON object")
    return found


def object_of(text: str) -> dict[str, Any] | None:
    """Return the JSON object that a text is; None if it is not."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


def encode(line: Line) -> str:
    """Return a line as text, without its end."""
    return json.dumps(line, ensure_ascii=False, allow_nan=False)


class LineFile:
    """The file of results. Each line is on the disk when :meth:`append` returns."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._lines = read_lines(path)
        self._drop_cut_line()

    @property
    def lines(self) -> tuple[Line, ...]:
        """All lines, the former ones first."""
        return tuple(self._lines)

    def append(self, line: Line) -> None:
        """Write one line and flush it to the disk."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(encode(line) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self._lines.append(dict(line))

    def _drop_cut_line(self) -> None:
        """Remove the remains of a line that an interruption has cut, so that the next one starts afresh."""
        if not self._path.exists():
            return
        content = self._path.read_bytes()
        whole = "".join(
            f"{text}\n" for text in content.decode(errors="replace").splitlines()[: len(self._lines)]
        )
        if content != whole.encode():
            self._path.write_text(whole, encoding="utf-8")


def same_setting(lines: Iterable[Line], setting: Line) -> Iterator[Line]:
    """Yield the lines whose device, machine and code are those of ``setting``."""
    keys = ("device", "machine", "code")
    wanted = [setting.get(key) for key in keys]
    return (line for line in lines if [line.get(key) for key in keys] == wanted)


def is_done(lines: Iterable[Line], unit: str, setting: Line) -> bool:
    """Return True if the last end of a unit is ``done``, for this device, machine and code."""
    ends = [
        line["outcome"]
        for line in same_setting(lines, setting)
        if line["kind"] == "end" and line["unit"] == unit
    ]
    # A skip of this run says nothing of an earlier one.
    counted = [outcome for outcome in ends if outcome != SKIPPED]
    return bool(counted) and counted[-1] == DONE


def parts_done(lines: Iterable[Line], unit: str, setting: Line) -> tuple[str, ...]:
    """Return the parts of a unit that have a complete result, for this device, machine and code."""
    return tuple(
        dict.fromkeys(
            str(line["part"])
            for line in same_setting(lines, setting)
            if line["kind"] == "result" and line["unit"] == unit and line.get("complete", True)
        )
    )
