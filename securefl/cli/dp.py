"""``securefl dp``: the noise that a privacy budget needs, before anything runs."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Annotated, Any, cast, get_args

import typer

from securefl.base.errors import ConfigError
from securefl.cli import console
from securefl.cli.dp_power import power
from securefl.cli.dp_settle import settle
from securefl.cli.program import Program
from securefl.methods.privacy import (
    MIN_DELTA,
    OTHER,
    TOLERANCE,
    Accountant,
    Relation,
    ReleaseEvent,
    Sampler,
    calibrate,
    epsilon,
    need_dp_accounting,
    steps_of_epochs,
)
from securefl.runtime import report

MAX_STEPS = 1_000_000
_MAX_RECORDS = 10**7
_SAMPLERS: tuple[Sampler, ...] = ("poisson", "fixed-size")
_NAMES: dict[Accountant, str] = {"pld": "PLD", "rdp": "RDP"}

app = Program(add_completion=False, no_args_is_help=True)
app.command()(power)
app.command()(settle)


@app.callback()
def _dp() -> None:
    """Differential privacy: noise for a budget, and what the checks of noisy sums see."""


@app.command(name="calibrate")
def calibrate_command(
    target: Annotated[float, typer.Option("--epsilon", help="The privacy budget.")],
    records: Annotated[int, typer.Option(help="Examples that a party has.")],
    batch: Annotated[int, typer.Option(help="Expected examples per step.")],
    epochs: Annotated[
        float, typer.Option(help="Passes over the data: T = epochs x records / batch, rounded up.")
    ],
    delta: Annotated[float | None, typer.Option(help="records^-1.1 when left out.")] = None,
    relation: Annotated[
        str, typer.Option(help="Neighbouring data sets: add-remove or replace-one.")
    ] = "add-remove",
    sampler: Annotated[str, typer.Option(help="How batches are drawn: poisson or fixed-size.")] = "poisson",
    accountant: Annotated[str, typer.Option(help="pld, rdp (looser; a cross-check) or both.")] = "both",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Print the smallest noise multiplier sigma for DP-SGD with per-example gradients of norm at most 1.

    Sigma is the standard deviation of the noise on a batch's sum. Also: what the same noise means under the
    other neighbouring relation.

    Exit codes: 0 done; 2 refused.
    """
    found = _calibrate(target, records, batch, epochs, delta, relation, sampler, accountant)
    if as_json:
        typer.echo(json.dumps(report.without_infinities(found), indent=2, allow_nan=False))
    else:
        _show(found)


def _calibrate(
    target: float,
    records: int,
    batch: int,
    epochs: float,
    delta: float | None,
    relation: str,
    sampler: str,
    accountant: str,
) -> dict[str, Any]:
    if not 2 <= records <= _MAX_RECORDS:
        raise ConfigError("--records", f"{records} examples", f"from 2 to {_MAX_RECORDS}")
    if not 1 <= batch <= records:
        raise ConfigError(
            "--batch", f"{batch} of {records} examples", f"a batch from 1 to the party's {records}"
        )
    if not 0 < epochs * records / batch <= MAX_STEPS:
        raise ConfigError(
            "--epochs", f"{epochs:g} epochs of {records} / {batch} steps", f"1 to {MAX_STEPS} steps"
        )
    for option, value, choices in (
        ("--relation", relation, get_args(Relation)),
        ("--sampler", sampler, _SAMPLERS),
        ("--accountant", accountant, (*get_args(Accountant), "both")),
    ):
        if value not in choices:
            raise ConfigError(option, f"{value!r} is none", " or ".join(choices))
    at = records**-1.1 if delta is None else delta
    if not MIN_DELTA <= at < 1 / records:
        raise ConfigError(
            "--delta",
            f"{at:g} is not from {MIN_DELTA:g} to below 1 / records = {1 / records:.3g}",
            "releasing one example at random has delta = 1 / records and hides nothing",
        )
    need_dp_accounting()
    event = ReleaseEvent(
        noise_multiplier=1.0,
        steps=steps_of_epochs(epochs, records, batch),
        relation=cast("Relation", relation),
        sampler=cast("Sampler", sampler),
        records=records,
        batch=batch,
        denominator=batch,
    )
    chosen = cast("tuple[Accountant, ...]", get_args(Accountant) if accountant == "both" else (accountant,))
    results = {name: _result(event, target, at, name) for name in chosen}
    return {
        "unit": event.unit,
        "relation": event.relation,
        "sampler": event.sampler,
        "sampling_rate": event.rate,
        "denominator": event.denominator,
        "steps": event.steps,
        "delta": at,
        "target_epsilon": target,
        "tolerance": TOLERANCE,
        "sigma": results,
        "sampling": event.sampling(),
    }


def _result(event: ReleaseEvent, target: float, delta: float, accountant: Accountant) -> dict[str, Any]:
    sigma, spent = calibrate(event, target, delta, accountant)
    other = replace(event, noise_multiplier=sigma, relation=OTHER[event.relation])
    return {
        "sigma": sigma,
        "epsilon": spent,
        "other_relation": other.relation,
        "epsilon_other_relation": epsilon((other,), delta, accountant),
    }


def _show(found: dict[str, Any]) -> None:
    kind = f"{found['sampling']}, delta {found['delta']:.3g}"
    console.say(
        f"{found['unit']} level, {kind}: T = {found['steps']} steps, q = {found['sampling_rate']:.5g}"
    )
    for name, one in found["sigma"].items():
        here = f"epsilon {one['epsilon']:.4g} ({found['unit']}, {found['relation']}, {kind})"
        there = (
            f"epsilon {one['epsilon_other_relation']:.4g} ({found['unit']}, {one['other_relation']}, {kind})"
        )
        console.say(f"{_NAMES[name]}  sigma {_up(one['sigma'])}: {here}")
        console.say(f"     the same noise: {there}")
    if found["sampler"] == "poisson" and "rdp" in found["sigma"]:
        console.say(
            "RDP under replace-one is a coarse bound (twice the sensitivity); PLD takes the exact pair."
        )


def _up(sigma: float) -> str:
    """Four decimals, rounded up: the number that is shown keeps the target too."""
    return f"{math.ceil(sigma * 1e4) / 1e4:.4f}"
