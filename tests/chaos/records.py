"""Records of chaos runs: a JSON line for each, lists of faults to run again, and the page with the table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, field

from securefl.runtime.transport.broker import BrokerKind
from tests.chaos.faults import DEALER, KINDS, NAMES, SERVER, Fault, Kill, Terminate

CHECKS: Final = {
    "finished": "finished with all rounds",
    "sums": "no wrong sum",
    "exposed": "nobody exposed",
    "twice": "nobody submitted twice",
    "budget": "no budget exceeded",
    "ends": "everybody ended in time and as it should",
    "keys": "no key left",
    "audit": "nothing that an audit calls a breach",
}
"""What is checked, by the name that a broken one has."""


class Case(Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that a run follows from, as far as it follows from anything."""

    setup: str
    broker: BrokerKind
    persistent: bool
    training: float
    faults: tuple[Fault, ...]


class BrokenCheck(Struct, frozen=True):
    """One thing that was not as it has to be."""

    check: str
    what: str


class Record(Struct, frozen=True):
    """One run."""

    seed: int
    case: Case
    struck: tuple[int, ...]
    """Places of the faults that came; others waited for what never passed by."""
    broken: tuple[BrokenCheck, ...]
    rounds: int
    void: int
    sums: int
    counted: int
    releases: int
    seconds: float
    cpu: float
    """Seconds, of all processes."""
    shrunk: tuple[Fault, ...] | None = field(default=None)
    """A part of the list that breaks the same, where one was looked for."""


_CASE: Final = msgspec.json.Decoder(Case)
_RECORD: Final = msgspec.json.Decoder(Record)


def read_case(path: Path) -> Case:
    """A list of faults that was written out."""
    return _CASE.decode(path.read_bytes())


def write_case(path: Path, case: Case) -> None:
    """Write a list out, for people as well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(case), indent=1) + b"\n")


def read_records(path: Path) -> tuple[Record, ...]:
    """All whole lines of a file of results; of a seed that was run again the last one."""
    if not path.exists():
        return ()
    lines = path.read_bytes().split(b"\n")[:-1]
    found = {record.seed: record for record in map(_RECORD.decode, lines)}
    return tuple(found[seed] for seed in sorted(found))


def append_record(path: Path, record: Record) -> None:
    """Add a line, in place of one that was cut off."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
        file.write(msgspec.json.encode(record) + b"\n")


def page(records: Sequence[Record], command: str) -> str:
    """The page of the results."""
    broken = Counter(check for record in records for check in {one.check for one in record.broken})
    sound = sum(not record.broken for record in records)
    lines = [
        "# Chaos",
        "",
        "Federations of real processes, broken on purpose while they run: kills, stalls, resets, half-open",
        "and slow links, partitions, full disks, jumping clocks, restarts and double starts, in lists drawn",
        "from a seed. Afterwards transcripts, frames, journals, accounts, ground truth and files are checked",
        "([how](../../CONTRIBUTING.md#chaos)).",
        "",
        f"    {command}",
        "",
        f"{len(records)} runs, {sound} of them as they should be. They took"
        f" {sum(record.cpu for record in records) / 3600:.2f} CPU hours and"
        f" {sum(record.seconds for record in records) / 3600:.2f} hours of running time.",
        "",
        "| check | runs that broke it |",
        "|---|---:|",
        *(f"| {what} | {broken[check]} |" for check, what in CHECKS.items()),
        "",
        "| setup | runs | faults that struck | rounds | without a new model | sums compared | as expected |",
        "|---|---:|---:|---:|---:|---:|---:|",
        *(_row(name, records) for name in sorted({record.case.setup for record in records})),
        "",
        "| fault | in lists | struck | runs with it | as expected |",
        "|---|---:|---:|---:|---:|",
        *(_fault_row(kind, records) for kind in KINDS),
        "",
        "A fault waits for a frame of some kind and round to pass by; one that never passes leaves it out.",
        "",
        "| the server was killed or terminated at the sight of | times | in runs as expected |",
        "|---|---:|---:|",
        *_server_rows(records),
        "",
    ]
    failing = [record for record in records if record.broken]
    if failing:
        lines += ["## What broke", ""]
        for record in failing:
            faults = record.case.faults if record.shrunk is None else record.shrunk
            lines += [
                f"Seed {record.seed}, {record.case.setup} over {record.case.broker}:",
                "",
                *(f"- **{one.check}** {_plain(one.what)}" for one in record.broken[:3]),
                *(f"- {fault}" for fault in faults),
                "",
            ]
    return "\n".join(lines)


def _row(name: str, records: Iterable[Record]) -> str:
    own = [record for record in records if record.case.setup == name]
    numbers = (
        len(own),
        sum(len(record.struck) for record in own),
        sum(record.rounds for record in own),
        sum(record.void for record in own),
        sum(record.sums for record in own),
        sum(not record.broken for record in own),
    )
    return f"| {name} | {' | '.join(map(str, numbers))} |"


def _fault_row(kind: type[Fault], records: Iterable[Record]) -> str:
    with_it = [r for r in records if any(isinstance(one, kind) for one in r.case.faults)]
    listed = sum(isinstance(one, kind) for record in with_it for one in record.case.faults)
    struck = sum(isinstance(record.case.faults[n], kind) for record in with_it for n in record.struck)
    sound = sum(not record.broken for record in with_it)
    return f"| {NAMES[kind]} | {listed} | {struck} | {len(with_it)} | {sound} |"


def _server_rows(records: Iterable[Record]) -> list[str]:
    """How often the server was ended in each phase, told by the frame at whose sight it was."""
    times, sound = Counter[str](), Counter[str]()
    for record in records:
        for place in record.struck:
            fault = record.case.faults[place]
            if isinstance(fault, Kill | Terminate) and fault.who == SERVER:
                by = fault.when.by if fault.when.by in {SERVER, DEALER} else "party"
                times[f"{by}: {fault.when.kind}"] += 1
                sound[f"{by}: {fault.when.kind}"] += not record.broken
    return [f"| {sight} | {times[sight]} | {sound[sight]} |" for sight in sorted(times)]


def _plain(text: str) -> str:
    return "".join(c if c.isprintable() and c not in "|<>`*[]" else " " for c in text)[:300]
