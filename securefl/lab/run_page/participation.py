"""Map of parties, rounds and clusters. Parties without events share one line."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from securefl.lab.run_page import charts
from securefl.lab.run_page.blocks import Chart, PageBlock, PageTable, Paragraph
from securefl.runtime.report import RESTING, RoundRecord, count_of, list_of, printable
from securefl.scenario import Scenario

_COLUMNS: Final = 60
"""Most columns of a map. A longer run shares columns, each with the most serious event of its rounds."""
_ROWS: Final = 60
_JOINS: Final = 200
_ORDER: Final = ("out", "rejected", "kept", "absent")
"""Styles of cells, most serious first."""


def participation_blocks(records: Sequence[RoundRecord], scenario: Scenario) -> Iterator[PageBlock]:
    """Yield the map, its legend and the reasons of exclusions."""
    if not records:
        return
    names = sorted(
        {p for record in records for p in (*record.counted, *(out.party for out in record.left_out))}
    )
    spans = _spans(len(records))
    cells = {name: [_cell(name, records[a:b]) for a, b in spans] for name in names}
    outcomes = {name: {_outcome(name, record) for record in records} for name in names}
    calm = [name for name in names if outcomes[name] == {"kept"}]
    rested = [name for name in names if outcomes[name] == {"kept", RESTING}]
    shown = [name for name in names if name not in {*calm, *rested}]
    every = count_of(len(records), "round")
    if len(calm) == len(names):
        yield Paragraph(f"All {len(names)} parties were counted in all {every}.", "good")
    elif calm:
        yield Paragraph(
            f"{len(calm)} of {len(names)} parties were counted in all {every}, in sums that were kept."
        )
    if rested:
        others = "others" if calm else f"of {len(names)} parties"
        yield Paragraph(
            f"{len(rested)} {others} were counted in each round for which they were drawn, in sums that were"
            " kept."
        )
    if len(shown) > _ROWS:
        busiest = sorted(shown, key=lambda name: -sum(cell.style != "kept" for cell in cells[name]))
        shown = sorted(busiest[:_ROWS])
        yield Paragraph(f"The map shows the {_ROWS} parties with the most events.")
    labels = [str(records[a].round) for a, _ in spans]
    several = (
        f" of reclustering 0 of {scenario.clustering.reclusterings}"
        if scenario.clustering.reclusterings > 1
        else ""
    )
    shared = f" A column stands for {spans[0][1] - spans[0][0]} rounds." if len(spans) < len(records) else ""
    if shown:
        yield Chart(
            "Parties by round",
            charts.status_map(shown, labels, [cells[name] for name in shown]),
            "; ".join(_row_text(name, cells[name]) for name in shown[:20]),
            note=(
                f"Number: the party's cluster{several}. Filled: counted. Framed: counted, but its cluster was"
                f" left out. x: not counted. Dot: not drawn or absent.{shared}"
            ),
            wide=True,
        )
    joins = [
        (party, str(r.round), "the start of the server" if since is None else f"round {since}")
        for r in records
        for party, since in sorted(r.joined.items())
    ]
    if joins:
        yield PageTable(
            "Parties that joined late", ("party", "joined in round", "absent since"), joins[-_JOINS:]
        )
    reasons = _reasons(records)
    if reasons:
        yield PageTable("Why parties were not counted", ("party", "rounds", "reason"), reasons)
    lost = [(str(r.round), f"{a}.{b}", printable(why)) for r in records for (a, b), why in r.lost.items()]
    if lost:
        yield PageTable("Sums that were not opened", ("round", "sum", "reason"), lost[-200:])


def _spans(rounds: int) -> list[tuple[int, int]]:
    size = math.ceil(rounds / _COLUMNS)
    return [(start, min(rounds, start + size)) for start in range(0, rounds, size)]


def _cell(name: str, records: Sequence[RoundRecord]) -> charts.Cell:
    found = [_of_round(name, record) for record in records]
    return min(found, key=lambda cell: _ORDER.index(cell.style))


def _of_round(name: str, record: RoundRecord) -> charts.Cell:
    where = f"{name}, round {record.round}: "
    for out in record.left_out:
        if out.party == name:
            absent = name not in record.participants
            return charts.Cell(
                "absent" if absent else "out", "·" if absent else "x", where + printable(out.reason)
            )
    clusters = [one for one in record.sums if name in one.counted]
    if not clusters:
        return charts.Cell("absent", "·", f"{where}not drawn")
    rejected = {*record.rejected, *record.failed}
    kept = any((one.reclustering, one.cluster) not in rejected for one in clusters)
    first = clusters[0].cluster
    outcome = "counted" if kept else "counted, its clusters were left out"
    return charts.Cell("kept" if kept else "rejected", str(first), f"{where}cluster {first}, {outcome}")


def _outcome(name: str, record: RoundRecord) -> str:
    """Return the style of the party's cell, or :data:`RESTING` if the party was not drawn."""
    rests = any(out.party == name and out.reason == RESTING for out in record.left_out)
    return RESTING if rests else _of_round(name, record).style


def _row_text(name: str, cells: Sequence[charts.Cell]) -> str:
    out = sum(cell.style == "out" for cell in cells)
    rejected = sum(cell.style == "rejected" for cell in cells)
    return f"{name}: {out} times not counted, {rejected} times in a cluster that was left out"


def _reasons(records: Sequence[RoundRecord]) -> list[tuple[str, str, str]]:
    rounds: dict[tuple[str, str], list[int]] = {}
    for record in records:
        for out in record.left_out:
            if out.reason == RESTING:
                continue
            rounds.setdefault((out.party, printable(out.reason)), []).append(record.round)
    return [
        (party, list_of(map(str, numbers), 12), reason) for (party, reason), numbers in sorted(rounds.items())
    ]
