"""The page on all sweeps, from their records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from securefl.reproduce.leakage.record import CellRecord, SweepRecord

_HEAD = """\
# What random reclusterings reveal

Made by `securefl leakage --page` from the JSON files beside the plots; do not edit it. The sweeps are in
`scenarios/leakage/`; to run one again: `securefl leakage NAME`. The ledger behind them:
[leakage](../leakage.md). Draws are seeded, so that the page can be made again.

A column is a number R of random reclusterings of the *same* updates or, where it says so, of new local work
each. Entries: the share of parties whose updates the server knows, colluders apart, as the mean over the
draws, with lowest and highest where they differ. Below it: the largest exposure to noise that is added once /
fresh in each opening, in units of one party's noise (1 is an update on its own; 1 / m one opening of a whole
cluster). With dropouts the clusters that are left too small may take all others with them, so that a draw
opens nothing; it does not count. **Bold** is R* = ceil((N - 1) / (C - 1)), at which everybody is exposed,
as a rule, but for atoms. Where noise is accounted for, entries are the epsilon of the whole run and, below,
the exposure that it comes of, in units of one opening of a sum with all of its noise: both of the worst draw
and party.
"""


def leakage_page(records: Sequence[SweepRecord], folder: str) -> str:
    """Return the page, as Markdown.

    Args:
        records: the sweeps.
        folder: where the plots are, as seen from the page.
    """
    return "\n".join([_HEAD, *(line for record in records for line in _section(record, folder))])


def _section(record: SweepRecord, folder: str) -> Iterator[str]:
    yield f"## {record.title}\n"
    yield f"{record.claim}\n"
    yield f"![{record.title}]({folder}/{record.name}.png)\n"
    columns = sorted({cell.reclusterings for row in record.rows for cell in row.cells})
    yield f"| {record.draws} draws | " + " | ".join(f"R = {column}" for column in columns) + " |"
    yield "|---" * (len(columns) + 1) + "|"
    for row in record.rows:
        by_column = {cell.reclusterings: cell for cell in row.cells}
        entries = (
            _entry(by_column[column], bold=column == row.threshold) if column in by_column else ""
            for column in columns
        )
        yield f"| {row.label} | " + " | ".join(entries) + " |"
    yield ""


def _entry(cell: CellRecord, *, bold: bool) -> str:
    if cell.epsilon is not None and cell.exposure is not None:
        spent = f"{cell.epsilon:.3g}"
        return f"{f'**{spent}**' if bold else spent}<br>{cell.exposure:.2f}"
    empty = len(cell.exposed) - len(cell.seen)
    if cell.mean is None:
        return "nothing is opened"
    low, high = min(cell.seen), max(cell.seen)
    share = f"{cell.mean:.0%}" + (f" [{low:.0%}, {high:.0%}]" if high > low else "")
    shown = f"**{share}**" if bold else share
    lost = f"<br>{empty} draw{'s open' if empty > 1 else ' opens'} nothing" if empty else ""
    return f"{shown}<br>{max(cell.once):.2f} / {max(cell.fresh):.2f}{lost}"
