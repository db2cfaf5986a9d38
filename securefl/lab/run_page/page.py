"""The page itself: head, sections, and the file that follows a run."""

from __future__ import annotations

import time
from importlib import resources
from pathlib import Path
from typing import Final

from securefl.base.errors import EXIT_EXPECTED, EXIT_PAUSED, ConfigError
from securefl.base.text import count, digits
from securefl.base.version import __version__
from securefl.lab import templates
from securefl.lab.experiments import write_result
from securefl.lab.run_page.blocks import Page, Tile, Tiles, Tone
from securefl.lab.run_page.collect import ExpectedFields, RunFiles, read_run
from securefl.lab.run_page.sections import sections_of
from securefl.methods import feasibility
from securefl.runtime.report import percent, printable, seconds
from securefl.scenario import Scenario

RELOAD_SECONDS: Final = 5


def run_page(run: RunFiles, *, live: bool = False) -> str:
    """Return the page of a run as HTML. It loads nothing and runs no script.

    Args:
        run: content of its folder.
        live: True if the page reloads itself while the run is unfinished.
    """
    source = resources.files(__package__)
    style = source.joinpath("page.css").read_text(encoding="utf-8")
    reloads = RELOAD_SECONDS if live and run.summary is None else None
    return templates.render(source.joinpath("page.html"), page=_page(run, reloads), style=style)


def follow_run(path: Path, file: Path) -> None:
    """Write the page anew every few seconds until the run has ended.

    Raises:
        ConfigError: not the folder of a run, or a damaged file in it.
        RunAbortedError: the page cannot be written.
    """
    while True:
        run = read_run(path)
        write_page(file, run_page(run, live=True))
        if run.summary is not None:
            return
        time.sleep(RELOAD_SECONDS)


def write_page(file: Path, text: str) -> None:
    """Write the page in one step: a reader sees the former or the new one.

    Raises:
        ConfigError: the file's name does not end in .html.
        RunAbortedError: the page cannot be written.
    """
    if file.suffix != ".html":
        raise ConfigError("--out", f"{file} does not end in .html", "name an .html file")
    write_result(file, text.encode())


def _page(run: RunFiles, reloads: int | None) -> Page:
    verdict, tone = _verdict(run)
    return Page(
        name=run.scenario.name,
        subtitle=printable(run.scenario.description, 400),
        verdict=printable(verdict, 400),
        tone=tone,
        tiles=_head_tiles(run),
        sections=sections_of(run),
        version=__version__,
        reload_seconds=reloads,
    )


def _verdict(run: RunFiles) -> tuple[str, Tone]:
    summary = run.summary
    if summary is None:
        done, planned = len(run.records), run.scenario.stop.rounds
        return f"The run has not ended: {done} of {planned} rounds are done.", "note"
    tones: dict[int, Tone] = {EXIT_EXPECTED: "good", EXIT_PAUSED: "warning"}
    text = f"Exit {summary.exit_code}: {summary.exit_meaning}; {summary.reason}."
    return text, tones.get(summary.exit_code, "bad")


def _head_tiles(run: RunFiles) -> Tiles:
    summary, records = run.summary, run.records
    tiles = [Tile("rounds", f"{len(records)} of {run.scenario.stop.rounds}", "ended")]
    last = records[-1] if records else None
    if last is not None and last.accuracy is not None:
        tiles.append(Tile("accuracy", percent(last.accuracy), "of the last model, on the test set"))
    if summary is not None:
        kept = summary.outcome.model.which == "best"
        evaluated = "model that was kept" if kept else "last evaluated model"
        for name, value in summary.outcome.evaluation.items():
            tiles.append(Tile(name, digits(value), f"at the sites, of the {evaluated}"))
    tiles.append(Tile("parties", str(run.scenario.parties), _layout(run.scenario)))
    if last is not None and last.epsilon:
        known = [spent for spent in last.epsilon.values() if spent is not None]
        tiles.append(
            Tile("epsilon spent", digits(max(known)) if known else "no guarantee", "largest of a party")
        )
    if summary is not None:
        tiles.append(Tile("duration", seconds(summary.seconds), "simulated" if summary.simulated else ""))
        for one in summary.expectations:
            if not one.ok:
                label = f"expectation missed: {one.metric}"
                tiles.append(Tile(label, digits(one.measured), _limits_text(one), "bad"))
    return Tiles(tuple(tiles))


def _layout(scenario: Scenario) -> str:
    """Return the planned clusters of a round, which may be larger than ``clustering.size``."""
    sizes = feasibility.check(scenario).cluster_sizes
    span = f"{min(sizes)}" if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"
    return f"{count(len(sizes), 'cluster')} of {span}"


def _limits_text(one: ExpectedFields) -> str:
    ends = (("at least", one.at_least), ("at most", one.at_most))
    return " and ".join(f"{label} {digits(end)}" for label, end in ends if end is not None)
