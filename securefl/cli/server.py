"""The server as a process: ``securefl server``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from securefl.base.ids import SERVER
from securefl.cli.console import one_line_errors
from securefl.cli.news import finish, plain_news
from securefl.cli.options import (
    BrokerOption,
    CaOption,
    CertOption,
    DeviceOption,
    InsecureOption,
    KeyOption,
    LabOption,
    OutOption,
    PasswordFileOption,
    RosterOption,
    RunOption,
    ScenarioArgument,
    SeedOption,
    SetOption,
    settings_of,
)
from securefl.runtime.launch import process


def server(
    *,
    scenario: ScenarioArgument,
    key: Annotated[
        Path, typer.Option(help="The server's private key file (securefl keygen --party server).")
    ],
    roster: RosterOption,
    data: Annotated[
        Path, typer.Option(help="The test samples: npz with x, y, classes (docs/deployment.md).")
    ],
    broker: BrokerOption,
    run: RunOption,
    server_data: Annotated[
        Path | None,
        typer.Option(help="Training samples of its own, npz like --data: rules such as zeno++ need some."),
    ] = None,
    out: OutOption = Path(),
    overrides: SetOption = None,
    seed: SeedOption = 0,
    insecure_seeded_entropy: InsecureOption = False,
    lab: LabOption = False,
    device: DeviceOption = None,
    tls_ca: CaOption = None,
    tls_cert: CertOption = None,
    tls_key: KeyOption = None,
    password_file: PasswordFileOption = None,
) -> None:
    """Lead a run: draw the clusters, open cluster sums, aggregate, and never see an update."""
    with one_line_errors():
        settings = settings_of(
            scenario=scenario,
            overrides=overrides,
            name=SERVER,
            key=key,
            roster=roster,
            data=data,
            broker=broker,
            run=run,
            out=out,
            seed=seed,
            insecure=insecure_seeded_entropy,
            lab=lab,
            tls=(tls_ca, tls_cert, tls_key),
            password_file=password_file,
            device=device,
        )
        finish(process.server(replace(settings, server_data_file=server_data), plain_news(SERVER)))
