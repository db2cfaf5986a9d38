"""The ``[aggregation]`` table: rules on cluster means, pre-aggregation, and the claim.

The base classes here hold what every rule and every pre-aggregation states. The rules themselves are in
:mod:`securefl.methods.robust.rules` and :mod:`securefl.methods.robust.pre_aggregation`, a file each, with
formula and source.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from msgspec import field

from securefl.scenario import parts, section

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import numpy.typing as npt

    from securefl.base import header
    from securefl.base.stack import AggregationResult, ClusterMeans

ServerData = Literal["none", "all", "training"] | int
"""Gradients of the server's own data that a rule gets: none; that of all samples, once a round; minus the
update that local training makes, once a round; or that of so many samples, drawn for every reclustering."""


class Rule(parts.Part, tag_field="type", frozen=True, kw_only=True):
    """One vector from the cluster means; a subclass is one rule with its parameters."""

    homes: ClassVar[tuple[str, ...]] = ("securefl.methods.robust.rules",)
    usual: ClassVar[str] = "mean"
    required: ClassVar[tuple[str, ...]] = ("withstands", "aggregate")
    by_coordinate: ClassVar[bool] = False
    """Whether each coordinate of the result depends on that coordinate of the means alone."""

    @property
    def clusters_needed(self) -> int:
        """Fewest clusters that the rule is defined for."""
        return 1

    @property
    def server_data(self) -> ServerData:
        """Requirements on the server's own data."""
        return "none"

    def withstands(self, clusters: int) -> int:
        """Most Byzantine ones, out of ``clusters`` >= ``clusters_needed``, for which its guarantee holds."""
        raise NotImplementedError

    def aggregate(self, stack: ClusterMeans) -> AggregationResult:
        """The rule's result for ``stack``, which has ``clusters_needed`` rows at least.

        Raises:
            UsageError: it needs the server's data, and the stack has no server gradient.
        """
        raise NotImplementedError

    def __call__(
        self, x: Any, *, weights: Any = None, server_gradient: Any = None, reference: Any = None
    ) -> Any:
        """Aggregate vectors of your own, as in ``TrimmedMean(trim=1)(x)``.

        Args:
            x: c rows of one shape, ``(c, ...)``: a numpy array, a torch tensor, or a list of either.
            weights: of the rows, ``(c,)``, > 0; equal ones when left out.
            server_gradient: of the loss on the server's own data, of a row's shape, for rules that need it.
            reference: the previous result, for rules with a memory.

        Returns:
            The aggregate in the shape of a row, with the dtype of ``x`` (f64 for integers), on its device.

        Raises:
            ConfigError: fewer rows than the rule needs, another shape, or a value that is not finite.
        """
        from securefl.scenario import direct  # noqa: PLC0415 - numpy

        return direct.aggregate(self, x, weights, server_gradient, reference)

    def facts(self, plan: Aggregation, p_clean: float) -> Iterator[header.Sentence]:
        """Yield sentences for the header of a run.

        Args:
            plan: the table that the rule is in.
            p_clean: probability that the largest cluster has no Byzantine member.
        """
        _ = plan, p_clean
        yield from ()

    def check(self, path: str) -> None:
        """Refuse parameters that contradict each other.

        Args:
            path: of its table.

        Raises:
            ConfigError: naming a field of the table.
        """


class PreAggregation(parts.Part, tag_field="type", frozen=True, kw_only=True):
    """Other rows for a rule from the cluster means; a subclass is one way with its parameters."""

    homes: ClassVar[tuple[str, ...]] = ("securefl.methods.robust.pre_aggregation",)
    usual: ClassVar[str] = "norm-clipping"
    required: ClassVar[tuple[str, ...]] = ("prepare",)

    def rows_needed(self, rows: int) -> int:
        """Fewest rows that it turns into ``rows`` at least."""
        return rows

    def rows_left(self, rows: int) -> int:
        """The number of rows that it makes of ``rows``."""
        return rows

    def withstands(self, rows: int) -> int:
        """Most Byzantine rows, out of ``rows``, that leave honest ones honest."""
        return rows

    def prepare(self, stack: ClusterMeans, seed: bytes) -> tuple[ClusterMeans, npt.NDArray[np.intp] | None]:
        """The rule's stack, and by row of the old one the row of the new one in which it counts.

        None for the latter: the same. ``seed`` is 16 bytes or more that nobody could choose or foresee.
        """
        raise NotImplementedError

    def __call__(self, x: Any, *, seed: int = 0) -> Any:
        """Return the rows that a rule gets in place of your own rows ``x``.

        Args:
            x: as for :meth:`Rule.__call__`; the result has its form.
            seed: at least 0; of what is drawn.

        Raises:
            ConfigError: ``x`` is refused.
        """
        from securefl.scenario import direct  # noqa: PLC0415 - numpy

        return direct.prepare(self, x, seed)


class Aggregation(section.Section, frozen=True, kw_only=True):
    """The rule on cluster means and what the scenario claims of it."""

    rule: Rule = field(default_factory=partial(parts.default_of, Rule, "mean"))
    pre_aggregation: tuple[PreAggregation, ...] = ()
    """What the cluster means go through, in this order, before the rule."""
    byzantine: section.NonNegative = 0
    """Byzantine parties that the scenario reckons with."""
    claim: Literal["none", "average-case", "worst-case"] = "none"
    """``worst-case`` is refused unless the rule survives every placement of the Byzantine parties."""
