"""Freshness of committed results: a part of each is recomputed.

``--check`` writes ``<paper>-checked.json``, by which lists and pages mark stale results.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from securefl.base import crypto
from securefl.base.errors import ConfigError
from securefl.runtime import report

OTHER_DRAWS: Final = ", most likely under other draws of clusters"
CHANGED: Final = "its scenarios have changed since it was run"
LAST_BITS: Final = ", and differ by what the order of a sum changes"
Numbers = Sequence[float]
"""Accuracies by round, or measurements of a trial."""


class CheckedResult(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Table, figure or panel with one recomputed cell."""

    stem: str
    result: str
    cell: str = ""
    compared: int = 0
    difference: float = 0.0
    unchecked: str = ""
    commit: str = ""
    """Commit that recomputed, if not that of the last check."""

    @property
    def outdated(self) -> bool:
        """True if the figure file has changed, so that no cell can be compared."""
        return self.unchecked == CHANGED

    @property
    def stale(self) -> bool:
        """True if today's program computes other numbers."""
        return not self.unchecked and self.difference > 0

    def __str__(self) -> str:
        if self.unchecked:
            return f"not checked: {self.unchecked}"
        over = f"{self.cell}, {report.count_of(self.compared, 'number')} compared"
        return f"stale: differs by up to {self.difference:.6f} ({over})" if self.stale else f"same ({over})"


class CheckRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Check of a paper's committed results."""

    paper: str
    commit: str
    versions: dict[str, str]
    checked: tuple[CheckedResult, ...]

    def of(self, stem: str, result: str) -> CheckedResult | None:
        """Return the check of a result; None if missing or older than the result."""
        return next((one for one in self.checked if (one.stem, one.result) == (stem, result)), None)

    def mark(self, stem: str, result: str) -> str:
        """Return the mark behind a verdict."""
        found = self.of(stem, result)
        return " (stale)" if found is not None and found.stale else ""

    def note(self, stem: str, result: str) -> str:
        """Return a warning in Markdown, or ""."""
        found = self.of(stem, result)
        if found is None or not found.stale:
            return ""
        why = LAST_BITS if found.difference < 0.001 else OTHER_DRAWS
        return (
            f"**Stale:** computed again at commit {found.commit or self.commit or 'unknown'},"
            f" {found.cell} differs by up to {found.difference:.4f} from what stands here."
            f" These numbers are an earlier program's{why}; they cannot be made again bit for bit."
        )


NEVER_CHECKED = CheckRecord(paper="", commit="", versions={}, checked=())


def fingerprint(results: Mapping[str, Iterable[Numbers]]) -> str:
    """Return a digest (32 hex digits) of a result's numbers, by label and seed."""
    plain = {label: [list(one) for one in seeds] for label, seeds in results.items()}
    return crypto.digest("checked result", msgspec.json.encode(plain, order="sorted")).hex()[:32]


def compare(stem: str, result: str, cell: str, committed: Numbers, again: Numbers) -> CheckedResult:
    """Compare recomputed numbers with committed ones; fewer committed ones are a difference of 1."""
    pairs = zip(committed, again, strict=False)
    difference = max((abs(former - now) for former, now in pairs), default=1.0)
    if len(again) > len(committed):
        difference = 1.0
    return CheckedResult(
        stem=stem, result=result, cell=cell, compared=len(again), difference=round(difference, 9)
    )


def check_file(results: Path) -> Path:
    """Return the path of a results folder's check, beside it."""
    return results.parent / f"{results.name}-checked.json"


def read_check(results: Path) -> CheckRecord:
    """Return the last check of a results folder, or an empty one.

    Raises:
        ConfigError: unreadable, or not a check.
    """
    path = check_file(results)
    try:
        return msgspec.json.decode(path.read_bytes(), type=CheckRecord)
    except FileNotFoundError:
        return NEVER_CHECKED
    except OSError as error:
        raise ConfigError(
            str(path), f"cannot be read: {error.strerror}", "name a file that you may read"
        ) from error
    except msgspec.DecodeError as error:
        raise ConfigError(
            str(path), f"is not a file of --check: {error}", "remove it and check again"
        ) from error


def merge_checks(former: CheckRecord, now: CheckRecord) -> CheckRecord:
    """Merge a check with former findings on results that it left out or could not compute."""
    if former.paper != now.paper:
        return now
    found = {one.stem: one for one in former.checked}
    if former.commit != now.commit:
        keep = msgspec.structs.replace
        found = {stem: keep(one, commit=one.commit or former.commit) for stem, one in found.items()}
    for one in now.checked:
        before = found.get(one.stem)
        if not (one.unchecked and before and not before.unchecked and before.result == one.result):
            found[one.stem] = one
    return msgspec.structs.replace(now, checked=tuple(found[stem] for stem in sorted(found)))
