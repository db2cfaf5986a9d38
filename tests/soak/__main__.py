"""``python -m tests.soak``: run federations for very many rounds, and say what grows.

Each soak leaves a JSON file of its samples; one that is there already is not run again. A federation that
sticks leaves its folder.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

from tests.soak.federation import StuckError, soaked
from tests.soak.fitting import HOLDS
from tests.soak.page import claims, page
from tests.soak.records import Soak, Soaked, read_soaked, write_soaked

FOLDER: Final = Path("runs/soak")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code: 0 all bounds hold, 1 one does not, 2 a bad command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--parties", type=int, default=6)
    parser.add_argument(
        "--kill-server-every",
        type=int,
        nargs="+",
        default=[0],
        metavar="N",
        help="kill the server after each N rounds; 0: never. A soak for each number that is given",
    )
    parser.add_argument("--transcript-megabytes", type=int, default=2, metavar="MB", help="of each process")
    parser.add_argument("--folder", type=Path, default=FOLDER, help=f"where samples go ({FOLDER})")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the tables there")
    parser.add_argument("--size", type=int, default=3, help="of clusters")
    options = parser.parse_args(arguments)
    # By default it ends a process at once, and leaves those that it started.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    found = []
    for every in options.kill_server_every:
        soak = Soak(options.rounds, every, options.parties, options.size, options.transcript_megabytes)
        one = _kept(options.folder, soak)
        if one is None:
            return 1
        found.append(one)
        _tell(one)
    if options.page is not None:
        options.page.write_text(page(found, _command(options)))
    return int(any(claim.verdict != HOLDS for one in found for claim in claims(one)))


def _kept(folder: Path, soak: Soak) -> Soaked | None:
    """The soak, run now unless it is there; None where it stuck."""
    kept, work = folder / f"{soak.name}.json", folder / soak.name
    there = read_soaked(kept)
    if there is not None and there.soak == soak:
        print(f"{kept} is there")
        return there
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    try:
        one = soaked(work, soak)
    except StuckError as error:
        print(f"{soak.name}: {error}; see {work}")
        return None
    write_soaked(kept, one)
    shutil.rmtree(work)
    return one


def _tell(one: Soaked) -> None:
    print(f"{one.soak.name}: {one.hours * 60:.1f} minutes, median load {median(one.loads):.1f}")
    for claim in claims(one):
        print(f"  {claim.verdict:14} {claim.what}: {claim.found}", flush=True)


def _command(options: argparse.Namespace) -> str:
    every = " ".join(map(str, options.kill_server_every))
    return (
        f'make soak ARGS="--rounds {options.rounds} --parties {options.parties} --size {options.size}'
        f' --kill-server-every {every} --transcript-megabytes {options.transcript_megabytes}"'
    )


if __name__ == "__main__":
    sys.exit(main())
