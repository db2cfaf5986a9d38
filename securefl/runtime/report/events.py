"""Event lines for people: one on each thing that happens in a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import assert_never

from securefl import scenario
from securefl.methods.metrics import Measured
from securefl.protocol.round import (
    AnyReport,
    ClaimConfirmed,
    ClaimRefused,
    ClustersDrawn,
    ConnectionBack,
    ConnectionLost,
    ConsultingFailed,
    Convicted,
    DrawVoided,
    EpochFollowed,
    EpochLed,
    InstanceLost,
    InstanceRetried,
    LinkFollowed,
    LoopStoodStill,
    MetricUnused,
    ModelFinal,
    ModelKept,
    ModelSent,
    ModelStepped,
    NothingLearned,
    PartiesJoined,
    QuorumAwaited,
    Repeated,
    RoundDone,
    RoundSkipped,
    RoundStarted,
    RunPaused,
    SatOut,
    SharesReleased,
    SlotsCounted,
    StepReached,
    SumChecked,
    SumOpened,
    SumsWithheld,
    SurvivorsFrozen,
    TriplesDealt,
    UpdateEncoded,
    UpdatesValidated,
    Versions,
    VersionsDiffer,
)
from securefl.runtime.report import records
from securefl.runtime.report.text import counted, digits, listed, percent, printable, seconds

MOST_TOLD = 4
"""Metrics in a round's line."""

Silent = (
    ClaimConfirmed
    | ClustersDrawn
    | LinkFollowed
    | ModelFinal
    | ModelKept
    | ModelSent
    | ModelStepped
    | Repeated
    | RoundSkipped
    | RoundStarted
    | SharesReleased
    | SlotsCounted
    | StepReached
    | SumOpened
    | TriplesDealt
)
"""Reports without a line of their own: the display shows what they say, or nobody needs to read it."""

OfRound = ClaimRefused | ConsultingFailed | Convicted | DrawVoided | MetricUnused | SurvivorsFrozen
"""Reports on what a round lacks."""


def event_text(report: AnyReport) -> str | None:
    """The line on a machine's report; None where it is not worth one."""
    if isinstance(report, Silent):
        return None
    if isinstance(report, OfRound):
        return _on_round(report)
    text: str | None
    match report:
        case PartiesJoined() | VersionsDiffer():
            text = _on_joining(report)
        case InstanceRetried() | InstanceLost() | SumChecked() | UpdatesValidated():
            text = _on_sum(report)
        case SumsWithheld():
            text = _on_withheld(report)
        case ConnectionLost() | ConnectionBack() | QuorumAwaited():
            text = _on_absence(report)
        case EpochLed() | EpochFollowed() | RunPaused():
            text = _on_server(report)
        case RoundDone():
            text = round_text(report)
        case SatOut() | NothingLearned() | UpdateEncoded() | LoopStoodStill():
            text = _on_party(report)
        case _:
            assert_never(report)
    return text


def _on_round(report: OfRound) -> str | None:
    """The line on who is missing from a round, on what it lacks, or on who broke it."""
    match report:
        case MetricUnused(round=round_, metric=metric, reason=reason):
            return f"round {round_}: {metric} is too noisy to stop or choose a model by: {reason}"
        case Convicted(round=round_, culprit=culprit, what=what):
            return f"round {round_}: evidence against {printable(culprit, 32)}: {printable(what)}"
        case ClaimRefused(round=round_, reason=reason):
            return f"round {round_}: its step is void: {printable(reason)}"
        case DrawVoided(round=round_, withheld=withheld):
            return f"round {round_}: draw void, nonce withheld by {listed(withheld)}; drawing again"
        case ConsultingFailed(round=round_, reason=reason):
            return f"round {round_}: no update, the rule needs the server's own data: {printable(reason)}"
        case SurvivorsFrozen(round=round_, survivors=survivors, dropped=dropped):
            told = f"round {round_}: {len(survivors)} of {len(survivors) + len(dropped)} survive"
            return f"{told}, without {listed(dropped)}" if dropped else None
        case _:
            assert_never(report)


def _on_joining(report: PartiesJoined | VersionsDiffer) -> str:
    """Return the line on the parties that are there, or on those with other versions."""
    match report:
        case PartiesJoined(present=present, missing=missing):
            absent = f"; missing: {listed(missing)}" if missing else ""
            return f"{len(present)} of {len(present) + len(missing)} parties present{absent}"
        case VersionsDiffer(own=own, others=others):
            return _on_versions(own, others)
        case _:
            assert_never(report)


_PROGRAMS = Versions("Python", "numpy", "securefl")


def _on_versions(own: Versions, others: Iterable[tuple[str, Versions]]) -> str:
    """Return the line on other versions: parties by what they run, the server's version beside it."""
    running: dict[tuple[int, str], list[str]] = {}
    for party, versions in others:
        for place, (version, servers) in enumerate(zip(versions, own, strict=True)):
            if version != servers:
                running.setdefault((place, version), []).append(party)
    parts = (
        f"{listed(names)} run{'s' if len(names) == 1 else ''} {_PROGRAMS[place]} {printable(version, 32)},"
        f" the server {own[place]}"
        for (place, version), names in sorted(running.items())
    )
    return f"versions differ: {'; '.join(parts)}"


def _on_server(report: EpochLed | EpochFollowed | RunPaused) -> str:
    """The line on a server that goes on where another one was, or stops for now."""
    match report:
        case EpochLed(epoch=epoch, round=round_):
            return f"the run goes on from the checkpoint of round {round_} (epoch {epoch})"
        case EpochFollowed(epoch=epoch):
            return f"the server was started again (epoch {epoch}); following it"
        case RunPaused(reason=reason):
            return f"the run pauses: {printable(reason)}; it goes on once the server is started again"
        case _:
            assert_never(report)


def _on_party(report: SatOut | NothingLearned | UpdateEncoded | LoopStoodStill) -> str | None:
    """The line on a report of a party to its own log."""
    match report:
        case SatOut(round=round_, reason=reason):
            return f"round {round_}: sits out, {printable(reason)}"
        case NothingLearned(round=round_, reason=reason):
            return f"round {round_}: sends zeros, {printable(reason)}"
        case LoopStoodStill(round=round_, seconds=stood):
            return (
                f"round {round_}: no message could pass for {seconds(stood)} while the site trained:"
                " it holds the interpreter lock; --site-python gives it its own process"
            )
        case UpdateEncoded(round=round_, saturated=saturated):
            beyond = f"round {round_}: {counted(saturated, 'coordinate')} cut at encoding.range: raise it"
            return beyond if saturated else None
        case _:
            assert_never(report)


def _on_absence(report: ConnectionLost | ConnectionBack | QuorumAwaited) -> str:
    """The line on an absence: of the broker, or of too many parties."""
    match report:
        case ConnectionLost():
            return "the broker is out of reach; deadlines stand still"
        case ConnectionBack(connection=connection, kept=kept):
            meanwhile = "with" if kept else "perhaps without"
            return f"the broker is back, {meanwhile} what came meanwhile (connection {connection})"
        case QuorumAwaited(round=round_, reason=reason, seconds=waited):
            return f"round {round_}: waiting for parties, {seconds(waited)} so far: {printable(reason)}"
        case _:
            assert_never(report)


def _on_withheld(report: SumsWithheld) -> str:
    """The line on reclusterings that stay closed, and why."""
    which = "reclustering" if len(report.reclusterings) == 1 else "reclusterings"
    numbers = " and ".join(map(str, report.reclusterings))
    return f"round {report.round}: {which} {numbers} {records.CLOSED}: {printable(report.reason)}"


def _on_sum(report: InstanceRetried | InstanceLost | SumChecked | UpdatesValidated) -> str | None:
    """The line on the fate of one sum."""
    where = f"round {report.round}: cluster {report.reclustering}.{report.cluster}"
    match report:
        case InstanceRetried(excluded=excluded):
            return f"{where} starts over without {listed(excluded)}"
        case UpdatesValidated(rejected=rejected):
            return f"{where} refuses {listed(rejected)}: update too long" if rejected else None
        case InstanceLost(reason=reason):
            return f"{where} lost, {printable(reason)}"
        case SumChecked(ok=ok, reason=reason):
            return None if ok else f"{where} left out by the checks, {printable(reason)}"
        case _:
            assert_never(report)


def sieve(groups: scenario.Groups) -> str:
    """The name of what leaves opened sums out, besides the checks."""
    return "rule" if groups.screen is None else "rule or screen"


def round_text(
    done: RoundDone,
    spent: float | None = None,
    *,
    by: str = "rule",
    heard: int | None = None,
    unchanged: bool = False,
) -> str:
    """One line on a round that ended.

    Args:
        done: how it ended.
        spent: its seconds.
        by: its :func:`sieve`.
        heard: parties in opened sums (:func:`securefl.runtime.report.records.heard_in`); None where nobody
            followed
            them: all survivors pass as counted, too many where a sum is lost or groups are hidden.
        unchanged: True if the step left the model as it was.
    """
    survivors = len(done.survivors) if heard is None else heard
    planned = len(done.opened) + len(done.lost)
    took = "" if spent is None else f", {seconds(spent)}"
    rejected = f", {counted(len(done.failed), 'cluster')} left out by the checks" if done.failed else ""
    rejected += f", {counted(len(done.rejected), 'cluster')} left out by the {by}" if done.rejected else ""
    same = ", the model did not change" if unchanged else ""
    return (
        f"round {done.round}: {tested_text(done)} {survivors} of {len(done.participants)}"
        f" counted, {len(done.opened)} of {counted(planned, 'sum')} opened{rejected}{same}{took}"
    )


def metrics_text(metrics: Sequence[Measured]) -> str:
    """``scores.auc 0.981 ± 0.003 (0.972 to 0.99)`` of each: number, noise, and how far clusters lie apart."""
    return ", ".join(
        f"{one.name} {digits(one.value)}"
        + (f" ± {digits(one.deviation)}" if one.deviation else "")
        + (f" ({digits(one.low)} to {digits(one.high)})" if one.clusters > 1 else "")
        for one in metrics
    )


def tested_text(done: RoundDone | records.RoundRecord) -> str:
    """``accuracy 96.1 %, loss 0.131,`` as a part of a round's line, with the backdoor's success if any."""
    if done.accuracy is None:
        # One number of each metric: all are in metrics.jsonl.
        first = {one.name.partition(".")[0]: one for one in reversed(done.metrics)}
        told = [one for one in done.metrics if one in first.values()]
        more = f", and {len(told) - MOST_TOLD} more" if len(told) > MOST_TOLD else ""
        return f"{metrics_text(told[:MOST_TOLD])}{more}," if told else "not tested,"
    backdoor = "" if done.backdoor_success is None else f" backdoor {percent(done.backdoor_success)},"
    return f"accuracy {percent(done.accuracy)}, loss {digits(done.loss)},{backdoor}"


def refusal_text(vantage: str, culprit: str, reason: str) -> str:
    """One line on a refusal."""
    return f"{printable(vantage, 32)} refused {printable(culprit, 32)}: {printable(reason)}"


def late_text(vantage: str, culprits: Mapping[str, int], what: str) -> str:
    """One line on late messages, which accuse no peer.

    Args:
        vantage: the process that ignored them.
        culprits: their senders, and how many each sent.
        what: the messages and the cause, as in ``securefl.protocol.round.without_late``.
    """
    messages = counted(sum(culprits.values()), "late message")
    return f"{printable(vantage, 32)} ignored {messages} of {listed(culprits)}: {printable(what)}"
