"""A call of ``securefl reproduce``, and the data sets it runs on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from securefl.base.errors import ConfigError
from securefl.lab import experiments, plots


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What one call asks for."""

    paper: str
    presets: Path
    out: Path
    items: tuple[tuple[experiments.Kind, str], ...]
    """By kind and number, or ``all``."""
    datasets: tuple[str, ...]
    auxiliary: str
    """Instead of the one that an item names; nothing: that one."""
    scale: experiments.ScaleName
    seeds: int | None
    data_dir: Path | None
    device: str | None
    jobs: int
    fresh: bool
    also: plots.Format | None
    """A second format of the pictures."""
    page: bool
    listing: bool
    check: bool

    @property
    def runs(self) -> bool:
        """Whether what is named is to be run, rather than listed or checked."""
        return not (self.listing or self.check)


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
    if not asked.datasets:
        there, lacking = experiments.present(exhibit.datasets(), asked.data_dir)
        return tuple(_complete(asked, exhibit, one) for one in there), lacking
    sources = tuple(
        experiments.asked_for(name, exhibit.study.datasets, asked.data_dir) for name in asked.datasets
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
    return experiments.with_auxiliary(source, exhibit.item.auxiliary, asked.data_dir, asked.auxiliary)
