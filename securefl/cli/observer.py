"""An observer at the broker as a process: ``securefl observer``."""

from __future__ import annotations

from pathlib import Path

from securefl.cli.console import one_line_errors
from securefl.cli.news import plain_news
from securefl.cli.options import (
    BrokerOption,
    CaOption,
    CertOption,
    KeyOption,
    LabOption,
    OutOption,
    PasswordFileOption,
    RosterOption,
    RunOption,
    run_id,
)
from securefl.runtime.launch import ObserverSettings, broker_url, watch


def observer(
    *,
    run: RunOption,
    broker: BrokerOption,
    roster: RosterOption,
    out: OutOption = Path(),
    lab: LabOption = False,
    tls_ca: CaOption = None,
    tls_cert: CertOption = None,
    tls_key: KeyOption = None,
    password_file: PasswordFileOption = None,
) -> None:
    """Record metadata and hash of every frame of a run, and say what an eavesdropper learns from them."""
    with one_line_errors():
        settings = ObserverSettings(
            run=run_id(run),
            broker=broker_url(broker, (tls_ca, tls_cert, tls_key), password_file),
            roster_file=roster,
            out=out,
            lab=lab,
        )
        watch(settings, plain_news(settings.name))
