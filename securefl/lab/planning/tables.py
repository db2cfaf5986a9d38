"""Plan as tables and as values for JSON."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from rich import box
from rich.table import Table

from securefl.base import text
from securefl.lab.planning.demand import PlanRequest
from securefl.lab.planning.drafting import delta_of
from securefl.lab.planning.frames import SumKind
from securefl.lab.planning.noise import release_of
from securefl.lab.planning.row import Row
from securefl.lab.planning.search import Plan
from securefl.methods import facts, privacy
from securefl.runtime.report import count_of, size

_FINE = 1e-3
"""Distance from 0 or 1 below which probabilities are powers of ten."""
_KINDS: Final[Mapping[SumKind, str]] = {
    "masking": "masking",
    "crypten": "CrypTen",
    "validated": "CrypTen with secure_sum.validate",
}
_NOISE = {"local": "local", "threshold": "shared", "dropout-exact": "exact"}


def tables(plan: Plan, chosen: int) -> tuple[Table, Table]:
    """Return settings and consequences; rows count from 1, the chosen one (from 0) has a star."""
    return _settings(plan, chosen), _predictions(plan, chosen)


def as_values(plan: Plan, chosen: int) -> dict[str, Any]:
    """Return the plan as built-in values by the names of its fields."""
    values: dict[str, Any] = msgspec.to_builtins(plan)
    return values | {"chosen": chosen, "recommended": plan.chosen}


def rule_of(row: Row) -> str:
    """Return the rule and the number of spoiled clusters that it withstands."""
    tag = str(type(row.design.rule).__struct_config__.tag)
    return f"{tag} {row.withstood}" if row.withstood else tag


def noise_of(row: Row) -> str:
    """Return the kind of noise, and whether it is added once or anew for each sum."""
    if row.design.noise is None:
        return "none"
    when = "once" if row.design.shape.openings > 1 else "fresh"
    return f"{_NOISE[row.design.noise]}, {when}"


def lines_of(demand: PlanRequest, row: Row) -> Iterator[str]:
    """Yield results for a row that the header lacks: losses, exposure, noise, costs."""
    design, shape = row.design, row.design.shape
    yield (
        f"dropouts at {text.percent(demand.dropout)}: a given cluster is lost with probability"
        f" {text.percent(row.p_aborted)}, any in a round with {text.percent(row.p_lost)}"
        + (
            f", and costs another one with {text.percent(row.p_cascade or 0)} (simulated)"
            if shape.reclusterings > 1
            else ""
        )
    )
    if shape.atoms > 1:
        mates = text.percent(1 - (1 - demand.dropout) ** (shape.atoms - 1))
        yield f"atoms: a party is not counted in a round because a mate drops out with probability {mates}"
    yield _exposure(demand, row)
    if design.noise is not None and demand.epsilon is not None:
        kept = privacy.describe_epsilon(demand.epsilon, release_of(demand), delta_of(demand))
        yield (
            f"noise ({noise_of(row)}): a multiplier of {row.multiplier:.3g} in an opened sum keeps {kept}"
            f" over {demand.rounds * shape.works} releases; each party adds"
            f" {row.share:.3g}; the aggregate has {row.noise:.3g} of the sensitivity"
        )
        yield from (one.whole for one in facts.on_delta(delta_of(demand), demand.unit))
    yield (
        f"price per party and round: {size(row.traffic.sent)} sent, {size(row.traffic.received)} received,"
        f" {row.cpu:.3f} CPU s besides {'one training' if shape.works == 1 else f'{shape.works} trainings'};"
        f" sums modulo 2^{row.ring_bits}"
    )
    yield from _verification(row)
    if row.crypten:
        kinds = "; ".join(
            f"{_KINDS[kind]} {size(there.sent)} sent, {size(there.received)} received"
            for kind, there in row.crypten.items()
        )
        yield f"price of other sums, where all is as here but their kind: {kinds}"
    if "validated" in row.crypten:
        bits = f"{demand.parties * shape.reclusterings * demand.rounds:,} in the run at most"
        yield f"validated sums: a deviating evaluator learns one bit of its choice about each update, {bits}"


def _verification(row: Row) -> Iterator[str]:
    if row.verifiers is None or row.verifier_cpu is None:
        return
    opening, step, cpu = row.verifiers.opening, row.verifiers.step, row.verifier_cpu
    yield (
        f"verified rounds: on top of that one that repeats the opening of its cluster gets"
        f" {size(opening.received)} and computes for {cpu.opening:.3f} CPU s, each of the {row.committee}"
        f" that repeat the step {size(step.received)} and {cpu.step:.3f} CPU s (by the median); the server"
        f" sends verifiers {size(row.verifiers.server)} a round"
    )


def _exposure(demand: PlanRequest, row: Row) -> str:
    openings = row.design.shape.openings
    with_whom = f"the server and {demand.colluders} colluders" if demand.colluders else "the server"
    found = f"{row.exposed or 0:.3g} parties exposed to {with_whom}"
    whom = "determine the sum of each atom" if row.design.shape.atoms > 1 else "expose everybody"
    ends = "one cluster exposes nobody" if row.enough is None else f"R* = {row.enough} would {whom}"
    return (
        f"exposure: {count_of(openings, 'sum')} of each update, {ends}; {found};"
        f" leverage {row.leverage:.2f} on average, {row.highest or row.leverage:.2f} at most"
    )


def _settings(plan: Plan, chosen: int) -> Table:
    table = _table("what to set")
    blocks = any(row.design.shape.atoms > 1 for row in plan.rows)
    for name in ("m", *(["atoms"] if blocks else []), "R", "work", "rule", "f", "t", "min", "ring", "noise"):
        table.add_column(name, justify="left" if name in {"work", "rule", "noise"} else "right", no_wrap=True)
    for number, row in enumerate(plan.rows):
        shape, design = row.design.shape, row.design
        table.add_row(
            _number(number, chosen),
            str(shape.size),
            *([str(shape.atoms) if shape.atoms > 1 else ""] if blocks else []),
            str(shape.reclusterings),
            "new" if shape.new_work else "same" if shape.reclusterings > 1 else "",
            rule_of(row),
            str(design.colluders),
            str(design.threshold),
            str(design.min_survivors),
            str(row.ring_bits),
            noise_of(row),
        )
    return table


def _predictions(plan: Plan, chosen: int) -> Table:
    table = _table("what comes of it")
    table.caption = (
        "Probabilities: clean, lost, cascade of a round, > f over the run. R*: reclusterings that expose all;"
        " exp: parties exposed; lev: leverage; error, noise: variance and noise of the aggregate; kB, CPU ms:"
        " of a party and round"
    )
    table.caption_justify = "left"
    private = plan.demand.epsilon is not None
    names = ["clean", "lost", "cascade", "> f", "R*", "exp", "lev", "error"]
    for name in (*names, *(["noise"] if private else []), "kB", "ms"):
        table.add_column(name, justify="right", no_wrap=True)
    for number, row in enumerate(plan.rows):
        cells = [
            f"1-{1 - row.p_clean:.0e}" if 0 < 1 - row.p_clean < _FINE else _short(row.p_clean),
            _short(row.p_lost),
            _short(row.p_cascade or 0) if row.design.shape.reclusterings > 1 else "",
            _short(row.p_exceeded),
            "-" if row.enough is None else str(row.enough),
            "" if row.exposed is None else f"{row.exposed:.3g}",
            f"{row.leverage:.2f}",
            f"{row.variance:.2g}",
            *([f"{row.noise:.3g}"] if private else []),
            f"{row.bytes / 1000:,.0f}",
            f"{1e3 * row.cpu:.0f}",
        ]
        table.add_row(_number(number, chosen), *cells)
    return table


def _short(probability: float) -> str:
    return f"{100 * probability:.3g} %" if not 0 < probability < _FINE else f"{probability:.0e}"


def _table(title: str) -> Table:
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
    table.pad_edge, table.padding = False, (0, 1, 0, 0)
    table.add_column("", justify="right", no_wrap=True)
    return table


def _number(number: int, chosen: int) -> str:
    return f"*{number + 1}" if number == chosen else str(number + 1)
