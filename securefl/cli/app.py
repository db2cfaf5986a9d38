"""The ``securefl`` command. Subcommands are imported when called, so that help is fast."""

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
    "init": "Make a project that runs at once: scenario, training code, test and README.",
    "run": "Run a scenario on this machine: a broker, a server process and one process per party.",
    "simulate": (
        "Simulate a scenario in this process, without broker, processes and masks: same sums, same model."
    ),
    "reproduce": "Reproduce tables and figures of a paper, and check its numbers and claims.",
    "report": "Write one HTML page about a run: metrics, parties, privacy, verification, audit, costs.",
    "export": "Write the model of a run with a model card: data, metrics with errors, privacy, verification.",
    "plot": "Plot the measurements of a run, round by round.",
    "compare": "Compare aggregation rules, attacks, clusterings and data splits.",
    "leakage": (
        "Simulate random reclusterings over a range of settings, and count the updates that the server "
        "learns."
    ),
    "audit": (
        "Audit a recorded run: what the server could learn, and if all processes followed the protocol."
    ),
    "verify": "Verify, round by round, that the model of a run follows from its certified sums.",
    "server": "Run the server: draw clusters, open cluster sums, aggregate them. It never sees an update.",
    "party": "Run one party, with its own key and its own data.",
    "agent": (
        "Stay at this machine, and take part in the runs that the operator submits and the policy allows."
    ),
    "runs": "Submit runs to the agents of a federation; list, approve, refuse and stop them.",
    "site": "Write the first weights of your own training, try one round, or validate a finished model.",
    "statistics": (
        "Compute counts, means, deviations, ranges and histograms of the sites' columns with secure sums."
    ),
    "dealer": "Run the dealer of validated sums, on a machine of its own; it needs no data.",
    "observer": (
        "Record metadata and hash of each message of a run, and report what an eavesdropper learns."
    ),
    "broker": "Run a broker on 127.0.0.1 until Ctrl-C.",
    "keygen": "Make keys. A private key (.key) stays with its party; .pub files and the roster are public.",
    "provision": "Make keys, certificates and configuration of all machines of a federation.",
    "account": "Show what a party has released with its key and data, in all its runs.",
    "plan": "Find the parameters of a run that fulfil your requirements (a Pareto front).",
    "weights": "Find the limit of sample counts that bounds the weight of false counts.",
    "doctor": "Check libraries, broker, processor, data, and the folder of a party's state.",
    "bench": "Measure speed and size on this machine.",
    "trace": (
        "Decode the envelope of captured frames: sender, place in the run, sizes, signature. Never a payload."
    ),
    "data": "Prepare a party's own data, or plot the label distribution of a data set.",
    "dp": "Compute differential privacy: noise for a budget, and the power of the noise checks.",
}
"""First lines of the commands' docstrings, by name. A command is ``app`` (a group) or a function of its name
in the module of its name.
"""
TASKS = {
    "Start here": ("init", "run", "simulate"),
    "Operate": ("provision", "agent", "runs", "server", "party"),
    "Examine": ("report", "audit"),
    "Research": ("plan",),
}
"""Commands of the first help page, by task. ``securefl more`` lists the others."""
_MORE = "more"


class Deferred(TyperCommand):
    """Command that is imported when it is called."""

    def __init__(self, name: str) -> None:
        task = next((task for task, names in TASKS.items() if name in names), None)
        super().__init__(name, help=COMMANDS[name], rich_help_panel=task, hidden=task is None)

    def load(self) -> Any:
        """Import the command."""
        module = import_module(f"securefl.cli.{self.name}")
        group = getattr(module, "app", None)
        if group is None:
            group = program.Program(add_completion=False)
            group.command()(getattr(module, str(self.name)))
        command = get_command(group)
        command.name = self.name
        return command

    def make_context(self, info_name: Any, args: Any, parent: Any = None, **extra: Any) -> Any:
        """Return the context of the imported command, which is called in place of this one."""
        return self.load().make_context(info_name, args, parent, **extra)


class _Commands(program.CommandGroup):
    def __init__(self, **settings: Any) -> None:
        first = [name for names in TASKS.values() for name in names]
        deferred = {name: Deferred(name) for name in dict.fromkeys((*first, *COMMANDS))}
        super().__init__(**settings | {"commands": deferred | settings["commands"]})


app = program.Program(
    cls=_Commands,
    help="Federated learning with secure sums, robust to dishonest parties and failures.",
    no_args_is_help=True,
)


@app.command(_MORE, rich_help_panel="Research")
def more() -> None:
    """List the other commands: data, keys, brokers, sums apart, experiments, measurements."""
    first = {name for names in TASKS.values() for name in names}
    width = max(map(len, COMMANDS))
    for name in sorted(COMMANDS.keys() - first):
        typer.echo(f"securefl {name:<{width}}  {COMMANDS[name]}")


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
    log_format: Annotated[
        logs.LogFormat,
        typer.Option(envvar=logs.FORMAT_VARIABLE, help="Format of the log of --log-level."),
    ] = "text",
) -> None:
    _ = version
    logs.set_format(log_format)
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
    """End the process at once if a training thread still runs: it may never end."""
    threads = sys.modules.get("securefl.runtime.process.work_thread")
    if threads is None or not threads.any_is_busy():
        return
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(ending.code if isinstance(ending.code, int) else int(ending.code is not None))
