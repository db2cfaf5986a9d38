"""One party as a process: ``securefl party``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from securefl.cli.console import one_line_errors
from securefl.cli.news import finish, plain_news
from securefl.cli.options import (
    BrokerOption,
    BudgetOption,
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
    SpentOption,
    party_id,
    settings_of,
)
from securefl.runtime.launch import process


def party(
    *,
    scenario: ScenarioArgument,
    name: Annotated[str, typer.Option(help="This party's name in the roster.")],
    key: Annotated[Path, typer.Option(help="Its private key file (securefl keygen --party).")],
    roster: RosterOption,
    data: Annotated[Path, typer.Option(help="Its own samples: npz with x, y, classes (docs/deployment.md).")],
    broker: BrokerOption,
    run: RunOption,
    out: OutOption = Path(),
    overrides: SetOption = None,
    seed: SeedOption = 0,
    insecure_seeded_entropy: InsecureOption = False,
    lab: LabOption = False,
    tls_ca: CaOption = None,
    tls_cert: CertOption = None,
    tls_key: KeyOption = None,
    password_file: PasswordFileOption = None,
    device: DeviceOption = None,
    budget: BudgetOption = None,
    spent: SpentOption = 0.0,
) -> None:
    """Take part in a run as one party, with its own key and its own data."""
    with one_line_errors():
        settings = settings_of(
            scenario=scenario,
            overrides=overrides,
            name=party_id(name),
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
            own_budget=budget,
            own_spent=spent,
        )
        finish(process.party(settings, plain_news(settings.name)))
