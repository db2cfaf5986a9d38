"""``securefl plan``: parameters that meet demands, with their costs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from securefl.base.errors import ConfigError
from securefl.cli import options
from securefl.cli.console import answers, check_free, say
from securefl.lab import experiments, planning, plots
from securefl.lab.planning import (
    DATA,
    Case,
    Plan,
    PlanRequest,
    Server,
    Verify,
    as_values,
    check_demand,
    data_shape,
    draft,
    lines_of,
    model_of,
    tables,
)
from securefl.methods import feasibility
from securefl.methods.privacy import Unit, need_dp_accounting
from securefl.runtime import process, report
from securefl.scenario import parse_scenario, to_toml

_FILES = ("plan.toml", "plan.json", "plan.png")


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """Demands, as options of ``securefl plan``."""

    parties: Annotated[int, typer.Option(help="Number of parties N, at least 3.")]
    colluders: Annotated[
        int, typer.Option(help="Number of parties q that collude with the server in the run.")
    ] = 0
    byzantine: Annotated[float, typer.Option(help="Share of Byzantine parties, 0 to 0.5.")] = 0.0
    case: Annotated[
        Case, typer.Option(help="worst: Byzantine parties at the worst places; average: at random places.")
    ] = "average"
    dropout: Annotated[
        float, typer.Option(help="Probability that an update is missing, for each party and round.")
    ] = 0.0
    k: Annotated[int, typer.Option(help="Least number of honest parties in an opened sum.")] = 2
    parameters: Annotated[int, typer.Option(help="Number of parameters of the model.")] = 10_000
    rounds: Annotated[int, typer.Option(help="Number of rounds T.")] = 20
    server: Annotated[
        Server, typer.Option(help="curious (follows the protocol) or active (may deviate).")
    ] = "curious"
    verify: Annotated[
        Verify,
        typer.Option(help="Parties that repeat the steps of an active server: committee, all, or off."),
    ] = "committee"
    epsilon: Annotated[
        float | None, typer.Option(help="Epsilon of the whole run. Default: no differential privacy.")
    ] = None
    delta: Annotated[
        float | None, typer.Option(help="Delta of the run. Default: records (or parties) ^ -1.1.")
    ] = None
    unit: Annotated[Unit, typer.Option(help="Unit of privacy: a record (DP-SGD), or a party.")] = "record"
    records: Annotated[
        int | None,
        typer.Option(help="Training samples of the smallest party. Default: an equal share of --data."),
    ] = None
    batch: Annotated[int | None, typer.Option(help="Batch size of DP-SGD. Default: 16, or all.")] = None
    clean: Annotated[
        float,
        typer.Option(help="Least probability that the rule tolerates the Byzantine clusters of a round."),
    ] = 0.95
    lost: Annotated[
        float, typer.Option(help="Largest probability that a round loses a cluster by dropouts.")
    ] = 0.05
    risk: Annotated[
        float,
        typer.Option(help="Largest probability that a party ever has more than f colluders in its cluster."),
    ] = 0.01
    size: Annotated[int | None, typer.Option(help="Members of a cluster. Default: all sizes are tried.")] = (
        None
    )
    reclusterings: Annotated[
        int | None, typer.Option(help="Reclusterings of a round. Default: 1 to 3 are tried.")
    ] = None
    atoms: Annotated[
        int | None,
        typer.Option(
            help="Members of an atom, a block that stays together; 1 for none. Default: all are tried."
        ),
    ] = None
    data: Annotated[
        str, typer.Option(help=f"Data of the scenario: {', '.join(DATA)}, or your own as in a scenario.")
    ] = "digits"
    choose: Annotated[
        int | None, typer.Option(help="Row whose scenario is written. Default: the recommended one.")
    ] = None
    out: Annotated[Path, typer.Option(help="Folder for plan.toml, plan.json and plan.png.")] = Path(
        "runs/plan"
    )
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier plan there.")] = False


@options.spread
def plan(given: PlanOptions, *, as_json: options.JsonOption = False) -> None:
    """Find the parameters of a run that fulfil your requirements (a Pareto front).

    The first table lists settings, the second results: probabilities of a clean majority, lost clusters,
    cascades and parties among colluders; exposure, noise, bytes, CPU time. One row's scenario is written.

    Exit codes: 0 done; 2 refused, with what to relax; 3 a file cannot be written.
    """
    with answers(only=as_json) as stdout:
        out, data, parties = given.out, given.data, given.parties
        check_free(out, _FILES, force=given.force)
        most = _share(data, parties)
        held = most if given.records is None else given.records
        batch = min(16, held) if given.batch is None else given.batch
        demand = PlanRequest(**process.shared_fields(given, PlanRequest) | {"records": held, "batch": batch})
        check_demand(demand)
        if held > most:
            raise ConfigError(
                "--records",
                f"{parties} parties with {held} records each need more than the"
                f" {data_shape(data).samples} samples of {data}",
                f"give at most {most}, or another --data",
            )
        if demand.epsilon is not None:
            need_dp_accounting()
        with _progress(quiet=as_json) as show_progress:
            found = planning.plan(demand, data, show_progress)
        chosen = _row(found, given.choose)
        text = scenario_text(found, chosen, data)
        picture = _picture(found, chosen)
        values = report.without_infinities(as_values(found, chosen))
        experiments.write_result(out / "plan.toml", text.encode())
        experiments.write_result(
            out / "plan.json", (json.dumps(values, indent=1, allow_nan=False) + "\n").encode()
        )
        if picture is not None:
            experiments.write_result(out / "plan.png", picture)
        if as_json:
            typer.echo(json.dumps(values, allow_nan=False), stdout)
        else:
            _show(found, chosen, out, data, drawn=picture is not None)


def scenario_text(found: Plan, chosen: int, data: str) -> str:
    """Return the scenario file of a row.

    Raises:
        ConfigError: the loader refuses it, which is a bug.
    """
    row, demand = found.rows[chosen], found.demand
    scenario = draft(demand, row.design, data, row.multiplier or None)
    _, parameters = model_of(data_shape(data), demand.parameters)
    lines = [
        *report.run_header(scenario).explanation,
        *lines_of(demand, row),
        f"model: {parameters} parameters, planned for {demand.parameters}",
    ]
    text = "".join(f"# {line}\n" for line in lines) + "\n" + to_toml(scenario)
    feasibility.check(parse_scenario(text, source="plan.toml"))
    return text


def _share(data: str, parties: int) -> int:
    samples = data_shape(data).samples
    if parties > samples:
        raise ConfigError(
            "--data", f"{data} has only {samples} samples for {parties} parties", "choose a larger data set"
        )
    return samples // max(1, parties)


def _row(found: Plan, choose: int | None) -> int:
    if choose is None:
        return found.chosen
    if not 1 <= choose <= len(found.rows):
        raise ConfigError("--choose", f"the table has no row {choose}", f"choose 1 to {len(found.rows)}")
    return choose - 1


def _picture(found: Plan, chosen: int) -> bytes | None:
    try:
        return plots.draw_plan(found, chosen)
    except ConfigError:
        return None


def _show(found: Plan, chosen: int, out: Path, data: str, *, drawn: bool) -> None:
    terminal = report.Terminal()
    for table in tables(found, chosen):
        terminal.print(table)
    say(f"{found.considered} plans meet the demands; no other plan beats the {len(found.rows)} in the table")
    say(f"plan in row {chosen + 1}{', the recommended one' if chosen == found.chosen else ''}, in detail:")
    row = found.rows[chosen]
    scenario = draft(found.demand, row.design, data, row.multiplier or None)
    for line in (*report.run_header(scenario).lines, *lines_of(found.demand, row)):
        say(f"  {line}")
    picture = " and plan.png" if drawn else "; for a plot: pip install 'securefl[plots]'"
    say(f"{out / 'plan.toml'}, plan.json{picture}")


@contextmanager
def _progress(*, quiet: bool) -> Iterator[planning.Progress]:
    """Show a bar for each stage on a terminal."""
    console = report.Terminal(stderr=True)
    live = console.is_terminal and not console.is_dumb_terminal and not quiet
    columns = (TextColumn("  {task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not live) as bar:
        task = bar.add_task("designs", total=None)

        def show_progress(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total)

        yield show_progress
