"""Numbers of committed results, as documents and findings print them."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import stdev

from securefl.lab.experiments.record import CellRecord, read_record
from securefl.runtime.launch import scenario_folder

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "docs" / "results"
PAPERS = scenario_folder() / "papers"
Phrases = Sequence[str]


class Result:
    """A committed result: ``result[label]`` is the mean final accuracy of a cell."""

    def __init__(self, stem: str) -> None:
        self._record = read_record(RESULTS / f"{stem}.json")
        self.cells = self._record.cells

    def __getitem__(self, label: str) -> float:
        mean = self.cell(label).final
        assert mean is not None
        return mean

    def cell(self, label: str) -> CellRecord:
        """Return a cell."""
        (found,) = (one for one in self.cells if one.label == label)
        return found

    def seeds(self, label: str) -> tuple[float, ...]:
        """Return a cell's final accuracy by seed."""
        return self.cell(label).finals(self._record.last)

    def losses(self, label: str, reference: str) -> list[float]:
        """Return the accuracy of a reference above a cell's, by seed."""
        numbers = [[seed.seed for seed in self.cell(one).seeds] for one in (label, reference)]
        assert numbers[0] == numbers[1]
        return [above - here for above, here in zip(self.seeds(reference), self.seeds(label), strict=True)]

    def deviation(self, label: str, round_: int) -> float:
        """Return the standard deviation over seeds of the accuracy after ``round_`` rounds."""
        return stdev(seed.accuracies[round_ - 1] for seed in self.cell(label).seeds)

    def count_found(self, label: str) -> int:
        """Return the number of task groups that a cell's seeds found."""
        return sum(outcome.found for groups in self.cell(label).groups for outcome in groups.outcomes)


@functools.cache
def result(stem: str) -> Result:
    """Return the committed result ``<paper>/<stem>``."""
    return Result(stem)


def dp(item: str) -> Result:
    """Return a result of the DP paper on Fashion-MNIST at desk scale."""
    return result(f"dp/{item}-fashion-mnist-desk")


def findings(sheet: str) -> str:
    """Return the findings of an experiment file, on one line."""
    return " ".join(tomllib.loads((PAPERS / f"{sheet}.toml").read_text()).get("findings", "").split())


def short(number: float, digits: int = 2) -> str:
    """Return a number without the zero before the point: ``.72``."""
    return re.sub(r"^(-?)0\.", r"\1.", f"{number:.{digits}f}")


def span(numbers: Iterable[float], digits: int = 2) -> str:
    """Return the least and largest number: ``.04 to .10``; one of them if they read alike."""
    known = list(numbers)
    return " to ".join(dict.fromkeys(short(one, digits) for one in (min(known), max(known))))


def points(*losses: float) -> str:
    """Return the least and largest loss in whole percentage points: ``2 to 10``."""
    assert min(losses) > -0.005
    return " to ".join(dict.fromkeys(str(round(100 * one)) for one in (min(losses), max(losses))))
