"""Progress of a run for people, logs and programs."""

import json
from collections import Counter
from typing import IO, Final, Protocol

from rich.console import Console

from securefl.base.header import RunHeader
from securefl.protocol.round import AnyReport, RoundDone, RoundStarted, strip_late_prefix
from securefl.runtime import transcript
from securefl.runtime.report import records, text
from securefl.runtime.report.draft import RoundDraft
from securefl.runtime.report.evidence import brief_entry_of
from securefl.runtime.report.summary import Summary
from securefl.runtime.report.text import printable

_MAX_REFUSALS: Final = 50


class Progress(Protocol):
    """Listener to a run in progress. No method raises because of its arguments."""

    def start(self, header: RunHeader) -> None:
        """Begin with the header of the run."""
        ...

    def on_report(self, now: float, report: AnyReport) -> None:
        """Show a machine's report, at ``now`` on its clock in seconds."""
        ...

    def on_reject(self, vantage: str, culprit: str, reason: str) -> None:
        """Show that ``vantage`` rejected a message of ``culprit``."""
        ...

    def note(self, text: str) -> None:
        """Show another line."""
        ...

    def finish(self) -> None:
        """Restore the terminal. May be called more than once."""
        ...


class PlainProgress:
    """Flushed lines per round and per event, for logs and pipes."""

    def __init__(self, stream: IO[str], *, by: str = "rule", name: str = "", explain: bool = False) -> None:
        """Set up the output to ``stream``.

        ``by`` names the filter that excludes sums (:func:`securefl.runtime.report.text.filter_name`).
        ``name`` prefixes lines, if several processes may write to one log. ``explain`` replaces the header
        by the explanation.
        """
        self._stream, self._by, self._name, self._explain = stream, by, name, explain
        self._since = 0.0
        self._draft = RoundDraft(started=0.0)
        self._refusals = 0
        self._late: dict[tuple[str, str], Counter[str]] = {}
        """By vantage and cause: one line for all senders."""

    def start(self, header: RunHeader) -> None:
        for line in header.explanation if self._explain else header.lines:
            self._say(line)

    def on_report(self, now: float, report: AnyReport) -> None:
        if isinstance(report, RoundStarted):
            self._since, self._draft = now, RoundDraft(started=now)
        self._draft.take(now, report)
        if isinstance(report, RoundDone):
            heard = records.heard_in(self._draft.sums)
            same = self._draft.is_unchanged
            text: str | None = report.line(now - self._since, by=self._by, heard=heard, unchanged=same)
        else:
            text = report.line()
        if text is not None:
            self._tell(text)

    def on_reject(self, vantage: str, culprit: str, reason: str) -> None:
        """See :class:`Progress`; late messages of one cause are collected."""
        late = strip_late_prefix(reason)
        if late is not None:
            self._late.setdefault((vantage, late), Counter())[culprit] += 1
            return
        self._refusals += 1
        if self._refusals <= _MAX_REFUSALS:
            self._tell(self._without_name(vantage, text.refusal_text(vantage, culprit, reason)))
        if self._refusals == _MAX_REFUSALS:
            self._tell("further refusals are counted in metrics.jsonl only")

    def note(self, text: str) -> None:
        self._tell(text)

    def finish(self) -> None:
        self._tell_late()
        _write(self._stream, "")

    def _tell(self, text: str) -> None:
        self._tell_late()
        self._say(f"{self._name}: {text}" if self._name else text)

    def _tell_late(self) -> None:
        late, self._late = self._late, {}
        for (vantage, what), culprits in late.items():
            self._refusals += 1
            if self._refusals > _MAX_REFUSALS:
                continue
            self._tell(self._without_name(vantage, text.late_text(vantage, culprits, what)))

    def _without_name(self, vantage: str, text: str) -> str:
        return text.removeprefix(f"{self._name} ") if self._name == vantage else text

    def _say(self, text: str) -> None:
        _write(self._stream, printable(text, 1000) + "\n")


class JsonProgress:
    """JSON progress, one object per line, vectors by digest and length.

    ``event`` is ``start``, a kind of report (``round_done``), ``reject``, ``note`` or ``summary``.
    """

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def start(self, header: RunHeader) -> None:
        shown: dict[str, transcript.JsonValue] = {
            "header": list(header.lines),
            "explanation": list(header.explanation),
        }
        self._emit("start", shown | {"rounds": header.rounds, "done": header.done})

    def on_report(self, now: float, report: AnyReport) -> None:
        kind, fields = brief_entry_of(report)
        self._emit(kind, {"time": round(now, 6), **fields})

    def on_reject(self, vantage: str, culprit: str, reason: str) -> None:
        self._emit("reject", {"by": vantage, "culprit": culprit, "reason": reason})

    def note(self, text: str) -> None:
        self._emit("note", {"text": text})

    def summary(self, summary: Summary) -> None:
        """Write the last line: the content of ``summary.json``."""
        self._emit("summary", summary.to_json())

    def finish(self) -> None:
        _write(self._stream, "")

    def _emit(self, event: str, fields: dict[str, transcript.JsonValue]) -> None:
        line = json.dumps(records.without_infinities({"event": event, **fields}), allow_nan=False)
        _write(self._stream, line + "\n")


def progress_for(
    console: Console, *, as_json: bool = False, by: str = "rule", name: str = "", explain: bool = False
) -> Progress:
    """Return JSON lines on request, a live display on a terminal, plain lines otherwise.

    Further arguments are as in :class:`PlainProgress`; JSON lines have header and explanation.
    """
    if as_json:
        return JsonProgress(console.file)
    if console.is_terminal and not console.is_dumb_terminal:
        from securefl.runtime.report.live import LiveProgress  # noqa: PLC0415 - much of rich, for terminals only

        return LiveProgress(console, by=by, explain=explain)
    return PlainProgress(console.file, by=by, name=name, explain=explain)


def _write(stream: IO[str], text: str) -> None:
    try:
        stream.write(text)
        stream.flush()
    except (OSError, ValueError):
        # A closed pipe is no reason to end the run.
        return
