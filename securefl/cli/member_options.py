"""Options and settings of processes that join a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from securefl.base import crypto
from securefl.base.errors import ConfigError
from securefl.base.ids import DEALER, PartyId, RunId
from securefl.cli import console, options
from securefl.methods import feasibility
from securefl.runtime import launch, process, transport
from securefl.scenario import Scenario, load_scenario


@dataclass(frozen=True, kw_only=True)
class JoinOptions(launch.BrokerFiles):
    """Options of each process that joins a run."""

    broker: options.BrokersOption
    run: Annotated[str, typer.Option(help="Id of the run; the same for all processes.")]
    roster: Annotated[Path, typer.Option(help="The public roster (securefl keygen --roster).")]
    out: Annotated[Path, typer.Option(help="Directory for transcript, journal and results.")] = Path()

    broker_patience: options.PatienceOption = launch.BROKER_PATIENCE

    @property
    def brokers(self) -> transport.Brokers:
        """Addresses of the brokers.

        Raises:
            ConfigError: a URL is invalid, or a file cannot be read.
        """
        return self.given_brokers(self.broker)

    @property
    def run_id(self) -> RunId:
        """Id of the run.

        Raises:
            ConfigError: it is not safe in topics and file names.
        """
        return RunId(console.name_of("--run", self.run, "run id"))


@dataclass(frozen=True, kw_only=True)
class MemberOptions(JoinOptions):
    """Options of server, parties and dealer, which have a scenario and keys."""

    scenario: Annotated[
        Path,
        typer.Argument(
            metavar="SCENARIO",
            help="Scenario file (TOML), the same for all processes; or a kit.toml in place of all but --run.",
        ),
    ]
    key: Annotated[
        Path, typer.Option(help="Private key file of this process (securefl keygen --party NAME).")
    ]
    data: Path | None = None
    overrides: options.SetOption = None
    seed: Annotated[
        int | None,
        typer.Option(
            help="Public seed; the same for all processes. Default: derived from --run.",
            min=0,
        ),
    ] = None
    insecure: options.InsecureOption = False
    transcript_bytes: options.TranscriptOption = None

    def settings(self, name: PartyId, **own: Any) -> process.ProcessSettings:
        """Return the settings of the process ``name``; ``own`` has fields that are not options.

        Raises:
            ConfigError: an option is refused.
        """
        given = process.shared_fields(self, process.ProcessSettings) | {
            "scenario": load_scenario(self.scenario, tuple(self.overrides or ())),
            "run": self.run_id,
            "name": name,
            "identity": self.key,
            "roster_file": self.roster,
            "broker": self.brokers,
            "data_file": self.data or Path(),
            "resumes": True,
            "seed": public_seed(self.run_id) if self.seed is None else self.seed,
        }
        settings = process.ProcessSettings(**given, **own)
        feasibility.check(settings.scenario)
        if name != DEALER:
            check_data_given(settings.scenario, self.data)
        console.make_folder(self.out)
        return settings


def public_seed(run: RunId) -> int:
    """Return the default public seed of a run, below 2^31: each run starts from its own model.

    Parties' accounts refuse sums of the same updates in two runs (docs/adr/0043).
    """
    return int.from_bytes(crypto.digest("public seed", run)[:4], "big") >> 1


def check_data_given(scenario: Scenario, data: Path | None) -> None:
    """Refuse a process with missing or unused data.

    Raises:
        ConfigError: naming ``--data``.
    """
    name, by_sites = scenario.model.name, scenario.model.by_sites
    if data is None and not by_sites:
        raise ConfigError(
            "--data",
            f'is missing: a party of model.type = "{name}" needs its data',
            "name a file (docs/data.md)",
        )
    if data is not None and by_sites:
        raise ConfigError(
            "--data", f'model.type = "{name}" is trained by sites, which have their own data', "leave it out"
        )


def party_id(text: str) -> PartyId:
    """Return a checked party name.

    Raises:
        ConfigError: it is not safe in topics and file names, or is reserved.
    """
    return PartyId(console.name_of("--name", text, "party name"))
