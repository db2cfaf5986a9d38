"""Facts that machines report for metrics, progress and transcripts. No secrets, by construction.

A report says what its vantage point knows anyway: the server from what came in, a party from what it sent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, TypeGuard, get_args

from securefl.base.arrays import F32
from securefl.base.ids import PartyId
from securefl.methods.metrics import Doubted, Measured
from securefl.protocol import kernel, messages
from securefl.protocol.round.server.stacking import ClusterSum
from securefl.protocol.round.shared.charges import Charge

ClusterKey = tuple[int, int]
"""(reclustering, cluster)."""

Group = tuple[PartyId, ...]
"""Parties that evidence is about as a whole."""


class Suspect(NamedTuple):
    """Evidence of checks over rounds that parties leave the plan, in decimal digits of e-values."""

    parties: Group
    highest: float
    """The most it ever was: this counts."""
    now: float


@dataclass(frozen=True, slots=True)
class PartiesJoined:
    """Server: who was there when the run started."""

    present: tuple[PartyId, ...]
    missing: tuple[PartyId, ...]


class Versions(NamedTuple):
    """Versions of the software of one process."""

    python: str
    numpy: str
    securefl: str


@dataclass(frozen=True, slots=True)
class VersionsDiffer:
    """Server: parties with other versions than its own, on which last bits of results may depend."""

    own: Versions
    others: tuple[tuple[PartyId, Versions], ...]


@dataclass(frozen=True, slots=True)
class ConnectionLost:
    """Server and party: it has lost the broker."""


@dataclass(frozen=True, slots=True)
class ConnectionBack:
    """Server and party: it has the broker again."""

    connection: int
    """Which one of its connections this is."""
    kept: bool
    """Whether the broker kept what came in the meantime."""


@dataclass(frozen=True, slots=True)
class RoundStarted:
    """Server: a new round, with the digest of its model."""

    round: int
    model_digest: bytes


@dataclass(frozen=True, slots=True)
class StepReached:
    """Server: the round entered this step (``step`` is a key of the deadlines section)."""

    round: int
    step: str


@dataclass(frozen=True, slots=True)
class ModelSent:
    """Server: the model and the invitation of a draw have left; from now on hellos have their time."""

    round: int
    draw: int


@dataclass(frozen=True, slots=True)
class QuorumAwaited:
    """Server: too few parties are there for the round, and it waits on."""

    round: int
    reason: str
    seconds: float
    """For how long in a row it has been online without enough of them."""


@dataclass(frozen=True, slots=True)
class DrawVoided:
    """Server: nonces were withheld, the draw is void."""

    round: int
    draw: int
    withheld: tuple[PartyId, ...]


@dataclass(frozen=True, slots=True)
class RoundSkipped:
    """Server: the round ends without clusters, and so without an update."""

    round: int
    reason: str


@dataclass(frozen=True, slots=True)
class ClustersDrawn:
    """Server and party: the round's certified assignment."""

    round: int
    assignment_digest: bytes
    clusters: tuple[tuple[tuple[PartyId, ...], ...], ...]
    resting: tuple[PartyId, ...] = ()
    """Parties that are there but were not drawn: they sit this round out."""
    seed: bytes = b""
    """The certified seed that the clusters follow from: public, as all nonces are."""
    counts: tuple[tuple[PartyId, int], ...] = ()
    """Declared sample counts of all who are there, from their signed hellos: the weights follow from them."""
    atom_seed: bytes = b""
    """The seed of the run's atoms, public; empty where there are none."""
    tasks: tuple[int, ...] = ()
    """The task group of each cluster, where parties tell theirs."""
    groups: tuple[tuple[PartyId, int], ...] = ()
    """What each party that was there told, drawn or not; empty where groups are hidden."""
    cap: int | None = None
    """U: the declared count that weighs 1; None where all weigh the same."""


@dataclass(frozen=True, slots=True)
class InstanceRetried:
    """Server: an instance starts over without the excluded members."""

    round: int
    reclustering: int
    cluster: int
    attempt: int
    excluded: tuple[PartyId, ...]


@dataclass(frozen=True, slots=True)
class InstanceLost:
    """Server: this instance will not be opened in this round."""

    round: int
    reclustering: int
    cluster: int
    reason: str


@dataclass(frozen=True, slots=True)
class UpdatesValidated:
    """Server: whose updates of an instance passed the checks of all others, and whose did not."""

    round: int
    reclustering: int
    cluster: int
    attempt: int
    accepted: tuple[PartyId, ...]
    rejected: tuple[PartyId, ...]
    projections: int
    """Numbers about each of these updates that the dealer and one evaluator know together."""


@dataclass(frozen=True, slots=True)
class TriplesDealt:
    """Dealer: an attempt got its triples."""

    round: int
    reclustering: int
    cluster: int
    attempt: int
    members: int


@dataclass(frozen=True, slots=True)
class SurvivorsFrozen:
    """Server and party: the global survivor set, and the participants that are not in it."""

    round: int
    survivors: tuple[PartyId, ...]
    dropped: tuple[PartyId, ...]


@dataclass(frozen=True, slots=True)
class SumsWithheld:
    """Server and party: what the leakage ledger keeps closed, as somebody's limit would be crossed."""

    round: int
    reclusterings: tuple[int, ...]
    crossed: tuple[tuple[PartyId, ...], ...]
    """For each of them, whose limits it would cross on top of those that are opened."""
    reason: str
    """Of the first crossing, for people."""


@dataclass(frozen=True, slots=True)
class SlotsCounted:
    """Counts of a cluster's survivors in each hidden group, and which of these sums are opened.

    The server says it of each cluster whose counts it opened; a member of its own, as the server told it.
    """

    round: int
    cluster: int
    counts: tuple[int, ...]
    """As opened; a member that lies makes them anything."""
    slots: tuple[int, ...]
    """Groups whose sums may be opened; none where the counts are impossible."""
    seats: tuple[int, ...] = ()
    """The seats that are taken, ascending; none where the counts are impossible."""


@dataclass(frozen=True, slots=True)
class SumOpened:
    """Server: one cluster sum was opened."""

    round: int
    opened: ClusterSum


@dataclass(frozen=True, slots=True)
class SumChecked:
    """Server: whether a sum looks like the noise that was agreed; if not, the rule does not see it."""

    round: int
    reclustering: int
    cluster: int
    ok: bool
    p_value: float
    """Of all checks together."""
    reason: str
    e_values: tuple[float, ...]
    """Evidence against it by kind of check; none from the published pair."""


@dataclass(frozen=True, slots=True)
class ConsultingFailed:
    """Server: its own data gave no gradient, so that the rule is not applied and the round has no update."""

    round: int
    reason: str


@dataclass(frozen=True, slots=True)
class ModelStepped:
    """Server: the update was aggregated (``update_norm`` is None when there was none) and applied."""

    round: int
    kept: tuple[ClusterKey, ...]
    rejected: tuple[ClusterKey, ...]
    update_norm: float | None


@dataclass(frozen=True, slots=True)
class RoundDone:
    """Server: the round is over; ``accuracy`` and ``loss`` are None where it has no test set."""

    round: int
    accuracy: float | None
    loss: float | None
    participants: tuple[PartyId, ...]
    survivors: tuple[PartyId, ...]
    opened: tuple[ClusterKey, ...]
    lost: tuple[ClusterKey, ...]
    kept: tuple[ClusterKey, ...]
    rejected: tuple[ClusterKey, ...]
    """Left out by the rule."""
    failed: tuple[ClusterKey, ...] = ()
    """Left out by the checks."""
    backdoor_success: float | None = None
    """Share of patched test samples that get the backdoor's class; None where none is looked for."""
    suspects: tuple[Suspect, ...] = ()
    """The evidence of the checks so far, this round's included."""
    metrics: tuple[Measured, ...] = ()
    """What sites say of the model that the round began with."""
    doubted: tuple[Doubted, ...] = ()
    """Sums whose metrics are impossible."""


@dataclass(frozen=True, slots=True)
class MetricUnused:
    """Server: ``stop.metric`` has too much noise to stop by, for the first time; later rounds are silent."""

    round: int
    metric: str
    reason: str


@dataclass(frozen=True, slots=True)
class ModelFinal:
    """Server: the parameters at the end of the run."""

    round: int
    params: F32


@dataclass(frozen=True, slots=True)
class ModelKept:
    """Server: the best parameters by ``stop.metric``; party: those that it was told are best."""

    round: int
    """That began with them."""
    params: F32


@dataclass(frozen=True, slots=True)
class UpdateEncoded:
    """Party: an update is encoded; how many coordinates lay beyond the encoding's range."""

    round: int
    work: int
    saturated: int


@dataclass(frozen=True, slots=True)
class NothingLearned:
    """Party: local work gave nothing that may be sent; zeros went in its place. For its own log alone."""

    round: int
    work: int
    reason: str


@dataclass(frozen=True, slots=True)
class LoopStoodStill:
    """Party: its process sent and received nothing for a while, since training held the interpreter lock."""

    round: int
    seconds: float


@dataclass(frozen=True, slots=True)
class SharesReleased:
    """Party: it has released its shares for these instances, once.

    The other fields have one entry per instance. They name the members whose shares were given, never the
    shares.
    """

    round: int
    instances: tuple[ClusterKey, ...]
    attempts: tuple[int, ...] = ()
    seeds_of: tuple[tuple[PartyId, ...], ...] = ()
    """Members whose self-mask seed a share was given of: those that the sum counts.

    To a CrypTen sum each member gives the seed of its own blind only; then these are the members of that sum.
    """
    keys_of: tuple[tuple[PartyId, ...], ...] = ()
    """Members whose mask key a share was given of."""


@dataclass(frozen=True, slots=True)
class SatOut:
    """Party: it does not take part in the rest of this round."""

    round: int
    reason: str


@dataclass(frozen=True, slots=True)
class Repeated:
    """A party has repeated an opening, or the step, and it comes to what the server claims."""

    round: int
    reclustering: int
    cluster: int
    """-1 both for the step."""
    root: bytes


@dataclass(frozen=True, slots=True)
class LinkFollowed:
    """A party goes on with a model of which it knows that the chain confirms it."""

    round: int
    """Whose step made the model; -1 for the first."""
    root: bytes


@dataclass(frozen=True, slots=True)
class ClaimConfirmed:
    """Verifiers have confirmed what the server made of a round."""

    round: int
    root: bytes
    verifiers: int


@dataclass(frozen=True, slots=True)
class ClaimRefused:
    """The server's step is void: not all certified sums opened, or verifiers have not confirmed it."""

    round: int
    reason: str


@dataclass(frozen=True, slots=True)
class EpochLed:
    """Server: it leads a run that an earlier one has led before."""

    epoch: int
    round: int
    """The next one, or the one whose model is to be tested again."""


@dataclass(frozen=True, slots=True)
class EpochFollowed:
    """Party: it follows another server than before."""

    epoch: int


@dataclass(frozen=True, slots=True)
class RunPaused:
    """The server stops, and the run goes on once it is started again."""

    reason: str


@dataclass(frozen=True, slots=True)
class Convicted:
    """Server and party: somebody broke the protocol, and this convinces anybody of it."""

    round: int
    culprit: str
    what: str
    charge: Charge = field(repr=False)
    """It may hold an opened sum, so that it stays beside the transcript, in a file for its owner only."""


AnyReport: TypeAlias = (
    PartiesJoined
    | VersionsDiffer
    | ConnectionLost
    | ConnectionBack
    | RoundStarted
    | StepReached
    | ModelSent
    | QuorumAwaited
    | DrawVoided
    | RoundSkipped
    | ClustersDrawn
    | InstanceRetried
    | InstanceLost
    | UpdatesValidated
    | TriplesDealt
    | SurvivorsFrozen
    | SumsWithheld
    | SlotsCounted
    | SumOpened
    | SumChecked
    | ConsultingFailed
    | ModelStepped
    | RoundDone
    | MetricUnused
    | ModelFinal
    | ModelKept
    | UpdateEncoded
    | NothingLearned
    | LoopStoodStill
    | SharesReleased
    | SatOut
    | Repeated
    | LinkFollowed
    | ClaimConfirmed
    | ClaimRefused
    | EpochLed
    | EpochFollowed
    | RunPaused
    | Convicted
)
"""The closed set: whatever is not in this union is no report."""


RunEffect: TypeAlias = kernel.Effect[messages.AnyMessage, AnyReport]
"""What a machine of a run asks of its shell."""
Effects: TypeAlias = tuple[RunEffect, ...]
"""The same of one step, in order."""


def is_report(item: object) -> TypeGuard[AnyReport]:
    """Whether ``item`` is one of the facts of this module."""
    return isinstance(item, get_args(AnyReport))
