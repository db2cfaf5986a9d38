"""The ``[aggregation]`` table, and the bases of rules and pre-aggregations."""

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
"""Gradients of the server's own data for a rule. ``"all"``: of all samples, once a round. ``"training"``:
minus the update of local training, once a round. A number: of that many samples, drawn for every
reclustering.
"""


class Rule(parts.Part, tag_field="type", frozen=True, kw_only=True):
    """Base of aggregation rules. A subclass is one rule with its parameters; on arrays: ``rule(x)``.

    >>> import numpy as np, securefl
    >>> class First(securefl.Rule, frozen=True, kw_only=True):
    ...     def withstands(self, clusters):
    ...         return 0
    ...     def aggregate(self, stack):
    ...         return securefl.AggregationResult(stack.means[0].copy(), np.arange(stack.clusters) == 0)
    >>> First()(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([1., 2.])
    """

    homes: ClassVar[tuple[str, ...]] = ("securefl.methods.robust.rules",)
    usual: ClassVar[str] = "mean"
    required: ClassVar[tuple[str, ...]] = ("withstands", "aggregate")
    by_coordinate: ClassVar[bool] = False
    """True if each coordinate of the result depends only on that coordinate of the means."""

    @property
    def clusters_needed(self) -> int:
        """Least number of clusters that the rule needs."""
        return 1

    @property
    def server_data(self) -> ServerData:
        """Samples of its own that the server needs for the rule."""
        return "none"

    def withstands(self, clusters: int) -> int:
        """Return the largest number of Byzantine clusters that the rule provably tolerates.

        ``clusters`` is the number of all clusters, at least ``clusters_needed``.
        """
        raise NotImplementedError

    def aggregate(self, stack: ClusterMeans) -> AggregationResult:
        """Return the aggregate of ``stack``, which has at least ``clusters_needed`` rows.

        Raises:
            UsageError: the rule needs a server gradient that the stack lacks.
        """
        raise NotImplementedError

    def __call__(
        self, x: Any, *, weights: Any = None, server_gradient: Any = None, reference: Any = None
    ) -> Any:
        """Aggregate vectors of your own, as in ``TrimmedMean(trim=1)(x)``.

        Args:
            x: c rows of one shape, ``(c, ...)``: a numpy array, a torch tensor, or a list of either.
            weights: of the rows, ``(c,)``, > 0; equal by default.
            server_gradient: of the loss on the server's own data, in the shape of a row.
            reference: the previous result, for rules with a memory.

        Returns:
            A row, with the dtype of ``x`` (f64 for integers), on its device.

        Raises:
            ConfigError: too few rows, another shape, or a value that is not finite.
        """
        from securefl.scenario import direct  # noqa: PLC0415 - numpy

        return direct.aggregate(self, x, weights, server_gradient, reference)

    def facts(self, plan: Aggregation, p_clean: float) -> Iterator[header.Sentence]:
        """Yield sentences for the header of a run.

        ``p_clean`` is the probability that the largest cluster has no Byzantine member.
        """
        _ = plan, p_clean
        yield from ()

    def check(self, path: str) -> None:
        """Check that parameters do not contradict each other; ``path`` is that of the table.

        Raises:
            ConfigError: they do; it names a field of the table.
        """


class PreAggregation(parts.Part, tag_field="type", frozen=True, kw_only=True):
    """Base of transformations of cluster means before a rule. A subclass is one of them.

    >>> import numpy as np, securefl
    >>> from dataclasses import replace
    >>> class Half(securefl.PreAggregation, frozen=True, kw_only=True):
    ...     def prepare(self, stack, seed):
    ...         return replace(stack, means=stack.means / 2), None
    >>> Half()(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[0.5, 1. ],
           [1.5, 2. ]])
    """

    homes: ClassVar[tuple[str, ...]] = ("securefl.methods.robust.pre_aggregation",)
    usual: ClassVar[str] = "norm-clipping"
    required: ClassVar[tuple[str, ...]] = ("prepare",)

    def rows_needed(self, rows: int) -> int:
        """Return the least number of input rows for ``rows`` output rows."""
        return rows

    def rows_left(self, rows: int) -> int:
        """Return the number of output rows for ``rows`` input rows."""
        return rows

    def withstands(self, rows: int) -> int:
        """Return the number of Byzantine rows among ``rows`` that leave the honest output rows honest."""
        return rows

    def prepare(self, stack: ClusterMeans, seed: bytes) -> tuple[ClusterMeans, npt.NDArray[np.intp] | None]:
        """Return the rows for the rule, and the output row that contains each input row.

        The second result is i64 ``(c,)``, or None if rows keep their indices. ``seed`` has at least 16 bytes
        that no party can choose or predict.
        """
        raise NotImplementedError

    def __call__(self, x: Any, *, seed: int = 0) -> Any:
        """Transform your own rows ``x`` as for a rule.

        ``x`` is as for :meth:`Rule.__call__`; the result has its form. ``seed`` >= 0 is that of the draws.

        Raises:
            ConfigError: ``x`` is refused.
        """
        from securefl.scenario import direct  # noqa: PLC0415 - numpy

        return direct.prepare(self, x, seed)


class Aggregation(section.Section, frozen=True, kw_only=True):
    """Rule on cluster means, and the claim about its robustness.

    >>> from securefl.sections import Aggregation
    >>> Aggregation(byzantine=1).rule
    Mean()
    """

    rule: Rule = field(default_factory=partial(parts.default_of, Rule, "mean"))
    """Aggregation rule."""
    pre_aggregation: tuple[PreAggregation, ...] = ()
    """Steps on the cluster means before the rule, in this order."""
    byzantine: section.NonNegative = 0
    """Assumed number of Byzantine parties, also for the evidence of checks."""
    claim: Literal["none", "average-case", "worst-case"] = "none"
    """Claim that the rule withstands ``byzantine`` parties. ``worst-case``: for every placement of them,
    else refused. ``average-case``: the header states the probability for random clusters."""


def rule_names() -> tuple[str, ...]:
    """Return the names of all built-in rules, without importing them."""
    return parts.names(Rule)
