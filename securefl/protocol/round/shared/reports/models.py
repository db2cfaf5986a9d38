"""Reports on the round's models and metrics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from securefl.base import text
from securefl.base.arrays import F32
from securefl.base.ids import PartyId
from securefl.methods.metrics import Doubted, Measured
from securefl.protocol.round.shared.reports.base import AnyReport
from securefl.protocol.round.shared.reports.notes import ClusterKey, RoundNotes, SumSeen
from securefl.protocol.round.shared.reports.picture import DONE, AnyPicture, mark_parties

MOST_TOLD: Final = 4

Group = tuple[PartyId, ...]
"""Parties that evidence concerns as a whole."""


class Suspect(NamedTuple):
    """Evidence over rounds that parties deviate, in decimal digits of e-values."""

    parties: Group
    highest: float
    """Largest value so far, which counts."""
    now: float


@dataclass(frozen=True, slots=True)
class ConsultingFailed(AnyReport):
    """Server: its own data gave no gradient, so there is no update."""

    round: int
    reason: str

    def line(self) -> str:
        why = text.printable(self.reason)
        return f"round {self.round}: model not changed, the rule could not use the server's own data: {why}"


@dataclass(frozen=True, slots=True)
class ModelStepped(AnyReport):
    """Server: the update was aggregated and applied; ``update_norm`` is None without one."""

    round: int
    kept: tuple[ClusterKey, ...]
    rejected: tuple[ClusterKey, ...]
    update_norm: float | None

    def note(self, notes: RoundNotes) -> None:
        notes.norm = self.update_norm
        notes.enter_step("evaluate")

    def show(self, picture: AnyPicture) -> AnyPicture:
        picture = replace(picture, step="evaluate")
        for key in self.rejected:
            picture = mark_parties(picture, picture.members(key), "rejected")
        return picture


@dataclass(frozen=True, slots=True)
class StepRestored(AnyReport):
    """Server: it tests the model of an earlier server's step."""

    round: int
    update_norm: float | None
    sums: tuple[SumSeen, ...] = ()
    """Sums that the earlier server opened; empty if unknown."""

    def note(self, notes: RoundNotes) -> None:
        notes.norm = self.update_norm
        notes.sums.extend(self.sums)


@dataclass(frozen=True, slots=True)
class ValuesMoved(AnyReport):
    """Server: announced values of this round and the next."""

    round: int
    values: Mapping[str, float]
    following: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ClipMoved(AnyReport):
    """Server: clips of this round's updates and the next's."""

    round: int
    clip: float
    """L2 norm, in the parameters' unit."""
    share: float | None
    """Share of updates within the clip, with noise; None if no sum of bits counted."""
    following: float

    def line(self) -> str:
        share = "?" if self.share is None else f"{self.share:.2f}"
        return (
            f"round {self.round}: clip {self.clip:.4g}, share of updates below it {share},"
            f" next clip {self.following:.4g}"
        )


@dataclass(frozen=True, slots=True)
class RoundDone(AnyReport):
    """Server: the round is over; ``accuracy`` and ``loss`` are None without a test set."""

    round: int
    accuracy: float | None
    loss: float | None
    participants: tuple[PartyId, ...]
    survivors: tuple[PartyId, ...]
    opened: tuple[ClusterKey, ...]
    lost: tuple[ClusterKey, ...]
    kept: tuple[ClusterKey, ...]
    rejected: tuple[ClusterKey, ...]
    """Clusters that the rule left out."""
    failed: tuple[ClusterKey, ...] = ()
    """Clusters that failed a check."""
    backdoor_success: float | None = None
    """Share of patched test samples classified as the backdoor's class."""
    suspects: tuple[Suspect, ...] = ()
    metrics: tuple[Measured, ...] = ()
    """Site metrics of the model that the round began with."""
    doubted: tuple[Doubted, ...] = ()
    """Sums with impossible metrics."""

    def line(
        self,
        spent: float | None = None,
        *,
        by: str = "rule",
        heard: int | None = None,
        unchanged: bool = False,
    ) -> str:
        """Return one line on the round, which took ``spent`` seconds.

        ``by`` names the filters of opened sums, besides the checks. ``heard`` counts parties in opened sums;
        None counts all survivors: too many if a sum is lost or groups are hidden.
        """
        survivors = len(self.survivors) if heard is None else heard
        planned = len(self.opened) + len(self.lost)
        took = "" if spent is None else f", {text.seconds(spent)}"
        out = ((self.failed, "checks"), (self.rejected, by))
        rejected = "".join(
            f", {text.count_of(len(keys), 'cluster')} left out by the {what}" for keys, what in out if keys
        )
        same = ", the model did not change" if unchanged else ""
        tested = tested_text(self.accuracy, self.loss, self.backdoor_success, self.metrics)
        return (
            f"round {self.round}: {tested} {survivors} of {len(self.participants)} counted,"
            f" {len(self.opened)} of {text.count_of(planned, 'sum')} opened{rejected}{same}{took}"
        )

    def show(self, picture: AnyPicture) -> AnyPicture:
        tested = () if self.accuracy is None else (self.accuracy,)
        picture = replace(picture, done=picture.done + 1, ended=picture.now, step=DONE)
        return replace(picture, accuracies=(*picture.accuracies, *tested), backdoor=self.backdoor_success)


@dataclass(frozen=True, slots=True)
class MetricUnused(AnyReport):
    """Server: ``stop.metric`` is too noisy to stop by; reported in the first such round."""

    round: int
    metric: str
    reason: str

    def line(self) -> str:
        return f"round {self.round}: {self.metric} is too noisy to stop or choose a model by: {self.reason}"


@dataclass(frozen=True, slots=True)
class ModelFinal(AnyReport):
    """Server: parameters at the end of the run."""

    round: int
    params: F32


@dataclass(frozen=True, slots=True)
class ModelKept(AnyReport):
    """Server: best parameters by ``stop.metric``, with which ``round`` began; party: those received."""

    round: int
    params: F32

    def own_line(self) -> str:
        return f"best model so far: that of round {self.round}, written to the run's directory"


def metrics_text(metrics: Sequence[Measured]) -> str:
    """Return ``scores.auc 0.981 ± 0.003 (0.972 to 0.99)`` for each: value, noise, range."""
    return ", ".join(
        f"{one.name} {text.digits(one.value)}"
        + (f" ± {text.digits(one.deviation)}" if one.deviation else "")
        + (f" ({text.digits(one.low)} to {text.digits(one.high)})" if one.clusters > 1 else "")
        for one in metrics
    )


def tested_text(
    accuracy: float | None, loss: float | None, backdoor: float | None, metrics: Sequence[Measured]
) -> str:
    """Return ``accuracy 96.1 %, loss 0.131,`` for a round's line, and any backdoor's success."""
    if accuracy is None:
        # One number per metric: all are in metrics.jsonl.
        first = {one.name.partition(".")[0]: one for one in reversed(metrics)}
        named = [one for one in metrics if one in first.values()]
        more = f", and {len(named) - MOST_TOLD} more" if len(named) > MOST_TOLD else ""
        return f"{metrics_text(named[:MOST_TOLD])}{more}," if named else "not tested,"
    shown = "" if backdoor is None else f" backdoor {text.rate(backdoor)},"
    return f"accuracy {text.rate(accuracy)}, loss {text.digits(loss)},{shown}"
