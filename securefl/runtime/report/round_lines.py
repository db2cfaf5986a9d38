"""The rounds of a run that has ended, as a table on a terminal or line by line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from securefl.runtime.report.events import backdoor_text, sieve
from securefl.runtime.report.records import CLOSED, LeftOut, RoundRecord
from securefl.runtime.report.summary import Summary
from securefl.runtime.report.text import counted, listed, percent, printable, seconds

_MAX_ROUNDS: Final = 12


def rounds_shown(summary: Summary, console: Console) -> Iterator[Table | Text]:
    """Survivors and events of each round; of a long run in the telling ones."""
    records = summary.rounds
    shown = _worth_showing(records)
    if not console.is_terminal:
        for record in shown:
            yield Text(_round_line(record, sieve(summary.scenario.groups)))
    elif shown:
        table = Table(box=None, header_style="dim", padding=(0, 0, 0, 2))
        for column in ("round", "accuracy", "loss", "counted", "sums", "time"):
            table.add_column(column, justify="right", no_wrap=True)
        table.add_column("what happened", ratio=1)
        for record in shown:
            table.add_row(
                str(record.round),
                percent(record.accuracy),
                f"{record.loss:.3g}",
                _of(record.heard, _expected(record), "yellow"),
                _of(len(record.sums), len(record.sums) + len(record.lost), "red"),
                seconds(record.seconds["total"]),
                Text(
                    "; ".join(_events(record, sieve(summary.scenario.groups))),
                    style="yellow" if record.left_out else "dim",
                ),
            )
        yield table
    if len(shown) < len(records):
        hidden = counted(len(records) - len(shown), "more round")
        yield Text(f"{hidden} not shown here: metrics.jsonl has all", style="dim")


def _worth_showing(records: Sequence[RoundRecord]) -> list[RoundRecord]:
    """All of a short run; of a long one the first, the last and those in which something happened.

    Where these are too many, rounds with lost sums and rounds unlike the one before go first: what happens in
    every round alike must not push them out.
    """
    if len(records) <= _MAX_ROUNDS:
        return list(records)
    eventful = [at for at, r in enumerate(records) if r.left_out or r.lost or r.retries or r.redraws]

    def dullness(at: int) -> int:
        return (not records[at].lost) + (_happened(records[at]) == _happened(records[at - 1]))

    chosen = sorted((at for at in eventful if 0 < at < len(records) - 1), key=dullness)[: _MAX_ROUNDS - 2]
    return [records[at] for at in (0, *sorted(chosen), len(records) - 1)]


def _happened(record: RoundRecord) -> tuple[object, ...]:
    """The key of alike rounds: clusters are drawn anew, so that which sums were lost says nothing."""
    return frozenset(record.left_out), len(record.lost), record.retries, record.redraws


def _round_line(record: RoundRecord, by: str) -> str:
    events = "".join(f"; {event}" for event in _events(record, by))
    return (
        f"round {record.round}: accuracy {percent(record.accuracy)}, loss"
        f" {record.loss:.3g},{backdoor_text(record.backdoor_success)} {record.heard} of {_expected(record)}"
        f" counted, {len(record.sums)} of {len(record.sums) + len(record.lost)} sums,"
        f" {seconds(record.seconds['total'])}{events}"
    )


def _events(record: RoundRecord, by: str) -> Iterator[str]:
    by_reason: dict[str, list[LeftOut]] = {}
    for out in record.left_out:
        by_reason.setdefault(out.reason, []).append(out)
    for reason, group in by_reason.items():
        said = reason if len(group) == 1 else reason.replace("its update was", "their updates were")
        yield f"{listed(out.party for out in group)}: {printable(said)}"
    if record.failed:
        yield f"{counted(len(record.failed), 'sum')} out by checks"
    if record.rejected:
        yield f"{counted(len(record.rejected), 'cluster')} out by {by}"
    if closed := sum(reason.startswith(CLOSED) for reason in record.lost.values()):
        yield f"{counted(closed, 'sum')} kept closed"
    if record.redraws:
        yield counted(record.redraws, "void draw")
    if record.retries:
        yield f"{counted(record.retries, 'sum')} started over"
    if record.update_norm is None:
        yield "no new model"


def _expected(record: RoundRecord) -> int:
    return len(record.counted) + len(record.left_out)


def _of(part: int, whole: int, style: str) -> Text:
    return Text(f"{part}/{whole}", style=style if part < whole else "")
