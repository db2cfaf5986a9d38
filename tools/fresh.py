"""Check committed results of papers: compute the start of each again and compare the numbers.

``python tools/fresh.py --part HEAD`` checks one part of twelve, chosen by the commit's hash. Results that
their pages already mark as stale are listed and not computed; those whose data are missing are counted.
Exit code: 0 if no other result is stale, 1 if one is, or if all of its scenarios have changed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from securefl.cli.check import check_record
from securefl.cli.experiment_options import RESULTS, Asked
from securefl.lab.experiments import Exhibit, Record, commit, exhibits, papers, read_check, read_records
from securefl.runtime import launch

ROOT = Path(__file__).resolve().parents[1]
PARTS = 12
"""All results together took 13 minutes on two busy cores."""
REMEDY = (
    "compute it again (securefl reproduce {paper} --{kind} {number} --fresh), or mark its page as stale"
    " (securefl reproduce {paper} --{kind} {number} --check; then --page) in the commit that changes it"
)
OUTDATED = (
    "its figure file has changed: compute it again (securefl reproduce {paper} --{kind} {number}), or remove"
    " its files"
)
Result = tuple[str, Exhibit, Record]


def committed(folder: Path, presets: Path) -> Iterator[Result]:
    """Yield the results in ``folder`` in a fixed order: paper, exhibit, record."""
    for paper in papers(presets):
        by_number = {(one.item.kind, one.item.number): one for one in exhibits(presets, paper)}
        for record in read_records(folder / paper):
            exhibit = by_number.get((record.kind, record.number))
            if exhibit is not None:
                yield paper, exhibit, record


def part_of(results: Sequence[Result], digest: str, parts: int = PARTS) -> list[Result]:
    """Return the results at the positions that equal the hash modulo ``parts``; all of them for no hash."""
    return list(results[int(digest, 16) % parts :: parts]) if digest else list(results)


def check(results: Sequence[Result], folder: Path, data_dir: Path) -> int:
    """Check results, print a line on each, and return the exit code."""
    stale: list[str] = []
    done = unchecked = 0
    for paper, exhibit, record in results:
        out = folder / paper
        if read_check(out).mark(record.stem, record.fingerprint):
            print(f"  {paper} {record.stem}: its page marks it as stale", flush=True)
            continue
        asked = Asked(paper=paper, scale=record.scale, data_dir=data_dir, out=out)
        found = check_record(asked, exhibit, record)
        print(f"  {paper} {record.stem}: {found}", flush=True)
        done += not found.unchecked or found.outdated
        unchecked += bool(found.unchecked) and not found.outdated
        if found.stale or found.outdated:
            remedy = OUTDATED if found.outdated else REMEDY
            stale.append(remedy.format(paper=paper, kind=record.kind, number=record.number))
    lacking = f", {unchecked} not checked" if unchecked else ""
    print(f"{len(stale)} of {done} results stale{lacking}", flush=True)
    for remedy in stale:
        print(remedy, file=sys.stderr)
    return 1 if stale else 0


def main() -> int:
    """Check the part of a commit, or everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", metavar="COMMIT", help="hash whose part is checked; HEAD for the current")
    parser.add_argument("--data-dir", type=Path, default=ROOT.parent / "shared" / "data")
    given = parser.parse_args()
    part = given.part or ""
    if part == "HEAD":
        part = commit().rstrip("+") or "0"  # Outside a checkout the first part is checked.
    folder = ROOT / RESULTS
    results = list(committed(folder, launch.scenario_folder() / "papers"))
    return check(part_of(results, part), folder, given.data_dir)


if __name__ == "__main__":
    sys.exit(main())
