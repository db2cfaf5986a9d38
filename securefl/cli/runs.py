"""``securefl runs``: runs of agents, at the operator (its folder) or at one machine (its kit)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.table import Table
from rich.text import Text

from securefl.base.errors import EXIT_UNEXPECTED, ConfigError
from securefl.base.ids import SERVER, PartyId
from securefl.cli import console
from securefl.cli.program import Program
from securefl.runtime import agents, provision, report

app = Program(
    help="Submit runs to the agents of a federation; list, approve, refuse and stop them.",
    no_args_is_help=True,
)

PlaceArgument = Annotated[
    Path, typer.Argument(metavar="PLACE", help="The operator's folder, or a machine's kit.toml.")
]
FolderArgument = Annotated[
    Path, typer.Argument(metavar="DIR", help="The operator's folder (provision begin --out).")
]
KitArgument = Annotated[Path, typer.Argument(metavar="KIT", help="The kit.toml of this machine.")]
RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="Id of the run, by which all machines name it.")
]
ReasonOption = Annotated[str, typer.Option(help="Cause, in one line, for all who see the run.")]
_POLL = 0.5
"""Seconds between two looks at a log."""
_SHOWN: Final = 1_000
"""Characters of a scenario's line that are shown on one line."""
_GOES_ON: Final = "... "
"""Begin of each further part of it."""


@app.command()
def submit(
    folder: FolderArgument,
    run: RunArgument,
    *,
    scenario: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Scenario of the run. Default: that of the project.")
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="First weights, new for each run. Default: those in the operator's folder."
        ),
    ] = None,
    site: Annotated[
        str,
        typer.Option(
            metavar="MODULE:NAME", help="Code that the sites have installed. Default: that of the project."
        ),
    ] = "",
    data: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="File of samples in each site's folder. Default: that of the project."
        ),
    ] = "",
    without: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Site that does not take part; repeat for more.")
    ] = None,
    hours: Annotated[
        float, typer.Option(help="Hours until the submission expires; later no agent accepts or starts it.")
    ] = 24.0,
    note: Annotated[str, typer.Option(help="Purpose of the run, for the people who decide.")] = "",
    wait: Annotated[
        bool,
        typer.Option(
            "--wait",
            help="Print the answers until the run ends or is stopped; Ctrl-C ends only the printing.",
        ),
    ] = False,
) -> None:
    """At the operator: sign a run, and submit it to all agents. It begins when all its sites have accepted.

    The id of a run is used once. After a failed connection send it again by securefl runs submit DIR RUN,
    without other options.

    Exit codes: 0 submitted (with --wait: done); 1 with --wait: refused, stopped or failed; 2 refused;
    3 the broker is out of reach.
    """
    _check_operator(folder)
    before = agents.submitted_before(folder).get(run)
    if before is not None:
        if any((scenario, weights, site, data, without, note)):
            raise ConfigError(
                "RUN",
                f"{run!r} was submitted before",
                f"choose a new id; to send it again: securefl runs submit {folder} {run}",
            )
        order, content = before, agents.repeat_files(folder, before)
    else:
        wish = agents.Wish(
            run=run, scenario=scenario, weights=weights, site=site, data=data, without=tuple(without or ()),
            hours=hours, note=note,
        )  # fmt: skip
        order, content = agents.prepare(folder, wish)
    good = asyncio.run(_submit(folder, order, content, wait=wait))
    if not good:
        raise typer.Exit(EXIT_UNEXPECTED)


async def _submit(folder: Path, order: agents.Order, content: bytes, *, wait: bool) -> bool:
    run = order.content.run
    async with agents.connect_operator(folder) as (link, _history):
        await link.submit(order, content)
        console.say(f"{run}: submitted to {len(order.content.parties)} sites, {order.digest[:16]}")
        console.say(f"{run}: valid until {order.content.expires}; answers: securefl runs show {folder} {run}")
        if not wait:
            return True
        shown = dict[PartyId, tuple[str, str]]()
        while True:
            notices = link.state.notices_of(order)
            for name, one in notices.items():
                if shown.get(name) != (one.state, one.reason):
                    shown[name] = one.state, one.reason
                    console.say(f"{run}: {name} {one.state}" + (f": {one.reason}" if one.reason else ""))
            leader = notices.get(SERVER)
            if leader is not None and leader.state in agents.ENDED:
                return leader.state == "done"
            await link.next_message()


@app.command("list")
def list_runs(place: PlaceArgument) -> None:
    """List all runs: at the operator with the states at server and sites, at a machine with its own state.

    Exit codes: 0 listed; 2 refused; 3 the broker is out of reach.
    """
    if place.is_dir():
        _check_operator(place)
        state, history = asyncio.run(_read_board(place))
        rows = []
        orders = agents.submitted_before(place) | state.orders
        for order in sorted(orders.values(), key=lambda one: one.rank):
            notices = state.notices_of(order)
            states = {
                name: agents.state_shown(name, notices, history)
                for name in agents.machines_of(order, history)
            }
            leader = states.pop(SERVER)
            rows.append((order.content.run, leader, _counts(list(states.values())), order.content.note))
        _table(("run", "server", "sites", "note"), rows)
        return
    register = _register(place)
    known = sorted(register.runs.values(), key=lambda one: one.order.rank)
    _table(
        ("run", "state", "reason", "note"),
        [(one.run, one.record.state, one.record.reason, one.order.content.note) for one in known],
    )


@app.command()
def show(place: PlaceArgument, run: RunArgument) -> None:
    """Show the scenario of a run, and its state: at the operator that at each machine.

    Exit codes: 0 shown; 2 refused; 3 the broker is out of reach.
    """
    if not place.is_dir():
        known = _register(place).find(run)
        _describe(known.order)
        reason = f": {known.record.reason}" if known.record.reason else ""
        console.say(f"state: {known.record.state}{reason}")
        return
    _check_operator(place)
    state, history = asyncio.run(_read_board(place))
    order = state.orders.get(run) or agents.submitted_before(place).get(run)
    if order is None:
        raise ConfigError(
            "RUN", f"{run[:40]!r} was not submitted", f"runs: {', '.join(state.orders) or 'none'}"
        )
    _describe(order)
    notices = state.notices_of(order)
    rows = []
    for name in agents.machines_of(order, history):
        one = notices.get(name)
        shown = agents.state_shown(name, notices, history)
        why = "is its agent running?" if shown == "no answer" else ""
        rows.append((name, shown, one.reason, one.time) if one else (name, shown, why, ""))
    _table(("machine", "state", "reason", "time"), rows)


@app.command()
def stop(place: PlaceArgument, run: RunArgument, *, reason: ReasonOption = "no reason given") -> None:
    """Stop a run: at the operator for all machines, at a machine for this one only.

    Exit codes: 0 ordered; 2 refused; 3 the broker is out of reach.
    """
    if not place.is_dir():
        _decide(place, run, agents.PersonDecision("stop", f"stopped by a person at this machine: {reason}"))
        console.say(f"{run}: this machine leaves the run")
        return
    _check_operator(place)
    order = agents.submitted_before(place).get(run)
    if order is None:
        raise ConfigError(
            "RUN", f"{run[:40]!r} was not submitted from {place}", f"see: securefl runs list {place}"
        )
    signed = agents.sign_stop(place, order, reason)
    asyncio.run(_stop(place, signed, run))
    console.say(f"{run}: ordered to stop")


@app.command()
def approve(kit: KitArgument, run: RunArgument) -> None:
    """At a site: accept a run about which the policy asks a person. The run must also keep to the policy.

    Exit codes: 0 decided; 2 refused.
    """
    _decide(kit, run, agents.PersonDecision("approve"))
    console.say(f"{run}: approved; the agent starts it when all machines have accepted")


@app.command()
def refuse(kit: KitArgument, run: RunArgument, *, reason: ReasonOption = "refused by a person") -> None:
    """At a site: refuse a run that has not begun. The operator sees the reason.

    Exit codes: 0 decided; 2 refused.
    """
    _decide(kit, run, agents.PersonDecision("refuse", reason))
    console.say(f"{run}: refused")


@app.command()
def logs(
    kit: KitArgument,
    run: RunArgument,
    *,
    follow: Annotated[
        bool, typer.Option("--follow", help="Print new lines until the run ends here.")
    ] = False,
) -> None:
    """At a machine: print the output of its process in a run. The output never leaves the machine.

    Exit codes: 0 printed; 2 refused.
    """
    known = _register(kit).find(run)
    path = known.folder / agents.LOG
    if not path.exists():
        raise ConfigError(
            str(path), "does not exist: the run has not begun here", f"its state is {known.record.state}"
        )
    with path.open(encoding="utf-8", errors="replace") as file:
        while True:
            for line in file:
                typer.echo(report.printable(line.rstrip("\n"), 2_000))
            if not follow or _register(kit).find(run).ended:
                return
            time.sleep(_POLL)  # a file that grows has no event


def _check_operator(folder: Path) -> None:
    """Raise ConfigError if a path is not an operator's folder."""
    if not (folder / provision.HISTORY).is_file() or (folder / provision.KIT).exists():
        raise ConfigError(
            str(folder),
            "is not the operator's folder",
            "name the folder of securefl provision begin; at a machine some commands take its kit.toml",
        )


def _register(place: Path) -> agents.Register:
    try:
        kit = provision.read_kit(place)
    except ConfigError as error:
        raise ConfigError(
            error.path,
            error.reason,
            "name a machine's kit.toml; at the operator, its folder (provision begin --out)",
        ) from None
    return agents.Register(kit.folder, kit.history())


def _decide(place: Path, run: str, decision: agents.PersonDecision) -> None:
    known = _register(place).find(run)
    if known.ended:
        raise ConfigError("RUN", f"{run!r} is {known.record.state} here", "nothing is left to decide")
    if decision.choice == "refuse" and known.record.state in {"running", "paused"}:
        raise ConfigError("RUN", f"{run!r} has begun here", f"stop it: securefl runs stop {place} {run}")
    known.decide(decision)


async def _read_board(folder: Path) -> tuple[agents.BoardState, provision.History]:
    async with agents.connect_operator(folder) as (link, history):
        await link.refresh()
        if refused := link.state.refused:
            console.say(
                f"{len(refused)} messages ignored (removed machines, former keys, strangers): {refused[0]}"
            )
        return link.state, history


async def _stop(folder: Path, signed: provision.SignedFile, run: str) -> None:
    async with agents.connect_operator(folder) as (link, _history):
        await link.stop(signed, run)


def _describe(order: agents.Order) -> None:
    content = order.content
    work = content.site or content.data
    console.say(f"{content.run}: {content.note or 'no note'}")
    console.say(f"submission {order.digest}, from {content.submitted}, valid until {content.expires}")
    console.say(f"{len(content.parties)} sites: {', '.join(content.parties)}; work: {work}")
    console.say(f"scenario, digest {content.scenario_digest[:16]}:")
    for line in _scenario_lines(content.scenario):
        console.say(f"    {line}")


def _scenario_lines(scenario: str) -> Iterator[str]:
    """Yield the lines of a scenario as TOML has them, long ones in parts: a person decides by them.

    Other separators of lines, such as U+2028, may stand in a comment, whose rest would look like a table.
    """
    for line in scenario.replace("\r\n", "\n").removesuffix("\n").split("\n"):
        yield line[:_SHOWN]
        for at in range(_SHOWN, len(line), _SHOWN):
            yield f"{_GOES_ON}{line[at : at + _SHOWN]}"


def _counts(states: Sequence[str]) -> str:
    return ", ".join(f"{states.count(one)} {one}" for one in dict.fromkeys(states))


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if not rows:
        console.say("no runs")
        return
    table = Table(box=None, pad_edge=False, show_edge=False)
    for title in titles:
        table.add_column(title)
    for row in rows:
        table.add_row(*(Text(report.printable(str(cell), 200)) for cell in row))
    report.Terminal(soft_wrap=True).print(table)
