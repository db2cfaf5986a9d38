"""Sweep file: settings over which reclusterings are drawn and their sums analysed (``docs/leakage.md``)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from securefl import scenario
from securefl.base import crypto
from securefl.base.errors import ConfigError
from securefl.base.sums import ordered_sum
from securefl.lab.experiments import experiment, record
from securefl.lab.experiments.claims import Text
from securefl.lab.experiments.noise import IN_WORDS, Accounting, Noise
from securefl.lab.experiments.reading import name_error, read_section

MATES: Final = "mates"
"""Number of colluders that equals a party's mates in a cluster: m - 1."""
BEYOND: Final = 1
"""Reclusterings above R* that are examined by default."""
MOST_SUMS: Final = 2_000
"""Most sums of a draw, for which the ledger takes seconds."""

Work = Literal["same", "new"]
Colluders = Annotated[int, Meta(ge=0, le=10_000)] | Literal["mates"]
Share = Annotated[float, Meta(ge=0, lt=1)]


class Sweep(scenario.FileTable, frozen=True, kw_only=True):
    """Sweep: combinations of the lists are settings, reclusterings are columns."""

    name: scenario.Name
    title: Text
    claim: Text
    draws: Annotated[int, Meta(ge=1, le=1_000)] = 10
    parties: Annotated[tuple[scenario.Positive, ...], Meta(min_length=1)]
    sizes: Annotated[tuple[scenario.Positive, ...], Meta(min_length=1)]
    reclusterings: tuple[scenario.Positive, ...] = ()
    """Reclusterings R; default: from 1 to one above R* = ceil((N - 1) / (C - 1))."""
    colluders: Annotated[tuple[Colluders, ...], Meta(min_length=1)] = (0,)
    """Random parties that share all knowledge with the server."""
    dropout: Annotated[tuple[Share, ...], Meta(min_length=1)] = (0.0,)
    """Probability that a party drops out before the freeze."""
    work: Annotated[tuple[Work, ...], Meta(min_length=1)] = ("same",)
    """Work of reclusterings: the same updates, or new ones each time."""
    atoms: Annotated[tuple[scenario.Positive, ...], Meta(min_length=1)] = (1,)
    """Fewest members of an atom; 1 for no atoms."""
    noise: tuple[Noise, ...] = ()
    accounting: Accounting | None = None

    def settings(self) -> Iterator[SweepSetting]:
        """Yield the rows, without sizes that make a single cluster or do not fit atoms.

        New work has its own noise each time, so no row has noise added once.
        """
        lists = (self.parties, self.sizes, self.colluders, self.dropout, self.work, self.atoms)
        made = (
            SweepSetting(
                parties, size, size - 1 if colluders == MATES else colluders, dropout, work, atoms, noise
            )
            for parties, size, colluders, dropout, work, atoms, noise in product(
                *lists, self.noise or (None,)
            )
            if parties // size >= 2
            and (atoms == 1 or (size % atoms == 0 and size // atoms >= 2))
            and not (work == "new" and noise == "once")
        )
        yield from dict.fromkeys(made)

    def columns(self, setting: SweepSetting) -> tuple[int, ...]:
        """Return the numbers of reclusterings of a setting."""
        return self.reclusterings or tuple(range(1, setting.threshold + BEYOND + 1))

    @property
    def joint(self) -> str:
        """Separator of setting and reclusterings in a cell's label."""
        return ", "

    @property
    def measures(self) -> str:
        """Measured quantity."""
        return (
            "exposed parties (share)" if self.accounting is None else "epsilon of the run, worst of the draws"
        )

    def whole(self) -> experiment.Experiment:
        """Return it as an experiment."""
        columns = sorted({column for setting in self.settings() for column in self.columns(setting)})
        axes = (
            experiment.Dimension(
                name="setting", choices=tuple(experiment.Choice(label=one.label()) for one in self.settings())
            ),
            experiment.Dimension(
                name="reclusterings of one update",
                choices=tuple(experiment.Choice(label=f"R = {r}") for r in columns),
            ),
        )
        return experiment.Experiment(
            title=self.title,
            claim=self.claim,
            settings="",
            shows="lines",
            last=1,
            axes=axes,
            scale={"desk": experiment.RunScale(scenario="")},
            items=(experiment.Item(kind="figure", number=self.name, title=self.title),),
        )

    def at(self, place: experiment.Place) -> tuple[SweepSetting, int]:
        """Return the setting of a cell, and its reclusterings."""
        label, column = place
        setting = next(one for one in self.settings() if one.label() == label)
        return setting, int(column.removeprefix("R = "))

    def has(self, place: experiment.Place) -> bool:
        """Return True if the setting has the place's reclusterings."""
        setting, column = self.at(place)
        return column in self.columns(setting)

    def draws_at(self, _scale: experiment.ScaleName) -> int:
        """Return the draws of a cell."""
        return self.draws

    def key(self, _scale: experiment.ScaleName) -> str:
        """Return a digest (32 hex digits) of the inputs."""
        plain = msgspec.structs.replace(self, title="-", claim="-")
        return crypto.digest("sweep", record.FORMAT, msgspec.json.encode(plain, order="sorted")).hex()[:32]

    def with_shown_values(self, cell: record.CellRecord) -> record.CellRecord:
        """Return the cell with its table text: exposed parties or epsilon, and exposures."""
        setting, column = self.at(cell.place)
        seen, epsilon = cell.finals(1), cell.values.get("epsilon")
        if epsilon is not None:
            text = f"{epsilon:.3g}\n{cell.values['exposure']:.2f}"
        elif not seen:
            text = "nothing is opened"
        else:
            empty = len(cell.seeds) - len(seen)
            deviation = cell.deviation(1)
            text = f"{ordered_sum(seen) / len(seen):.0%}" + (f" ± {deviation:.0%}" if deviation else "")
            once, fresh = (max(seed.values[name] for seed in cell.seeds) for name in ("once", "fresh"))
            text += f"\n{once:.2f} / {fresh:.2f}"
            text += f"\n{empty} draw{'s open' if empty > 1 else ' opens'} nothing" if empty else ""
        final = epsilon if epsilon is not None else ordered_sum(seen) / len(seen) if seen else None
        marked = column == setting.threshold and bool(seen)
        return msgspec.structs.replace(cell, final=final, text=text, marked=marked)


@dataclass(frozen=True, slots=True)
class SweepSetting:
    """Row of a sweep."""

    parties: int
    size: int
    colluders: int
    dropout: float
    work: Work
    atoms: int = 1
    noise: Noise | None = None

    @property
    def clusters(self) -> int:
        """Clusters C without dropouts."""
        return self.parties // self.size

    @property
    def threshold(self) -> int:
        """R* = ceil((N - 1) / (C - 1)): random reclusterings usually expose all parties there."""
        return -(-(self.parties - 1) // (self.clusters - 1))

    def label(self) -> str:
        """Return the label in tables: ``N = 60, m = 3, 2 colluders``."""
        parts = [f"N = {self.parties}, m = {self.size}"]
        if self.colluders:
            parts.append(f"{self.colluders} colluder{'s' if self.colluders > 1 else ''}")
        if self.dropout:
            parts.append(f"{self.dropout:.0%} drop out")
        if self.atoms > 1:
            parts.append(f"atoms of {self.atoms}")
        if self.work == "new":
            parts.append("new work")
        if self.noise:
            parts.append(IN_WORDS[self.noise])
        return ", ".join(parts)


def read_sweep(path: Path) -> Sweep:
    """Read and check a sweep file.

    Raises:
        ConfigError: a file or field is invalid, no setting has two clusters, fewer than two parties are
            honest, too many sums, or noise without accounting or with dropouts.
    """
    sweep = read_section(path, Sweep)
    if sweep.name != path.stem:
        raise name_error(path, "name", sweep.name)
    settings = tuple(sweep.settings())
    if not settings:
        raise ConfigError(
            f"{path}, sizes",
            f"{max(sweep.parties)} parties cannot form two clusters of {min(sweep.sizes)}",
            "give smaller sizes: a single cluster would open the same sum again and again",
        )
    _check_noise(path, sweep)
    for setting in settings:
        if setting.colluders > setting.parties - 2:
            raise ConfigError(
                f"{path}, colluders",
                f"{setting.colluders} of {setting.parties} parties collude: no two honest ones are left",
                "give fewer",
            )
        sums = setting.clusters * max(sweep.columns(setting))
        if sums > MOST_SUMS:
            raise ConfigError(
                f"{path}, reclusterings",
                f"{setting.label()} needs {sums:,} sums, the limit is {MOST_SUMS:,}",
                "give fewer reclusterings or parties",
            )
    return sweep


def _check_noise(path: Path, sweep: Sweep) -> None:
    accounting = sweep.accounting
    if bool(sweep.noise) != (accounting is not None):
        raise ConfigError(
            f"{path}, {'accounting' if sweep.noise else 'noise'}",
            "is missing: noise (where it is added) and accounting (how much) belong together",
            "give both or neither",
        )
    if sweep.noise and any(sweep.dropout):
        raise ConfigError(
            f"{path}, dropout",
            "a dropout takes its share of the noise with it, which noise does not model",
            "leave out dropout, or noise",
        )
    if accounting is not None and accounting.batch > accounting.records:
        raise ConfigError(
            f"{path}, accounting.batch",
            f"is {accounting.batch}, more than accounting.records = {accounting.records}",
            "lower it",
        )
