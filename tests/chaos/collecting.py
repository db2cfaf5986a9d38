"""One run directory from the folders of a federation's processes, for audits."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

from securefl.runtime.report.rundir import RunDirectory
from securefl.scenario import load_scenario
from tests.chaos.conductor import Witnessed
from tests.chaos.faults import SERVER


def collect(witnessed: Witnessed) -> Path:
    """Bring together what all processes have left; a later start's transcript has a number, as always."""
    folder = witnessed.folder / "collected"
    transcripts = folder / "transcripts"
    transcripts.mkdir(parents=True)
    starts: Counter[str] = Counter()
    seen: set[Path] = set()
    for one in witnessed.started:
        if one.out in seen:
            continue
        seen.add(one.out)
        for path in sorted((one.out / "transcripts").glob("*.jsonl"), key=_start):
            if _is_copy(path, witnessed.folder / one.name / "out" / "transcripts" / path.name):
                continue
            starts[one.name] += 1
            number = starts[one.name]
            shutil.copy(path, transcripts / f"{one.name}{f'.{number}' if number > 1 else ''}.jsonl")
        for part in ("lab", "transcripts/frames", "evidence"):
            if (one.out / part).is_dir():
                shutil.copytree(one.out / part, folder / part, dirs_exist_ok=True)
    for name in ("model.safetensors", "metrics.jsonl", "summary.json"):
        if (path := witnessed.folder / SERVER / "out" / name).exists():
            shutil.copy(path, folder)
    RunDirectory(folder).write_scenario(load_scenario(witnessed.folder / "scenario.toml"))
    return folder


def _is_copy(path: Path, original: Path) -> bool:
    """Whether a folder that was copied brought this transcript along, as far as it had come."""
    if path == original or not original.exists():
        return False
    return original.read_bytes().startswith(path.read_bytes())


def _start(path: Path) -> int:
    number = path.stem.partition(".")[2]
    return int(number) if number.isdecimal() else 1
