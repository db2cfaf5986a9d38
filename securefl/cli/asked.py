"""Options of commands that run experiments, and the data sets that they run on."""

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
    typer.Option("--picture", help="A second file of each picture, svg or pdf, beside PNG."),
]


@dataclass(frozen=True, kw_only=True)
class Effort:
    """Options of commands that simulate."""

    seeds: int | None = None
    """Simulations or draws of each cell; None for the number that the exhibit states."""
    device: options.DeviceOption = None
    data_dir: options.DataDirOption = None
    jobs: options.JobsOption = 2
    picture: PictureOption = None
    fresh: Annotated[bool, typer.Option("--fresh", help="Simulate again what is finished.")] = False


@dataclass(frozen=True, kw_only=True)
class Asked(Effort):
    """Options of ``securefl reproduce``."""

    paper: Annotated[
        str,
        typer.Argument(
            metavar="PAPER",
            help="Which paper: share, dp, weighting or br-ifca; or hidden-groups, tables of no paper.",
        ),
    ] = "share"
    figure: Annotated[
        list[str] | None,
        typer.Option(help="Panel (5f), figure (5: all its panels) or all. Repeat it, or separate by commas."),
    ] = None
    table: Annotated[
        list[str] | None, typer.Option(help="Table (15) or all, of papers with tables. Likewise.")
    ] = None
    dataset: Annotated[
        list[str] | None,
        typer.Option(
            help="Of papers with several: a name, npz:FILE or folder:DIR. Repeat it. When left out, all that"
            " are there."
        ),
    ] = None
    aux: Annotated[
        str,
        typer.Option(
            help="Where a table takes the server's samples from another data set: a name, npz:FILE or"
            " folder:DIR, instead of the paper's."
        ),
    ] = ""
    listing: Annotated[
        bool,
        typer.Option(
            "--list",
            help="Run nothing; a line on each of them: title, scale, last verdict, time. With --figure or"
            " --table: those alone, with claims and numbers. At every scale that was run.",
        ),
    ] = False
    page: Annotated[
        bool, typer.Option("--page", help="Write the page on all of them, from what was run before.")
    ] = False
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Compute one cell of each result again, in part, and say which are not what the program"
            " computes today. With --figure or --table: those alone.",
        ),
    ] = False
    scale: Annotated[
        experiments.ScaleName, typer.Option(help="desk: minutes; paper: the paper's own sizes, hours.")
    ] = "desk"
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=100,
            help="Simulations per curve, of seeds 0, 1, ... (a seed is a split and an initial model). When"
            " left out: 2; of papers with tables, 1 at desk scale and 3 at the paper's; of br-ifca, the"
            " trials that the figure's own file says.",
        ),
    ] = None
    out: Annotated[
        Path | None, typer.Option(help="Where JSON and PNG files go; docs/results/<paper> when left out.")
    ] = None
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh", help="Simulate again what is finished: after a change of code or of data files."
        ),
    ] = False

    @property
    def folder(self) -> Path:
        """Folder of the results."""
        return self.out or RESULTS / self.paper

    @property
    def items(self) -> tuple[tuple[experiments.Kind, str], ...]:
        """Tables and figures by kind and number, or ``all``."""
        tables, figures = _names(self.table), _names(self.figure)
        return (*(("table", name) for name in tables), *(("figure", name) for name in figures))

    @property
    def runs(self) -> bool:
        """True if what is named is to be run, rather than listed or checked."""
        return not (self.listing or self.check)


def _names(given: list[str] | None) -> tuple[str, ...]:
    return tuple(name for one in given or () for name in one.split(",") if name)


def sources_of(
    asked: Asked, exhibit: experiments.Exhibit
) -> tuple[tuple[experiments.Source, ...], list[str]]:
    """The data sets to run a table or figure on, and a line on each that is not there.

    Raises:
        ConfigError: none is there, or one that was named is not.
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
                f"{item.kind} {item.number} is not about {source.dataset.name}",
                f"{' or '.join(names)}, or leave it out",
            )
    return tuple(_complete(asked, exhibit, one) for one in sources), []


def _complete(asked: Asked, exhibit: experiments.Exhibit, source: experiments.Source) -> experiments.Source:
    return experiments.with_auxiliary(source, exhibit.item.auxiliary, asked.data_dir, asked.aux)
