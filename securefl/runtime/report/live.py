"""Live display of a run on a terminal."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Final

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from securefl.base.header import RunHeader
from securefl.protocol.round import DONE, AnyReport, PartyState, RoundDone, RunPicture, strip_late_prefix
from securefl.runtime.report.text import count_of, curve, percent, printable, refusal_text, seconds

STEPS: Final = {
    "hello": "hello",
    "reveal": "draw",
    "training": "train and mask",
    "certify": "certify",
    "release": "open",
    "consult": "own data",
    "evaluate": "test",
}

OPTIONAL: Final = frozenset({"certify", "consult"})

_EVENTS: Final = 8


@dataclass(frozen=True, slots=True)
class DisplayState(RunPicture):
    """State of a run, with its plan and its latest events."""

    rounds: int
    before: int = field(default=0, kw_only=True)
    """Rounds that ended before a resume: their times are unknown."""
    refusals: int = field(default=0, kw_only=True)
    events: tuple[str, ...] = field(default=(), kw_only=True)

    def after(self, now: float, report: AnyReport) -> DisplayState:
        """Return the state after a report."""
        state = replace(self, now=now)
        line = report.line()
        if line is not None and not isinstance(report, RoundDone):
            state = state.noting(line)
        return report.show(state)

    def left(self, in_round: float) -> float | None:
        """Return the seconds until the last planned round ends, at the pace so far; None if unknown.

        The latest round began ``in_round`` seconds ago.
        """
        if self.began is None or self.done == self.before:
            return None
        pace = (self.ended - self.began) / (self.done - self.before)
        return max(0.0, pace * (self.rounds - self.done) - (self.since + in_round - self.ended))

    def noting(self, text: str) -> DisplayState:
        """Return the state with one more event."""
        return replace(self, events=(*self.events, text)[-_EVENTS:])

    def refusing(self, vantage: str, culprit: str, reason: str) -> DisplayState:
        """Return the state after a rejection."""
        return replace(self.noting(refusal_text(vantage, culprit, reason)), refusals=self.refusals + 1)


_CURVE_WIDTH: Final = 48
_CURVE_HEIGHT: Final = 4
_MAX_COLUMN: Final = 6
_MAX_WIDTH: Final = 100
_MAX_DOTS: Final = 240
_SHOWN_EVENTS: Final = 5
_DOT: Final[dict[PartyState, tuple[str, str, str]]] = {
    "waiting": ("·", ".", "bright_black"),
    "counted": ("●", "o", "green"),
    "dropped": ("○", "-", "yellow"),
    "rejected": ("●", "r", "magenta"),
    "lost": ("✗", "x", "red"),
}


class LiveProgress:
    """Panel redrawn in place: rounds, step, parties by cluster, accuracy, latest events."""

    def __init__(self, console: Console, *, by: str = "rule", explain: bool = False) -> None:
        self._console, self._explain = console, explain
        self._by = by
        self._scene = DisplayState(rounds=1)
        self._began = self._seen = time.monotonic()
        self._live = Live(self, console=console, refresh_per_second=8, transient=True)

    def start(self, header: RunHeader) -> None:
        """Print the header and begin."""
        for index, line in enumerate(header.explanation if self._explain else header.lines):
            warns = line.split(": ", 1)[-1].lstrip()[:2].isupper()
            style = "bold red" if warns else "bold" if index == 0 else "dim"
            self._console.print(Text(printable(line, 1000), style=style))
        self._scene = DisplayState(rounds=header.rounds, done=header.done, before=header.done)
        self._began = self._seen = time.monotonic()
        self._live.start()

    def on_report(self, now: float, report: AnyReport) -> None:
        """Update the display by a report."""
        self._seen = time.monotonic()
        self._scene = self._scene.after(now, report)

    def on_reject(self, vantage: str, culprit: str, reason: str) -> None:
        """Update the display by a rejection, unless the message was late."""
        if strip_late_prefix(reason) is None:
            self._scene = self._scene.refusing(vantage, culprit, reason)

    def note(self, text: str) -> None:
        """Add an event."""
        self._scene = self._scene.noting(printable(text))

    def finish(self) -> None:
        """Restore the terminal."""
        self._live.stop()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        # Reports arrive in another thread; the state is immutable.
        scene = self._scene
        moment = time.monotonic()
        yield draw(
            scene,
            elapsed=moment - self._began,
            in_round=max(0.0, scene.now - scene.since) + moment - self._seen,
            width=options.max_width,
            ascii_only=options.ascii_only,
            by=self._by,
        )


def draw(
    scene: DisplayState,
    elapsed: float,
    in_round: float,
    *,
    width: int = _MAX_WIDTH,
    ascii_only: bool = False,
    by: str = "rule",
) -> RenderableType:
    """Return the panel for a state, at most 100 columns wide.

    ``elapsed`` and ``in_round`` are seconds since the start of run and round. ``by`` names the filter that
    excludes sums, besides the checks.
    """
    body = Table.grid(padding=(0, 2))
    body.add_column(style="dim", no_wrap=True, min_width=9)
    body.add_column(ratio=1)
    body.add_row("rounds", _bar(scene, elapsed, scene.left(in_round)))
    body.add_row(f"round {scene.round}", _steps(scene, in_round, ascii_only))
    body.add_row("parties", _parties(scene, ascii_only, by))
    body.add_row("sums", _sums(scene))
    if scene.accuracies:
        body.add_row("accuracy", _accuracy(scene, ascii_only))
    if scene.backdoor is not None:
        body.add_row("backdoor", Text(f"{percent(scene.backdoor)} of patched test images", style="yellow"))
    for index, line in enumerate(scene.events[-_SHOWN_EVENTS:]):
        body.add_row(
            "events" if index == 0 else "", Text(line, style="yellow", no_wrap=True, overflow="ellipsis")
        )
    return Panel(
        body,
        box=box.ASCII if ascii_only else box.ROUNDED,
        border_style="bright_black",
        padding=(0, 1),
        width=min(width, _MAX_WIDTH),
    )


def _bar(scene: DisplayState, elapsed: float, left: float | None) -> RenderableType:
    row = Table.grid(padding=(0, 2))
    row.add_column(width=32)
    row.add_column(no_wrap=True)
    times = [seconds(elapsed)]
    if left is not None and scene.done < scene.rounds:
        times.append(f"{left:.0f} s left" if left < 60 else f"{seconds(left)} left")
    row.add_row(
        ProgressBar(total=max(1, scene.rounds), completed=scene.done, width=32),
        Text.assemble(f"{scene.done} of {scene.rounds} done", ("   " + "   ".join(times), "dim")),
    )
    return row


def _steps(scene: DisplayState, in_round: float, ascii_only: bool) -> Text:
    if not scene.step:
        return Text("waiting for parties" if scene.done == 0 else "beginning", style="dim")
    arrow = " > " if ascii_only else " → "
    names = [name for name in STEPS if name not in OPTIONAL or scene.step == name]
    at = len(names) if scene.step == DONE else names.index(scene.step) if scene.step in names else -1
    line = Text()
    for index, name in enumerate(names):
        style = "bold cyan" if index == at else "green" if index < at else "bright_black"
        line.append(STEPS[name], style=style)
        line.append(arrow if index + 1 < len(names) else "   ", style="bright_black")
    return line.append(seconds(in_round), style="dim")


def _parties(scene: DisplayState, ascii_only: bool, by: str) -> RenderableType:
    here = len(scene.present)
    if not scene.standings:
        missing = f", {len(scene.missing)} missing" if scene.missing else ""
        return Text(f"{here} present{missing}" if here else "waiting for parties", style="dim")
    sieves = f"{by.replace(' or ', ', ')} or checks"
    tally = {kind: sum(1 for s in scene.standings.values() if s == kind) for kind in _DOT}
    words = Text()
    for kind, number in tally.items():
        if number:
            # With hidden groups only the number of updates is known, not their parties.
            inside = "" if kind != "counted" or scene.inside is None else f"{scene.inside} of "
            words.append(f"{inside}{number} {_WORD[kind].format(sieves=sieves)}   ", style=_DOT[kind][2])
    resting = here + len(scene.missing) - len(scene.standings)
    if resting > 0:
        words.append(f"{resting} not in this round", style="yellow")
    if len(scene.standings) > _MAX_DOTS:
        return words
    dots = Text()
    for members in scene.clusters:
        for party in members:
            fancy, plain, style = _DOT[scene.standings.get(party, "waiting")]
            dots.append(plain if ascii_only else fancy, style=style)
        dots.append("  ")
    return Group(dots, words)


_WORD: Final[dict[PartyState, str]] = {
    "waiting": "at work",
    "counted": "counted",
    "dropped": "dropped out",
    "rejected": "left out by {sieves}",
    "lost": "in a lost sum",
}


def _sums(scene: DisplayState) -> Text:
    now = f"{scene.opened} of {scene.planned} opened, " if scene.planned else ""
    line = Text(f"{now}{scene.total_opened} in all")
    if scene.refusals:
        line.append(f"   {count_of(scene.refusals, 'message')} refused", style="red")
    return line


def _accuracy(scene: DisplayState, ascii_only: bool) -> Text:
    values = scene.accuracies
    best = max(range(len(values)), key=values.__getitem__)
    text = Text.assemble((percent(values[-1]), "bold"), (f"   best {percent(values[best])}", "dim"))
    if len(values) < 2:
        return text
    column = max(1, min(_MAX_COLUMN, _CURVE_WIDTH // scene.rounds))
    stretched = [value for value in values for _ in range(column)]
    drawn = curve(stretched, _CURVE_WIDTH, _CURVE_HEIGHT, ascii_only=ascii_only)
    labels = [percent(max(values)), *[""] * (len(drawn) - 2), percent(min(values))]
    for label, line in zip(labels, drawn, strict=True):
        text.append("\n").append(f"{label:>8} ", style="dim").append(line, style="cyan")
    return text
