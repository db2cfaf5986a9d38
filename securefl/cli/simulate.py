"""``securefl simulate``: a scenario in one process, to the same model as ``run``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from securefl.base.errors import EXIT_ABORTED, RunAbortedError
from securefl.cli import run
from securefl.cli.answers import answers
from securefl.cli.console import one_line_errors
from securefl.cli.options import (
    BundledArgument,
    DeviceOption,
    JsonLinesOption,
    RunFolderOption,
    SeedOption,
    SetOption,
    SiteMemoryOption,
    SiteOption,
    SitePythonOption,
    device_name,
)
from securefl.methods import feasibility
from securefl.runtime import report, simulation
from securefl.runtime.launch import bundled, fresh_run_id
from securefl.scenario import load_scenario


def simulate(
    scenario: BundledArgument,
    *,
    data_dir: run.DataDirOption = None,
    overrides: SetOption = None,
    out: RunFolderOption = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on in --out, where its last checkpoint is.")
    ] = False,
    seed: SeedOption = 0,
    insecure_seeded_entropy: Annotated[
        bool,
        typer.Option(
            "--insecure-seeded-entropy",
            help="As for run. A simulation has no secrets: all follows from --seed. Where there is privacy"
            " noise, it, batches and rounding do so with this option only.",
        ),
    ] = False,
    exact: Annotated[
        bool,
        typer.Option("--exact", help="Train party by party, to the bits of run; slower for dense models."),
    ] = False,
    like: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder of a recorded run (in a deployment its server's): repeat its absences, dropouts and"
            " void rounds, under its run id.",
        ),
    ] = None,
    site: SiteOption = "",
    site_python: SitePythonOption = None,
    site_memory: SiteMemoryOption = 0,
    device: DeviceOption = None,
    as_json: JsonLinesOption = False,
) -> None:
    """Simulate a scenario in this process: no broker, no processes, no masks, the same sums and model.

    Dense models are trained many parties at once, which differs from run by rounding only. With --exact, run
    with --insecure-seeded-entropy and the same --seed ends with the same model, bit for bit.

    Exit codes: 0 the outcome is the expected one, 1 it is not, 2 refused, 3 aborted.
    """
    with one_line_errors(), answers(only=as_json) as stdout:
        loaded = load_scenario(bundled(scenario), tuple(overrides or ()))
        feasibility.check(loaded)
        simulation.check_simulable(loaded)
        wanted = device_name(device)
        # Only this command needs torch in the process that people start; the others start without it.
        from securefl.runtime.launch import SimulationOptions, run_simulation  # noqa: PLC0415 - imports torch, which --help need not wait for
        from securefl.training.sites import maker_of  # noqa: PLC0415 - as well

        options = SimulationOptions(
            run=fresh_run_id(seed),
            seed=seed,
            data_dir=data_dir,
            device=wanted,
            out=out,
            exact=exact,
            seeded=insecure_seeded_entropy or loaded.privacy.unit == "none",
            resume=resume,
            like=like,
            again=_again(
                scenario,
                data_dir,
                overrides or [],
                seed,
                wanted,
                exact=exact,
                seeded=insecure_seeded_entropy,
                site={
                    "--like": like,
                    "--site": site or None,
                    "--site-python": site_python,
                    "--site-memory": site_memory or None,
                },
                as_json=as_json,
            ),
            site=maker_of(site, loaded, site_python, site_memory) if site else None,
        )
        console = report.Terminal(highlight=False, file=stdout)
        progress = report.progress_for(console, as_json=as_json, by=report.sieve(loaded.groups))
        summary = run_simulation(loaded, options, progress)
        run.show_end(console, progress, summary)
        if summary.exit_code == EXIT_ABORTED:
            raise RunAbortedError(summary.outcome.reason)
    raise typer.Exit(summary.exit_code)


def _again(
    scenario: Path,
    data_dir: Path | None,
    overrides: list[str],
    seed: int,
    device: str | None,
    *,
    exact: bool,
    seeded: bool,
    site: Mapping[str, object],
    as_json: bool,
) -> tuple[str, ...]:
    """The words of this command, without --out and --resume."""
    words = ["simulate", str(scenario)]
    values: tuple[tuple[str, object], ...] = (
        ("--data-dir", data_dir),
        ("--seed", seed or None),
        ("--device", device),
        *site.items(),
    )
    for option, value in values:
        if value is not None:
            words += [option, str(value)]
    for override in overrides:
        words += ["--set", override]
    flags = (("--exact", exact), ("--insecure-seeded-entropy", seeded), ("--json", as_json))
    words += [option for option, given in flags if given]
    return tuple(words)
