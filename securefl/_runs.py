"""Runs and simulations of the public API."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self, TypedDict, Unpack

from securefl._api import load, with_overrides
from securefl._arguments import named_in_python
from securefl._result import RunResult
from securefl.base.errors import EXIT_REFUSED, ConfigError
from securefl.methods.metrics import Statistics
from securefl.runtime import launch, report
from securefl.scenario import Scenario, own_name, statistics_round

if TYPE_CHECKING:
    from securefl.training.sites.site import Site


class Federation:
    """Simulated federation under the caller's control: step, inspect, stop, resume.

    It computes the same as :func:`simulate`. Iteration simulates the remaining rounds and yields their
    records. As a context manager it stops at the end of the block.

    Args:
        scenario: this and the other arguments are those of :func:`simulate`.

    Raises:
        ConfigError: the scenario, its data, a site or the directory is refused.
        RunAbortedError: the disk is full or gone.

    >>> import securefl, tempfile
    >>> with securefl.Federation("quickstart", rounds=3, out=tempfile.mkdtemp()) as federation:
    ...     first = federation.step()
    ...     print(first.round, len(first.participants), federation.ended)
    0 12 False
    """

    @named_in_python()
    def __init__(
        self,
        scenario: Scenario | str | Path,
        *,
        data_dir: str | Path | None = None,
        seed: int = 0,
        exact: bool = False,
        seeded: bool = False,
        device: Literal["auto", "cpu", "cuda"] | None = None,
        out: str | Path | None = None,
        site: str | Callable[[str], Site] | None = None,
        site_python: str | Path | None = None,
        site_memory: int = 0,
        rounds: int | None = None,
        on_round: Callable[[report.RoundRecord], None] | None = None,
        resume: bool = False,
        verbose: bool = False,
    ) -> None:
        _check_hook(on_round)
        named = isinstance(site, str) or (site is not None and (site_python is not None or site_memory > 0))
        options = launch.SimulationOptions(
            data_dir=_path(data_dir),
            seed=_whole(seed),
            exact=exact,
            insecure=seeded,
            device=device,
            out=_path(out),
            site=_site_name(site) if named else "",
            maker=None if named or isinstance(site, str) else site,
            site_python=_path(site_python),
            site_memory=site_memory,
            on_round=on_round,
            resume=resume,
        )
        progress = launch.RoundLines() if verbose else launch.NoProgress()
        self._simulation = launch.Simulation(_scenario_to_run(scenario, rounds), options, progress)

    def __repr__(self) -> str:
        done = f"{len(self.rounds)} of {self.scenario.stop.rounds} rounds"
        return f"<Federation {self.scenario.name}: {done}{', ended' if self.ended else ''}, in {self.path}>"

    @property
    def scenario(self) -> Scenario:
        """Scenario of the simulation, with its privacy parameters computed."""
        return self._simulation.scenario

    @property
    def path(self) -> Path:
        """Run directory."""
        return self._simulation.directory.path

    @property
    def rounds(self) -> tuple[report.RoundRecord, ...]:
        """Records of all rounds so far, also of those before a resume."""
        return self._simulation.metrics.records

    @property
    def ended(self) -> bool:
        """True if no round is left or the federation was stopped."""
        return self._simulation.end is not None

    @property
    def result(self) -> RunResult:
        """Model, table and summary of the rounds so far."""
        return RunResult(self._simulation.so_far(), self.path)

    @named_in_python()
    def step(self) -> report.RoundRecord | None:
        """Simulate the next round and return its record; None if the federation has ended.

        Raises:
            RunAbortedError: the disk is full or gone.
        """
        if self.ended:
            return None
        before = len(self.rounds)
        if self._simulation.step() is not None:
            self._simulation.conclude()
        return self.rounds[-1] if len(self.rounds) > before else None

    def __iter__(self) -> Iterator[report.RoundRecord]:
        while (record := self.step()) is not None:
            yield record

    def run(self) -> RunResult:
        """Simulate the remaining rounds.

        Raises:
            RunAbortedError: the disk is full or gone.
        """
        for _ in self:
            pass
        return self.stop()

    @named_in_python()
    def stop(self) -> RunResult:
        """End the federation; ``resume=True`` with its directory continues it.

        Raises:
            RunAbortedError: the disk is full or gone.
        """
        return RunResult(self._simulation.conclude(), self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()


def simulate(
    scenario: Scenario | str | Path,
    *,
    data_dir: str | Path | None = None,
    seed: int = 0,
    exact: bool = False,
    seeded: bool = False,
    device: Literal["auto", "cpu", "cuda"] | None = None,
    out: str | Path | None = None,
    site: str | Callable[[str], Site] | None = None,
    site_python: str | Path | None = None,
    site_memory: int = 0,
    rounds: int | None = None,
    on_round: Callable[[report.RoundRecord], None] | None = None,
    resume: bool = False,
    verbose: bool = False,
) -> RunResult:
    """Simulate a scenario in this process: no broker or masks, the same sums and model as :func:`run`.

    Args:
        scenario: a scenario, or an argument of :func:`load`.
        data_dir: folder of data sets that are not bundled.
        seed: of the public draws: split, initial model, clusters, misbehaving parties.
        exact: train party by party, for the bits of :func:`run`.
        seeded: also draw privacy noise, batches and rounding from ``seed``: reproducible, not private.
        device: replaces the scenario's device.
        out: run directory; ``runs/<name>-<time>`` by default.
        site: function from a party's name to its site, or ``"module:Name"``; for a model of type ``weights``.
        site_python: interpreter of another environment; each site runs in its own process.
        site_memory: MB of data for each such process; 0 for no limit.
        rounds: replaces ``stop.rounds``.
        on_round: called with each round's record. Its error ends the run with a summary and is raised.
        resume: continue the interrupted simulation in ``out``.
        verbose: print the header and a line for each round.

    Raises:
        ConfigError: the scenario, its data, a site or the directory is refused.
        RunAbortedError: the disk is full or gone.

    >>> import securefl
    >>> result = securefl.simulate("quickstart", rounds=2, on_round=lambda record: print(record.round))
    0
    1
    >>> result.state_dict()["1.bias"].shape
    torch.Size([64])
    """
    federation = Federation(
        scenario,
        data_dir=data_dir,
        seed=seed,
        exact=exact,
        seeded=seeded,
        device=device,
        out=out,
        site=site,
        site_python=site_python,
        site_memory=site_memory,
        rounds=rounds,
        on_round=on_round,
        resume=resume,
        verbose=verbose,
    )
    return federation.run()


@named_in_python()
def statistics(
    scenario: Scenario | str | Path, *, site: Callable[[str], Site] | str, seed: int = 0
) -> Statistics:
    r"""Return pooled statistics of the columns of ``[statistics]``, from one simulated round.

    Values outside a declared range are clipped; a warning for each such column gives their number.

    Args:
        scenario: a scenario, or an argument of :func:`load`.
        site: function from a party's name to a site with ``columns()``, or ``"module:Name"``.
        seed: of the clusters.

    Raises:
        ConfigError: the scenario declares no columns, a site has other columns, or no sum opened.
        RunAbortedError: the disk is full or gone.

    >>> import numpy as np, securefl, pathlib
    >>> class Ages:
    ...     def __init__(self, name):
    ...         self.samples = 100
    ...     def columns(self):
    ...         return {"age": np.linspace(40.0, 80.0, 100)}
    >>> _ = pathlib.Path("ages.toml").write_text(
    ...     'name = "ages"\nparties = 6\nmodel.type = "weights"\nmodel.file = "first.safetensors"\n'
    ...     'statistics.features = [{ name = "age", lower = 0, upper = 120 }]\n')
    >>> round(securefl.statistics("ages.toml", site=Ages).features["age"].mean)
    60
    """
    wanted = statistics_round(scenario if isinstance(scenario, Scenario) else load(scenario))
    with tempfile.TemporaryDirectory(prefix="securefl-") as folder:
        options = launch.SimulationOptions(
            seed=_whole(seed),
            out=Path(folder) / "statistics",
            site=site if isinstance(site, str) else "",
            maker=None if isinstance(site, str) else site,
        )
        summary = launch.run_simulation(wanted, options, launch.NoProgress())
    evaluated = [record for record in summary.rounds if record.metrics]
    if not evaluated:
        raise ConfigError("statistics", f"nothing was pooled, no sum was opened: {summary.outcome.reason}")
    for line in report.outside_lines(summary.columns):
        warnings.warn(line, stacklevel=2)
    return Statistics.of(summary.scenario.evaluation, evaluated[-1].metrics)


@named_in_python()
def run(
    scenario: Scenario | str | Path,
    *,
    broker: str = "auto",
    data_dir: str | Path | None = None,
    seed: int = 0,
    device: Literal["auto", "cpu", "cuda"] | None = None,
    out: str | Path | None = None,
    lab: bool = False,
    site: str | Callable[[str], Site] | None = None,
    site_python: str | Path | None = None,
    site_memory: int = 0,
    rounds: int | None = None,
    on_round: Callable[[report.RoundRecord], None] | None = None,
    verbose: bool = False,
    cancelled: threading.Event | None = None,
) -> RunResult:
    """Run a scenario on this machine: broker, server process, and a process for each party.

    In a script, call it under ``if __name__ == "__main__":``, because the processes import the script.

    Args:
        scenario: a scenario, or an argument of :func:`load`.
        broker: ``"auto"``, ``"mosquitto"``, ``"embedded"``, or URLs of running brokers, separated by commas:
            the first that answers is used.
        data_dir: folder of data sets that are not bundled.
        seed: of the public draws: split, initial model, misbehaving parties.
        device: replaces the scenario's device.
        out: run directory; ``runs/<name>-<time>`` by default.
        lab: record whole vectors for audits of experiments. Such a run is not private.
        site: as in :func:`simulate`. Each party's process imports it, so it must be in a module.
        site_python: as in :func:`simulate`.
        site_memory: MB of data for each such process. 0 for no limit, or for all memory of the machine if
            ``privacy.unit = "party"`` gives each site a process without ``site_python``.
        rounds: replaces ``stop.rounds``.
        on_round: as in :func:`simulate`.
        verbose: print the header and a line for each round.
        cancelled: ends the run once set by another thread; during startup after a few seconds.

    Raises:
        ConfigError: refused before or during startup.
        RunAbortedError: the broker, the server or the disk failed.

    >>> import securefl
    >>> result = securefl.run("quickstart", broker="embedded", rounds=1)
    >>> len(result), (result.path / "transcripts" / "server.jsonl").exists()
    (1, True)
    """
    _refuse_import()
    _check_hook(on_round)
    options = launch.RunOptions(
        broker=broker,
        data_dir=_path(data_dir),
        seed=_whole(seed),
        device=device,
        out=_path(out),
        lab=lab,
        site=_site_name(site),
        site_python=_path(site_python),
        site_memory=site_memory,
        on_round=on_round,
        cancelled=cancelled,
    )
    summary = launch.run_here(
        _scenario_to_run(scenario, rounds), options, launch.RoundLines() if verbose else launch.NoProgress()
    )
    return RunResult(summary, Path(summary.files["summary"]).parent)


class RunArguments(TypedDict, total=False):
    """Arguments of :func:`run`."""

    broker: str
    data_dir: str | Path | None
    seed: int
    device: Literal["auto", "cpu", "cuda"] | None
    out: str | Path | None
    lab: bool
    site: str | Callable[[str], Site] | None
    site_python: str | Path | None
    site_memory: int
    rounds: int | None
    on_round: Callable[[report.RoundRecord], None] | None
    verbose: bool


async def run_async(scenario: Scenario | str | Path, **arguments: Unpack[RunArguments]) -> RunResult:
    """Run a scenario like :func:`run`, beside other tasks of the caller's event loop.

    Cancelling the task ends the run's processes and writes the summary of its rounds.

    Args:
        scenario: this and the other arguments are those of :func:`run`. Another thread calls ``on_round``.

    Raises:
        ConfigError: refused before or during startup.
        RunAbortedError: the broker, the server or the disk failed.

    >>> import asyncio, securefl
    >>> len(asyncio.run(securefl.run_async("quickstart", broker="embedded", rounds=1)))
    1
    """
    cancelled = threading.Event()
    running = asyncio.create_task(asyncio.to_thread(_run_in_thread, scenario, cancelled, arguments))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        cancelled.set()
        # A second cancellation must not orphan the processes.
        while not running.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([running])
        raise


def _run_in_thread(
    scenario: Scenario | str | Path, cancelled: threading.Event, arguments: RunArguments
) -> RunResult:
    try:
        return run(scenario, cancelled=cancelled, **arguments)
    except StopIteration as error:  # no future carries it: the task would never end
        raise RuntimeError("on_round raised StopIteration") from error


def _scenario_to_run(scenario: Scenario | str | Path, rounds: int | None) -> Scenario:
    found = scenario if isinstance(scenario, Scenario) else load(scenario)
    return found if rounds is None else with_overrides(found, {"stop.rounds": rounds})


def _check_hook(on_round: object) -> None:
    if on_round is not None and not callable(on_round):
        raise ConfigError("on_round", f"is {on_round!r:.40}, expected a function of a RoundRecord")


def _refuse_import() -> None:
    """Exit with one line if a run's process imports the script that starts the run.

    multiprocessing sets the flag while a new process imports the main module.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        print('securefl.run: put the call under if __name__ == "__main__":', file=sys.stderr)
        raise SystemExit(EXIT_REFUSED)


def _whole(seed: int) -> int:
    """Return a seed of Python or numpy as an integer.

    Raises:
        ConfigError: the seed is not a whole number from 0 on.
    """
    try:
        found = index(seed)
    except TypeError:
        found = -1
    if found < 0:
        raise ConfigError("seed", f"is {seed!r:.40}, expected a whole number from 0 on")
    return found


def _path(path: str | Path | None) -> Path | None:
    return None if path is None else Path(path)


def _site_name(site: str | Callable[[str], Site] | None) -> str:
    if site is None or isinstance(site, str):
        return site or ""
    return own_name(site)
