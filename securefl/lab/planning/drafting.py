"""Runnable scenarios for a design, with a model of about d parameters."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal

from msgspec.structs import replace

from securefl.base.errors import ConfigError
from securefl.lab.planning.demand import Case, PlanRequest
from securefl.lab.planning.design import Design
from securefl.methods import encoding, privacy
from securefl.scenario import (
    Aggregation,
    Clustering,
    Data,
    DpSgd,
    Encoding,
    Expect,
    Model,
    Privacy,
    Scenario,
    SecureSum,
    Stop,
    Training,
    Weighting,
    own_parts_from,
)
from securefl.training import models
from securefl.training.data import load_dataset

_TARGET_STD = 256.0
"""Desired noise of one party, steps: tables have 4 to 4096."""
_CLIP = 1.0
_NEW_WORK_BATCH = 0.25
_CLAIMS: Final[Mapping[Case, Literal["worst-case", "average-case"]]] = {
    "worst": "worst-case",
    "average": "average-case",
}


@dataclass(frozen=True, slots=True)
class DataShape:
    """Facts about a data set."""

    inputs: int
    classes: int
    samples: int


DATA: Final = {
    "digits": DataShape(64, 10, 1_442),
    "mnist": DataShape(784, 10, 60_000),
    "fashion-mnist": DataShape(784, 10, 60_000),
    "cifar10": DataShape(3_072, 10, 50_000),
}


@cache
def data_shape(data: str) -> DataShape:
    """Return the facts about ``data.set = data``.

    Users' sets (``npz:``, ``folder:``, ``module:function``) are read.

    Raises:
        ConfigError: unknown or unreadable.
    """
    known = DATA.get(data)
    if known is not None:
        return known
    if ":" not in data:
        choices = ", ".join((*DATA, "npz:PATH, idx:DIR, folder:DIR or module:function"))
        raise ConfigError("--data", f"{data!r} is not a data set", f"give one of {choices}")
    own_parts_from(Path.cwd())
    found = load_dataset(data, None)
    return DataShape(math.prod(found.input_shape), found.classes, len(found.x_train))


def model_of(data: DataShape, parameters: int) -> tuple[Model, int]:
    """Return the model with about ``parameters`` parameters, and their number.

    It has one hidden layer, or is softmax regression if that is nearer.
    """
    flat = (data.inputs + 1) * data.classes
    per_unit = data.inputs + data.classes + 1
    width = max(1, round((parameters - data.classes) / per_unit))
    deep = width * per_unit + data.classes
    if abs(flat - parameters) <= abs(deep - parameters):
        return models.Softmax(), flat
    return models.Mlp(hidden=(width,)), deep


def draft(demand: PlanRequest, design: Design, data: str, multiplier: float | None = None) -> Scenario:
    """Return the scenario of one row.

    ``data`` is a key of :data:`DATA`, or a user's set. The noise ``multiplier`` chooses the scale of the
    encoding.
    """
    shape = design.shape
    model, _ = model_of(data_shape(data), demand.parameters)
    scenario = Scenario(
        name="planned",
        description=describe(demand, design),
        parties=demand.parties,
        data=Data(set=data),
        model=model,
        # Batches must be smaller than a party's data, or new work repeats the same work.
        training=Training(device="cpu", batch_fraction=_NEW_WORK_BATCH if shape.new_work else None),
        clustering=Clustering(
            size=shape.size, reclusterings=shape.reclusterings, new_work=shape.new_work, atoms=shape.atoms
        ),
        secure_sum=SecureSum(
            server=demand.server,
            threshold=design.threshold,
            min_survivors=design.min_survivors,
            colluders_per_cluster=design.colluders,
            colluders=demand.colluders,
            k_anonymity=demand.k,
            verify=demand.verify if demand.verified else "off",
        ),
        weighting=Weighting(mode="ignore"),
        aggregation=Aggregation(
            rule=design.rule, byzantine=demand.liars, claim=_CLAIMS[demand.case] if demand.liars else "none"
        ),
        stop=Stop(rounds=demand.rounds),
        expect=(Expect(metric="aborted", at_most=0.0),),
    )
    return scenario if design.noise is None else _private(scenario, demand, design, multiplier)


def describe(demand: PlanRequest, design: Design) -> str:
    """Return a line for the scenario's header."""
    shape = design.shape
    again = f", {shape.reclusterings} reclusterings" if shape.reclusterings > 1 else ""
    atoms = f", atoms of {shape.atoms}" if shape.atoms > 1 else ""
    return f"planned: {demand.parties} parties in clusters of {shape.size}{atoms}{again}"


def _private(scenario: Scenario, demand: PlanRequest, design: Design, multiplier: float | None) -> Scenario:
    if demand.epsilon is None or design.noise is None:
        return scenario
    record = demand.unit == "record"
    scenario = replace(
        scenario,
        training=Training(device="cpu", batch_size=demand.batch, dp_sgd=DpSgd()) if record else Training(),
        privacy=Privacy(
            unit=demand.unit,
            epsilon=demand.epsilon,
            delta="auto" if demand.delta is None else demand.delta,
            placement=design.noise,
        ),
        encoding=Encoding() if record else Encoding(clip=_CLIP),
        expect=(*scenario.expect, Expect(metric="epsilon", at_most=demand.epsilon)),
    )
    return scenario if multiplier is None else _with_scale(scenario, demand, multiplier)


def delta_of(demand: PlanRequest) -> float:
    """Return the demanded delta, or units ^ -1.1."""
    return math.pow(demand.units, -1.1) if demand.delta is None else demand.delta


def _with_scale(scenario: Scenario, demand: PlanRequest, multiplier: float) -> Scenario:
    """Return the scenario with the finest scale that has noise tables, at most 512 steps per party."""
    known = replace(scenario.privacy, epsilon=None, multiplier=multiplier, delta=delta_of(demand))
    trial = replace(scenario, privacy=known)
    for bits in range(encoding.MAX_SCALE_BITS, -1, -1):
        rounding = privacy.rounding_of(trial, demand.parameters, bits)
        if rounding is None:
            continue
        shares = privacy.shares_of(trial, rounding)
        stds = (
            [shares.share_std] if isinstance(shares, privacy.SharePlan) else [shares.share_std, *shares.stds]
        )
        if max(stds) <= 2 * _TARGET_STD and min(stds) >= 4:
            # A range of 2^8 in steps of 2^-16 needs 64 bits from 128 members on.
            return replace(scenario, encoding=replace(scenario.encoding, scale_bits=bits))
    raise ConfigError(
        "--epsilon",
        f"no noise table holds a multiplier of {multiplier:.3g} with {demand.parameters} parameters",
        "give a larger epsilon, fewer rounds or a smaller model",
    )
