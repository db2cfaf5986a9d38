"""Messages to users, collected while tests run: a rendered example of each place that raises or prints.

``python -m tools.messages FILE`` runs the unit tests and writes FILE (JSON lines: place, kind, text).
``python -m tools.messages FILE --draw 40 --seed 1`` prints a random sample of it. ``--all`` prints all of it,
``--missing`` the places in the source that raise an error of which no test has made an example.
"""

import argparse
import ast
import functools
import json
import os
import random
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGE: Final = ROOT / "securefl"
VARIABLE: Final = "SECUREFL_MESSAGES"
"""Folder to which the processes of a test run write what they collected."""
ERRORS: Final = (
    "UsageError",
    "PeerError",
    "ConfigError",
    "DecisionError",
    "RunAbortedError",
    "RunHaltedError",
)
_HELPERS: Final = frozenset({PACKAGE / "base" / "errors.py", PACKAGE / "cli" / "console.py"})
_LONGEST: Final = 600


class Collector:
    """Texts by place and kind; the first example of each."""

    def __init__(self) -> None:
        self.texts: dict[tuple[str, str], str] = {}

    def add(self, kind: str, text: str, place: str = "") -> None:
        """Note a text, at ``place`` or at the innermost frame of the package."""
        where = place or place_of(sys._getframe(1))
        if where and text.strip():
            self.texts.setdefault((where, kind), text[:_LONGEST])

    def write(self, folder: Path) -> None:
        """Write the texts of this process."""
        rows = (json.dumps({"place": p, "kind": k, "text": t}) for (p, k), t in self.texts.items())
        (folder / f"{os.getpid()}.jsonl").write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")


def place_of(frame: FrameType | None) -> str:
    """Return ``securefl/cli/run.py:70`` of the innermost frame of the package; empty if there is none."""
    while frame is not None:
        file = Path(frame.f_code.co_filename)
        if file not in _HELPERS and file.is_relative_to(PACKAGE):
            return f"{file.relative_to(ROOT)}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def hook(found: Collector) -> None:
    """Record errors as they are made, warnings, findings of audits, printed lines and lines of reports."""
    from rich.console import Console  # noqa: PLC0415 - the collecting process only

    from securefl.base import errors  # noqa: PLC0415
    from securefl.lab.audit.finding import Finding  # noqa: PLC0415

    def on_error(_result: None, error: Exception, *_: str) -> None:
        found.add(type(error).__name__, str(error))

    def on_finding(_result: None, one: Finding, *_: object) -> None:
        found.add(f"finding, {one.severity}", f"{one.claim} {one.remedy}")

    def on_print(_result: None, _console: Console, *shown: object) -> None:
        for text in (getattr(one, "plain", one) for one in shown):
            if isinstance(text, str):
                found.add("line", text)

    _after(errors.SecureflError, "__init__", on_error)
    _after(Finding, "__init__", on_finding)
    _after(Console, "print", on_print)
    _after(warnings, "warn", lambda _, text, *__: found.add("warning", str(text)))
    for kind in _reports():
        place = f"{kind.__module__}.{kind.__qualname__}"
        _after(kind, "line", lambda line, *_, at=place: found.add("report", line or "", at))


def _after(owner: Any, name: str, record: Callable[..., None]) -> None:
    method = getattr(owner, name)

    @functools.wraps(method)
    def wrapped(*args: Any, **named: Any) -> Any:
        result = method(*args, **named)
        record(result, *args)
        return result

    setattr(owner, name, wrapped)


def _reports() -> Iterator[type]:
    """Yield the classes of reports that have a line of their own."""
    from securefl.protocol.round.shared import reports  # noqa: PLC0415 - the collecting process only

    for name in dir(reports):
        kind = getattr(reports, name)
        if isinstance(kind, type) and "line" in vars(kind):
            yield kind


def pytest_configure(config: Any) -> None:
    """Collect in this process of a test run."""
    found = Collector()
    hook(found)
    config.add_cleanup(lambda: found.write(Path(os.environ[VARIABLE])))


def collect(file: Path, tests: list[str]) -> int:
    """Run tests, write ``file``, and return the exit code of pytest."""
    folder = file.with_suffix(".parts")
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "tools.messages", *tests]
    code = subprocess.call(command, cwd=ROOT, env={**os.environ, VARIABLE: str(folder)})
    rows: dict[tuple[str, str], str] = {}
    for part in sorted(folder.iterdir()):
        for row in read(part):
            rows.setdefault((row["place"], row["kind"]), row["text"])
        part.unlink()
    folder.rmdir()
    lines = (json.dumps({"place": p, "kind": k, "text": t}) for (p, k), t in sorted(rows.items()))
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    print(f"{len(rows)} messages in {file}")
    return code


def read(file: Path) -> list[dict[str, str]]:
    """Return the rows of a file."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


@functools.cache
def raising() -> tuple[tuple[str, range], ...]:
    """Return the places in the source that make an error: file, and the lines of the call."""
    return tuple(_raising())


def _raising() -> Iterator[tuple[str, range]]:
    for file in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ERRORS:
                lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
                yield str(file.relative_to(ROOT)), lines


def missing(rows: list[dict[str, str]]) -> Iterator[str]:
    """Yield the places that make an error without an example in ``rows``."""
    seen = {row["place"] for row in rows}
    for file, lines in raising():
        if not any(f"{file}:{line}" in seen for line in lines):
            yield f"{file}:{lines.start}"


def main() -> int:
    """Collect, draw or list messages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, help="messages, as JSON lines")
    parser.add_argument("--draw", type=int, metavar="N", help="print N of them at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--all", action="store_true", help="print all of them")
    parser.add_argument("--missing", action="store_true", help="print the raising places without an example")
    parser.add_argument("--errors", action="store_true", help="draw or print errors and warnings only")
    parser.add_argument("--tests", nargs="*", default=["tests/unit"], help="tests to run")
    asked = parser.parse_args()
    if asked.draw is None and not asked.all and not asked.missing:
        return collect(asked.file, asked.tests)
    rows = read(asked.file)
    if asked.missing:
        print("\n".join(missing(rows)))
        return 0
    if asked.errors:
        rows = [row for row in rows if row["kind"].endswith("Error") or row["kind"] == "warning"]
    if asked.draw is not None:
        rows = random.Random(asked.seed).sample(rows, min(asked.draw, len(rows)))  # noqa: S311 - no secret
    for row in rows:
        print(f"{row['place']} [{row['kind']}]\n    {row['text']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
