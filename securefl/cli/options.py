"""Options of the command line that several commands share."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from securefl.base.errors import ConfigError

BundledArgument = Annotated[
    Path, typer.Argument(metavar="SCENARIO", help="Scenario file (TOML), or the name of a bundled one.")
]
RunFolderOption = Annotated[
    Path | None, typer.Option(help="Run directory; runs/<scenario>-<time> when left out.")
]
JobsOption = Annotated[int, typer.Option(min=1, max=64, help="Simulations at the same time.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, for programs.")]
JsonLinesOption = Annotated[bool, typer.Option("--json", help="JSON lines on stdout, for programs.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="PATH=VALUE", help="Override a field, e.g. stop.rounds=3. Repeat for more."
    ),
]
SeedOption = Annotated[
    int, typer.Option(help="Fixes what is public: initial model, split, who misbehaves.", min=0)
]
InsecureOption = Annotated[
    bool,
    typer.Option(
        "--insecure-seeded-entropy",
        help="INSECURE, tests and replay only: derive all keys, masks and nonces from --seed.",
    ),
]
LabOption = Annotated[bool, typer.Option("--lab", help="Record whole vectors (experiments only).")]
BrokersOption = Annotated[
    str,
    typer.Option(
        metavar="URL,URL,...",
        help="mqtt://host:port or mqtts://host:port; the first of several that is there.",
    ),
]
PatienceOption = Annotated[
    float,
    typer.Option(metavar="SECONDS", min=0, help="So long without any broker, and this process gives up."),
]
CaOption = Annotated[Path | None, typer.Option(help="Authority that signed the broker's certificate (PEM).")]
CertOption = Annotated[Path | None, typer.Option(help="This process's client certificate (PEM).")]
KeyOption = Annotated[Path | None, typer.Option(help="Private key of --tls-cert (PEM).")]
DeviceOption = Annotated[
    str | None, typer.Option(help="Override training.device on this machine: auto, cpu or cuda.")
]
SiteOption = Annotated[
    str,
    typer.Option(
        metavar="MODULE:NAME", help="Your own training, for a model of type weights (docs/sites.md)."
    ),
]
SitePythonOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Run sites apart from parties: interpreter of their environment (docs/sites.md)."
    ),
]
SiteMemoryOption = Annotated[
    int, typer.Option(metavar="MB", min=0, help="Most data of a site's own process; 0 for any.")
]
KeepModelsOption = Annotated[
    str,
    typer.Option(
        metavar="N|all", help="Keep the model of each of the last N rounds, or of all, in models/ of --out."
    ),
]
TranscriptOption = Annotated[
    int | None,
    typer.Option(
        "--transcript-megabytes",
        metavar="MB",
        min=1,
        help="Keep a process's transcripts within so many megabytes: the oldest rounds are deleted.",
    ),
]
PasswordFileOption = Annotated[
    Path | None, typer.Option(help="File with the broker password of the user in the URL.")
]


def device_name(text: str | None) -> str | None:
    """Return a checked device.

    Raises:
        ConfigError: there is no such kind of device.
    """
    if text not in {None, "auto", "cpu", "cuda"}:
        raise ConfigError("--device", f"{text!r} is no device", "auto, cpu or cuda")
    return text


def transcript_bytes(megabytes: int | None) -> int | None:
    """The bound that ``--transcript-megabytes`` states, in bytes; None for any."""
    return None if megabytes is None else megabytes * 1_000_000


def kept_rounds(text: str) -> int | None:
    """Return how many rounds' models are kept; None for all.

    Raises:
        ConfigError: neither a number nor ``all``.
    """
    if text == "all":
        return None
    if not text.isascii() or not text.isdecimal():
        raise ConfigError("--keep-models", f"{text!r} is no number of rounds", "a number from 0, or all")
    return int(text)


@dataclass(frozen=True, kw_only=True)
class BrokerFiles:
    """Files that a process shows to the broker, or holds against it."""

    tls_ca: CaOption = None
    tls_cert: CertOption = None
    tls_key: KeyOption = None
    password_file: PasswordFileOption = None

    @property
    def tls(self) -> tuple[Path | None, Path | None, Path | None]:
        """Authority, certificate and private key."""
        return self.tls_ca, self.tls_cert, self.tls_key


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """Make the fields of a command's first parameter, a dataclass, options of its own."""
    signature = inspect.signature(command, eval_str=True)
    first, *own = signature.parameters.values()
    group = first.annotation
    hints = get_type_hints(group, include_extras=True)
    empty = inspect.Parameter.empty
    shared = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(group)
    ]

    @functools.wraps(command)
    def called(**options: Any) -> None:
        command(group(**{one.name: options.pop(one.name) for one in shared}), **options)

    required_first = sorted([*own, *shared], key=lambda one: one.default is not empty)
    called.__signature__ = signature.replace(parameters=required_first)  # type: ignore[attr-defined]
    return called
