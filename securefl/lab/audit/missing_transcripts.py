"""Transcripts that are missing, begin late or break off."""

from collections.abc import Iterable, Iterator
from typing import Any

from securefl.base.ids import DEALER, SERVER
from securefl.lab.audit import finding
from securefl.lab.audit.recorded import Recorded
from securefl.runtime import report
from securefl.runtime.transcript import Entry, Transcript, start_of

_SHOWN = 8
_COLLECT = "collect the transcripts of all parties in one transcripts folder"
_KILLED = "nothing to do if these processes were killed; else copy their transcripts again"


def round_of(entry: Entry) -> int | None:
    """Return the round of an entry; None without one."""
    fields: Any = entry.fields
    found = fields["place"][0] if "place" in fields else fields.get("round")
    return found if isinstance(found, int) and found >= 0 else None


def holes(recorded: Recorded, audit: str) -> Iterator[finding.Finding]:
    """Yield findings on missing transcripts and missing parts."""
    gone = recorded.gone
    if gone:
        yield finding.warning(
            audit,
            f"The audit lacks {report.count_of(len(gone), 'transcript')} that summary.json lists"
            f" ({report.list_of(gone)}): what these processes did is not checked.",
            remedy="restore them: they were removed after the run",
        )
    yield from _gaps(recorded, audit)
    yield from _beginnings(recorded, audit)
    yield from _absent(recorded, audit)
    some = (each for each in _all(recorded) if not (each.complete or each.torn))
    cut = {each.path.stem: each for each in some}
    if cut:
        yield finding.note(
            audit,
            f"Transcripts without an orderly end: {report.list_of(sorted(cut))}. What these processes did"
            f" later is not checked{_from_there(recorded, cut.values())}.",
            remedy=_KILLED,
        )


def _all(recorded: Recorded) -> Iterator[Transcript]:
    for some in recorded.transcripts.values():
        yield from some


def _absent(recorded: Recorded, audit: str) -> Iterator[finding.Finding]:
    """Yield notes on processes without a transcript."""
    known = {*recorded.transcripts, *(start_of(name)[0] for name in (*recorded.gone, *recorded.blank))}
    needed = [SERVER, *([DEALER] if recorded.scenario.secure_sum.validated is not None else [])]
    for name in needed:
        if name not in known:
            yield finding.note(
                audit,
                f"The {name}'s transcript is missing: only the parties' transcripts show what it did.",
                remedy=f"add the transcript of the {name} to the same folder",
            )
    absent = sorted(set(recorded.parties).difference(known))
    if absent:
        yield finding.note(
            audit,
            f"{report.count_of(len(absent), 'transcript')} missing ({report.list_of(absent)}): the messages"
            " that these parties received are not checked.",
            remedy=_COLLECT,
        )


def _gaps(recorded: Recorded, audit: str) -> Iterator[finding.Finding]:
    """Yield notes on transcripts that break off in a line, or are empty."""
    torn = {each.path.stem: each for each in _all(recorded) if each.torn}
    if torn:
        names = report.list_of(sorted(torn))
        yield finding.note(
            audit,
            f"Transcripts that break off in the middle of a line: {names}. What these processes did later is"
            f" not checked{_from_there(recorded, torn.values())}.",
            remedy=_KILLED,
            evidence=tuple(
                finding.Evidence(
                    name, each.length, "breaks off here, as after a killed process, a full disk or a copy"
                )
                for name, each in sorted(torn.items())
            ),
        )
    if recorded.blank:
        yield finding.note(
            audit,
            f"Transcripts without a complete entry: {report.list_of(sorted(recorded.blank))}. What these"
            " processes did is not checked.",
            remedy=_KILLED,
            evidence=tuple(
                finding.Evidence(f"transcripts/{name}.jsonl", None, "empty") for name in recorded.blank
            ),
        )


def _beginnings(recorded: Recorded, audit: str) -> Iterator[finding.Finding]:
    """Yield findings on transcripts without their first segments."""
    late = {each.path.stem: each for each in _all(recorded) if each.first and not each.apart}
    if late:
        text = ", ".join(f"{name} lacks {_before(each)}" for name, each in sorted(late.items())[:8])
        yield finding.note(
            audit,
            f"{report.count_of(len(late), 'transcript')} without the first rounds ({text}): they were"
            " deleted, as --transcript-megabytes does, and are not checked.",
            remedy="nothing to do if this is intended; else raise --transcript-megabytes in the next run",
            evidence=tuple(
                finding.Evidence(name, each.first, "first entry that is left")
                for name, each in sorted(late.items())
            ),
        )
    for each in _all(recorded):
        if each.apart:
            yield finding.warning(
                audit,
                f"Segments of the transcript {each.path.stem} are missing, so that"
                f" {report.list_of(each.apart)} cannot be used. Not checked: {_before(each)}.",
                evidence=(finding.Evidence(each.path.stem, each.first, "continues from a missing segment"),),
                remedy="restore all files of transcripts/segments: they belong to the transcript",
            )


def _before(transcript: Transcript) -> str:
    last = 0 if transcript.round is None else transcript.round - 1
    return "round 0" if last <= 0 else f"rounds 0 to {last}"


def _from_there(recorded: Recorded, broken: Iterable[Transcript]) -> str:
    """Return the missing rounds of each broken transcript."""
    rounds = []
    for each in sorted(broken, key=lambda one: start_of(one.path.stem)):
        seen = [number for entry in each.entries if (number := round_of(entry)) is not None]
        at = f"round {max(seen)}" if seen else "the beginning"
        # The next start of the process continues the record.
        vantage, start = start_of(each.path.stem)
        again = any(start_of(one.path.stem)[1] == start + 1 for one in recorded.transcripts[vantage])
        until = "to its next start" if again else "on"
        rounds.append(f"{report.list_of((each.path.stem,))} from {at} {until}")
    known = [one.round for one in recorded.records]
    of = f"; the run has {report.count_of(max(known) + 1, 'round')}" if known else ""
    more = f" and {len(rounds) - _SHOWN} more" if len(rounds) > _SHOWN else ""
    return f" ({', '.join(rounds[:_SHOWN])}{more}{of})"
