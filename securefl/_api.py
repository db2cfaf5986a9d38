"""The functions of the public API (docs/python.md): scenarios, runs, plans and audits from Python."""

from __future__ import annotations

import tempfile
import tomllib
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from securefl._result import RunResult
from securefl.base.errors import ConfigError
from securefl.lab import planning
from securefl.lab.audit import AuditReport, known_of, load_truth
from securefl.lab.audit import audit as audited
from securefl.lab.audit import load as read_run
from securefl.methods import feasibility
from securefl.methods.metrics import Statistics
from securefl.runtime import launch, report
from securefl.scenario import (
    DERIVED,
    Scenario,
    load_scenario,
    own_name,
    scenario_of,
    stated_sums,
    statistics_round,
    to_toml,
)

if TYPE_CHECKING:
    import numpy as np

    from securefl.training.sites.site import Site


def load(scenario: str | Path, overrides: Mapping[str, object] | Iterable[str] = ()) -> Scenario:
    """Load a scenario: a TOML file, or the name of a bundled one such as ``"quickstart"``.

    Args:
        scenario: path or name.
        overrides: ``{"stop.rounds": 3}``, or ``["stop.rounds=3"]`` as after ``--set``.

    Raises:
        ConfigError: the file or a field is refused; the message names it, the reason and a remedy.
    """
    loaded = load_scenario(launch.bundled(Path(scenario)))
    return with_overrides(loaded, overrides) if overrides else _checked(loaded)


def with_overrides(scenario: Scenario, overrides: Mapping[str, object] | Iterable[str]) -> Scenario:
    """Return the scenario with other values at some dotted paths.

    Fields of ``[secure_sum]`` that have their derived values (docs/scenarios.md) are derived anew.

    Args:
        scenario: stays as it is.
        overrides: ``{"stop.rounds": 3, "aggregation.rule": MyRule()}``, or strings as after ``--set``.

    Raises:
        ConfigError: a field is refused.
    """
    raw = tomllib.loads(to_toml(scenario))
    stated = stated_sums(scenario)
    raw["secure_sum"] = {
        field: value for field, value in raw["secure_sum"].items() if field in stated or field not in DERIVED
    }
    if not isinstance(overrides, Mapping):
        return _checked(scenario_of(raw, tuple(overrides)))
    for path, value in overrides.items():
        *tables, field = path.split(".")
        table = raw
        for name in tables:
            table = table.setdefault(name, {})
            if not isinstance(table, dict):
                raise ConfigError(path, f"{name} is no table")
        table[field] = msgspec.to_builtins(value)
    return _checked(scenario_of(raw))


def _checked(scenario: Scenario) -> Scenario:
    feasibility.check(scenario)
    return scenario


def explain(scenario: Scenario) -> str:
    """Consequences of a scenario as comments, as after ``--explain``, then its fields as TOML.

    Raises:
        ConfigError: its fields contradict each other.
    """
    lines = [f"# {line}" for line in report.headed(scenario).explanation]
    return "\n".join((*lines, "", to_toml(scenario)))


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
    """Simulate a scenario in this process: no broker, no masks, the same sums and model as :func:`run`.

    Args:
        scenario: or what :func:`load` takes.
        data_dir: folder of data sets that are not bundled.
        seed: of what is public: split, initial model, clusters, who misbehaves.
        exact: train party by party, to the bits of :func:`run`.
        seeded: draw privacy noise, batches and rounding from ``seed``, too: reproducible, and hides nothing.
        device: instead of the scenario's.
        out: run directory; ``runs/<name>-<time>`` when left out.
        site: makes a party's site of its name, or says where that is (``"module:Name"``), for a model of type
            ``weights``.
        site_python: interpreter of an environment of the sites' own, where each runs in a process of its own.
        site_memory: MB of data that each such process may hold; 0 for any.
        rounds: instead of the scenario's ``stop.rounds``.
        on_round: receives the record of each round as it ends.
        resume: continue the simulation in ``out`` that was interrupted.
        verbose: print the header and a line a round.

    Raises:
        ConfigError: the scenario, its data, a site or the directory is refused.
        RunAbortedError: the disk is full or gone.
    """
    wanted = _wanted(scenario, rounds)
    named = isinstance(site, str) or (site is not None and (site_python is not None or site_memory > 0))
    options = launch.SimulationOptions(
        data_dir=_path(data_dir),
        seed=seed,
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
    summary = launch.run_simulation(wanted, options, launch.RoundLines() if verbose else launch.NoProgress())
    return RunResult(summary, Path(summary.files["summary"]).parent)


def statistics(
    scenario: Scenario | str | Path, *, site: Callable[[str], Site] | str, seed: int = 0
) -> Statistics:
    """What the sites have in the columns of ``[statistics]``, pooled in a simulated round.

    Values outside a declared range count as its ends; a warning for each such column has their number.

    Args:
        scenario: or what :func:`load` takes.
        site: makes a party's site of its name, or says where that is; with ``columns()``.
        seed: of the clusters.

    Raises:
        ConfigError: the scenario declares nothing, or a site has other columns; or no sum was opened.
        RunAbortedError: the disk is full or gone.
    """
    wanted = statistics_round(scenario if isinstance(scenario, Scenario) else load(scenario))
    with tempfile.TemporaryDirectory(prefix="securefl-") as folder:
        options = launch.SimulationOptions(
            seed=seed,
            out=Path(folder) / "statistics",
            site=site if isinstance(site, str) else "",
            maker=None if isinstance(site, str) else site,
        )
        summary = launch.run_simulation(wanted, options, launch.NoProgress())
    told = [record for record in summary.rounds if record.metrics]
    if not told:
        raise ConfigError("statistics", f"no sum was opened: {summary.outcome.reason}")
    for line in report.outside_lines(summary.columns):
        warnings.warn(line, stacklevel=2)
    return Statistics.of(summary.scenario.evaluation, told[-1].metrics)


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
) -> RunResult:
    """Run a scenario on this machine: a broker, a server process and a process per party.

    In a script, call it under ``if __name__ == "__main__":``, as processes import the script again.

    Args:
        scenario: or what :func:`load` takes.
        broker: ``"auto"``, ``"mosquitto"``, ``"embedded"``, or the URL of one that runs; several with commas
            between them, of which the first is taken that is there.
        data_dir: folder of data sets that are not bundled.
        seed: of what is public: split, initial model, who misbehaves.
        device: instead of the scenario's.
        out: run directory; ``runs/<name>-<time>`` when left out.
        lab: record whole vectors, for audits of experiments. They hide nothing then.
        site: makes a party's site of its name, or says where that is (``"module:Name"``), for a model of type
            ``weights``. Each party's process imports it, so that it must lie in a module.
        site_python: interpreter of an environment of the sites' own, where each runs in a process of its own.
        site_memory: MB of data that each such process may hold; 0 for any, or all memory of the machine where
            ``privacy.unit = "party"`` gives each site a process without ``site_python``.
        rounds: instead of the scenario's ``stop.rounds``.
        on_round: receives the record of each round as it ends.
        verbose: print the header and a line a round.

    Raises:
        ConfigError: refused before or while starting.
        RunAbortedError: broker, server or disk failed.
    """
    wanted = _wanted(scenario, rounds)
    options = launch.RunOptions(
        broker=broker,
        data_dir=_path(data_dir),
        seed=seed,
        device=device,
        out=_path(out),
        lab=lab,
        site=_site_name(site),
        site_python=_path(site_python),
        site_memory=site_memory,
        on_round=on_round,
    )
    summary = launch.run_here(wanted, options, launch.RoundLines() if verbose else launch.NoProgress())
    return RunResult(summary, Path(summary.files["summary"]).parent)


def _wanted(scenario: Scenario | str | Path, rounds: int | None) -> Scenario:
    found = scenario if isinstance(scenario, Scenario) else load(scenario)
    return found if rounds is None else with_overrides(found, {"stop.rounds": rounds})


def _path(path: str | Path | None) -> Path | None:
    return None if path is None else Path(path)


def _site_name(site: str | Callable[[str], Site] | None) -> str:
    if site is None or isinstance(site, str):
        return site or ""
    return own_name(site)


def save_weights(path: str | Path, arrays: Mapping[str, np.ndarray[Any, Any]] | Site) -> str:
    """Write the parameters that a federation of sites begins with; return the file's SHA-256 as hex.

    Args:
        path: of the safetensors file, for ``model.file``.
        arrays: floating-point numbers by name, as ``site.parameters()`` gives them; f32 in the file. Of a
            :class:`TorchSite` itself the file also holds what stays at the sites, for
            :meth:`RunResult.state_dict`.

    Raises:
        ConfigError: an array is no such, or the file cannot be written.
    """
    from securefl.training.models import write_tensors  # noqa: PLC0415 - torch

    if isinstance(arrays, Mapping):
        return write_tensors(Path(path), arrays)
    if not hasattr(arrays, "parameters"):
        raise ConfigError("arrays", f"are {type(arrays).__name__}, expected arrays by name, or a site")
    return write_tensors(Path(path), arrays.parameters(), getattr(arrays, "state_head", {}))


def plan(data: str = "digits", **demands: Any) -> planning.Plan:
    """Find the parameters of a run that keep ``demands``, none beaten by another.

    Args:
        data: the data set of the scenarios.
        demands: fields of :class:`securefl.PlanRequest`, such as ``parties``, ``byzantine``, ``epsilon``.

    Raises:
        ConfigError: they contradict each other: what to relax.
    """
    return planning.plan(planning.PlanRequest(**demands), data)


def scenario_from_plan(found: planning.Plan, row: int | None = None, data: str = "digits") -> Scenario:
    """The scenario of a row of ``found``, from 0; of the recommended one when left out.

    Raises:
        ConfigError: the data set does not fit the demands.
    """
    chosen = found.rows[found.chosen if row is None else row]
    return _checked(planning.draft(found.demand, chosen.design, data, chosen.multiplier or None))


def audit(path: str | Path, *, colluders: Iterable[str] = (), lab: bool = False) -> AuditReport:
    """Audit a recorded run: what the server learned of whom, and whether everybody kept to the protocol.

    Args:
        path: its run directory, which stays as it is.
        colluders: parties that pool what they know with the server.
        lab: look at the ground truth, too (runs with ``lab`` only).

    Raises:
        ConfigError: a damaged transcript, or an unknown colluder.
    """
    recorded = read_run(Path(path), tuple(colluders))
    known = known_of(recorded, Path(path)) if recorded.scenario.secure_sum.verified else None
    return audited(recorded, load_truth(Path(path), recorded) if lab else None, known)
