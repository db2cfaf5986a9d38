"""Digests of the models of all bundled scenarios, to show that a change of the code changed no bit.

``python tools/unchanged.py --write`` simulates every bundled scenario under ``--exact``, entropy seeded, and
writes the digests to tests/vectors/models.json; without ``--write`` it compares with that file. Last bits of
torch depend on processor and version: write the file on the machine that compares. Some four CPU minutes.

``python tools/unchanged.py --nets --write`` runs the regression nets instead (tests/nets): all effects of the
machines of small seeded runs. Without ``--write`` it names the first message, report, checkpoint or other
effect of each net that differs, with its round, sender and field. Some 50 CPU seconds. Nets whose names
begin with "torch" depend on the machine as the models do; ``make test`` compares the others.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
COMMITTED = ROOT / "tests" / "vectors" / "models.json"


def outcome(scenario: Path, data: Path, out: Path) -> dict[str, str]:
    """Simulate ``scenario`` and return the SHA-256 of each model, or the line with which it is refused."""
    words = ["simulate", str(scenario), "--exact", "--insecure-seeded-entropy", "--seed", "1", "--json"]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "securefl",
            *words,
            "--device",
            "cpu",
            "--data-dir",
            str(data),
            "--out",
            str(out),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    models = sorted(out.glob("model*.safetensors"))
    if not models:
        return {"refused": done.stderr.strip().splitlines()[-1]}
    return {model.name: hashlib.sha256(model.read_bytes()).hexdigest() for model in models}


def run_nets(*, write: bool, only: str) -> int:
    """Write or compare the traces of all nets whose names hold ``only``; exit code 1 where one differs."""
    from tests.nets import committed  # noqa: PLC0415 - from this checkout, and only where it is asked for
    from tests.nets.nets import NETS  # noqa: PLC0415
    from tests.nets.torch_sites import TORCH_NETS  # noqa: PLC0415 - with torch

    nets = {**NETS, **TORCH_NETS}
    found = {name: run() for name, run in nets.items() if only in name}
    if write:
        committed.write(found if not only else {**committed.everything(), **found})
        return 0
    wrong = 0
    for name, lines in found.items():
        if found_difference := committed.difference(committed.read(name), lines):
            print(f"{name}: {found_difference}", flush=True)
            wrong += 1
    for name in sorted(committed.everything().keys() - nets.keys()):
        print(f"{name}: is committed, and there is no such net")
        wrong += 1
    print(f"{wrong} of {len(found)} nets differ" if wrong else f"all {len(found)} nets equal")
    return 1 if wrong else 0


def main() -> int:
    """Write or compare; exit code 1 where a digest differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the file instead of comparing with it")
    parser.add_argument("--data-dir", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--nets", action="store_true", help="the regression nets instead of the scenarios")
    parser.add_argument("--only", default="", help="nets whose names hold this text")
    options = parser.parse_args()
    if options.nets:
        return run_nets(write=options.write, only=options.only)
    found: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for scenario in sorted((ROOT / "scenarios").glob("*.toml")):
            found[scenario.stem] = outcome(scenario, options.data_dir, Path(folder) / scenario.stem)
            print(scenario.stem, *found[scenario.stem].values(), flush=True)
    if options.write:
        COMMITTED.write_text(json.dumps(found, indent=1) + "\n")
        return 0
    known = json.loads(COMMITTED.read_text())
    wrong = sorted(name for name in known.keys() | found.keys() if known.get(name) != found.get(name))
    print("all equal" if not wrong else "different: " + ", ".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
