"""The server as a process: ``securefl server``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from securefl.base.ids import SERVER
from securefl.cli.console import one_line_errors
from securefl.cli.joining import MemberOptions, check_data_given
from securefl.cli.news import finish, plain_news
from securefl.cli.options import DeviceOption, LabOption, device_name, spread
from securefl.runtime.launch import process


@spread
def server(
    options: MemberOptions,
    *,
    key: Annotated[
        Path, typer.Option(help="The server's private key file (securefl keygen --party server).")
    ],
    data: Annotated[
        Path | None,
        typer.Option(help="The test samples: a file, or idx:DIR and the like (docs/data.md)."),
    ] = None,
    server_data: Annotated[
        Path | None,
        typer.Option(help="Training samples of its own, named like --data: rules such as zeno++ need some."),
    ] = None,
    lab: LabOption = False,
    device: DeviceOption = None,
) -> None:
    """Lead a run: draw the clusters, open cluster sums, aggregate, and never see an update."""
    with one_line_errors():
        settings = options.settings(
            SERVER, key, data or Path(), lab=lab, device=device_name(device), server_data_file=server_data
        )
        check_data_given(settings.scenario, data)
        finish(process.server(settings, plain_news(SERVER)))
