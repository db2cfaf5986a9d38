"""One party as a process: ``securefl party``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from securefl.cli import joining, news
from securefl.cli.console import one_line_errors
from securefl.cli.options import (
    DeviceOption,
    LabOption,
    SiteMemoryOption,
    SiteOption,
    SitePythonOption,
    device_name,
    spread,
)
from securefl.runtime.account import account_beside
from securefl.runtime.launch import ended_by_signals, process


@spread
def party(
    options: joining.MemberOptions,
    *,
    name: Annotated[str, typer.Option(help="This party's name in the roster.")],
    key: Annotated[Path, typer.Option(help="Its private key file (securefl keygen --party).")],
    data: Annotated[
        Path | None,
        typer.Option(help="Its own samples: a file, or idx:DIR and the like (docs/data.md)."),
    ] = None,
    site: SiteOption = "",
    site_python: SitePythonOption = None,
    site_memory: SiteMemoryOption = 0,
    account: Annotated[
        Path | None,
        typer.Option(help="Its account (securefl account); beside the key unless given."),
    ] = None,
    lab: LabOption = False,
    device: DeviceOption = None,
    budget: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="This party's own limit of epsilon, earlier runs included. The scenario's counts as well.",
        ),
    ] = None,
    spent: Annotated[
        float, typer.Option(min=0, help="Epsilon that runs outside the account have spent on the same data.")
    ] = 0.0,
) -> None:
    """Take part in a run as one party, with its own key and its own data."""
    with one_line_errors(), ended_by_signals():
        settings = options.settings(
            joining.party_id(name),
            key,
            data or Path(),
            site=site,
            site_python=site_python,
            site_memory=site_memory,
            account=account or account_beside(key),
            lab=lab,
            device=device_name(device),
            own_budget=budget,
            own_spent=spent,
            keep_heard=True,
        )
        joining.check_data_given(settings.scenario, data)
        news.finish(process.party(settings, news.plain_news(settings.name)))
