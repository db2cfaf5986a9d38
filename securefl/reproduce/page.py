"""What is known of a paper's figures: the list on a terminal, and a page in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from securefl.errors import ConfigError
from securefl.report.text import seconds
from securefl.reproduce.figure import ScaleName
from securefl.reproduce.freshness import NEVER_CHECKED, CheckRecord
from securefl.reproduce.judging import measured, overall
from securefl.reproduce.record import CurveRecord, FigureRecord, settings_key
from securefl.reproduce.shelf import Preset

Records = Mapping[tuple[str, ScaleName], FigureRecord]


@dataclass(frozen=True, slots=True)
class Entry:
    """One panel at one scale, whether it was ever drawn or not."""

    preset: Preset
    scale: ScaleName
    record: FigureRecord | None
    check: CheckRecord = NEVER_CHECKED

    @property
    def _changed(self) -> bool:
        """Whether the figure file has changed since the panel was drawn."""
        if self.record is None:
            return False
        figure = self.preset.figure
        return self.record.settings != settings_key(figure, self.preset.scenarios(self.scale))

    @property
    def outdated(self) -> bool:
        """The same, of a file that is refused by now as well."""
        try:
            return self._changed
        except ConfigError:
            return True

    def verdict(self) -> str:
        """The last verdict in a few words."""
        if self.record is None:
            return "not run"
        older = " (of an older figure file)" if self.outdated else ""
        return overall(self.record.verdicts) + older + self.mark

    @property
    def mark(self) -> str:
        """Behind the verdict of a result that cannot be made again."""
        return "" if self.record is None else self.check.mark(self.record.stem, self.record.fingerprint)

    def time(self) -> str:
        """How long it takes, with as many simulations side by side as the last time."""
        return "-" if self.record is None else seconds(self.record.seconds / self.record.jobs)


def entries(
    presets: Sequence[Preset], records: Records, check: CheckRecord = NEVER_CHECKED
) -> Iterator[Entry]:
    """Every panel at every scale at which it was drawn, or at the smallest if it never was."""
    for preset in presets:
        scales: list[ScaleName] = [s for s in preset.figure.scale if (preset.figure.panel, s) in records]
        for scale in scales or list(preset.figure.scale)[:1]:
            yield Entry(preset, scale, records.get((preset.figure.panel, scale)), check)


def page(
    paper: str,
    presets: Sequence[Preset],
    records: Records,
    folder: str,
    check: CheckRecord = NEVER_CHECKED,
) -> str:
    """The page on all panels of a paper, in Markdown.

    Args:
        paper: its short name.
        presets: its panels.
        records: those that were drawn.
        folder: where the plots are, from where the page is.
        check: of the records.
    """
    known = list(entries(presets, records, check))
    return "\n".join([*_head(paper, known), *(line for entry in known for line in _panel(entry, folder))])


def _head(paper: str, known: Sequence[Entry]) -> Iterator[str]:
    yield f"# Figures of {paper.upper()}, reproduced"
    yield ""
    yield (
        f"Made by `securefl reproduce {paper} --page` from the JSON files beside the plots; do not edit it."
        f" Texts come from the figure files in `scenarios/papers/{paper}/`. To draw one again:"
        f" `securefl reproduce {paper} --figure PANEL --data-dir DIR`."
    )
    yield ""
    yield (
        "A verdict is about our runs at the scale that it names, never about the paper's own. `holds`: every"
        " comparison of the claim; `mixed`: some, or a trend whose steps do not all go its way; `does not"
        " hold`: none, or a trend whose ends are not apart. Numbers are means over the seeds of the accuracy"
        " on the test set, averaged over the last rounds."
    )
    yield ""
    yield "| figure | what it shows | scale | verdict | time |"
    yield "|---|---|---|---|---|"
    for entry in known:
        panel = entry.preset.figure.panel
        yield (
            f"| [{panel}](#figure-{panel}) | {_cell(entry.preset.figure.title)} | {entry.scale} |"
            f" {entry.verdict()} | {entry.time()} |"
        )
    yield ""


def _panel(entry: Entry, folder: str) -> Iterator[str]:
    figure, record = entry.preset.figure, entry.record
    first = record is None or entry.scale == next(iter(figure.scale))
    if first:
        yield f"## Figure {figure.panel}"
        yield ""
        yield f"**{figure.title}.** {figure.claim}"
        yield ""
        yield f"- *The paper's settings:* {figure.settings}"
        yield from (f"- *Chosen:* {line}" for line in figure.chosen)
        yield from (f"- *Not in the paper:* {line}" for line in figure.ours)
        yield ""
    if record is None:
        yield "Not run yet."
        yield ""
        return
    yield f"![Figure {figure.panel}, {entry.scale} scale]({folder}/{record.stem}.png)"
    yield ""
    yield f"{entry.scale.capitalize()} scale: {record.note}."
    if warning := entry.check.note(record.stem, record.fingerprint):
        yield warning
    if record.leakage_reported:
        yield "**Leakage is only reported:** some of these runs release sums that cross the published limits."
    yield ""
    yield f"| curve | accuracy, mean of the last {record.last} of {record.rounds} rounds | by seed |"
    yield "|---|---|---|"
    for curve in record.curves:
        yield f"| {_cell(curve.label)} | {curve.final:.3f} | {_by_seed(curve, record)} |"
    yield ""
    for verdict in record.verdicts:
        whose = ", our claim" if verdict.ours else ""
        yield f"- **{verdict.ruling}**{whose}: {verdict.says} ({verdict.numbers}; {verdict.agreement})"
    yield ""
    if figure.findings and first:
        yield figure.findings.strip()
        yield ""
    yield (
        f"Data: {', '.join(record.datasets)}. {seconds(record.seconds)} of computing,"
        f" {record.jobs} at a time, on {', '.join(_devices(record))}."
    )
    yield ""


def _by_seed(curve: CurveRecord, record: FigureRecord) -> str:
    shown = []
    for seed in curve.seeds:
        final = measured(seed.accuracies, "final", record.last, record.rounds)
        ended = f" (round {len(seed.accuracies)}: {seed.ended})" if seed.ended else ""
        shown.append(f"{final:.3f}{ended}")
    return _cell(", ".join(shown))


def _devices(record: FigureRecord) -> list[str]:
    return sorted({seed.device for curve in record.curves for seed in curve.seeds})


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
