"""The page on trials, from their records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from securefl.report.text import seconds as spoken
from securefl.reproduce.figure import ScaleName
from securefl.reproduce.freshness import NEVER_CHECKED, CheckRecord
from securefl.reproduce.groups.record import Cell, TrialsRecord, claimed, settings_key
from securefl.reproduce.groups.sheet import Trials
from securefl.reproduce.judging import overall

_METRICS = """\
Entries are means over the trials of the *matched* distance: estimates and true parameters are matched
one to one, at the least total distance. Behind it stand, where it differs, the paper's metric as its
authors' code has it, the mean distance to the *nearest* true parameter (it hides a group that two models
share and one that nobody learned), and, where it is below 100 %, the share of honest machines in their
own group.
"""


def trials_page(
    paper: str,
    trials: Sequence[Trials],
    records: Mapping[tuple[str, ScaleName], TrialsRecord],
    folder: str,
    check: CheckRecord = NEVER_CHECKED,
) -> str:
    """Return the page, as Markdown.

    Args:
        paper: its name on the command line.
        trials: all figure files.
        records: what was run.
        folder: where the plots are, as seen from the page.
        check: of what was run.
    """
    return "\n".join(_lines(paper, trials, records, folder, check)).rstrip() + "\n"


def _lines(
    paper: str,
    trials: Sequence[Trials],
    records: Mapping[tuple[str, ScaleName], TrialsRecord],
    folder: str,
    check: CheckRecord,
) -> Iterator[str]:
    common = trials[0].common
    yield f"# {common.title}\n"
    yield (
        f"Made by `securefl reproduce {paper} --page` from the JSON files beside the plots; do not edit it."
        f" Texts come from the figure files in `scenarios/papers/{paper}/`. To run one again:"
        f" `securefl reproduce {paper} --figure PANEL`.\n"
    )
    yield _METRICS
    yield (
        f"Unless said otherwise: {common.byzantine:.0%} Byzantine machines, whose data come from a parameter"
        f" of norm {common.byzantine_norm:g} and who take loss and gradient at 3 times the models;"
        f" noise {common.noise:.4g}; {common.points} points a machine; learning rate {common.rate:g},"
        f" {common.iterations} iterations; trimmed share {common.trim:.0%}; start {common.near:g} of the"
        " separation away from the truth.\n"
    )
    for line in common.chosen:
        yield f"- *Chosen:* {line}"
    yield "\n| figure | what it shows | scale | verdict | computing time |\n|---|---|---|---|---|"
    there = [
        (one, records[one.sheet.panel, scale])
        for one in trials
        for scale in ("desk", "paper")
        if (one.sheet.panel, scale) in records
    ]
    for one, record in there:
        changed = (
            ""
            if record.settings == settings_key(one, record.scale)
            else " (the figure file has changed since)"
        )
        anchor = f"[{record.panel}](#figure-{record.panel})"
        verdict = overall(record.verdicts) + changed + check.mark(record.stem, record.fingerprint)
        yield f"| {anchor} | {one.sheet.title} | {record.scale} | {verdict} | {spoken(record.seconds)} |"
    yield ""
    for one, record in there:
        yield from _section(one, record, folder, check.note(record.stem, record.fingerprint))


def _section(one: Trials, record: TrialsRecord, folder: str, warning: str) -> Iterator[str]:
    sheet = one.sheet
    yield f"## Figure {record.panel}\n"
    yield f"**{sheet.title}.** {claimed(sheet)}\n"
    yield f"- *Settings:* {' '.join(sheet.settings.split())}"
    for line in sheet.chosen:
        yield f"- *Chosen:* {line}"
    yield f"\n![Figure {record.panel}, {record.scale} scale]({folder}/{record.stem}.png)\n"
    if warning:
        yield warning + "\n"
    columns = list(dict.fromkeys(cell.at for cell in record.cells))
    by = {(cell.method, cell.at): cell for cell in record.cells}
    number = max(len(cell.trials) for cell in record.cells)
    yield f"| {number} trials, {record.scale} scale | " + " | ".join(columns) + " |"
    yield "|---" * (len(columns) + 1) + "|"
    for label in dict.fromkeys(cell.method for cell in record.cells):
        yield f"| {label} | " + " | ".join(_entry(by[label, at]) for at in columns) + " |"
    yield ""
    for verdict in record.verdicts:
        agreement = verdict.agreement.replace("seed", "trial")
        whose = "ours; " if verdict.ours else ""
        yield f"- **{verdict.ruling}**: {whose}{verdict.says} ({verdict.numbers}; {agreement})"
    if record.verdicts:
        yield ""
    if sheet.findings:
        yield " ".join(sheet.findings.split()) + "\n"


def _entry(cell: Cell) -> str:
    matched, nearest, recovered = cell.mean("matched"), cell.mean("nearest"), cell.mean("recovered")
    shown = f"{matched:.3f}"
    if abs(matched - nearest) >= 0.0005:
        shown += f" ({nearest:.3f})"
    if recovered < 0.9995:
        shown += f", {recovered:.1%}"
    return shown
