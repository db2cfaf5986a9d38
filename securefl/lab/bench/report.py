"""Tables and JSON of the benchmarks."""

from collections.abc import Callable, Sequence

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from securefl.lab.bench import secagg

AIMS = ((1_000_000, 2.0), (0, 4.0))
"""Least number of words, and target factor over the floor."""

_TITLES = {
    "keystream": "AES-CTR",
    "added": "adds",
    "generations": "X25519 pairs",
    "agreements": "X25519",
    "signatures": "sign",
    "verifications": "verify",
    "hashed": "SHA-256",
}


def print_report(console: Console, report: secagg.BenchReport) -> None:
    """Print measurements against the floor, by stage, and bytes."""
    console.print(_overview(report))
    for title, side in (("member", lambda r: r.member), ("server", lambda r: r.server)):
        console.print(_breakdown(f"{title}: CPU ms by stage", report.rows, side, lambda s: s.stages))
        console.print(_breakdown(f"{title}: floor in ms", report.rows, side, lambda s: s.floor_parts))
    console.print(_bytes(report))
    for name, fit in (("member", report.member_bytes), ("server per member", report.server_bytes)):
        if fit is not None:
            console.print(f"bytes, {name}: {_formula(fit)}")


def report_json(report: object) -> bytes:
    """Return a report as JSON by the names of its fields."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2)


def aim(length: int) -> float:
    """Return the target factor over the floor for ``length`` words."""
    return next(limit for least, limit in AIMS if length >= least)


def _overview(report: secagg.BenchReport) -> Table:
    columns = ("member", "floor", "ratio", "server", "floor", "ratio", "aim", "encode")
    table = _table(
        f"one secure sum: CPU ms, median of {report.repetitions}",
        columns,
        "aim: ratio at most. encode: fixed point and ring, once per update, in no other column",
    )
    for r in report.rows:
        limit = aim(r.row.length)
        table.add_row(
            _name(r),
            _ms(r.member.seconds),
            _ms(r.member.floor),
            _ratio(r.member, limit),
            _ms(r.server.seconds),
            _ms(r.server.floor),
            _ratio(r.server, limit),
            f"{limit:g}",
            _ms(r.member.encode),
        )
    return table


def _breakdown(
    title: str,
    rows: Sequence[secagg.RowResult],
    side: Callable[[secagg.RowResult], secagg.Side],
    parts: Callable[[secagg.Side], dict[str, float]],
) -> Table:
    columns = tuple(dict.fromkeys(name for r in rows for name in parts(side(r))))
    table = _table(title, columns)
    for r in rows:
        table.add_row(_name(r), *(_ms(parts(side(r)).get(column, 0.0)) for column in columns))
    return table


def _bytes(report: secagg.BenchReport) -> Table:
    table = _table(
        "bytes on the wire",
        ("member up", "member down", "rest / m", "server in", "server out"),
        "rest: a member's bytes beyond 4 d. SHARE, C.5: client O(Rm + Rd), server O(Rnm + Rdn);"
        " here R = 1, n = m",
    )
    for r in report.rows:
        rest = (r.member.sent + r.member.received - 4 * r.row.length) / r.row.members
        sizes = (r.member.sent, r.member.received, round(rest), r.server.received, r.server.sent)
        table.add_row(_name(r), *(f"{size:,}" for size in sizes))
    return table


def _table(title: str, columns: Sequence[str], caption: str | None = None) -> Table:
    table = Table(title=title, caption=caption, box=box.SIMPLE_HEAD, title_justify="left")
    table.pad_edge, table.padding = False, (0, 1, 0, 0)
    table.caption_justify = "left"
    table.add_column("m x d, lost", no_wrap=True)
    for column in columns:
        table.add_column(_TITLES.get(column, column), justify="right")
    return table


def _formula(fit: secagg.Fit) -> str:
    return (
        f"{fit.per_word:.4f} d + {fit.per_member:.0f} m {fit.constant:+.0f}"
        f" (off by at most {100 * fit.error:.2f} %)"
    )


def _name(result: secagg.RowResult) -> str:
    row = result.row
    return f"{row.members} x {_count(row.length)}, {row.dropped}"


def _count(number: int) -> str:
    digits = str(number)
    stem = digits.rstrip("0")
    return f"{stem}e{len(digits) - len(stem)}" if len(digits) - len(stem) > 2 else digits


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:,.1f}"


def _ratio(side: secagg.Side, limit: float) -> str:
    style = "green" if side.ratio <= limit else "yellow"
    return f"[{style}]{side.ratio:.2f}[/]"
