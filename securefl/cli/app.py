"""The ``securefl`` command."""

from __future__ import annotations

from typing import Annotated

import typer

from parties.client import party
from parties.dealer import dealer
from parties.program import Program
from parties.server import server
from securefl import __version__
from securefl.cli.audit import audit
from securefl.cli.bench import app as bench
from securefl.cli.broker import broker
from securefl.cli.compare import compare
from securefl.cli.data import app as data
from securefl.cli.doctor import doctor
from securefl.cli.dp import app as dp
from securefl.cli.keygen import keygen
from securefl.cli.leakage import leakage
from securefl.cli.plan import plan
from securefl.cli.reproduce import reproduce
from securefl.cli.run import run
from securefl.cli.simulate import simulate
from securefl.cli.weights import weights

app = Program(
    help="Federated learning in which nobody sees an update, some parties lie, and networks fail.",
    no_args_is_help=True,
)
app.command()(run)
app.command()(simulate)
app.command()(reproduce)
app.command()(compare)
app.command()(leakage)
app.command()(audit)
app.command()(server)
app.command()(party)
app.command()(dealer)
app.command()(broker)
app.command()(keygen)
app.command()(plan)
app.command()(weights)
app.command()(doctor)
app.add_typer(bench, name="bench", help="Measure speed and size on this machine.")
app.add_typer(data, name="data", help="Data sets: who gets which labels.")
app.add_typer(dp, name="dp", help="Differential privacy: how much noise a budget needs.")


def _version(value: bool) -> None:
    if value:
        typer.echo(f"securefl {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line."""
    app()
