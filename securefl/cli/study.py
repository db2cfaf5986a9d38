"""``securefl reproduce`` for papers whose tables and figures are sheets: what is asked for, list and page."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from rich.table import Table
from rich.text import Text

from parties.console import say
from securefl.cli.sheet_lines import tell_record
from securefl.errors import ConfigError
from securefl.report.canvas import need_matplotlib
from securefl.report.console import Terminal
from securefl.reproduce.figure import ScaleName
from securefl.reproduce.freshness import read_check
from securefl.reproduce.record import write_whole
from securefl.reproduce.sheets.exhibits import Exhibit, choose_exhibits, exhibits
from securefl.reproduce.sheets.page import Shown, sheet_page, shown, time_of
from securefl.reproduce.sheets.record import read_sheet_records
from securefl.reproduce.sheets.sources import Source, asked_for, present, with_auxiliary
from securefl.reproduce.sheets.study import Kind

SEEDS: dict[ScaleName, int] = {"desk": 1, "paper": 3}
"""Simulations per cell where nothing is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A call of the command."""

    paper: str
    presets: Path
    out: Path
    items: tuple[tuple[Kind, str], ...]
    """By kind and number, or ``all``."""
    datasets: tuple[str, ...]
    auxiliary: str
    """Instead of the one that an item names; nothing: that one."""
    scale: ScaleName
    seeds: int | None
    data_dir: Path | None
    device: str | None
    jobs: int
    fresh: bool
    page: bool
    listing: bool
    check: bool

    @property
    def runs(self) -> bool:
        """Whether what is named is to be run, rather than listed or checked."""
        return not (self.listing or self.check)


def reproduce_study(asked: Asked) -> bool:
    """Do what is asked; return whether all that was checked is as committed.

    Raises:
        ConfigError: a file, a number, data or the device are refused.
        RunAbortedError: the disk is full or gone, or a process died.
    """
    known = exhibits(asked.presets, asked.paper)
    chosen = choose_exhibits(known, asked.items) if asked.items else ()
    if asked.auxiliary and not any(one.item.auxiliary for one in chosen):
        needy = [f"--{one.item.kind} {one.item.number}" for one in known if one.item.auxiliary]
        raise ConfigError("--aux", "nothing of what is asked for needs another data set", " or ".join(needy))
    if not (chosen or asked.listing or asked.page or asked.check):
        raise ConfigError("--table", "nothing to do", "--table N, --figure N, --list, --check or --page")
    if chosen and asked.runs:
        _run(asked, chosen)
    as_committed = True
    if asked.check:
        from securefl.cli.check import check_sheets  # noqa: PLC0415 - imports torch, which --list need not wait for

        as_committed = check_sheets(asked, chosen or known)
    if asked.page:
        target = asked.out.parent / f"{asked.out.name}.md"
        text = sheet_page(known, read_sheet_records(asked.out), asked.out.name, read_check(asked.out))
        write_whole(target, text.encode())
        say(f"wrote {target}")
    if asked.listing:
        show = _details if chosen else _list
        show(shown(chosen or known, read_sheet_records(asked.out), read_check(asked.out)))
    return as_committed


def _run(asked: Asked, chosen: tuple[Exhibit, ...]) -> None:
    wanted: list[tuple[Exhibit, tuple[Source, ...]]] = []
    left_out: dict[str, None] = {}
    for exhibit in chosen:
        try:
            sources, lacking = sources_of(asked, exhibit)
        except ConfigError as error:
            # One of several is left out; the only one is refused.
            if len(chosen) == 1:
                raise
            lacking = [f"{exhibit.item.kind} {exhibit.item.number}: {error}"]
        else:
            wanted.append((exhibit, sources))
        left_out.update(dict.fromkeys(lacking))
    if not wanted:
        raise ConfigError("--data-dir", "nothing of what is asked for has its data", "; ".join(left_out))
    need_matplotlib()
    # Only this way needs torch; the list and the page are there without it.
    from securefl.cli.sheets import run_sheets  # noqa: PLC0415 - imports torch, which --list need not wait for

    for line in left_out:
        say(f"left out: {line}")
    run_sheets(
        wanted,
        asked.scale,
        seeds=asked.seeds or SEEDS[asked.scale],
        out=asked.out,
        data_dir=asked.data_dir,
        device=asked.device,
        jobs=asked.jobs,
        fresh=asked.fresh,
    )


def sources_of(asked: Asked, exhibit: Exhibit) -> tuple[tuple[Source, ...], list[str]]:
    """The data sets to run a table or figure on, and a line on each that is not there.

    Raises:
        ConfigError: none is there, or one that was named is not.
    """
    item = exhibit.item
    if not asked.datasets:
        there, lacking = present(exhibit.datasets(), asked.data_dir)
        return tuple(_complete(asked, exhibit, one) for one in there), lacking
    sources = tuple(asked_for(name, exhibit.study.datasets, asked.data_dir) for name in asked.datasets)
    names = [dataset.name for dataset in exhibit.datasets()]
    for source in sources:
        if source.dataset.name not in names:
            raise ConfigError(
                "--dataset",
                f"{item.kind} {item.number} is not about {source.dataset.name}",
                f"{' or '.join(names)}, or leave it out",
            )
    return tuple(_complete(asked, exhibit, one) for one in sources), []


def _complete(asked: Asked, exhibit: Exhibit, source: Source) -> Source:
    return with_auxiliary(source, exhibit.item.auxiliary, asked.data_dir, asked.auxiliary)


def _list(known: tuple[Shown, ...]) -> None:
    """Every table and figure: sheet by sheet what was run, and the numbers of those that were not."""
    console = Terminal()
    for _, group in groupby(known, key=lambda one: one.exhibit.path):
        family = tuple(group)
        console.print(Text(family[0].exhibit.sheet.title, style="bold"))
        table = Table(box=None, pad_edge=False, show_edge=False, show_header=False)
        table.add_column(no_wrap=True, min_width=11)
        table.add_column()
        table.add_column()
        # Where there is a verdict, the columns before it leave it some room.
        table.add_column(min_width=12 if any(one.records for one in family) else None)
        table.add_column(no_wrap=True)
        for one in family:
            # Numbers as --table and --figure want them.
            name = f"{one.exhibit.item.kind} {one.exhibit.item.number}"
            for record in one.records:
                where = f"{record.dataset}, {record.scale}"
                cells = (name, one.exhibit.item.title, where, one.verdict(record))
                table.add_row(*map(Text, (f"  {cells[0]}", *cells[1:], time_of(record))))
            if not one.records:
                table.add_row(*map(Text, (f"  {name}", one.exhibit.item.title, "not run", "", "")))
        console.print(table)


def _details(wanted: tuple[Shown, ...]) -> None:
    """Title, claim, and all that was run: its numbers and every verdict."""
    for one in wanted:
        item = one.exhibit.item
        say(f"{item.kind} {item.number}: {one.exhibit.title}")
        say(f"  claim: {' '.join(one.exhibit.sheet.claim.split())}")
        for record in one.records:
            say(f"  {record.dataset}, {record.scale} scale: {one.verdict(record)}, {time_of(record)}")
            tell_record(record)
        for dataset in one.missing():
            say(f"  {dataset.name}: not run")
