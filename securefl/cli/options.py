"""Command-line options of several commands."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_type_hints

import typer

from securefl.base.errors import ConfigError

BundledArgument = Annotated[
    Path, typer.Argument(metavar="SCENARIO", help="Scenario file (TOML), or the name of a bundled one.")
]
RunFolderOption = Annotated[
    Path | None, typer.Option(help="Directory of the run. Default: runs/<scenario>-<time>.")
]
JobsOption = Annotated[int, typer.Option(min=1, max=64, help="Number of simulations in parallel.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, for programs.")]
JsonLinesOption = Annotated[bool, typer.Option("--json", help="JSON lines on stdout, for programs.")]
ExplainOption = Annotated[
    bool, typer.Option("--explain", help="Print all facts about the run first, not eight lines.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="PATH=VALUE", help="Override a field, e.g. stop.rounds=3. Repeat for more."
    ),
]
SeedOption = Annotated[int, typer.Option(help="Public seed: first model, data split, faulty parties.", min=0)]
InsecureOption = Annotated[
    bool,
    typer.Option(
        "--insecure-seeded-entropy",
        help="INSECURE, tests and replay only: derive all keys, masks, nonces and privacy noise from --seed.",
    ),
]
LabOption = Annotated[bool, typer.Option("--lab", help="Record whole vectors (experiments only).")]
BrokersOption = Annotated[
    str,
    typer.Option(
        metavar="URL,URL,...",
        help="mqtt://host:port or mqtts://host:port; of several, the first that answers.",
    ),
]
PatienceOption = Annotated[
    float,
    typer.Option(metavar="SECONDS", min=0, help="Seconds without a broker after which this process ends."),
]
CaOption = Annotated[Path | None, typer.Option(help="Authority that signed the broker's certificate (PEM).")]
CertOption = Annotated[Path | None, typer.Option(help="This process's client certificate (PEM).")]
KeyOption = Annotated[Path | None, typer.Option(help="Private key of --tls-cert (PEM).")]


def _kept_rounds(text: str) -> int | None:
    if text == "all":
        return None
    if not text.isascii() or not text.isdecimal():
        raise ConfigError(
            "--keep-models", f"{text!r} is not a number of rounds", "give a number of at least 0, or all"
        )
    return int(text)


def _bytes(megabytes: int | None) -> int | None:
    return None if megabytes is None else megabytes * 1_000_000


DeviceOption = Annotated[
    Literal["auto", "cpu", "cuda"] | None, typer.Option(help="Override training.device on this machine.")
]
SiteOption = Annotated[
    str,
    typer.Option(
        metavar="MODULE:NAME",
        help="Your own training, as module:name, for model.type = weights (docs/sites.md).",
    ),
]
SitePythonOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Run sites in their own processes, with this Python interpreter (docs/sites.md)."
    ),
]
SiteMemoryOption = Annotated[
    int, typer.Option(metavar="MB", min=0, help="Memory limit of a site's own process; 0 for none.")
]
KeepModelsOption = Annotated[
    str,
    typer.Option(
        metavar="N|all",
        callback=_kept_rounds,
        help="Keep the model of each of the last N rounds, or of all, in models/ of --out.",
    ),
]
TranscriptOption = Annotated[
    int | None,
    typer.Option(
        "--transcript-megabytes",
        metavar="MB",
        min=1,
        callback=_bytes,
        help="Limit of the transcripts of a process in megabytes; the oldest rounds are deleted.",
    ),
]
MetricsPortOption = Annotated[
    int | None,
    typer.Option(
        metavar="PORT",
        min=0,
        max=65535,
        help="Serve /metrics, /healthz and /readyz at this port; 0 for any (docs/monitoring.md).",
    ),
]
MetricsHostOption = Annotated[
    str, typer.Option(metavar="HOST", help="Address of --metrics-port; without TLS and password.")
]
PasswordFileOption = Annotated[
    Path | None, typer.Option(help="File with the broker password of the user in the URL.")
]
DataDirOption = Annotated[
    Path | None,
    typer.Option(envvar="SECUREFL_DATA_DIR", help="Directory with the data sets (docs/scenarios.md)."),
]
OPTIONS: Final[dict[str, Any]] = {
    "broker": Annotated[
        str,
        typer.Option(
            help="auto, mosquitto, embedded, or mqtt://host:port, mqtts://host:port; or several such URLs."
        ),
    ],
    "broker_patience": PatienceOption,
    "tls": Annotated[bool, typer.Option("--tls", help="Local broker with TLS and client certificates.")],
    "tls_ca": CaOption,
    "tls_cert": CertOption,
    "tls_key": KeyOption,
    "password_file": PasswordFileOption,
    "data_dir": DataDirOption,
    "out": RunFolderOption,
    "resume": Annotated[bool, typer.Option("--resume", help="Resume from the last checkpoint in --out.")],
    "seed": SeedOption,
    "insecure": InsecureOption,
    "lab": LabOption,
    "observe": Annotated[
        bool,
        typer.Option(
            "--observe",
            help="Record metadata and hash of each message at the broker; with --lab whole messages.",
        ),
    ],
    "exact": Annotated[
        bool,
        typer.Option(
            "--exact",
            help="Train party by party, with the same bits as securefl run; slower for dense models.",
        ),
    ],
    "like": Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder of a recorded run (in a deployment its server's): repeat its absences, dropouts and"
            " void rounds, under its run id.",
        ),
    ],
    "site": SiteOption,
    "site_python": SitePythonOption,
    "site_memory": SiteMemoryOption,
    "keep_models": KeepModelsOption,
    "transcript_bytes": TranscriptOption,
    "metrics_port": MetricsPortOption,
    "metrics_host": MetricsHostOption,
    "device": DeviceOption,
}


def command_line(given: Any) -> tuple[str, ...]:
    """Return the command line of the non-default options in ``given``."""
    words: list[str] = []
    for one in fields(given):
        value = getattr(given, one.name)
        if one.name in OPTIONS and value != one.default:
            name = "insecure_seeded_entropy" if one.name == "insecure" else one.name
            words += ["--" + name.replace("_", "-"), *(() if value is True else (str(value),))]
    return tuple(words)


def _option_of(hint: Any, name: str) -> Any:
    """Return a field's own option, or that in ``OPTIONS``; None if it is not an option."""
    return hint if hasattr(hint, "__metadata__") else OPTIONS.get(name)


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command: the fields of its first parameter, a dataclass, become options.

    A field without an annotated option has that in ``OPTIONS``, or else keeps its default.
    """
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
            annotation=hint,
        )
        for field in fields(group)
        if (hint := _option_of(hints[field.name], field.name)) is not None
    ]

    @functools.wraps(command)
    def call_command(**options: Any) -> None:
        command(group(**{one.name: options.pop(one.name) for one in shared}), **options)

    required_first = sorted([*own, *shared], key=lambda one: one.default is not empty)
    call_command.__signature__ = signature.replace(parameters=required_first)  # type: ignore[attr-defined]
    return call_command
