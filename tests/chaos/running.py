"""One chaos run from its case to its record, and the search for a shorter list where it broke something."""

from __future__ import annotations

import resource
import shutil
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing import forkserver
from pathlib import Path

import msgspec
import psutil

from tests.chaos.checks import Broken, Verdict, judge
from tests.chaos.conductor import Witnessed, conduct
from tests.chaos.faults import KINDS, SERVER, Fault, Kill, When, draw, of_kind
from tests.chaos.records import BrokenCheck, Case, Record
from tests.chaos.setups import SETUPS, Setup, drawn
from tests.chaos.shrink import ddmin

_PAUSE = 0.05


def case_of(seed: int) -> Case:
    """The case of a seed."""
    setup = drawn(seed)
    return _case(setup, draw(seed, setup.field))


def case_of_kind(kind: type[Fault], seed: int) -> Case:
    """A case with one fault of a kind, in a setup that is drawn."""
    setup = drawn(seed)
    return _case(setup, (of_kind(kind, seed, setup.field),))


def cases_of_each_kind(each: int, first: int = 1) -> tuple[Case, ...]:
    """Cases with one fault each, so many of each kind; and so many kills of a server that leads a round."""
    faults = tuple(
        case_of_kind(kind, first + each * place + number)
        for place, kind in enumerate(KINDS)
        for number in range(each)
    )
    killed = Kill(when=When(SERVER, "Reveals", 1, delay=0.1), who=SERVER, back=0.2)
    return (*faults, *(_case(drawn(first + number), (killed,)) for number in range(each)))


def _case(setup: Setup, faults: Sequence[Fault]) -> Case:
    return Case(setup.name, setup.broker, setup.persistent, setup.training, tuple(faults))


def setup_of(case: Case) -> Setup:
    """The setup that a case names."""
    return replace(SETUPS[case.setup], broker=case.broker, persistent=case.persistent, training=case.training)


def run_case(seed: int, case: Case, keep: Path | None = None) -> Record:
    """Run a case and judge it.

    Args:
        seed: that it is of, for the record.
        case: what to do.
        keep: where the folders of all processes are left if something is broken; None to leave nothing.
    """
    before = _cpu()
    folder = Path(tempfile.mkdtemp(prefix="securefl-chaos-"))
    try:
        witnessed = conduct(folder, setup_of(case), case.faults)
        try:
            verdict = judge(witnessed)
        except Exception:
            # What a run has left may be damaged in a way that nobody foresaw; other runs go on.
            verdict = Verdict((Broken("audit", f"the checks failed: {traceback.format_exc()}"),))
        if verdict.broken and keep is not None:
            _keep(witnessed, keep)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Record(
        seed=seed,
        case=case,
        struck=tuple(sorted(witnessed.struck)),
        broken=tuple(BrokenCheck(one.check, one.what) for one in verdict.broken),
        rounds=verdict.rounds,
        void=verdict.void,
        sums=verdict.sums,
        counted=verdict.counted,
        releases=verdict.releases,
        seconds=round(witnessed.seconds, 2),
        cpu=round(_cpu() - before, 2),
    )


def _keep(witnessed: Witnessed, place: Path) -> None:
    """Leave all folders for whoever looks into it, and what processes said."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(witnessed.folder, place, symlinks=True, ignore=shutil.ignore_patterns("said-*"))
    for one in witnessed.started:
        (place / f"{one.said.path.name}.txt").write_text(one.words)


def shrunk(record: Record, most: int, tries: int = 2) -> tuple[Fault, ...]:
    """A part of a record's list that breaks one of the same checks, in one of so many tries."""
    wanted = {one.check for one in record.broken}

    def breaks(faults: tuple[Fault, ...]) -> bool:
        case = msgspec.structs.replace(record.case, faults=faults)
        return any(wanted & {one.check for one in run_case(record.seed, case).broken} for _ in range(tries))

    left, _ = ddmin(record.case.faults, breaks, most)
    return left


def _cpu() -> float:
    """CPU seconds of this process, of brokers, and of all that the fork server has started and seen end."""
    # The last of its children may just be ending.
    time.sleep(_PAUSE)
    own = sum(
        used.ru_utime + used.ru_stime
        for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )
    pid = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
    if pid is None:
        return own
    times = psutil.Process(pid).cpu_times()
    return float(own + times.user + times.system + times.children_user + times.children_system)
