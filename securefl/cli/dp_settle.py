"""``securefl dp settle``: numbers for an epsilon that parties on separate machines can agree on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from securefl.base import header
from securefl.base.errors import ConfigError
from securefl.cli import options
from securefl.cli.console import say
from securefl.methods import feasibility, privacy
from securefl.runtime import report, transcript
from securefl.scenario import Scenario, load_scenario, to_toml


def settle(
    scenario: Annotated[
        Path, typer.Argument(metavar="SCENARIO", help="Scenario file (TOML) with a privacy table.")
    ],
    *,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Any party's data, named as for securefl party: the model's size depends on their shape."
            " Not needed where data.shape or data.table, and data.classes, say it.",
        ),
    ] = None,
    records: Annotated[
        int | None,
        typer.Option(help="Records of the party with the fewest; record level only.", min=1),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The new file; on the terminal when left out.")] = None,
    overrides: options.SetOption = None,
    seed: options.SeedOption = 0,
) -> None:
    """Write a scenario with its noise multiplier, delta, records and releases worked out.

    All processes of a run on several machines are given the same such file. Each party checks, before it
    takes part, that it has as many records and that the releases keep to the budget.

    Exit codes: 0 done; 2 refused; 3 the file cannot be written.
    """
    text = _settled(load_scenario(scenario, tuple(overrides or ())), data, records, seed)
    if out is None:
        typer.echo(text, nl=False)
        return
    _write(out, text)
    for line in text.splitlines():
        if line.startswith("# "):
            say(line[2:])


def _settled(scenario: Scenario, data: Path | None, records: int | None, seed: int) -> str:
    feasibility.check(scenario)
    if scenario.privacy.unit == "none":
        raise ConfigError("privacy.unit", "there is no privacy to settle", "record or party")
    privacy.need_dp_accounting()
    # A second or two of imports that a refusal need not wait for.
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
        raise ConfigError("--out", f"{path} exists", "another name") from None
    except OSError as error:
        raise transcript.disk_failure(path, error) from error
