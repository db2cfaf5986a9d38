"""The matrix of outages, what came of each of them, and the table: ``python -m tests.live.outage_matrix``.

Each case is a run in whose rounds the broker is lost once in every step. Outcomes are lines of a file: what
has been done by this code is not done again.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from securefl.runtime.transport.broker import BrokerKind
from tests.live.outages import STEPS, Fault

ROOT = Path(__file__).parents[2]
LEDGER = Path(os.environ.get("SECUREFL_OUTAGES", ROOT / "build" / "outages.jsonl"))
SCALE = 20
"""Outages of ten minutes and deadlines of a deployment, divided by this; not where a case says otherwise."""
LONG = 600.0
PARTIES = 6
JOIN = 60.0
"""Processes start as slowly in any scale."""
DEADLINES = {
    "hello": 60.0,
    "reveal": 60.0,
    "keys": 60.0,
    "shares": 60.0,
    "training": 300.0,
    "certify": 60.0,
    "release": 60.0,
    "quorum": 600.0,
}


@dataclass(frozen=True)
class Case:
    """A broker, what becomes of it, and for how many seconds."""

    kind: BrokerKind
    persistent: bool
    fault: Fault
    down: float
    scale: int = SCALE
    steps: tuple[str, ...] = tuple(STEPS)

    @property
    def name(self) -> str:
        memory = "-persistent" if self.persistent else ""
        steps = "" if self.steps == tuple(STEPS) else "-" + "-".join(self.steps)
        return f"{self.kind}{memory}-{self.fault}-{self.down:g}s{steps}"


@dataclass(frozen=True)
class Outcome:
    """What came of a case."""

    case: str
    code: str
    """The tree of what was tried."""
    kind: str
    persistent: bool
    fault: str
    down: float
    steps: int
    """How often the broker was lost."""
    rounds: int
    void: int
    survivors: int
    """Of the round that had fewest."""
    exit_code: int
    seconds: float
    planned: int = 0
    """How often it should have been lost, at least; 0 where an older line does not say."""

    @property
    def good(self) -> bool:
        """Whether it cost nobody a round, and was done as often as it should have been."""
        unharmed = (self.exit_code, self.void, self.survivors) == (0, 0, PARTIES)
        return unharmed and self.steps >= self.planned


def cases() -> list[Case]:
    """All of them, the quick ones first."""
    brokers: tuple[tuple[BrokerKind, bool], ...] = (
        ("mosquitto", False),
        ("mosquitto", True),
        ("embedded", False),
    )
    faults: tuple[Fault, ...] = ("kill", "restart", "swap")
    made = [
        Case(kind, persistent, fault, down)
        for down in (0.0, 3.0, LONG / SCALE)
        for kind, persistent in brokers
        for fault in faults
        # What another broker would have kept is of no use.
        if not (persistent and fault == "swap")
    ]
    whole = [
        Case("mosquitto", persistent=True, fault="restart", down=LONG, scale=1, steps=("hello", "training")),
        Case("embedded", persistent=False, fault="kill", down=LONG, scale=1, steps=("hello", "training")),
    ]
    return made + whole


SERIES: tuple[tuple[BrokerKind, bool], ...] = (("mosquitto", False), ("mosquitto", True), ("embedded", False))
EVERY = 20.0
"""Seconds between two restarts of a series."""
AWAY = 3.0
"""Seconds for which the broker is away each time."""


def series_name(kind: BrokerKind, *, persistent: bool) -> str:
    """What a series of restarts is called."""
    return f"{kind}{'-persistent' if persistent else ''}-every-{EVERY:g}s"


@cache
def code() -> str:
    """The tree of the package as it is committed."""
    found = subprocess.run(
        ["git", "rev-parse", "HEAD:securefl"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return found.stdout.strip()


def done() -> dict[str, Outcome]:
    """What has come of the cases, by their names; the last time of each."""
    if not LEDGER.exists():
        return {}
    outcomes = (Outcome(**json.loads(line)) for line in LEDGER.read_text().splitlines())
    return {one.case: one for one in outcomes}


def note(outcome: Outcome) -> None:
    """Keep an outcome."""
    LEDGER.parent.mkdir(exist_ok=True)
    with LEDGER.open("a") as ledger:
        ledger.write(json.dumps(asdict(outcome)) + "\n")


def table() -> str:
    """The page of results."""
    found = done()
    names = [case.name for case in cases()]
    series = [series_name(kind, persistent=persistent) for kind, persistent in SERIES]
    ran = [found[name] for name in (*names, *series) if name in found]
    good = sum(one.good for one in ran)
    outages = sum(one.steps for one in ran)
    hours = sum(one.seconds for one in ran) / 3600
    missing = [name for name in (*names, *series) if name not in found]
    return "\n".join(
        [
            *_HEAD.splitlines(),
            "",
            f"{len(ran)} runs with {outages} outages; {good} of these runs did all rounds, none of them void,"
            f" with every party counted in each. {hours:.1f} hours.",
            "",
            "## Lost in every step",
            "",
            *_STEPS.splitlines(),
            *(_row(found[name]) for name in names if name in found),
            "",
            f"## Restarted every {EVERY:g} s",
            "",
            *_SERIES.splitlines(),
            *(_row(found[name]) for name in series if name in found),
            "",
            "## Not run",
            "",
            ", ".join(f"`{name}`" for name in missing) + "." if missing else "Nothing is left out.",
            "",
        ]
    )


def _row(one: Outcome) -> str:
    return (
        f"| {one.kind} | {'on' if one.persistent else 'off'} | {one.fault} | {one.down:g} | {one.steps} |"
        f" {one.rounds} | {one.void} | {one.survivors} of {PARTIES} | {one.exit_code} | {one.seconds:.0f} |"
    )


_COLUMNS = """| broker | persistence | fault | away, s | times | rounds | void | least | exit code | seconds |
|---|---|---|---:|---:|---:|---:|---:|---:|---:|"""

_HEAD = """# Outages of the broker

Runs of six parties in masked clusters of three under an active server, as processes over a real broker
that is taken away from them. `least` is how many parties were counted in the round that had fewest;
`seconds` are of the whole run, on two shared cores.

    make brokers

goes on where it was stopped ([tests](../../tests/live/test_outage_matrix.py)), and
`python -m tests.live.outage_matrix` writes this page."""

_STEPS = f"""The broker is lost once in every step of a run, each time in a round of its own (the first and
the last step are in none), at the first of these messages: {", ".join(tuple(STEPS.values())[:6])},
{", ".join(tuple(STEPS.values())[6:])}. Training takes 1.5 s.

`kill` is SIGKILL and the same broker again, `restart` SIGTERM, `swap` SIGKILL and another broker at the
second address of the list, which knows nothing. Deadlines are a deployment's (60 s, training 300 s, quorum
600 s) divided by {SCALE}, as is the outage of ten minutes; in runs of two steps, hello and training,
nothing is divided.

{_COLUMNS}"""

_SERIES = f"""30 rounds in which training takes 2 s; SIGTERM every {EVERY:g} s, and {AWAY:g} s later the
broker is there again.

{_COLUMNS}"""


def main() -> None:
    """Write the page."""
    (ROOT / "docs" / "results" / "brokers.md").write_text(table())


if __name__ == "__main__":
    main()
