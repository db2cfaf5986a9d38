"""The outcome of a run, in the words of a scenario's ``[[expect]]``."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """End of a run or a simulation."""

    reason: str = ""
    aborted: bool = False
    interrupted: bool = False
    """True if the user aborted the run."""
    paused: bool = False
    """True if the same command continues the run that the user aborted."""
    decide: bool = False
    """True if a person must decide before this process may lead the run again."""
    untrained: bool = False
    """True if every training of a round failed."""
    cut: bool = False
    """True if an honest update had coordinates beyond ``encoding.range``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(RunEnd):
    """The measured metrics, as docs/fields.md defines them."""

    accuracy: float | None
    """Test accuracy of the final model, 0 to 1; None when no model was ever tested."""
    rounds: int
    """Rounds that ended with a new model."""
    survivors: int | None
    """Smallest number of parties that any of these rounds counted; None when there was none."""
    clusters_lost: int
    """Planned sums that were not opened, over all rounds and reclusterings."""
    opened_sums: int
    """Sums that were opened, over all rounds and reclusterings."""
    refusals: int
    """Messages that honest parties or the server refused."""
    epsilon: float | None = None
    """The privacy spent; None where the run has no differential privacy, which is no number at all."""
    checks_failed: int | None = None
    """Opened sums that the checks left out; None without checks."""
    skippers_failed: float | None = None
    """Of the opened sums that count a party without noise, the share that the checks left out, 0 to 1."""
    false_alarms: int | None = None
    """Sums that the checks left out though all whom they count keep to bounds and noise."""
    backdoor_success: float | None = None
    """Share of patched test samples that get the backdoor's class from the final model, 0 to 1; None where
    the scenario has no backdoor."""
    updates_refused: int = 0
    """Times that a party was left out because its update did not pass validation."""
    dishonest_counted: int = 0
    """Times that a party with a behaviour was counted in a round, whether it showed it there or not."""
    verified_rounds: int | None = None
    """Rounds whose step verifiers have confirmed; None where nobody repeats it."""
    fruitless: int = 0
    """Rounds at the end of the run that made no model: no sum was usable, or verifiers refused the step."""
    failures: int | None = None
    """Trainings that failed, over all rounds and counted parties; None where this process cannot know."""
    beyond: int | None = None
    """Updates of honest parties with coordinates beyond ``encoding.range``, over all rounds; None if this
    process cannot know."""
    unchanged: int = 0
    """Rounds whose step left the model as it was."""
    evaluation: Mapping[str, float] = field(default_factory=dict)
    """What sites said of the model that the run ends with where ``stop.metric`` picks it, else of the last
    model that they said anything of."""
    deviations: Mapping[str, float] = field(default_factory=dict)
    """Standard deviations by noise of those of :attr:`evaluation` that have some."""

    def measure(self, metric: str, of: str | None = None) -> float | None:
        """The value of one metric of ``[[expect]]``; None where there is nothing to measure."""
        if of is not None:
            return self.evaluation.get(of)
        value: float | None = getattr(self, metric)
        return None if value is None else float(value)
