"""Relaxation of demands that no design meets."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from typing import Final, Literal

from securefl.base.errors import ConfigError
from securefl.lab.planning import candidates, design, resilience
from securefl.lab.planning.demand import PlanRequest
from securefl.lab.planning.noise import p_round_loses

Soft = Literal["lost", "risk", "clean", "k", "case"]
_SOFT: Final[tuple[Soft, ...]] = ("lost", "risk", "clean", "k", "case")
_FREE: Final[Mapping[Soft, float]] = {"lost": 1.0, "risk": 1.0, "clean": 1e-9, "k": 2, "case": 0}
"""Values that demand almost nothing. For ``case``, 0 is average and 1 worst."""
_CONCERNS: Final[Mapping[Soft, str]] = {
    "lost": "rounds that lose a cluster to dropouts",
    "risk": "parties with more colluders than f",
    "clean": "rounds in which the rule tolerates the Byzantine parties",
    "k": "the least number of honest parties in a sum",
    "case": "the worst placement of Byzantine parties",
}


def unkept(demand: PlanRequest) -> ConfigError:
    """Return the error that names the fewest demands (up to three) to relax, and their mildest values."""
    for count in (1, 2, 3):
        found = [values for soft in combinations(_SOFT, count) if (values := _mildest_values(demand, soft))]
        if found:
            ways = "; or ".join(
                " with ".join(_option(name, value) for name, value in values.items()) for values in found
            )
            first = tuple(found[0])
            remedy = f"give {ways}; or fewer colluders, liars or dropouts"
            return ConfigError(f"--{first[0]}", _reason(demand, first), remedy)
    return ConfigError(
        "--parties",
        f"no clusters of {demand.parties} parties, of which {demand.colluders} collude and {demand.liars}"
        " lie, meet even the weakest demands",
        "give more parties, fewer colluders or liars, or other --size and --reclusterings",
    )


def _reason(demand: PlanRequest, soft: tuple[Soft, ...]) -> str:
    wanted = " and ".join(f"{_option(name, _value(demand, name))} ({_CONCERNS[name]})" for name in soft)
    mute = {"lost": not demand.dropout, "risk": not demand.colluders, "clean": not demand.liars, "case": True}
    others = [_option(n, _value(demand, n)) for n in _SOFT if n not in soft and not mute.get(n)]
    beside = f" together with {', '.join(others)}" if others else ""
    return f"no cluster size and number of reclusterings meets {wanted}{beside}"


def _option(name: Soft, value: float) -> str:
    return f"--{name} {('average', 'worst')[round(value)] if name == 'case' else f'{value:.3g}'}"


def _value(demand: PlanRequest, name: Soft) -> float:
    return float(demand.case == "worst") if name == "case" else float(getattr(demand, name))


def _with(demand: PlanRequest, name: Soft, value: float) -> PlanRequest:
    match name:
        case "lost":
            return replace(demand, lost=value)
        case "risk":
            return replace(demand, risk=value)
        case "clean":
            return replace(demand, clean=value)
        case "k":
            return replace(demand, k=int(value))
        case "case":
            return replace(demand, case="worst" if value else "average")


def _mildest_values(demand: PlanRequest, soft: tuple[Soft, ...]) -> dict[Soft, float] | None:
    """Return the mildest values of these demands that a design meets with the rest, if any."""
    free = demand
    for name in soft:
        free = _with(free, name, _FREE[name])
    found: dict[Soft, float] = {}
    for name in soft:
        value = _best(free, name)
        if value is None or value == _value(demand, name):
            return None
        found[name] = value
        free = _with(free, name, value)
    return found if _feasible(free) else None


def _best(demand: PlanRequest, name: Soft) -> float | None:
    match name:
        case "case":
            return 0.0 if _feasible(demand) else None
        case "k":
            most = demand.parties - demand.colluders
            return next((k for k in range(most, 1, -1) if _feasible(_with(demand, "k", k))), None)
        case "clean":
            best = max(_chances(demand), default=0.0)
            return _down(best) if best > 0 else None
        case "lost" | "risk":
            least = min(_losses(demand) if name == "lost" else _risks(demand), default=math.inf)
            return min(1.0, -_down(-least)) if least <= 1 else None


def _feasible(demand: PlanRequest) -> bool:
    return any(True for _ in candidates.designs(demand))


def _workable(demand: PlanRequest) -> Iterator[design.Shape]:
    for shape in design.shapes(demand):
        clusters = len(shape.sizes(demand.parties))
        if any(
            True for _ in design.rules(demand.liars, clusters, resilience.spoiled_clusters(demand, shape))
        ):
            yield shape


def _lost(demand: PlanRequest, shape: design.Shape, f: int) -> float:
    """Return P(a round loses a cluster) with the fewest survivors; infinite if too many are required."""
    fewest = candidates.fewest_survivors(demand, shape, f)
    if fewest > shape.size or (shape.atoms > 1 and shape.atoms < f + demand.k):
        return math.inf
    return p_round_loses(demand, shape, fewest)


def _losses(demand: PlanRequest) -> Iterator[float]:
    for shape in _workable(demand):
        yield _lost(demand, shape, resilience.colluders_per_cluster(demand, shape))


def _risks(demand: PlanRequest) -> Iterator[float]:
    for shape in _workable(demand):
        tried = range(min(demand.colluders, shape.size - demand.k) + 1)
        kept = [f for f in tried if _lost(demand, shape, f) <= demand.lost]
        if kept:
            yield resilience.p_exceeded(demand, shape, max(kept))


def _chances(demand: PlanRequest) -> Iterator[float]:
    for shape in design.shapes(demand):
        if _lost(demand, shape, resilience.colluders_per_cluster(demand, shape)) <= demand.lost:
            yield resilience.p_clean(demand, shape, (demand.parties // shape.size - 1) // 2)


def _down(value: float) -> float:
    if not value:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - 2)
    return math.floor(value / unit + 1e-9) * unit
