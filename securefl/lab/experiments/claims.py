"""Claims about numbers: conjunctions of comparisons between cells."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise, product
from typing import Annotated, ClassVar, Final, Literal

import msgspec
from msgspec import Meta, Struct

from securefl import scenario
from securefl.base import sums

Measure = Literal["final", "unrest"]
Text = Annotated[str, Meta(min_length=1)]
Labels = Annotated[tuple[Text, ...], Meta(min_length=1)]
"""Labels of cells, checked by the reader of the file."""
Margin = Annotated[float, Meta(ge=-1, le=1e6)]
LEAST_SEEDS: Final = 5
"""Fewest seeds that decide a claim."""
Accuracies = tuple[float, ...]
"""Accuracies by round, each in [0, 1]; a single number for a drawn problem."""


class Inequality(Struct, frozen=True):
    """Inequality of a claim: the expected difference exceeds a fixed bound."""

    says: str
    differences: tuple[float, ...]
    bound: float = 0.0
    least: float = 0.0
    """Smallest mean difference over the bound that counts, at any certainty."""


Values = Mapping[str, Sequence[float]]
"""Numbers by label of the cell and seed; all cells have the same seeds."""


def _minus(values: Values, one: str, other: str) -> tuple[float, ...]:
    return tuple(a - b for a, b in zip(values[one], values[other], strict=True))


class Claim(scenario.FileTable, tag_field="kind", frozen=True, kw_only=True):
    """Claim and its test.

    ``final``: mean accuracy of the ``last`` rounds. ``unrest``: mean change between consecutive rounds in the
    second half.
    """

    says: Text
    curves: Labels
    measure: Measure = "final"
    ours: bool = False
    """True if the claim is not the paper's; it does not count for the panel's verdict."""

    def comparisons(self, values: Values) -> Iterator[Inequality]:
        """Yield the comparisons that make up the claim."""
        raise NotImplementedError

    def against(self, shown: Callable[[str], str]) -> str:
        """Return the other side of the comparisons; ``shown`` formats the number of a cell."""
        raise NotImplementedError


class Trend(Claim, frozen=True, kw_only=True):
    """Monotone trend along ``curves``."""

    curves: Annotated[tuple[Text, ...], Meta(min_length=2)]
    tolerance: scenario.NonNegativeReal = 0.005
    """Largest step in the other direction that counts as level."""
    margin: scenario.PositiveReal = 0.01
    """Smallest mean difference between the ends that counts."""

    falling: ClassVar[bool] = False

    @property
    def along(self) -> tuple[str, ...]:
        """Curves from lowest to highest, as claimed."""
        return self.curves[::-1] if self.falling else self.curves

    def comparisons(self, values: Values) -> Iterator[Inequality]:
        low, high = self.along[0], self.along[-1]
        yield Inequality(f"{high} - {low}", _minus(values, high, low), least=self.margin)
        for before, after in pairwise(self.along):
            yield Inequality(f"{after} - {before}", _minus(values, after, before), bound=-self.tolerance)

    def against(self, shown: Callable[[str], str]) -> str:
        del shown
        return f"; at least {self.margin:g} from end to end, no step back by more than {self.tolerance:g}"


class Increasing(Trend, tag="increasing", frozen=True, kw_only=True):
    """Each curve is above the one before it."""


class Decreasing(Trend, tag="decreasing", frozen=True, kw_only=True):
    """Each curve is below the one before it."""

    falling: ClassVar[bool] = True


class Ordered(Claim, frozen=True, kw_only=True):
    """Each of ``curves`` is on one side of each of ``than``."""

    than: Labels
    margin: Margin = 0.005
    """Smallest mean difference that counts. Below 0: a difference down to it is a tie, which counts."""
    below: ClassVar[bool] = False

    def comparisons(self, values: Values) -> Iterator[Inequality]:
        for one, other in product(self.curves, self.than):
            high, low = (other, one) if self.below else (one, other)
            differences = _minus(values, high, low)
            yield Inequality(f"{high} - {low}", differences, min(self.margin, 0.0), max(self.margin, 0.0))

    def against(self, shown: Callable[[str], str]) -> str:
        others = ", ".join(f"{label} {shown(label)}" for label in self.than)
        apart = (
            f"by at least {self.margin:g}" if self.margin >= 0 else f"{-self.margin:g} the other way is a tie"
        )
        return f" against {others}, {apart}"


class Above(Ordered, tag="above", frozen=True, kw_only=True):
    """Each of ``curves`` is above each of ``than``."""


class Below(Ordered, tag="below", frozen=True, kw_only=True):
    """Each of ``curves`` is below each of ``than``."""

    below: ClassVar[bool] = True


class Within(Claim, tag="within", frozen=True, kw_only=True):
    """Each of ``curves`` is less than ``distance`` away from ``of`` (two one-sided tests)."""

    of: Text
    distance: scenario.PositiveReal

    def comparisons(self, values: Values) -> Iterator[Inequality]:
        for one in self.curves:
            yield Inequality(f"{one} - {self.of}", _minus(values, one, self.of), -self.distance)
            yield Inequality(f"{self.of} - {one}", _minus(values, self.of, one), -self.distance)

    def against(self, shown: Callable[[str], str]) -> str:
        return f" against {self.of} {shown(self.of)}, {self.distance:g} allowed"


class AtLeast(Claim, tag="at-least", frozen=True, kw_only=True):
    """Each of ``curves`` is above ``value``."""

    value: float

    def comparisons(self, values: Values) -> Iterator[Inequality]:
        for one in self.curves:
            yield Inequality(one, tuple(values[one]), self.value)

    def against(self, shown: Callable[[str], str]) -> str:
        del shown
        return f", at least {self.value:g}"


class AtMost(Claim, tag="at-most", frozen=True, kw_only=True):
    """Each of ``curves`` is below ``value``."""

    value: float

    def comparisons(self, values: Values) -> Iterator[Inequality]:
        for one in self.curves:
            yield Inequality(f"-({one})", tuple(-value for value in values[one]), -self.value)

    def against(self, shown: Callable[[str], str]) -> str:
        del shown
        return f", at most {self.value:g}"


AnyClaim = Increasing | Decreasing | Above | Below | Within | AtLeast | AtMost


def labels_of(claim: AnyClaim) -> set[str]:
    """Return the labels of all cells in a claim."""
    others: Mapping[str, object] = msgspec.structs.asdict(claim)
    than, of = others.get("than", ()), others.get("of")
    return {
        *claim.curves,
        *(than if isinstance(than, tuple) else ()),
        *((of,) if isinstance(of, str) else ()),
    }


def measure_curve(accuracies: Accuracies, measure: Measure, last: int, rounds: int) -> float:
    """Return the measure of one curve; a run that ended before ``rounds`` keeps its last accuracy."""
    whole = [*accuracies, *[accuracies[-1]] * (rounds - len(accuracies))]
    if measure == "final":
        tail = whole[-last:]
        return sums.ordered_sum(tail) / len(tail)
    half = whole[len(whole) // 2 :]
    steps = [abs(after - before) for before, after in pairwise(half)]
    return sums.ordered_sum(steps) / max(1, len(steps))
