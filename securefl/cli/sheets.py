"""Running the tables and figures of a study: simulations side by side, a table, verdicts. Imports torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from parties.console import say
from securefl.cli.batch import begin, simulate
from securefl.cli.sheet_lines import tell_record
from securefl.cli.splits import Shares, split_of
from securefl.errors import ConfigError
from securefl.report.text import seconds as spoken
from securefl.reproduce.comparison import Plan
from securefl.reproduce.drawing import Batch
from securefl.reproduce.figure import ScaleName
from securefl.reproduce.measure import Job
from securefl.reproduce.provenance import versions
from securefl.reproduce.record import SeedRecord, encode, write_whole
from securefl.reproduce.sheets.exhibits import Exhibit
from securefl.reproduce.sheets.pictures import picture
from securefl.reproduce.sheets.record import SheetRecord
from securefl.reproduce.sheets.sources import Source
from securefl.reproduce.sheets.study import SPLITS
from securefl.reproduce.sheets.tabulate import Done, tabulate


@dataclass(frozen=True, slots=True)
class Request:
    """A table or figure on one data set, to be run."""

    exhibit: Exhibit
    source: Source
    plan: Plan
    batch: Batch


def run_sheets(
    wanted: Sequence[tuple[Exhibit, Sequence[Source]]],
    scale: ScaleName,
    *,
    seeds: int,
    out: Path,
    data_dir: Path | None,
    device: str | None,
    jobs: int,
    fresh: bool = False,
) -> None:
    """Run one table or figure after the other, each on its data sets; ``fresh``: with nothing kept.

    Raises:
        ConfigError: a sheet, data or the device are refused; the first ones may be done by then.
        RunAbortedError: the disk is full or gone, or a process died.
    """
    requests = [
        Request(
            exhibit,
            source,
            plan,
            Batch(
                scenarios=plan.scenarios,
                seeds=seeds,
                out=out,
                data_dir=data_dir,
                device=device,
                jobs=jobs,
                every=exhibit.sheet.every,
                last=exhibit.sheet.last,
            ),
        )
        for exhibit, sources in wanted
        for source in sources
        for plan in [exhibit.plan(scale, source)]
    ]
    begin([request.batch for request in requests], fresh=fresh)
    for request in requests:
        item, data = request.exhibit.item, request.source.dataset.name
        say(f"{item.kind} {item.number} on {data} ({scale} scale): {request.exhibit.title}")
        say(f"  claim: {' '.join(request.exhibit.sheet.claim.split())}")
        record = _run(request, scale)
        content = encode(record)
        write_whole(out / f"{record.stem}.png", picture(record))
        write_whole(out / f"{record.stem}.json", content)
        tell_record(record)
        say(f"  {out / record.stem}.png and .json, {spoken(record.seconds)} of computing")


def _run(request: Request, scale: ScaleName) -> SheetRecord:
    shows = request.exhibit.sheet.shows
    if shows in SPLITS:
        splits = [(label, job.seed, split_of(job, shows)) for label, job in request.batch.simulations()]
        by_label: dict[str, list[SeedRecord]] = {label: [] for label, _, _ in splits}
        for label, _, (record, _) in splits:
            by_label[label].append(record)
        shares = {label: shares for label, seed, (_, shares) in splits if seed == 0}
        return _tabulated(request, scale, by_label, request.plan.refused, shares)
    why: dict[str, ConfigError] = {}

    def on_refused(job: Job, error: ConfigError) -> None:
        why[job.stem] = error

    found = simulate(request.batch, on_refused)
    refused, results = dict(request.plan.refused), dict[str, list[SeedRecord]]()
    for label, job in request.batch.simulations():
        if job.stem in why:
            refused.setdefault(label, str(why[job.stem]))
        elif not found[job.stem].accuracies:
            refused.setdefault(label, found[job.stem].ended)
        else:
            results.setdefault(label, []).append(found[job.stem])
    if not results:
        # The same trouble with all of them is trouble with the data or the machine, not part of the answer.
        raise next(iter(why.values()), ConfigError(request.exhibit.path.name, next(iter(refused.values()))))
    return _tabulated(request, scale, results, refused, {})


def _tabulated(
    request: Request,
    scale: ScaleName,
    results: Mapping[str, Sequence[SeedRecord]],
    refused: Mapping[str, str],
    shares: Mapping[str, Shares],
) -> SheetRecord:
    return tabulate(
        Done(
            exhibit=request.exhibit,
            dataset=request.source.dataset,
            scale=scale,
            plan=request.plan,
            results=results,
            refused=refused,
            jobs=request.batch.jobs,
            auxiliary=request.source.instead,
            versions=versions(),
            shares=shares,
        )
    )
