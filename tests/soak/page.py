"""The page of soaks: growth of memory, time and files, each with its interval and what must hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from statistics import median
from typing import Final, NamedTuple

from tests.soak.fitting import (
    BLOCKS,
    FAILS,
    HOLDS,
    UNDECIDED,
    WARM,
    Point,
    Slope,
    block_medians,
    middle,
    slope_of,
)
from tests.soak.records import SERVER, Sample, Soaked

KILOBYTE: Final = 1000
"""Bytes of memory a round that must not be reached."""
DRIFT: Final = 0.1
"""Part of its time by which a round must not take longer at the end."""
STANDING: Final = 100_000
"""Bytes that files which must not grow with the rounds stay within, models not counted."""
_MEGABYTE: Final = 2**20
_KINDS: Final = {
    "transcripts": "transcripts, all segments",
    "metrics": "`metrics.jsonl`",
    "journal": "`server.journal`, `NAME.journal`",
    "account": "`NAME.account`",
    "checkpoint": "`server.checkpoint`",
    "models": "models",
    "other": "others in `--out`",
    "said": "what it says",
}


class Claim(NamedTuple):
    """Something that must hold."""

    what: str
    found: str
    verdict: str


def own(soaked: Soaked, name: str) -> tuple[Sample, ...]:
    """The samples of one process."""
    return tuple(sample for sample in soaked.samples if sample.name == name)


def names_of(soaked: Soaked) -> tuple[str, ...]:
    """The server and the parties."""
    return SERVER, *sorted({sample.name for sample in soaked.samples} - {SERVER})


def growth(soaked: Soaked, name: str, size: Callable[[Sample], float]) -> list[Point]:
    """What a slope is fitted to: medians of blocks of rounds; of a process that was killed, of each start.

    Of each start the second half counts: then they are as old as each other.
    """
    samples = own(soaked, name)
    if len({sample.start for sample in samples}) == 1:
        return block_medians(((one.round, size(one)) for one in samples), soaked.soak.rounds)
    found = []
    for _, each in groupby(samples, key=lambda sample: sample.start):
        late = [(one.round, size(one)) for one in each if one.since >= soaked.soak.kill_every / 2]
        if late:
            found.append(middle(late))
    return found


def computing(soaked: Soaked, name: str) -> list[Point]:
    """Seconds of computation in a round, in blocks: the clock that counts them has only hundredths."""
    size = max(1.0, soaked.soak.rounds / BLOCKS)
    found = []
    for _, each in groupby(own(soaked, name), key=lambda one: (one.start, one.round // size)):
        # What a start costs is not a round's.
        samples = [one for one in each if one.since > 1]
        if samples and (rounds := samples[-1].round - samples[0].round):
            middle_ = (samples[0].round + samples[-1].round) / 2
            found.append((middle_, (samples[-1].cpu - samples[0].cpu) / rounds))
    return block_medians(found, soaked.soak.rounds)


def taking(soaked: Soaked) -> list[Point]:
    """Seconds that a round took, in blocks."""
    return block_medians(enumerate(soaked.seconds), soaked.soak.rounds)


def largest(soaked: Soaked, name: str, kind: str) -> int:
    """Bytes of files of a kind, when there were most."""
    return max(sample.files.get(kind, 0) for sample in own(soaked, name))


def claims(soaked: Soaked) -> Iterator[Claim]:
    """What must hold, and whether it does."""
    soak, names = soaked.soak, names_of(soaked)
    ended = {name: codes[-1] for name, codes in soaked.exits.items()}
    yield Claim(
        "all rounds are done, each once, and every process ends with code 0",
        f"{len(soaked.rounds)} rounds; codes {', '.join(map(str, sorted(set(ended.values()))))}",
        _said(soaked.rounds == tuple(range(soak.rounds)) and set(ended.values()) == {0}),
    )
    void, kills = len(soaked.void), len(soaked.killed)
    expected = (soak.rounds - 1) // soak.kill_every if soak.kill_every else 0
    yield Claim(
        "only rounds that were open as the server was killed leave no new model",
        f"{void} rounds without one, {kills} kills",
        _said(kills == expected and not lost_otherwise(soaked.void, soaked.killed)),
    )
    for what, which in (("the server", names[:1]), ("each party", names[1:])):
        slopes = [slope_of(growth(soaked, name, lambda one: one.own)) for name in which]
        known = [slope for slope in slopes if slope is not None]
        steepest = max(known, key=lambda slope: max(slope.high, slope.whole), default=None)
        yield Claim(
            f"own memory of {what} grows by less than 1 kB a round",
            _grown(steepest, ", the steepest" if len(which) > 1 else ""),
            UNDECIDED if steepest is None or len(known) < len(slopes) else steepest.verdict(KILOBYTE),
        )
    journal = largest(soaked, SERVER, "journal") + largest(soaked, SERVER, "checkpoint")
    yield Claim(
        f"journal and checkpoint of the server stay within {STANDING // 1000} kB",
        f"{journal:,} bytes at most",
        _said(0 < journal <= STANDING),
    )
    most = max(largest(soaked, name, "transcripts") for name in names)
    yield Claim(
        f"transcripts of each process stay within {soak.megabytes} MiB",
        f"{most / _MEGABYTE:.2f} MiB at most",
        _said(0 < most <= soak.megabytes * _MEGABYTE),
    )
    for what, points in (
        (f"a round takes as long at the end as at the beginning, within {DRIFT:.0%}", taking(soaked)),
        ("so does its computation at the server", computing(soaked, SERVER)),
        ("and at a party", computing(soaked, names[1])),
    ):
        yield _drift(what, points, soak.rounds)


def lost_otherwise(void: Sequence[int], killed: Sequence[int]) -> list[int]:
    """Rounds without a model, but for those that were open as the server was killed."""
    return sorted(set(void) - set(killed))


def _drift(what: str, points: Sequence[Point], rounds: int) -> Claim:
    slope = slope_of(points)
    if slope is None:
        return Claim(what, _grown(None), UNDECIDED)
    part = slope.times(rounds / median(value for _, value in points))
    found = f"{part.value:+.1%} over the run ({part.low:+.1%} to {part.high:+.1%})"
    return Claim(what, found, part.verdict(DRIFT, ends=False))


def page(soaks: Sequence[Soaked], command: str) -> str:
    """The page."""
    lines = [
        "# Soak",
        "",
        "Federations of processes as a deployment starts them, at mosquitto, over very many rounds: does",
        "anything grow that should not?",
        "",
        f"    {command}",
        "",
        f"Softmax regression on 8 x 8 images, 40 samples a party, in clusters of {soaks[0].soak.size}."
        " Each process is",
        f"sampled from outside, some {len(own(soaks[0], SERVER))} times; its own memory is what no other one"
        " shares. Times",
        "include waiting for processors that others use: a load that changed shows as a drift. Slopes",
        f"are Theil and Sen's, through medians of blocks of {100 / BLOCKS:.0f} % of the rounds, without the"
        f" first {100 * WARM / BLOCKS:.0f} %, with",
        "their 95 % interval; memory of a server that was killed: through medians of the second half of",
        "each start (`tests/soak/fitting.py`). What grows in leaps errs by more than that interval says: the",
        "growth from the first block to the last has to be within the bound, too. 1 kB is 1,000 bytes, 1 MiB",
        "is 2^20.",
        "",
    ]
    for soaked in soaks:
        lines += _section(soaked)
    return "\n".join(lines)


def _section(soaked: Soaked) -> Iterator[str]:
    soak = soaked.soak
    killed = f", the server killed every {soak.kill_every}" if soak.kill_every else ""
    yield from (f"## {soak.rounds:,} rounds{killed}", "")
    yield (
        f"{soak.parties} parties and a server, `--transcript-megabytes {soak.megabytes}`,"
        f" {soaked.hours * 60:.1f} minutes on {soaked.machine}. The machine's load, that of others included,"
        f" was {_load(soaked, 0, 4):.1f} in the first quarter and {_load(soaked, 3, 4):.1f} in the last one."
    )
    yield from ("", "| must hold | found | |", "|---|---|---|")
    yield from (f"| {one.what} | {one.found} | {one.verdict} |" for one in claims(soaked))
    yield from (
        "",
        "| own memory | MiB after warming up | at the end | bytes a round | end to end | resident, at most |",
        "|---|---:|---:|---:|---:|---:|",
    )
    for name in names_of(soaked):
        points = growth(soaked, name, lambda one: one.own)
        slope = slope_of(points)
        cells = [f"{points[at][1] / _MEGABYTE:.2f}" for at in (0, -1)] if points else ["", ""]
        cells += ["", ""] if slope is None else [_bytes(slope), f"{slope.whole:.0f}"]
        resident = max(one.rss for one in own(soaked, name)) / _MEGABYTE
        yield f"| {name} | {' | '.join(cells)} | {resident:.1f} |"
    yield from (
        "",
        "| seconds of a round | after warming up | at the end | microseconds more a round |",
        "|---|---:|---:|---:|",
    )
    first = names_of(soaked)[1]
    for what, points in (
        ("as the clock has it", taking(soaked)),
        ("computation at the server", computing(soaked, SERVER)),
        (f"computation at {first}", computing(soaked, first)),
    ):
        slope = slope_of(points)
        grown = "" if slope is None else _range(slope.times(1e6))
        ends = (f"{points[at][1]:.4f}" for at in (0, -1)) if points else ("", "")
        yield f"| {what} | {' | '.join(ends)} | {grown} |"
    yield from ("", f"| files | at the server | at {first} |", "|---|---|---|")
    for kind, what in _KINDS.items():
        yield f"| {what} | {_files(soaked, SERVER, kind)} | {_files(soaked, first, kind)} |"
    for what, number in (("open files", lambda one: one.handles), ("threads", lambda one: one.threads)):
        most = (max(map(number, own(soaked, name))) for name in (SERVER, first))
        yield f"| {what}, at most | {' | '.join(map(str, most))} |"
    yield ""


def _files(soaked: Soaked, name: str, kind: str) -> str:
    """By how many bytes files of a kind grow in a round, or how large they get."""
    most = largest(soaked, name, kind)
    if not most:
        return ""
    points = block_medians(
        ((one.round, one.files.get(kind, 0)) for one in own(soaked, name)), soaked.soak.rounds
    )
    slope = slope_of(points)
    bounded = kind == "transcripts" or (name, kind) == (SERVER, "journal")
    if bounded or slope is None or slope.value < 1:
        return f"{most:,} bytes at most"
    return f"{slope.value:,.0f} bytes a round"


def _grown(slope: Slope | None, which: str = "") -> str:
    if slope is None:
        return "too few samples"
    return f"{_bytes(slope)} B{which}; {slope.whole:.0f} B from the first block to the last"


def _bytes(slope: Slope) -> str:
    return f"{slope.value:.0f} ({slope.low:.0f} to {slope.high:.0f})"


def _range(slope: Slope) -> str:
    return f"{slope.value:+.1f} ({slope.low:+.1f} to {slope.high:+.1f})"


def _load(soaked: Soaked, part: int, parts: int) -> float:
    loads, size = soaked.loads, max(1, len(soaked.loads) // parts)
    return median(loads[part * size : (part + 1) * size] or loads)


def _said(holds: bool) -> str:
    return HOLDS if holds else FAILS
