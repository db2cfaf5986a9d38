"""Folders of four runs with computed records: each machine writes the same pages, without training.

``python -m tests.browser.runs FOLDER`` writes them and the page of each.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from securefl.base.ids import PartyId
from securefl.lab.run_page import read_run, run_page, write_page
from securefl.methods.metrics.pooling import Measured
from securefl.protocol.round import SumSeen
from securefl.runtime.report import RunDirectory
from securefl.runtime.report.records import RESTING, LeftOut, RefusedMessage, RoundRecord, Volume
from securefl.scenario import Scenario
from securefl.scenario.load import parse_scenario

SILENT = "silent before its masked input"
EVALUATED = """
model.type = "weights"
stop.metric = "scores.auc"
aggregation.rule = { type = "trimmed-mean", trim = 1 }
[evaluation]
repeats = "accept"
metrics = [{ name = "scores", kind = "histogram" }]
"""


def main(folder: Path) -> None:
    """Write the runs below ``folder`` and the page of each."""
    folder.mkdir(parents=True)
    # The page has the folder's path in its text: a short one of equal length on each machine.
    os.chdir(folder)
    runs = {"finished": finished, "failed": failed, "running": running, "sixty": sixty}
    for name, make in runs.items():
        run = Path(name)
        make(run)
        write_page(run / "report.html", run_page(read_run(run), live=run.name == "running"))


def scenario(name: str, text: str, parties: int, size: int, rounds: int, more: str = "") -> Scenario:
    """Return a scenario with clusters of ``size``; ``more`` is TOML behind its first lines."""
    return parse_scenario(
        f'name = "{name}"\ndescription = "{text}"\nparties = {parties}\nclustering.size = {size}\n'
        f"stop.rounds = {rounds}\n{more}"
    )


def names(count: int) -> tuple[PartyId, ...]:
    """Return the names of the parties of a run."""
    return tuple(PartyId(f"p{number:02}") for number in range(count))


def record(
    number: int, there: Sequence[PartyId], size: int, *, out: Sequence[LeftOut] = (), **other: object
) -> RoundRecord:
    """Return a round in which ``there`` sit in clusters of ``size``, in an order of the round's own."""
    absent = {one.party for one in out}
    drawn = sorted(there, key=lambda name: (int(name[1:]) * 7 + number * 5) % 61)
    count = max(1, len(drawn) // size)
    groups = [drawn[at::count] for at in range(count)]
    sums = []
    for at, group in enumerate(groups):
        inside = tuple(sorted(set(group) - absent))
        sums.append(SumSeen(0, at, inside, inside, None))
    counted = tuple(sorted({name for one in sums for name in one.counted}))
    rejected = tuple((0, at) for at, one in enumerate(sums) if "p07" in one.counted and number % 3 == 1)
    fields: dict[str, object] = {
        "accuracy": 0.95 - 0.4 * math.exp(-0.45 * number), "loss": 0.15 + 1.9 * math.exp(-0.5 * number),
        "update_norm": 2.0 / (1 + number), "participants": tuple(sorted(there)), "counted": counted,
        "left_out": tuple(out), "sums": tuple(sums), "rejected": rejected, "lost": {}, "redraws": 0,
        "kept": tuple((0, at) for at in range(len(sums)) if (0, at) not in rejected), "retries": 0,
        "seconds": {
            "hello": 0.4, "keys": 0.9, "training": 6.2 + 0.3 * (number % 4), "release": 0.7, "evaluate": 0.2,
            "total": 8.6,
        },
        "traffic": {
            name: {"up": Volume(9, 91_000 + 4_000 * (at % 5)), "down": Volume(14, 64_000)}
            for at, name in enumerate(there)
        },
        "refusals": {},
    }  # fmt: skip
    return RoundRecord(round=number, **(fields | other))  # type: ignore[arg-type]


def write(
    path: Path, plan: Scenario, records: Sequence[RoundRecord], summary: dict[str, object] | None = None
) -> None:
    """Write the folder of a run; without a summary it has not ended."""
    folder = RunDirectory.create(path, plan.name)
    folder.write_scenario(plan)
    rows = folder.metrics()
    for one in records:
        rows.append(one.row())
    rows.close()
    if summary is not None:
        view: dict[str, object] = {
            "opened_sums": sum(len(one.sums) for one in records),
            "smallest_sum": min((len(s.counted) for one in records for s in one.sums), default=None),
            "single_updates": [], "insecure_seeded_entropy": False,
        }  # fmt: skip
        fixed: dict[str, object] = {
            "securefl": "1", "run": path.name, "seed": 7, "simulated": False, "seconds": 8.6 * len(records),
            "outcome": {"model_destroyed": False}, "expectations": [], "server_view": view,
        }  # fmt: skip
        folder.write_json("summary.json", fixed | summary)  # type: ignore[arg-type]


def finished(path: Path) -> None:
    """Twelve parties: one drops out, one lies, one fails to train, verifiers void a round; audited."""
    everyone = names(12)
    records = []
    for number in range(12):
        auc = 0.97 - 0.3 * math.exp(-0.4 * number)
        out = [LeftOut(PartyId("p03"), SILENT)] if number in (2, 5) else []
        void = "fewer verifiers than the quorum answered before the deadline"
        records.append(
            record(
                number, everyone, 3, out=out,
                epsilon={name: 0.6 * (number + 1) ** 0.6 + 0.02 * at for at, name in enumerate(everyone)},
                metrics=(
                    Measured(
                        "scores.auc", auc, auc, auc, auc - 0.04, auc + 0.03, 4, higher=True, deviation=0.012
                    ),
                ),
                failures={PartyId("p09"): ""} if number == 4 else {},
                beyond_range={PartyId("p07"): 3} if number in (1, 4, 7) else {},
                claims={number: void if number == 6 else ""},
                refusals={RefusedMessage("server", "p03", "late: the step had ended"): 2} if out else {},
            )
        )  # fmt: skip
    plan = scenario(
        "clinics", "12 clinics in 4 clusters of 3: one drops out, one is Byzantine", 12, 3, 12,
        EVALUATED,
    )  # fmt: skip
    expectation = {"at_most": None, "at_least": 0.9, "measured": 0.969, "ok": True, "metric": "evaluation"}
    write(path, plan, records, {
        "exit_code": 0, "exit_meaning": "ended as the scenario expects", "reason": "12 rounds done",
        "expectations": [expectation],
        "outcome": {
            "model_destroyed": False, "evaluation": {"scores.auc": 0.966}, "model": {"which": "best"},
        },
        "privacy": {"guarantee": "each party's samples have (2.9, 1e-05)-differential privacy, add-remove"},
    })  # fmt: skip
    findings = [
        {"severity": "holds", "claim": "No combination of opened sums has fewer than 2 parties."},
        {"severity": "warning", "claim": "p03 and p07 shared a cluster in 4 of 12 rounds: two colluders there"
         " would know the third member's update."},
        {"severity": "note", "claim": "The server's order of clusters matches the committed seed."},
    ]  # fmt: skip
    audit = {
        "format": "securefl audit 1", "verdict": "1 of 3 findings is worse than the scenario allows",
        "exit_code": 1, "audits": [{"title": "Exposure by sums", "findings": findings}],
    }  # fmt: skip
    (path / "audit").mkdir()
    (path / "audit" / "audit.json").write_text(json.dumps(audit))


def failed(path: Path) -> None:
    """Nine parties over a bad network: the run gave up, and misses what it expected."""
    everyone = names(9)
    records = [record(0, everyone, 3), record(1, everyone, 3)]
    for number in (2, 3):
        lost = {(0, 0): "2 of 3 members were silent", (0, 2): "fewer shares than the threshold"}
        out = [LeftOut(name, SILENT) for name in everyone if name not in ("p01", "p04", "p08")]
        there = tuple(PartyId(name) for name in ("p01", "p04", "p08"))
        records.append(
            record(
                number, there, 3, out=out, lost=lost, participants=everyone, loss=math.inf, accuracy=0.11,
                retries=2,
            )
        )  # fmt: skip
    missed = {"metric": "accuracy", "at_least": 0.9, "at_most": None, "measured": 0.11, "ok": False}
    write(path, scenario("night-shift", "9 sensors over a network that fails", 9, 3, 20), records, {
        "exit_code": 3, "exit_meaning": "the run could not finish", "expectations": [missed],
        "reason": "no sum was opened in 3 rounds in a row; see the logs of p00, p02, p03, p05, p06 and p07",
        "outcome": {"model_destroyed": True},
    })  # fmt: skip


def running(path: Path) -> None:
    """Eight parties in the fifth of 30 rounds."""
    write(
        path, scenario("sensors", "8 sensors in 2 clusters of 4", 8, 4, 30),
        [record(number, names(8), 4) for number in range(5)],
    )  # fmt: skip


def sixty(path: Path) -> None:
    """Sixty parties, 100 rounds, of which each party takes part in about half."""
    everyone = names(60)
    records = []
    for number in range(100):
        drawn = [name for at, name in enumerate(everyone) if (at * 13 + number * 29) % 60 < 30 or at >= 48]
        rest = [LeftOut(name, RESTING) for name in everyone if name not in set(drawn)]
        silent = [LeftOut(drawn[number % len(drawn)], SILENT)] if number % 9 == 4 else []
        records.append(record(number, drawn, 6, out=[*rest, *silent]))
    write(path, scenario("sixty", "60 parties in clusters of 6, 100 rounds", 60, 6, 100), records, {
        "exit_code": 4, "exit_meaning": "paused", "reason": "paused by a person after round 99",
    })  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]))
