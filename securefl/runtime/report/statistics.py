"""Table of the sites' column statistics."""

from collections.abc import Mapping

from securefl.methods import metrics
from securefl.runtime.report.text import digits

_HEAD: tuple[str, ...] = (
    "feature",
    "values",
    "missing",
    "mean",
    "std",
    "low",
    "median",
    "high",
    "means of clusters",
)


def statistics_text(statistics: metrics.Statistics) -> str:
    """Return a table with a line for each feature, and for the labels."""
    rows = [_HEAD] if statistics.features else []
    rows += [_row(name, one) for name, one in statistics.features.items()]
    widths = [max(len(row[at]) for row in rows) for at in range(len(_HEAD))] if rows else []
    lines = []
    for first, *others in rows:
        cells = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
        lines.append("  ".join((first.ljust(widths[0]), *cells)))
    lines += [
        f"{name}: unresolved spread{_least(statistics.features[name])}: standardise refuses it; declare a"
        " narrower range, or leave it out"
        for name in statistics.unresolved
    ]
    for name, shares in statistics.classes.items():
        lines.append(f"{name}: " + ", ".join(f"{share:.2%} of class {c}" for c, share in enumerate(shares)))
    return "\n".join(lines)


def outside_lines(columns: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return a line for each column with values outside its range, in a simulation."""
    return [
        f"{name}: {one['below'] + one['above']:,} values outside the range counted as its ends"
        f" ({one['below']:,} below, {one['above']:,} above, {one['infinite']:,} of them infinite)"
        for name, one in columns.items()
        if one["below"] + one["above"]
    ]


def _row(name: str, one: metrics.FeatureStatistics) -> tuple[str, ...]:
    reach = "" if one.mean_range is None else " to ".join(map(digits, one.mean_range))
    cells = ("-" if value is None else digits(value) for value in (one.low, one.median, one.high))
    moments = (_with_error(one, "mean"), _with_error(one, "std"))
    return (name, f"{one.count:.0f}", f"{one.missing:.0f}", *moments, *cells, reach)


def _least(one: metrics.FeatureStatistics) -> str:
    return f" (0, or below {digits(one.errors['std'])})" if "std" in one.errors else ""


def _with_error(one: metrics.FeatureStatistics, name: str) -> str:
    value, error = getattr(one, name), one.errors.get(name, 0.0)
    if value is None:
        return f"< {digits(error)}" if name == "std" and error else "-"
    return digits(value) + (f" ± {digits(error)}" if one.std and error > 0.01 * one.std else "")
