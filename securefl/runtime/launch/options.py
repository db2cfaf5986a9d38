"""Options of a run on this machine, besides its scenario."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final, get_args

from securefl.base.entropy import Entropy, InsecureSeededEntropy, OsEntropy
from securefl.base.errors import ConfigError
from securefl.base.ids import RunId
from securefl.runtime import transport

LOCAL_BROKERS = get_args(transport.BrokerWish)

BROKER_PATIENCE: Final = 1800.0
"""Seconds in which somebody will have seen to a broker."""
_OWN_BROKER_PATIENCE: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options of a run on this machine, besides its scenario."""

    broker: str = "auto"
    """One of ``LOCAL_BROKERS``, or a URL, or several with commas between them."""
    broker_patience: float = BROKER_PATIENCE
    """Seconds without any broker at a URL after which all give up."""
    tls: bool = False
    """With a local broker: TLS and a client certificate per process."""
    tls_files: tuple[Path | None, Path | None, Path | None] = (None, None, None)
    password_file: Path | None = None
    data_dir: Path | None = None
    seed: int = 0
    insecure: bool = False
    lab: bool = False
    observe: bool = False
    """Start an observer at the broker."""
    device: str | None = None
    keep_models: int | None = 0
    """Of how many rounds, the latest ones, each keeps its model; None for all."""
    transcript_bytes: int | None = None
    """Bound of each process's transcript: the oldest rounds are deleted. None for any."""
    out: Path | None = None
    """Run directory; ``runs/<name>-<time>`` when None."""
    site: str = ""
    """Every party's site as ``module:name``, where the scenario's model is trained by sites."""
    site_python: Path | None = None
    """The interpreter of a process of each site's own; None for the party's process."""
    site_memory: int = 0
    """MB of addresses that such a process may use; 0 for any."""
    run: RunId

    @property
    def patience(self) -> float:
        """The patience of the processes: a broker that the run starts itself does not come back."""
        return _OWN_BROKER_PATIENCE if self.broker in LOCAL_BROKERS else self.broker_patience

    def remote_broker(self) -> transport.Brokers | None:
        """Return the brokers that somebody else runs, None when the run starts its own.

        Raises:
            ConfigError: not a URL, files that do not fit it, or options for the other kind of broker.
        """
        if self.broker in LOCAL_BROKERS:
            for option, file in (
                *zip(("--tls-ca", "--tls-cert", "--tls-key"), self.tls_files, strict=True),
                ("--password-file", self.password_file),
            ):
                if file is not None:
                    raise ConfigError(
                        option,
                        f"is for a broker at a URL, and the run starts {self.broker!r} itself",
                        "give --broker a URL, or --tls alone for a local broker with TLS",
                    )
            return None
        if self.tls:
            raise ConfigError(
                "--tls",
                f"is for a local broker, and {self.broker!r} is one at a URL",
                "an mqtts:// URL means TLS; --tls-ca names its authority",
            )
        return given_brokers(self.broker, self.tls_files, self.password_file)

    def entropy(self) -> Entropy:
        """Return what the launcher draws keys from (all-in-one mode)."""
        return InsecureSeededEntropy(self.seed) if self.insecure else OsEntropy()


def given_brokers(
    text: str, tls: tuple[Path | None, Path | None, Path | None], password_file: Path | None
) -> transport.Brokers:
    """Return where the brokers are.

    Raises:
        ConfigError: nonsense in a URL, or a file that cannot be read.
    """
    ca, cert, key = tls
    password = None
    if password_file is not None:
        try:
            password = password_file.read_text(encoding="utf-8-sig").strip()
        except OSError as error:
            raise ConfigError(str(password_file), f"cannot be read: {error.strerror}") from error
    return transport.parse_brokers(text, ca_file=ca, cert_file=cert, key_file=key, password=password)


def fresh_run_id(insecure_seed: int | None) -> RunId:
    """Return a random id; with seeded entropy always the same one, since seeds and keys are bound to it."""
    return RunId(f"run-{secrets.token_hex(4)}" if insecure_seed is None else f"seeded-{insecure_seed}")
