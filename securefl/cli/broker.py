"""``securefl broker``: a broker on this machine."""

from __future__ import annotations

import signal
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from securefl.base.errors import ConfigError, RunAbortedError
from securefl.base.ids import SERVER
from securefl.cli import console
from securefl.methods import attacks
from securefl.protocol import messages
from securefl.runtime import transport


def broker(
    kind: Annotated[str, typer.Option(help="auto, mosquitto or embedded.")] = "auto",
    port: Annotated[int, typer.Option(help="The port; 0 for a free one.", min=0, max=65535)] = 1883,
    tls_dir: Annotated[
        Path | None,
        typer.Option(help="Make a temporary authority and certificates in this folder, and require them."),
    ] = None,
    parties: Annotated[
        int,
        typer.Option(help="With --tls-dir: number of party certificates.", min=1, max=messages.MAX_PARTIES),
    ] = 12,
    acl: Annotated[
        bool,
        typer.Option("--acl", help="Print access rules for your own mosquitto, and start no broker."),
    ] = False,
    bridge: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="With --acl: name of a bridged broker, as in its certificate."),
    ] = None,
) -> None:
    """Run a broker on 127.0.0.1 until Ctrl-C.

    Exit codes: 0 ended by a signal, or the access rules are printed; 2 refused; 3 the broker ended by itself.
    """
    names = checked_bridges(bridge or (), acl=acl)
    if acl:
        typer.echo(transport.mosquitto_acl(names), nl=False)
        return
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    with tempfile.TemporaryDirectory(prefix="securefl-broker-") as directory:
        wish = transport.broker_wish(kind, "--kind")
        users = (*attacks.party_names(parties), SERVER, transport.OBSERVER)
        tls = transport.make_local_tls(tls_dir, users) if tls_dir is not None else None
        with transport.start_local_broker(wish, Path(directory), port, tls) as running:
            console.say(f"{running.kind} broker at {running.url} (Ctrl-C ends it)")
            while not stopping.wait(1.0):
                if not running.running:
                    raise RunAbortedError(f"the broker process ended unexpectedly; see its log {running.log}")


def checked_bridges(names: Sequence[str], *, acl: bool) -> Sequence[str]:
    """Return names of bridges that are safe in access rules.

    Raises:
        ConfigError: a name is unsafe, or ``acl`` is false.
    """
    for name in names:
        console.name_of("--bridge", name)
    if names and not acl:
        raise ConfigError(
            "--bridge",
            "works with --acl only: the local broker has no bridges",
            "add --acl, or leave out --bridge",
        )
    return names
