"""``securefl export``: the model of a run with its card, for those who use it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from securefl.cli import console
from securefl.lab import handover


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The directory of a run that has ended.")],
    *,
    out: Annotated[Path | None, typer.Option(help="New folder. Default: RUN/export.")] = None,
    validation: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="A site's file by securefl site validate, for the card. Repeat for more."
        ),
    ] = None,
) -> None:
    """Write the model of a run with a model card: data, metrics with errors, privacy, verification.

    The folder holds model.safetensors (the best model by stop.metric, else the last one), README.md (the
    card), scenario.toml and SHA256SUMS.

    Exit codes: 0 written; 2 refused; 3 a file cannot be written.
    """
    for file in handover.export_run(run, run / "export" if out is None else out, validation or ()):
        console.say(f"written: {file}")
