"""``securefl dp``: noise for a budget, scenarios with all privacy numbers, detection rates of checks."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from securefl.base import header
from securefl.base.errors import ConfigError
from securefl.cli import console, options
from securefl.cli.console import say
from securefl.cli.options import JsonOption
from securefl.cli.program import Program
from securefl.lab.experiments import (
    ALL,
    PUBLISHED,
    SETTINGS,
    Deviation,
    PowerBlock,
    PowerRecord,
    PowerSetting,
    encode,
    kinds,
    measure_power,
    power_page,
    write_result,
)
from securefl.methods import feasibility, privacy
from securefl.methods.privacy import (
    MIN_DELTA,
    OTHER,
    TOLERANCE,
    Accountant,
    Relation,
    ReleaseEvent,
    calibrate,
    epsilon,
    need_dp_accounting,
    steps_of_epochs,
)
from securefl.runtime import report, transcript
from securefl.scenario import Scenario, load_scenario, to_toml

_TRIALS = 200
_FAST_TRIALS = 20
_FAST_SETTINGS = 1


def power(
    *,
    trials: Annotated[
        int | None, typer.Option(min=1, max=100_000, help="Sums for each row. Default: 200.")
    ] = None,
    fast: Annotated[bool, typer.Option("--fast", help="20 sums for each row, one setting.")] = False,
    seed: Annotated[int, typer.Option(min=0, max=2**32, help="Seed of all noise.")] = 1,
    out: Annotated[Path, typer.Option(help="Folder for checks.json and checks.md.")] = Path("runs/checks"),
    as_json: JsonOption = False,
) -> None:
    """Measure how often honest and deviating sums fail the checks.

    Exit codes: 0 done; 3 aborted.
    """
    out.mkdir(parents=True, exist_ok=True)  # before minutes of work
    settings = SETTINGS[:_FAST_SETTINGS] if fast else SETTINGS
    record = _measure(trials or (_FAST_TRIALS if fast else _TRIALS), seed, settings, quiet=as_json)
    content = encode(record)
    write_result(out / "checks.json", content)
    write_result(out / "checks.md", power_page(record).encode())
    if as_json:
        typer.echo(content.decode(), nl=False)
        return
    for block in record.blocks:
        _show_block(block, record.trials)
    say(f"{out / 'checks.json'} and checks.md")


def _measure(trials: int, seed: int, settings: tuple[PowerSetting, ...], *, quiet: bool) -> PowerRecord:
    """Measure; progress counts coordinates, which determine the time of a sum."""
    console = Console()
    live = console.is_terminal and not console.is_dumb_terminal and not quiet
    columns = (
        TextColumn("  {task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    total = trials * sum(setting.dim * kinds(setting) for setting in settings)
    began = time.monotonic()
    with Progress(*columns, console=console, transient=True, disable=not live) as bar:
        task = bar.add_task("sums", total=total)
        done, shown = 0, 0

        def on_trial(setting: PowerSetting, deviation: Deviation) -> None:
            nonlocal done, shown
            done += setting.dim
            bar.update(task, completed=done, description=deviation.name)
            if not (live or quiet) and 10 * done // total > shown:
                shown = 10 * done // total
                say(f"  {10 * shown} % of trials done after {report.seconds(time.monotonic() - began)}")

        return measure_power(trials, seed, settings, on_trial)


def _show_block(block: PowerBlock, trials: int) -> None:
    say(f"percent of sums that fail the checks, with {block.dim:,} parameters and {block.members} members:")
    say(f"  {'published':>9} {'ours':>5}")
    for row in block.rows:
        published, ours = (100 * row.failed[name] / trials for name in (PUBLISHED[2], ALL))
        say(f"  {published:9.0f} {ours:5.0f}  {row.deviation}")


def settle(
    scenario: Annotated[
        Path, typer.Argument(metavar="SCENARIO", help="Scenario file (TOML) with a privacy table.")
    ],
    *,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Any party's data, named as for securefl party: the model's size depends on their shape."
            " Not needed if the scenario has data.classes and data.shape or data.table.",
        ),
    ] = None,
    records: Annotated[
        int | None,
        typer.Option(help="Records of the smallest party (record level only).", min=1),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The new file. Default: print it.")] = None,
    overrides: options.SetOption = None,
    seed: options.SeedOption = 0,
) -> None:
    """Write a scenario with its noise multiplier, delta, records and releases worked out.

    All processes of a run on several machines need this file. Each party checks that it has as many records
    and that the releases keep to the budget.

    Exit codes: 0 done; 2 refused; 3 the file cannot be written.
    """
    text = _settle(load_scenario(scenario, tuple(overrides or ())), data, records, seed)
    if out is None:
        typer.echo(text, nl=False)
        return
    _write(out, text)
    for line in text.splitlines():
        if line.startswith("# "):
            say(line[2:])


def _settle(scenario: Scenario, data: Path | None, records: int | None, seed: int) -> str:
    feasibility.check(scenario)
    if scenario.privacy.unit == "none":
        raise ConfigError(
            "privacy.unit", 'is "none": there is no noise to compute', "set it to record or party"
        )
    privacy.need_dp_accounting()
    # Slow imports follow the refusals.
    from securefl.runtime.process import declared_length, length_of  # noqa: PLC0415 - torch
    from securefl.training.data import load_samples  # noqa: PLC0415 - with it

    if data is None:
        length = declared_length(scenario, seed)
    else:
        length = length_of(scenario, load_samples(data, scenario.data, "train"), seed)
    settled = privacy.settle(scenario, length, records)
    privacy.check_budget(settled, length)
    stated = report.on_mechanism(
        settled, feasibility.check(settled), privacy.mechanism_of(settled, length), void=None
    )
    lines = header.RunHeader(tuple(stated)).explanation
    return "".join(f"# {line}\n" for line in lines) + "\n" + to_toml(settled)


def _write(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigError("--out", f"{path} exists already", "choose another name") from None
    except OSError as error:
        raise transcript.disk_failure(path, error) from error


MAX_STEPS = 1_000_000
_MAX_RECORDS = 10**7
_Drawn = Literal["poisson", "fixed-size"]
_Accountants = Literal["pld", "rdp", "both"]
_NAMES: dict[Accountant, str] = {"pld": "PLD", "rdp": "RDP"}

app = Program(add_completion=False, no_args_is_help=True)
app.command()(power)
app.command()(settle)


@app.callback()
def _dp() -> None:
    """Compute differential privacy: noise for a budget, and the power of the noise checks."""


@app.command(name="calibrate")
def calibrate_command(
    target: Annotated[float, typer.Option("--epsilon", help="The privacy budget.")],
    records: Annotated[int, typer.Option(help="Examples of a party.")],
    batch: Annotated[int, typer.Option(help="Expected examples per step.")],
    epochs: Annotated[
        float, typer.Option(help="Passes over the data: T = epochs x records / batch, rounded up.")
    ],
    delta: Annotated[float | None, typer.Option(help="Default: records^-1.1.")] = None,
    relation: Annotated[Relation, typer.Option(help="Neighbouring data sets.")] = "add-remove",
    sampler: Annotated[_Drawn, typer.Option(help="How batches are drawn.")] = "poisson",
    accountant: Annotated[
        _Accountants, typer.Option(help="Accountant; rdp is looser, for a cross-check.")
    ] = "both",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Print the smallest noise multiplier sigma for DP-SGD with per-example gradients of norm at most 1.

    Sigma is the standard deviation of the noise on a batch's sum. The output also has the epsilon of the same
    noise under the other neighbouring relation.

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
    relation: Relation,
    sampler: _Drawn,
    accountant: _Accountants,
) -> dict[str, Any]:
    if not 2 <= records <= _MAX_RECORDS:
        raise ConfigError("--records", f"is {records}", f"give 2 to {_MAX_RECORDS} records")
    if not 1 <= batch <= records:
        raise ConfigError(
            "--batch", f"is {batch}, out of range for {records} records", f"give 1 to {records}"
        )
    if not 0 < epochs * records / batch <= MAX_STEPS:
        raise ConfigError(
            "--epochs",
            f"{epochs:g} epochs of {records} / {batch} steps are out of range",
            f"choose 1 to {MAX_STEPS} steps",
        )
    at = records**-1.1 if delta is None else delta
    if not MIN_DELTA <= at < 1 / records:
        raise ConfigError(
            "--delta",
            f"{at:g} is not from {MIN_DELTA:g} to below 1 / records = {1 / records:.3g}",
            "delta = 1 / records allows to publish a random record: choose a smaller one",
        )
    need_dp_accounting()
    event = ReleaseEvent(
        noise_multiplier=1.0,
        steps=steps_of_epochs(epochs, records, batch),
        relation=relation,
        sampler=sampler,
        records=records,
        batch=batch,
        denominator=batch,
    )
    chosen: tuple[Accountant, ...] = tuple(_NAMES) if accountant == "both" else (accountant,)
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
    """Round up to four decimals, so that the printed number keeps to the target."""
    return f"{math.ceil(sigma * 1e4) / 1e4:.4f}"
