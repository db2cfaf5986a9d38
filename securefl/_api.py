"""Functions of the public API (docs/python.md): scenarios, plans, audits and first weights from Python."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from securefl.base.errors import ConfigError
from securefl.lab import planning
from securefl.lab.audit import AuditReport, known_of, load_truth
from securefl.lab.audit import audit as audited
from securefl.lab.audit import load as read_run
from securefl.methods import feasibility
from securefl.runtime import launch, report
from securefl.scenario import (
    DERIVED,
    Scenario,
    load_scenario,
    scenario_of,
    stated_sums,
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
