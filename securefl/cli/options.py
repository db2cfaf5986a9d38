"""Command-line options that all process programs share, and the settings made from them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from securefl.base.errors import ConfigError
from securefl.base.ids import PartyId, RunId, is_name
from securefl.methods.feasibility import check
from securefl.runtime.launch import broker_url
from securefl.runtime.process import ProcessSettings
from securefl.scenario import load_scenario

ScenarioArgument = Annotated[
    Path, typer.Argument(metavar="SCENARIO", help="Scenario file (TOML); the same for all processes.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="PATH=VALUE", help="Override a field, e.g. stop.rounds=3. Repeat for more."
    ),
]
RosterOption = Annotated[Path, typer.Option(help="The public roster (securefl keygen --roster).")]
BrokerOption = Annotated[str, typer.Option(help="mqtt://host:port or mqtts://host:port")]
RunOption = Annotated[str, typer.Option(help="Id of the run; the same for all processes.")]
OutOption = Annotated[Path, typer.Option(help="Directory for transcript, journal and results.")]
SeedOption = Annotated[
    int, typer.Option(help="Fixes what is public: initial model, split, who misbehaves.", min=0)
]
InsecureOption = Annotated[
    bool,
    typer.Option(
        "--insecure-seeded-entropy",
        help="INSECURE, tests and replay only: derive all keys, masks and nonces from --seed.",
    ),
]
LabOption = Annotated[bool, typer.Option("--lab", help="Record whole vectors (experiments only).")]
CaOption = Annotated[Path | None, typer.Option(help="Authority that signed the broker's certificate (PEM).")]
CertOption = Annotated[Path | None, typer.Option(help="This process's client certificate (PEM).")]
KeyOption = Annotated[Path | None, typer.Option(help="Private key of --tls-cert (PEM).")]
DeviceOption = Annotated[
    str | None, typer.Option(help="Override training.device on this machine: auto, cpu or cuda.")
]
BudgetOption = Annotated[
    float | None,
    typer.Option(
        min=0, help="This party's own limit of epsilon, earlier runs included. The scenario's counts as well."
    ),
]
SpentOption = Annotated[
    float, typer.Option(min=0, help="Epsilon that earlier runs on the same data have spent.")
]
PasswordFileOption = Annotated[
    Path | None, typer.Option(help="File with the broker password of the user in the URL.")
]


def run_id(text: str) -> RunId:
    """Return a checked run id.

    Raises:
        ConfigError: it would not be safe in topics and file names.
    """
    if not is_name(text):
        raise ConfigError("--run", f"{text!r} is no run id", "use a-z, 0-9, - and _, at most 32 characters")
    return RunId(text)


def party_id(text: str) -> PartyId:
    """Return a checked party name.

    Raises:
        ConfigError: it would not be safe in topics and file names, or it has a meaning of its own.
    """
    if not is_name(text):
        raise ConfigError(
            "--name", f"{text!r} is no party name", "use a-z, 0-9, - and _, at most 32 characters"
        )
    return PartyId(text)


def device_name(text: str | None) -> str | None:
    """Return a checked device.

    Raises:
        ConfigError: there is no such kind of device.
    """
    if text not in {None, "auto", "cpu", "cuda"}:
        raise ConfigError("--device", f"{text!r} is no device", "auto, cpu or cuda")
    return text


def settings_of(
    *,
    scenario: Path,
    overrides: list[str] | None,
    name: PartyId,
    key: Path,
    roster: Path,
    data: Path,
    broker: str,
    run: str,
    out: Path,
    seed: int,
    insecure: bool,
    lab: bool,
    tls: tuple[Path | None, Path | None, Path | None],
    password_file: Path | None,
    device: str | None = None,
    own_budget: float | None = None,
    own_spent: float = 0.0,
) -> ProcessSettings:
    """Return the settings of one process.

    Raises:
        ConfigError: an argument is refused.
    """
    settings = ProcessSettings(
        scenario=load_scenario(scenario, tuple(overrides or ())),
        run=run_id(run),
        name=name,
        identity=key,
        roster_file=roster,
        broker=broker_url(broker, tls, password_file),
        data_file=data,
        out=out,
        seed=seed,
        insecure_seed=seed if insecure else None,
        lab=lab,
        device=device_name(device),
        own_budget=own_budget,
        own_spent=own_spent,
    )
    check(settings.scenario)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(str(out), f"cannot be created: {error.strerror}") from error
    return settings
