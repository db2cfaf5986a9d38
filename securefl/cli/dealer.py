"""The dealer of validated sums as a process: ``securefl dealer``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from securefl.base.ids import DEALER
from securefl.cli.console import one_line_errors
from securefl.cli.news import finish, plain_news
from securefl.cli.options import (
    BrokerOption,
    CaOption,
    CertOption,
    InsecureOption,
    KeyOption,
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


def dealer(
    *,
    scenario: ScenarioArgument,
    key: Annotated[
        Path, typer.Option(help="The dealer's private key file (securefl keygen --party dealer).")
    ],
    roster: RosterOption,
    broker: BrokerOption,
    run: RunOption,
    out: OutOption = Path(),
    overrides: SetOption = None,
    seed: SeedOption = 0,
    insecure_seeded_entropy: InsecureOption = False,
    tls_ca: CaOption = None,
    tls_cert: CertOption = None,
    tls_key: KeyOption = None,
    password_file: PasswordFileOption = None,
) -> None:
    """Deal the triples of validated sums, on a machine of neither the server nor a party, without data."""
    with one_line_errors():
        settings = settings_of(
            scenario=scenario,
            overrides=overrides,
            name=DEALER,
            key=key,
            roster=roster,
            data=Path(),
            broker=broker,
            run=run,
            out=out,
            seed=seed,
            insecure=insecure_seeded_entropy,
            lab=False,
            tls=(tls_ca, tls_cert, tls_key),
            password_file=password_file,
        )
        finish(process.dealer(settings, plain_news(DEALER)))
