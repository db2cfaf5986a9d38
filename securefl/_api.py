"""Public functions: scenarios, plans, audits and first weights."""

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
    own_parts,
    scenario_of,
    stated_sums,
    to_toml,
)

if TYPE_CHECKING:
    import numpy as np

    from securefl.training.sites.site import Site


def load(scenario: str | Path, overrides: Mapping[str, object] | Iterable[str] = ()) -> Scenario:
    """Load a scenario: a TOML file, or the name of a bundled one such as ``"quickstart"``.

    ``overrides`` are ``{"stop.rounds": 3}``, or ``["stop.rounds=3"]`` as after ``--set``.

    Raises:
        ConfigError: the file or a field is invalid.

    >>> import securefl
    >>> securefl.load("quickstart", {"stop.rounds": 3}).stop.rounds
    3
    """
    loaded = load_scenario(launch.find_bundled(Path(scenario)))
    return with_overrides(loaded, overrides) if overrides else _validated_copy(loaded)


def with_overrides(scenario: Scenario, overrides: Mapping[str, object] | Iterable[str]) -> Scenario:
    """Return a copy of the scenario with new values at dotted paths.

    Fields of ``[secure_sum]`` that were derived (docs/scenarios.md) are derived again.

    Args:
        scenario: not changed.
        overrides: ``{"stop.rounds": 3, "aggregation.rule": MyRule()}``, or strings as after ``--set``.

    Raises:
        ConfigError: a field is invalid.

    >>> import securefl
    >>> from securefl.rules import Median
    >>> scenario = securefl.with_overrides(securefl.load("quickstart"), {"aggregation.rule": Median()})
    >>> scenario.aggregation.rule
    Median()
    """
    if not isinstance(scenario, Scenario):
        raise ConfigError(
            "scenario", f"is {scenario!r:.40}, expected a Scenario", "securefl.load takes names"
        )
    raw = tomllib.loads(to_toml(scenario))
    stated = stated_sums(scenario)
    raw["secure_sum"] = {
        field: value for field, value in raw["secure_sum"].items() if field in stated or field not in DERIVED
    }
    if isinstance(overrides, str):
        overrides = (overrides,)
    if not isinstance(overrides, Mapping):
        return _validated_copy(scenario_of(raw, tuple(overrides), own_parts(scenario)))
    for path, value in overrides.items():
        if not isinstance(path, str) or not all(path.split(".")):
            raise ConfigError("overrides", f"{path!r:.40} is not a path", 'such as "stop.rounds"')
        *tables, field = path.split(".")
        table = raw
        for name in tables:
            table = table.setdefault(name, {})
            if not isinstance(table, dict):
                raise ConfigError(path, f"{name} is not a table")
        table[field] = _plain(path, value)
    at_hand = own_parts(scenario) | own_parts(overrides)
    return _validated_copy(scenario_of(raw, at_hand=at_hand))


def _plain(path: str, value: object) -> object:
    """Return a value as TOML types: tuples become lists, instances tables, numpy's numbers Python's.

    Raises:
        ConfigError: TOML has no such value.
    """
    if isinstance(value, msgspec.Struct):
        value = msgspec.to_builtins(value)
    if isinstance(value, Mapping):
        return {name: _plain(f"{path}.{name}", one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(path, one) for one in value]
    if type(value).__module__ == "numpy" and hasattr(value, "item") and not getattr(value, "shape", ()):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    kind = (
        f"the class {value.__name__}" if isinstance(value, type) else f"an object of {type(value).__name__}"
    )
    raise ConfigError(path, f"is {kind}", "give a value of TOML, or an instance such as Median()")


def _validated_copy(scenario: Scenario) -> Scenario:
    feasibility.check(scenario)
    return scenario


def explain(scenario: Scenario) -> str:
    """Return a scenario as TOML, after its consequences as comments (those of ``--explain``).

    Raises:
        ConfigError: fields contradict each other.

    >>> import securefl
    >>> securefl.explain(securefl.load("quickstart")).splitlines()[1]
    '#   12 parties'
    """
    lines = [f"# {line}" for line in report.run_header(scenario).explanation]
    return "\n".join((*lines, "", to_toml(scenario)))


def save_weights(path: str | Path, arrays: Mapping[str, np.ndarray[Any, Any]] | Site) -> str:
    """Write the initial parameters of a federation of sites; return the file's SHA-256 as hex.

    Args:
        path: safetensors file, for ``model.file``.
        arrays: floating-point arrays by name, as ``site.parameters()`` returns them; the file holds f32. For
            a :class:`TorchSite` the file also holds its local entries, for :meth:`RunResult.state_dict`.

    Raises:
        ConfigError: a value is not a floating-point array, or the file cannot be written.

    >>> import numpy as np, securefl
    >>> len(securefl.save_weights("first.safetensors", {"weight": np.zeros((2, 3))}))
    64
    """
    from securefl.training.models import write_tensors  # noqa: PLC0415 - torch

    if isinstance(arrays, Mapping):
        return write_tensors(Path(path), arrays)
    if not hasattr(arrays, "parameters"):
        raise ConfigError(
            "arrays", f"are {type(arrays).__name__}, expected a mapping of arrays by name, or a site"
        )
    return write_tensors(Path(path), arrays.parameters(), getattr(arrays, "state_head", {}))


def plan(data: str = "digits", **requests: Any) -> planning.Plan:
    """Find the Pareto-optimal parameters of a run that meet the requests.

    Args:
        data: data set, as in a scenario.
        requests: fields of :class:`PlanRequest`, such as ``parties``, ``byzantine``, ``epsilon``.

    Raises:
        ConfigError: the requests contradict each other; the message names one to relax.

    >>> import securefl
    >>> len(securefl.plan(parties=12, rounds=3).rows) >= 1
    True
    """
    return planning.plan(planning.PlanRequest(**requests), data)


def scenario_from_plan(found: planning.Plan, row: int | None = None, data: str = "digits") -> Scenario:
    """Return the scenario of a plan's row (from 0), by default the recommended one.

    Raises:
        ConfigError: the data set does not fit the requests.

    >>> import securefl
    >>> securefl.scenario_from_plan(securefl.plan(parties=12, rounds=3)).parties
    12
    """
    chosen = found.rows[found.chosen if row is None else row]
    return _validated_copy(planning.draft(found.demand, chosen.design, data, chosen.multiplier or None))


def audit(path: str | Path, *, colluders: Iterable[str] = (), lab: bool = False) -> AuditReport:
    """Audit a recorded run: the server's knowledge of each party, and each process's compliance.

    Args:
        path: run directory; it is not changed.
        colluders: parties that share with the server.
        lab: also use the ground truth (only for runs with ``lab``).

    Raises:
        ConfigError: a transcript is damaged, or a colluder is unknown.

    >>> import securefl
    >>> securefl.run("quickstart", broker="embedded", rounds=1, out="live").accuracy > 0
    True
    >>> securefl.audit("live").exit_code
    0
    """
    recorded = read_run(Path(path), tuple(colluders))
    known = known_of(recorded, Path(path)) if recorded.scenario.secure_sum.verified else None
    return audited(recorded, load_truth(Path(path), recorded) if lab else None, known)
