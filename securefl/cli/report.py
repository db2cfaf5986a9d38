"""``securefl report``: one HTML page about a run, for people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from securefl.base.errors import ConfigError
from securefl.cli import console
from securefl.lab import event_files, run_page


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The directory of a run or simulation.")],
    *,
    out: Annotated[Path | None, typer.Option(help="An .html file. Default: RUN/report.html.")] = None,
    live: Annotated[
        bool,
        typer.Option("--live", help="Write the page anew, and let it reload itself, until the run ends."),
    ] = False,
    tensorboard: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Write an event file of TensorBoard in this new folder, and no page."
        ),
    ] = None,
) -> None:
    """Write one HTML page about a run: metrics, parties, privacy, verification, audit, costs.

    The page needs no server and no network. It shows the findings of ``securefl audit`` if RUN has been
    audited. Without --live, an unfinished run is shown up to its current round. With --live and
    the option --tensorboard each round is appended to the event file.

    Exit codes: 0 written; 2 refused; 3 the page or event file cannot be written.
    """
    if tensorboard is not None:
        if out is not None:
            raise ConfigError(
                "--out", "is for the page, and --tensorboard writes none", "leave one of them out"
            )
        if live:
            # Refused before the advice.
            event_files.need_tensorboard()
            run_page.read_run(run)
            console.say(f"{tensorboard}: show it by tensorboard --logdir {tensorboard}; Ctrl-C stops")
        write = event_files.follow_events if live else event_files.write_events
        console.say(f"written: {write(run, tensorboard)}")
        return
    file = run / "report.html" if out is None else out
    run_page.write_page(file, run_page.run_page(run_page.read_run(run), live=live))
    if live:
        console.say(f"{file}: open it in a browser; Ctrl-C stops")
        run_page.follow_run(run, file)
    console.say(f"written: {file}")
