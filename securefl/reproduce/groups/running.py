"""Trials side by side in processes, each finished one kept, so that an interrupted figure goes on."""

from __future__ import annotations

import multiprocessing
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path

import msgspec

from securefl.reproduce.drawing import WORK, prepare
from securefl.reproduce.figure import ScaleName
from securefl.reproduce.groups.record import Cell, TrialsRecord, conclude, trial_key
from securefl.reproduce.groups.sheet import Method, Trials
from securefl.reproduce.groups.trial import Outcome, Trial
from securefl.reproduce.record import write_whole

_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def run_trials(
    trials: Trials,
    scale: ScaleName,
    out: Path,
    *,
    number: int | None = None,
    jobs: int = 2,
    fresh: bool = False,
    on_trial: Callable[[str, int], None] = lambda _at, _trial: None,
) -> TrialsRecord:
    """Run what is missing and judge.

    Args:
        trials: the figure.
        scale: desk or paper.
        out: folder of the results; finished trials are kept in its ``.work``.
        number: trials by point; what the scale says unless given.
        jobs: processes, each on one core.
        fresh: forget what is kept.
        on_trial: told of each finished trial.

    Raises:
        ConfigError: the figure has no such scale.
    """
    size, store = trials.size(scale), out / WORK / "trials"
    if fresh:
        shutil.rmtree(store, ignore_errors=True)
    planned = [
        (trials.at(point), Trial(trials.setup(point), trials.common, index))
        for point in size.points
        for index in range(number or size.trials)
    ]
    missing = {
        place: [method for method in trials.sheet.methods if not _path(store, trial, method).exists()]
        for place, (_, trial) in enumerate(planned)
    }
    # The largest first, so that no process is left alone with it at the end.
    prepare(out)
    order = sorted((p for p in missing if missing[p]), key=lambda p: -_cost(planned[p][1]))
    if order:
        with _single_threaded(), _pool(jobs) as pool:
            futures = {pool.submit(_run, planned[p][1], missing[p], store): p for p in order}
            for future in as_completed(futures):
                future.result()
                at, trial = planned[futures[future]]
                on_trial(at, trial.number)
    cells: dict[tuple[str, str], list[Outcome]] = {}
    for at, trial in planned:
        for method in trials.sheet.methods:
            kept = msgspec.json.decode(_path(store, trial, method).read_bytes(), type=Outcome)
            cells.setdefault((method.label, at), []).append(kept)
    made = [Cell(method=label, at=at, trials=tuple(found)) for (label, at), found in cells.items()]
    seconds = sum(one.seconds for found in cells.values() for one in found)
    return conclude(trials, scale, made, seconds)


def _run(trial: Trial, methods: Sequence[Method], store: Path) -> None:
    for method, outcome in trial.run(methods):
        write_whole(_path(store, trial, method), msgspec.json.encode(outcome))


def _path(store: Path, trial: Trial, method: Method) -> Path:
    return store / f"{trial_key(trial, method)}.json"


def _cost(trial: Trial) -> int:
    return trial.setup.machines * trial.setup.dimension * trial.setup.groups


def _pool(jobs: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"))


@contextmanager
def _single_threaded() -> Iterator[None]:
    """Have processes that are started now use one thread for linear algebra: each has a core."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
