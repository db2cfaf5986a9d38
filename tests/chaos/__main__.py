"""``python -m tests.chaos``: run seeded lists of faults against federations, and check what is left.

Results are JSON lines, one for each seed; a seed that is there already, with the same list, is not run again.
A list that breaks a check is shrunk and written out: ``--replay FILE`` runs it once more.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import msgspec

from tests.chaos.records import Case, Record, append_record, page, read_case, read_records, write_case
from tests.chaos.running import case_of, cases_of_each_kind, run_case, shrunk

RESULTS: Final = Path("runs/chaos/results.jsonl")
COMMAND: Final = 'make chaos ARGS="--runs {runs} --seed {seed}"'
_CI_SEED: Final = 100


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code: 0 nothing broke, 1 something did, 2 a bad command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--runs", type=int, default=20, help="how many seeds")
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument(
        "--jobs", type=int, default=2, help="runs at the same time; they wait more than they compute"
    )
    parser.add_argument(
        "--results", type=Path, default=RESULTS, metavar="FILE", help=f"JSON lines ({RESULTS})"
    )
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the table of all results there")
    parser.add_argument(
        "--replay", type=Path, metavar="FILE", help="run the list of this file, and nothing else"
    )
    parser.add_argument(
        "--each", type=int, metavar="N", help="instead of lists: N runs with one fault of each kind"
    )
    parser.add_argument(
        "--shrink", type=int, default=20, metavar="N", help="runs to shrink a failing list; 0: don't"
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep the folders of failing runs beside the results"
    )
    options = parser.parse_args(arguments)
    if options.replay is not None:
        return _tell(run_case(-1, read_case(options.replay), options.replay.with_suffix(".run")), 1, 1)
    if options.each is not None:
        cases = dict(enumerate(cases_of_each_kind(options.each, _CI_SEED)))
        records = list(_run(cases, options.jobs, None, keep=False))
        return max(_tell(record, n, len(cases)) for n, record in enumerate(records, start=1))
    return _lists(options)


def _lists(options: argparse.Namespace) -> int:
    seeds = range(options.seed, options.seed + options.runs)
    cases = {seed: case_of(seed) for seed in seeds}
    there = {one.seed: one for one in read_records(options.results) if cases.get(one.seed) == one.case}
    todo = {seed: case for seed, case in cases.items() if seed not in there}
    failed = sum(bool(record.broken) for record in there.values())
    if there:
        print(f"{len(there)} of {len(cases)} seeds are in {options.results}, {failed} of them broken")
    began = time.monotonic()
    for number, record in enumerate(_run(todo, options.jobs, options.results.parent, keep=options.keep), 1):
        failed += _tell(record, len(there) + number, len(cases))
        append_record(options.results, _shrink(record, options) if record.broken else record)
        left = (time.monotonic() - began) / number * (len(todo) - number)
        print(f"    {failed} broken so far; {left / 60:.0f} min to go", flush=True)
    records = [one for one in read_records(options.results) if cases.get(one.seed) == one.case]
    print(
        f"{len(records)} runs, {failed} broken, {sum(one.cpu for one in records) / 3600:.2f} CPU hours,"
        f" results in {options.results}"
    )
    if options.page is not None:
        options.page.write_text(page(records, COMMAND.format(runs=options.runs, seed=options.seed)))
    return int(failed > 0)


def _run(cases: dict[int, Case], jobs: int, folder: Path | None, *, keep: bool) -> Iterator[Record]:
    """Records in the order in which runs end. Each worker has a fork server of its own."""
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        waiting = {
            pool.submit(run_case, seed, case, folder / f"failing-{seed}.run" if keep and folder else None)
            for seed, case in cases.items()
        }
        try:
            for done in as_completed(waiting):
                yield done.result()
        finally:
            for one in waiting:
                one.cancel()


def _shrink(record: Record, options: argparse.Namespace) -> Record:
    path = options.results.parent / f"failing-{record.seed}.json"
    write_case(path, record.case)
    if options.shrink:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            left = pool.submit(shrunk, record, options.shrink).result()
        record = msgspec.structs.replace(record, shrunk=left)
        write_case(path, msgspec.structs.replace(record.case, faults=left))
        print(f"    {len(left)} of {len(record.case.faults)} faults do it:")
        for fault in left:
            print(f"      {fault}")
    print(f"    python -m tests.chaos --replay {path}", flush=True)
    return record


def _tell(record: Record, number: int, total: int) -> int:
    case, mark = record.case, "! " if record.broken else "  "
    print(
        f"{mark}{number:3}/{total} seed {record.seed:<4} {case.setup:14} {case.broker:9}"
        f" {len(record.struck)} of {len(case.faults)} faults, {record.rounds} rounds ({record.void} void),"
        f" {record.sums:2} sums, {record.seconds:5.1f} s",
        flush=True,
    )
    for one in record.broken:
        print(f"      {one.check}: {one.what}", flush=True)
    return int(bool(record.broken))


if __name__ == "__main__":
    sys.exit(main())
