"""Options of commands that run experiments, and their data sets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from securefl.base.errors import ConfigError
from securefl.cli import options
from securefl.lab import experiments, plots

RESULTS = Path("docs/results")
PictureOption = Annotated[
    plots.Format | None,
    typer.Option("--picture", help="A second format of each picture beside PNG: svg or pdf."),
]


@dataclass(frozen=True, kw_only=True)
class Effort:
    """Options of commands that simulate."""

    seeds: int | None = None
    """Simulations or draws of each cell; None for the exhibit's own number."""
    device: options.DeviceOption = None
    data_dir: options.DataDirOption = None
    jobs: options.JobsOption = 2
    picture: PictureOption = None
    fresh: Annotated[bool, typer.Option("--fresh", help="Repeat finished simulations.")] = False


@dataclass(frozen=True, kw_only=True)
class Asked(Effort):
    """Options of ``securefl reproduce``."""

    paper: Annotated[
        str,
        typer.Argument(
            metavar="PAPER",
            help="The paper: share, dp, weighting or br-ifca; or hidden-groups (own tables).",
        ),
    ] = "share"
    figure: Annotated[
        list[str] | None,
        typer.Option(help="Panel (5f), figure (5: all its panels) or all. Repeat it, or separate by commas."),
    ] = None
    table: Annotated[
        list[str] | None, typer.Option(help="Table (15) or all. Repeat it, or separate by commas.")
    ] = None
    dataset: Annotated[
        list[str] | None,
        typer.Option(
            help="Data set, for papers with several: a name, npz:FILE or folder:DIR. Repeat it. Default: all"
            " in --data-dir."
        ),
    ] = None
    aux: Annotated[
        str,
        typer.Option(
            help="Data set of the server's samples, for tables that use another one: a name, npz:FILE or"
            " folder:DIR."
        ),
    ] = ""
    listing: Annotated[
        bool,
        typer.Option(
            "--list",
            help="Run nothing; list title, scale, last verdict and time of each. With --figure or --table:"
            " only these, with claims and numbers.",
        ),
    ] = False
    page: Annotated[bool, typer.Option("--page", help="Write the page of results, from earlier runs.")] = (
        False
    )
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Recompute a part of each result, and report those that differ today. With --figure or"
            " --table: only these.",
        ),
    ] = False
    scale: Annotated[
        experiments.ScaleName, typer.Option(help="desk: minutes; paper: the sizes of the paper, hours.")
    ] = "desk"
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=100,
            help="Simulations per curve, of seeds 0, 1, ... (a seed is a split and an initial model)."
            " Default: 5, the fewest that decide a claim; of br-ifca as in the file of the figure.",
        ),
    ] = None
    out: Annotated[
        Path | None, typer.Option(help="Folder for JSON and PNG files. Default: docs/results/<paper>.")
    ] = None
    fresh: Annotated[
        bool,
        typer.Option("--fresh", help="Repeat finished simulations, after a change of code or data."),
    ] = False

    @property
    def folder(self) -> Path:
        """Folder of the results."""
        return self.out or RESULTS / self.paper

    @property
    def items(self) -> tuple[tuple[experiments.Kind, str], ...]:
        """Requested tables and figures by kind and number, or ``all``."""
        tables, figures = _names(self.table), _names(self.figure)
        return (*(("table", name) for name in tables), *(("figure", name) for name in figures))

    @property
    def runs(self) -> bool:
        """True if the items are run, not listed or checked."""
        return not (self.listing or self.check)


def _names(given: list[str] | None) -> tuple[str, ...]:
    return tuple(name for one in given or () for name in one.split(",") if name)


def sources_of(
    asked: Asked, exhibit: experiments.Exhibit
) -> tuple[tuple[experiments.Source, ...], list[str]]:
    """Return the data sets for a table or figure, and a line for each missing one.

    Raises:
        ConfigError: all data sets are missing, or a named one is.
    """
    item = exhibit.item
    if not exhibit.named:
        return (experiments.Source(exhibit.study.datasets[0]),), []
    if not asked.dataset:
        there, lacking = experiments.present(exhibit.datasets(), asked.data_dir)
        return tuple(_complete(asked, exhibit, one) for one in there), lacking
    sources = tuple(
        experiments.asked_for(name, exhibit.study.datasets, asked.data_dir) for name in asked.dataset
    )
    names = [dataset.name for dataset in exhibit.datasets()]
    for source in sources:
        if source.dataset.name not in names:
            raise ConfigError(
                "--dataset",
                f"{item.kind} {item.number} has no variant for {source.dataset.name}",
                f"give {' or '.join(names)}, or leave it out",
            )
    return tuple(_complete(asked, exhibit, one) for one in sources), []


def _complete(asked: Asked, exhibit: experiments.Exhibit, source: experiments.Source) -> experiments.Source:
    return experiments.with_auxiliary(source, exhibit.item.auxiliary, asked.data_dir, asked.aux)
