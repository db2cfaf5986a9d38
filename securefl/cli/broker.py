"""``securefl broker``: a broker on this machine, for as long as the command runs."""

from __future__ import annotations

import signal
import tempfile
import threading
from pathlib import Path
from typing import Annotated

import typer

from securefl.base.errors import RunAbortedError
from securefl.base.ids import SERVER
from securefl.cli.console import one_line_errors, say
from securefl.methods.attacks import party_names
from securefl.protocol.messages import MAX_PARTIES
from securefl.runtime.transport import (
    OBSERVER,
    broker_wish,
    make_local_tls,
    mosquitto_acl,
    start_local_broker,
)


def broker(
    kind: Annotated[str, typer.Option(help="auto, mosquitto or embedded.")] = "auto",
    port: Annotated[int, typer.Option(help="0 takes a free one.", min=0, max=65535)] = 1883,
    tls_dir: Annotated[
        Path | None,
        typer.Option(help="Make a throw-away authority and certificates here, and require them."),
    ] = None,
    parties: Annotated[
        int,
        typer.Option(help="With --tls-dir: how many party certificates.", min=1, max=MAX_PARTIES),
    ] = 12,
    acl: Annotated[
        bool,
        typer.Option("--acl", help="Print the access rules for a mosquitto of your own, and run nothing."),
    ] = False,
) -> None:
    """Run a broker on 127.0.0.1 until Ctrl-C."""
    if acl:
        typer.echo(mosquitto_acl(), nl=False)
        return
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    with one_line_errors(), tempfile.TemporaryDirectory(prefix="securefl-broker-") as directory:
        wish = broker_wish(kind, "--kind")
        names = (*party_names(parties), SERVER, OBSERVER)
        tls = make_local_tls(tls_dir, names) if tls_dir is not None else None
        with start_local_broker(wish, Path(directory), port, tls) as running:
            say(f"{running.kind} broker at {running.url} (Ctrl-C ends it)")
            while not stopping.wait(1.0):
                if not running.running:
                    raise RunAbortedError(f"the broker ended by itself; its log: {running.log}")
