"""``securefl party``: a party as a process."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from securefl.cli import kit_options, member_options, options, run_end
from securefl.runtime import account, launch
from securefl.runtime.launch import process


@dataclass(frozen=True, kw_only=True)
class PartyOptions(member_options.MemberOptions):
    """Options of a party; fields of ``ProcessSettings`` keep their names."""

    name: Annotated[str, typer.Option(help="This party's name in the roster.")]
    data: Annotated[
        Path | None,
        typer.Option(help="The party's own samples: a file, or idx:DIR and the like (docs/data.md)."),
    ] = None
    site: options.SiteOption = ""
    site_python: options.SitePythonOption = None
    site_memory: options.SiteMemoryOption = 0
    account: Annotated[
        Path | None,
        typer.Option(help="The party's account (securefl account). Default: beside the key."),
    ] = None
    lab: options.LabOption = False
    device: options.DeviceOption = None
    metrics_port: options.MetricsPortOption = None
    metrics_host: options.MetricsHostOption = "127.0.0.1"
    own_budget: Annotated[
        float | None,
        typer.Option(
            "--budget",
            min=0,
            help="This party's own limit of epsilon over all its runs, in addition to that of the scenario.",
        ),
    ] = None
    own_spent: Annotated[
        float,
        typer.Option("--spent", min=0, help="Epsilon that was spent on the same data outside the account."),
    ] = 0.0


@kit_options.from_kit("party")
@options.spread
def party(given: PartyOptions) -> None:
    """Run one party, with its own key and its own data.

    A kit of securefl provision has all options but --run: securefl party kit.toml --run ID

    Exit codes: 0 the run has ended; 1 ended, and all trainings failed here; 2 refused; 3 aborted; 4 paused
    by SIGUSR1 (repeat the command); 5 a person must decide.
    """
    with launch.ended_by_signals():
        account_file = given.account or account.account_beside(given.key)
        name = member_options.party_id(given.name)
        settings = replace(given, account=account_file).settings(name, keep_heard=True)
        news = run_end.PartyNews(name)
        news.finish(process.party(settings, news))
