"""Outcome of a run in terms of ``[[expect]]``."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """End of a run or a simulation."""

    reason: str = ""
    aborted: bool = False
    interrupted: bool = False
    paused: bool = False
    """True if the same command continues the run that the user aborted."""
    decide: bool = False
    """True if a person must decide before the run continues."""
    untrained: bool = False
    cut: bool = False
    """True if an honest update had coordinates beyond ``encoding.range``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(RunEnd):
    """Measured metrics, as docs/fields.md defines them; None if not measured."""

    accuracy: float | None
    rounds: int
    survivors: int | None
    clusters_lost: int
    opened_sums: int
    refusals: int
    epsilon: float | None = None
    checks_failed: int | None = None
    skippers_failed: float | None = None
    false_alarms: int | None = None
    backdoor_success: float | None = None
    updates_refused: int = 0
    dishonest_counted: int = 0
    verified_rounds: int | None = None
    rounds_without_update: int = 0
    """Last rounds without a model: no sum was usable, or verifiers refused the step."""
    failures: int | None = None
    """Failed trainings of counted parties; None if unknown to this process."""
    beyond: int | None = None
    """Honest updates beyond ``encoding.range``; None if unknown to this process."""
    unchanged: int = 0
    evaluation: Mapping[str, float] = field(default_factory=dict)
    """Metrics by sites of the final model if ``stop.metric`` selects it, else of the last evaluated one."""
    deviations: Mapping[str, float] = field(default_factory=dict)
    """Standard deviations by noise of entries of :attr:`evaluation`."""

    def measure(self, metric: str, of: str | None = None) -> float | None:
        """Return the value of a metric of ``[[expect]]``, if any."""
        if of is not None:
            return self.evaluation.get(of)
        value: float | None = getattr(self, metric)
        return None if value is None else float(value)
