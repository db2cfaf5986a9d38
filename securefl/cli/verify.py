"""``securefl verify``: proof that a model follows from certified sums."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from securefl.cli.console import answers, check_free, make_folder
from securefl.cli.options import DataDirOption, JsonOption
from securefl.lab.audit import (
    COLUMNS,
    VerifiedRun,
    check_verifiable,
    known_of,
    load,
    verification_json,
    verification_page,
    verify_run,
)
from securefl.runtime import report

_PAGE = "verify.md"


def verify(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The directory of a run.")],
    *,
    roster: Annotated[
        Path | None,
        typer.Option(help="Roster with the public keys. Default: that of the transcripts."),
    ] = None,
    key: Annotated[
        list[Path] | None,
        typer.Option(help="Private key of a party, to check the messages to it. Repeat for more."),
    ] = None,
    data_dir: DataDirOption = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the page, verify.md.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier page there.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Verify, round by round, that the model of a run follows from its certified sums.

    Any party's transcript has the signatures. Proofs to verifiers are recomputed if the run kept them (--lab)
    and the verifiers' keys are known.

    Exit codes: 0 everything holds; 1 something does not; 2 evidence is missing, or refused (unverified
    rounds, damaged transcripts, a scenario that no party signed, a missing first model); 3 the page cannot be
    written.
    """
    with answers(only=as_json) as stdout:
        if out is not None:
            check_free(out, (_PAGE,), force=force)
        recorded = load(run, roster=roster)
        check_verifiable(recorded)
        verified = verify_run(recorded, known_of(recorded, run, data_dir, roster, key or ()))
        if out is not None:
            make_folder(out)
            report.RunDirectory(out).write_text(_PAGE, verification_page(verified))
        if as_json:
            typer.echo(json.dumps(verification_json(verified), allow_nan=False), stdout)
        else:
            _show(verified)
        raise typer.Exit(verified.exit_code)


def _show(verified: VerifiedRun) -> None:
    terminal = report.Terminal(highlight=False)
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in COLUMNS:
        table.add_column(column, no_wrap=column == "root of result")
    for line in verified.lines:
        table.add_row(*(Text(report.printable(str(cell))) for cell in line.cells()))
    terminal.print(table)
    terminal.print()
    for finding in verified.findings:
        style = "bold red" if finding.severity.label == "breach" else "blue"
        terminal.print(
            Text.assemble((finding.severity.label, style), f" {report.printable(finding.claim, 900)}")
        )
        if finding.remedy:
            terminal.print(Text(f"  remedy: {report.printable(finding.remedy)}", "dim"))
    style = "bold green" if verified.proved else "bold red"
    terminal.print(Text(report.printable(verified.sentence, 900), style))
