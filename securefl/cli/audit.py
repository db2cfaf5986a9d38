"""``securefl audit``: findings on privacy and protocol of a recorded run."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from securefl.base.errors import ConfigError
from securefl.cli.console import answers, check_free, make_folder
from securefl.cli.options import DataDirOption, JsonOption
from securefl.lab.audit import AuditReport, Severity, known_of, load, load_truth, markdown, page, worst
from securefl.lab.audit import audit as audited
from securefl.runtime.report import RunDirectory, Terminal, printable, seconds

_FILES = ("audit.md", "audit.json", "audit.html")
_EXPERIMENTS = ("membership", "inversion", "properties", "canary")
_INDENT = 9
_COLOURS = {
    Severity.HOLDS: "green",
    Severity.NOTE: "blue",
    Severity.WARNING: "yellow",
    Severity.BREACH: "bold red",
}


def audit(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help="The directory of a run, with the parties' transcripts.",
        ),
    ],
    *,
    colluders: Annotated[
        str, typer.Option(metavar="NAMES", help="Parties that collude with the server, as in p01,p04.")
    ] = "",
    lab: Annotated[
        bool, typer.Option("--lab", help="Also use the recorded updates (of a run with --lab).")
    ] = False,
    attacks: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="Attacks on the run's data, minutes each: membership,inversion,properties,canary.",
        ),
    ] = "",
    data_dir: DataDirOption = None,
    roster: Annotated[
        Path | None,
        typer.Option(help="The run's roster, if the transcripts do not name the parties."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the report. Default: RUN/audit.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier report there.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Audit a recorded run: what the server could learn, and if all processes followed the protocol.

    The report (Markdown, JSON and HTML) is written to RUN/audit.

    Exit codes: 0 no finding is worse than the scenario allows; 1 a finding is; 2 refused (a damaged
    transcript, transcripts of different runs or rosters, unknown colluders; of verified runs, a scenario that
    the parties did not sign or a missing first model); 3 the report cannot be written.
    """
    with answers(only=as_json) as stdout:
        began = time.monotonic()
        folder = out or run / "audit"
        check_free(folder, _FILES, force=force)
        wanted = _experiments(attacks)
        recorded = load(run, _names(colluders), roster)
        truth = load_truth(run, recorded) if lab else None
        known = known_of(recorded, run, data_dir, roster) if recorded.scenario.secure_sum.verified else None
        report = audited(recorded, truth, known)
        if wanted:
            # These train with torch, which nothing else here needs.
            from securefl.lab.privacy_attacks import attack_chapters  # noqa: PLC0415 - imports torch

            terminal = Terminal(stderr=True, highlight=False)
            more = attack_chapters(
                recorded, truth, wanted, data_dir, lambda line: terminal.print(printable(line))
            )
            report = replace(report, chapters=(*report.chapters, *more))
        _write(folder, report)
        if as_json:
            typer.echo(json.dumps(report.to_json(), allow_nan=False), stdout)
        else:
            _show(report, folder, time.monotonic() - began)
        raise typer.Exit(report.exit_code)


def _names(listed: str) -> list[str]:
    return [name.strip() for name in listed.split(",") if name.strip()]


def _experiments(listed: str) -> list[str]:
    for name in _names(listed):
        if name not in _EXPERIMENTS:
            raise ConfigError(
                "--attacks", f"{name!r} is not an experiment", f"choose from {', '.join(_EXPERIMENTS)}"
            )
    return _names(listed)


def _write(folder: Path, report: AuditReport) -> None:
    make_folder(folder)
    files = RunDirectory(folder)
    files.write_text("audit.md", markdown(report))
    files.write_json("audit.json", report.to_json())
    files.write_text("audit.html", page(report))


def _show(report: AuditReport, folder: Path, spent: float) -> None:
    terminal = Terminal(highlight=False)
    for label, text in report.facts:
        terminal.print(Text.assemble((f"{label}: ", "dim"), printable(text)))
    for chapter in report.chapters:
        severity = worst(chapter.findings)
        terminal.print()
        terminal.print(Text.assemble((chapter.title, "bold"), f": {severity.label}"))
        for finding in chapter.findings:
            _say(terminal, f"  {finding.severity.label}", finding.claim, _COLOURS[finding.severity])
            if finding.severity >= Severity.WARNING:
                for evidence in finding.evidence[:3]:
                    _say(terminal, "", str(evidence), "dim")
                if finding.remedy:
                    _say(terminal, "", f"remedy: {finding.remedy}", "dim")
    terminal.print()
    terminal.print(f"report: {folder / 'audit.html'} (also .md and .json), {seconds(spent)}")
    style = "bold red" if report.exceeding else "bold green"
    terminal.print(Text.assemble((f"exit {report.exit_code}", style), f": {report.verdict}"))


def _say(terminal: Terminal, label: str, text: str, style: str) -> None:
    """Print ``label`` in a column, with ``text`` wrapped beside it."""
    table = Table.grid(padding=(0, 1))
    table.add_column(width=_INDENT)
    table.add_column()
    table.add_row(Text(label, style), Text(printable(text, 900), "" if label else style))
    terminal.print(table)
