"""``python3 -m tools.cuda``: contract suites and measures on a GPU, in one command with a time limit.

The program needs the standard library only. If the interpreter lacks packages, it installs them from the
folder ``--kit``, which ``make cuda-kit`` fills, and runs all else in processes that find them. Results are
JSON lines in ``--out``; a second run with the same folder continues. Exit codes: 0 all tests passed and no
measure failed (measures that were skipped for time are reported), 1 some failed, 2 refused, 130
interrupted.
"""

from __future__ import annotations

import argparse
import importlib.machinery
import os
import shutil
import signal
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

from tools.cuda.environment import ROOT, code_digest, commit, machine
from tools.cuda.lines import NAME, LineFile
from tools.cuda.measures.measure import Measure, measures
from tools.cuda.processes import run_command
from tools.cuda.runner import Clock, Runner, Unit
from tools.cuda.suites import SUITES

LIMIT: Final = 480.0
NEEDED: Final = (
    *(
        "aiomqtt",
        "amqtt",
        "cryptography",
        "crypten",
        "hypothesis",
        "lazy_loader",
        "matplotlib",
        "msgspec",
        "numpy",
    ),
    *("omegaconf", "psutil", "pytest", "rich", "safetensors", "scipy", "sklearn", "torch", "typer", "yaml"),
)
"""Packages that suites and measures import."""
_INSTALL: Final = (
    "import sys; from pathlib import Path; from tools.cuda.install import install; "
    "install(Path(sys.argv[1]), Path(sys.argv[2]))"
)
_SCRATCH: Final = ROOT / ".cuda" / "packages"
_INSTALLED: Final = ".installed"
"""File in the scratch folder that says which kit was installed completely."""


def missing(path: Sequence[str]) -> tuple[str, ...]:
    """Return the needed packages that are not found on a path."""
    finder = importlib.machinery.PathFinder
    return tuple(name for name in NEEDED if finder.find_spec(name, list(path)) is None)


def search_path(scratch: Path | None) -> str:
    """Return PYTHONPATH of the processes: the checkout, then the installed kit, then what it was."""
    folders = [str(ROOT), *([str(scratch)] if scratch else []), os.environ.get("PYTHONPATH", "")]
    return os.pathsep.join(folder for folder in folders if folder)


def default_data_dir(kit: Path) -> Path | None:
    """Return the folder of data sets: that of the kit, or ``shared/data`` in or beside the checkout."""
    folders = (kit / "data", ROOT / "shared" / "data", ROOT.parent / "shared" / "data")
    return next((folder for folder in folders if (folder / "fashion-mnist").is_dir()), None)


def units(device: str, out: Path, data_dir: Path | None, only: Iterable[str] = ()) -> tuple[Unit, ...]:
    """Return suites and measures in the order of their worth; with a GPU, those on the CPU among them.

    Raises:
        SystemExit: a name in ``only`` is unknown.
    """
    options = ["--out", str(out), *(["--data-dir", str(data_dir)] if data_dir else [])]
    found = [
        Unit(
            name=suite.name,
            device=device,
            command=(sys.executable, "-m", "tools.cuda.suites", suite.name, "--device", device, *options),
            estimate=suite.estimate,
            limit=suite.limit,
            required=True,
        )
        for suite in SUITES
    ]
    ranked = [(measure.worth, measure, device) for measure in measures().values()]
    if device == "cuda":
        ranked += [
            (measure.baseline_worth, measure, "cpu")
            for measure in measures().values()
            if measure.baseline_worth is not None
        ]
    for _, measure, on in sorted(ranked, key=lambda one: one[0]):
        command = (sys.executable, "-m", "tools.cuda.measures", measure.name, "--device", on, *options)
        found.append(
            Unit(
                name=measure.name,
                device=on,
                command=command,
                estimate=measure.seconds.get(on, 0.0),
                limit=measure.limit,
                refusal=_refusal(measure, on, data_dir),
            )
        )
    wanted = set(only)
    unknown = wanted - {unit.name for unit in found}
    if unknown:
        there = ", ".join(dict.fromkeys(unit.name for unit in found))
        _refuse(f"--only: unknown {', '.join(sorted(unknown))}; there are {there}")
    return tuple(unit for unit in found if not wanted or unit.name in wanted)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the arguments say; return the exit code."""
    given = _parser().parse_args(arguments)
    clock = Clock(given.limit)
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    out = (given.out or Path(os.environ.get("OUT") or ROOT / ".cuda")).resolve()
    kit = given.kit.resolve()
    try:
        return _run(given, clock, out, kit)
    except KeyboardInterrupt:
        print(f"interrupted; results so far are in {out / NAME}")
        return 130


def _run(given: argparse.Namespace, clock: Clock, out: Path, kit: Path) -> int:
    chosen = units(
        given.device,
        out,
        given.data_dir.resolve() if given.data_dir else default_data_dir(kit),
        [name for name in given.only.split(",") if name],
    )
    scratch = packages(kit, clock)
    environment = {**os.environ, "PYTHONPATH": search_path(scratch), "PYTHONUNBUFFERED": "1"}
    file = LineFile(out / NAME)
    setting = {
        "machine": machine(),
        "run": datetime.now(UTC).isoformat(timespec="seconds"),
        "code": code_digest(),
        "commit": commit(),
    }
    runner = Runner(file, clock, setting, environment, ROOT)
    command = (sys.executable, "-m", "tools.cuda.environment", "--device", given.device, "--out", str(out))
    described = runner.one(
        Unit(name="environment", device=given.device, command=command, estimate=10, limit=120)
    )
    if described is None:
        print("refused: the device or a package is missing; see the lines above")
        return 2
    passed = runner.run(chosen)
    print(f"results are in {out / NAME}; for the page: make cuda-page")
    return 0 if passed else 1


def packages(kit: Path, clock: Clock) -> Path | None:
    """Return the folder of installed packages, or None if the interpreter has all of them.

    Raises:
        SystemExit: packages are missing, and there is no kit or its installation failed.
    """
    lacking = missing(sys.path)
    if not lacking:
        return None
    named = ", ".join(lacking[:6]) + (" and others" if len(lacking) > 6 else "")
    if not kit.is_dir():
        _refuse(f"packages are missing: {named}. Run `make setup`, or make the kit (`make cuda-kit`).")
    stamp, content = _SCRATCH / _INSTALLED, _listing(kit)
    if not (stamp.exists() and stamp.read_text(encoding="utf-8") == content):
        print(f"installing from the kit: {named}")
        # The remains of an installation that was interrupted, or of another kit.
        shutil.rmtree(_SCRATCH, ignore_errors=True)
        _SCRATCH.parent.mkdir(parents=True, exist_ok=True)
        ended = run_command(
            [sys.executable, "-c", _INSTALL, str(kit), str(_SCRATCH)],
            seconds=max(1.0, clock.left),
            on_line=print,
            environment={**os.environ, "PYTHONPATH": str(ROOT)},
            folder=ROOT,
        )
        if ended.code != 0:
            _refuse("\n".join([*ended.errors, "the kit cannot be installed"]))
        stamp.write_text(content, encoding="utf-8")
    still = missing([*sys.path, str(_SCRATCH)])
    if still:
        _refuse(f"the kit lacks {', '.join(still)}: make it again (`make cuda-kit`)")
    return _SCRATCH


def _listing(kit: Path) -> str:
    files = (path for path in sorted(kit.rglob("*")) if path.is_file())
    return "".join(f"{path.relative_to(kit)} {path.stat().st_size}\n" for path in files)


def _refusal(measure: Measure, device: str, data_dir: Path | None) -> str:
    if device in measure.refused:
        return measure.refused[device]
    if measure.needs_data and data_dir is None:
        return "Fashion-MNIST is missing: give --data-dir"
    return ""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python3 -m tools.cuda",
        description="Contract suites and measures on a GPU, within a time limit.",
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument(
        "--limit", type=float, default=LIMIT, metavar="SECONDS", help=f"of the whole run ({LIMIT:g})"
    )
    parser.add_argument(
        "--kit", type=Path, default=ROOT / ".cuda-kit", help="folder of wheels and data (.cuda-kit)"
    )
    parser.add_argument("--out", type=Path, help="folder of results; $OUT or .cuda when left out")
    parser.add_argument("--data-dir", type=Path, help="folder with fashion-mnist/")
    parser.add_argument("--only", default="", metavar="NAMES", help="suites and measures, with commas")
    return parser


def _refuse(text: str) -> NoReturn:
    print(text, file=sys.stderr)
    raise SystemExit(2)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
