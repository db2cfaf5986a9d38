"""Options of runs on this machine. No torch."""

import secrets
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, get_args

from securefl.base import files
from securefl.base.errors import ConfigError
from securefl.base.header import RunHeader
from securefl.base.ids import RunId
from securefl.protocol.round import AnyReport
from securefl.runtime import process, transport
from securefl.runtime.report import PlainProgress, RoundRecord

LOCAL_BROKERS = get_args(transport.BrokerWish)

BROKER_PATIENCE: Final = 1800.0
"""Seconds for a person to repair a broker."""
_OWN_BROKER_PATIENCE: Final = 60.0


@dataclass(frozen=True, kw_only=True)
class BrokerFiles:
    """Files that authenticate a process to the broker, and the broker."""

    tls_ca: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    password_file: Path | None = None

    def given_brokers(self, text: str) -> transport.Brokers:
        """Return the brokers at the URLs of ``text``.

        Raises:
            ConfigError: a URL is invalid, or a file cannot be read.
        """
        password = None
        if self.password_file is not None:
            with files.reading(self.password_file):
                password = self.password_file.read_text(encoding="utf-8-sig").strip()
        return transport.parse_brokers(
            text, ca_file=self.tls_ca, cert_file=self.tls_cert, key_file=self.tls_key, password=password
        )


@dataclass(frozen=True, kw_only=True)
class RunOptions(process.RecordOptions, process.MetricsOptions, BrokerFiles):
    """Options of a run on this machine."""

    broker: str = "auto"
    """One of ``LOCAL_BROKERS``, or comma-separated URLs."""
    broker_patience: float = BROKER_PATIENCE
    """Seconds without any broker at a URL before all processes give up."""
    tls: bool = False
    """With a local broker: TLS and a client certificate per process."""
    data_dir: Path | None = None
    observe: bool = False
    on_round: Callable[[RoundRecord], None] | None = None
    """Receives each round's record, in the process that starts the run."""
    cancelled: threading.Event | None = None
    """Ends the run once another thread has set it."""

    @property
    def patience(self) -> float:
        """Patience of the processes: a broker that the run starts itself does not return."""
        return _OWN_BROKER_PATIENCE if self.broker in LOCAL_BROKERS else self.broker_patience

    def remote_broker(self) -> transport.Brokers | None:
        """Return the brokers at URLs, None if the run starts its own.

        Raises:
            ConfigError: not a URL, files that do not fit it, or options for the other kind of broker.
        """
        if self.broker in LOCAL_BROKERS:
            for one in fields(BrokerFiles):
                if getattr(self, one.name) is not None:
                    raise ConfigError(
                        "--" + one.name.replace("_", "-"),
                        f"needs a broker at a URL, and this run starts {self.broker!r} itself",
                        "give --broker a URL, or --tls alone for a local broker with TLS",
                    )
            return None
        if self.tls:
            raise ConfigError(
                "--tls",
                f"is for a broker that this run starts, and {self.broker!r} is a URL",
                "leave out --tls: an mqtts:// URL has TLS, with the authority of --tls-ca",
            )
        return self.given_brokers(self.broker)


def fresh_run_id(insecure_seed: int | None) -> RunId:
    """Return a random id; with seeded entropy a fixed one, to which seeds and keys are bound."""
    return RunId(f"run-{secrets.token_hex(4)}" if insecure_seed is None else f"seeded-{insecure_seed}")


@dataclass(frozen=True, kw_only=True)
class SimulationOptions(process.Options):
    """Options of a simulation."""

    data_dir: Path | None = None
    exact: bool = False
    """Train party by party, to the bits of a run."""
    resume: bool = False
    like: Path | None = None
    """Folder of a recorded run whose absences, dropouts and void rounds are repeated."""
    maker: Callable[[str], Any] | None = None
    """Replaces the site that ``site`` names."""
    on_round: Callable[[RoundRecord], None] | None = None
    again: tuple[str, ...] = ()
    """Command line without --out and --resume, for the message after an interruption."""


class NoProgress:
    """Progress without output."""

    def start(self, header: RunHeader) -> None:
        """Show nothing."""

    def on_report(self, now: float, report: AnyReport) -> None:
        """Show nothing."""

    def on_reject(self, vantage: str, culprit: str, reason: str) -> None:
        """Show nothing."""

    def note(self, text: str) -> None:
        """Show nothing."""

    def finish(self) -> None:
        """Show nothing."""


class RoundLines(PlainProgress):
    """Lines on standard output."""

    def __init__(self) -> None:
        super().__init__(sys.stdout)
