"""The ``securefl`` command. A subcommand is imported when it is called, so that help costs little."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand
from typer.main import get_command

from securefl.base import logs
from securefl.base.version import __version__
from securefl.cli import program

COMMANDS = {
    "run": "Run a scenario on this machine: a broker, a server process and one process per party.",
    "simulate": (
        "Simulate a scenario in this process: no broker, no processes, no masks, the same sums and model."
    ),
    "reproduce": "Run tables and figures of a paper again, and say whether its numbers and claims hold.",
    "plot": "Draw what was measured in a run, round by round.",
    "compare": "Compare any rule x attack x clustering x data split.",
    "leakage": (
        "Draw random reclusterings over a range of settings, and count whose updates the server then knows."
    ),
    "audit": (
        "Audit a recorded run: what the server learned of whom, and whether everybody kept to the protocol."
    ),
    "verify": "Verify that the model of a run is what the rule makes of its certified sums, round by round.",
    "server": "Lead a run: draw the clusters, open cluster sums, aggregate, and never see an update.",
    "party": "Take part in a run as one party, with its own key and its own data.",
    "site": "Your own training: the weights that it begins with, and a trial round.",
    "statistics": (
        "Pool counts, means, deviations, ranges and histograms of the sites' columns, before training."
    ),
    "dealer": (
        "Deal the triples of validated sums, on a machine of neither the server nor a party, without data."
    ),
    "observer": (
        "Record metadata and hash of every frame of a run, and say what an eavesdropper learns from them."
    ),
    "broker": "Run a broker on 127.0.0.1 until Ctrl-C.",
    "keygen": "Make keys. A private key (.key) stays with its party; .pub files and the roster are public.",
    "account": "Show what a party has given away with its key and data, in all its runs.",
    "plan": "Print the parameters of a run that keep what you ask for, none of which is beaten by another.",
    "weights": "Say where declared sample counts have to be cut so that liars gain little, and whose are.",
    "doctor": "Check libraries, broker, processor, data, and where a party's state is kept.",
    "bench": "Measure speed and size on this machine.",
    "trace": (
        "Decode the envelope of captured frames: sender, place in the run, sizes, signature. Never a payload."
    ),
    "data": "Data: a party's own, and who gets which labels of a data set.",
    "dp": "Differential privacy: noise for a budget, and what the checks of noisy sums see.",
}
"""Commands by name, with the first line of their docstrings.

A command is in the module of its name: as ``app`` if it is a group, else as a function of that name.
"""


class Deferred(TyperCommand):
    """A command by its name and help; imported when it is called."""

    def __init__(self, name: str) -> None:
        super().__init__(name, help=COMMANDS[name])

    def load(self) -> Any:
        """The command itself."""
        module = import_module(f"securefl.cli.{self.name}")
        group = getattr(module, "app", None)
        if group is None:
            group = program.Program(add_completion=False)
            group.command()(getattr(module, str(self.name)))
        command = get_command(group)
        command.name = self.name
        return command

    def make_context(self, info_name: Any, args: Any, parent: Any = None, **extra: Any) -> Any:
        """The context of the command itself, which is called in place of this one."""
        return self.load().make_context(info_name, args, parent, **extra)


class _Commands(program.CommandGroup):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings | {"commands": {name: Deferred(name) for name in COMMANDS}})


app = program.Program(
    cls=_Commands,
    help="Federated learning in which nobody sees an update, some parties lie, and networks fail.",
    no_args_is_help=True,
)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"securefl {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    log_level: Annotated[
        logs.Level | None,
        typer.Option(
            envvar=logs.VARIABLE, help="Log to standard error from this level on; off when left out."
        ),
    ] = None,
) -> None:
    _ = version
    if log_level is not None:
        logs.set_level(log_level)


def main() -> None:
    """Run the command line."""
    try:
        app()
    except SystemExit as ending:
        _leave(ending)
        raise


def _leave(ending: SystemExit) -> None:
    """End the process at once if a training still runs: its thread may be inside a library, or never end."""
    threads = sys.modules.get("securefl.runtime.process.work_thread")
    if threads is None or not threads.any_is_busy():
        return
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(ending.code if isinstance(ending.code, int) else int(ending.code is not None))
