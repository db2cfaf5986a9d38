"""The phases of the server.

::

    Joining -> Greeting (-> Attesting) -> Revealing -> Summing -> (Certifying ->) Releasing (-> Consulting)
                  ^------------'  a withheld nonce voids the draw    -> Evaluating -> Greeting ...
                                                                                   -> Ended
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, get_type_hints

from securefl.base import crypto
from securefl.base.arrays import F32, F64, Ring
from securefl.base.entropy import Entropy
from securefl.base.ids import PartyId
from securefl.methods import clustering
from securefl.protocol import kernel, messages, secure_sum
from securefl.protocol.round.server.features.suspicion import NO_SUSPICION, Suspicion
from securefl.protocol.round.server.features.trust import NO_TRUST, Trust
from securefl.protocol.round.server.opened import OpenedRound
from securefl.protocol.round.server.waiting import Pace
from securefl.protocol.round.shared import budget, reports
from securefl.protocol.round.shared.additions.addition import NO_VALUES, StartValues
from securefl.protocol.round.shared.chain import Attested, CertifiedRound, ChainLink
from securefl.protocol.round.shared.draw import Draw
from securefl.protocol.round.shared.online import OnlineClock
from securefl.protocol.round.shared.plan import RunPlan

NOBODY_GONE: Mapping[PartyId, float] = MappingProxyType({})
NOTHING_REPORTED: Mapping[PartyId, messages.Software] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ServerContext:
    """Constants of a server machine, given when it is made."""

    plan: RunPlan
    identity: crypto.Identity = field(repr=False)
    """Opens the releases that are sealed to the server."""
    store: secure_sum.VectorStore
    initial: F32 = field(repr=False)
    """Parameters before the first round, shape (d,)."""
    entropy: Entropy = field(repr=False)
    resumed: Resumed | None = None
    """What an earlier server of the run has left behind; None for the first."""
    software: messages.Software | None = None
    """Its versions, which those of parties are compared with; None for no comparison."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a server goes on from after it was killed."""

    epoch: int
    """The last one that it has led."""
    standing: Standing
    done: reports.RoundDone | None = None
    """The round that made the model, if that is still to be tested; None where a round is to begin."""
    certified: Certified | None = None
    """The round whose shares were asked for; None where none were."""
    norm: float | None = None
    """L2 norm of the update that made the model of ``done``; None if there was no update."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """The state of an earlier server of the run, as far as it is written down."""

    checkpoint: Checkpoint
    announced: int = -1
    """The last round of which the draw was announced."""
    drew: tuple[tuple[tuple[PartyId, ...], ...], ...] = ()
    """Its clusters, by reclustering; none where it did not come to that."""
    atom_seed: bytes = b""
    """Seed of the atoms that were formed in some round, whoever has heard of them; empty for none."""
    claimed: tuple[int, bytes] = (-1, b"")
    """Round and root of the last claim that was, or was about to be, proven to anybody."""

    @property
    def last_round(self) -> int:
        """The last round that the earlier server announced or finished; -1 if there is none."""
        return max(self.announced, self.checkpoint.standing.round - 1)


@dataclass(frozen=True, slots=True)
class Stated:
    """The word of a party that joins, about what it has seen of the run."""

    epoch: int
    round: int


@dataclass(frozen=True, slots=True)
class Pending:
    """A claim that is not confirmed yet."""

    link: ChainLink
    certified: CertifiedRound
    before: Standing
    """Where the round goes back to if the claim is not confirmed."""
    asked: Mapping[kernel.Place, frozenset[PartyId]]
    """Who is to attest what: a sum, or the step."""
    attests: Mapping[kernel.Place, Mapping[PartyId, bytes]] = field(default_factory=dict, repr=False)
    """Signed frames."""


@dataclass(frozen=True, slots=True)
class BestSoFar:
    """The model of which ``stop.metric`` says most good so far."""

    round: int
    """The round that began with it."""
    value: float
    params: F32 = field(repr=False)


class FeatureSlot:
    """State of one round feature, or of one part of the core, that the server carries from round to round."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ServerSession:
    """State of one server process; no checkpoint holds it."""

    gone: Mapping[PartyId, float] = field(default_factory=lambda: NOBODY_GONE)
    """Parties whose connection broke, by the broker's report, and the time: a hint that shortens waiting."""
    pace: Pace = field(default_factory=Pace, compare=False)
    """Pace of the present step; in sums, the time when the first of them began."""
    clock: OnlineClock = field(default_factory=OnlineClock)
    """Clock of all times in the server's phases."""
    interrupted: bool = False
    """Whether the server lost the broker in this round."""
    leader: bytes = b""
    """Session in the epoch, which hellos are for."""
    elsewhere: frozenset[PartyId] = frozenset()
    """Parties that send hellos to the server of a later epoch."""
    ahead: frozenset[PartyId] = frozenset()
    """Parties that have seen the draw of a later round than this server's, by their own statement."""
    software: Mapping[PartyId, messages.Software] = field(default_factory=lambda: NOTHING_REPORTED)
    """Versions that parties report."""
    pausing: str = ""
    """Reason to stop before the next round; empty without one."""


@dataclass(frozen=True, slots=True)
class Quorum(FeatureSlot):
    """Attendance of the last rounds."""

    present: int = 0
    """Parties that said hello in the last round that had enough of them; 0 before."""
    lone_rounds: int = 0
    """Rounds in a row with too few parties."""
    lone_seconds: float = 0.0
    """Seconds of waiting for more parties in these rounds, online."""


@dataclass(frozen=True, slots=True)
class ModelProgress(FeatureSlot):
    """Best model so far, by ``stop.metric`` or by the accuracy on the server's test set."""

    best_accuracy: float = -1.0
    stale_rounds: int = 0
    """Rounds since the best accuracy, or the best value of ``stop.metric``."""
    best: BestSoFar | None = None
    """With ``stop.metric``: the best model that sites have evaluated."""
    unused_rounds: int = 0
    """Rounds whose ``stop.metric`` had too much noise to be used."""


@dataclass(frozen=True, slots=True)
class Claims(FeatureSlot):
    """Claims about the models, where rounds are verified."""

    chain: Attested | None = None
    """Last confirmed link of the chain of models."""
    pending: Pending | None = None
    """Claim of the last round, until it is confirmed or given up."""


@dataclass(frozen=True, slots=True)
class Standing:
    """State that the server carries from round to round: ten core fields, and one slot for each feature."""

    # In the order of the parts of a checkpoint file.
    round: int
    params: F32 = field(repr=False)
    moments: F64 = field(repr=False)
    """Moments of the server optimiser, f64 ``(s, k d)``."""
    progress: ModelProgress = field(default_factory=ModelProgress)
    """Slot of the ends of a run."""
    updates: int = 0
    """Rounds that gave an update."""
    fruitless_rounds: int = 0
    """Rounds in a row without any update."""
    trust: Trust = NO_TRUST
    """Slot of rules with a memory: trust in the parties."""
    suspicion: Suspicion = field(default_factory=lambda: NO_SUSPICION)
    """Slot of the checks: evidence so far, and its subjects."""
    before: F32 | None = field(default=None, repr=False)
    """Slot of the former model: parameters of the round before, for parties' momentum."""
    releases: budget.Releases = field(default_factory=lambda: budget.NO_RELEASES)
    """Slot of the release budget: number of releases of each party, with privacy."""
    atom_seed: bytes = b""
    """Slot of hidden groups: seed of the run's atoms; empty before they are formed, or without."""
    barred: frozenset[PartyId] = frozenset()
    """Slot of exclusion: parties that shared another secret than they advertised and so cost a sum."""
    late: frozenset[PartyId] = frozenset()
    """Parties that missed a deadline and have not sent anything since."""
    quorum: Quorum = field(default_factory=Quorum)
    claims: Claims = field(default_factory=Claims)
    """Slot of verified rounds."""
    epoch: int = 0
    """Epoch that this server leads; 0 while it leads none."""
    values: StartValues = field(default_factory=lambda: NO_VALUES)
    """Slot of additions: values that the server announces at the start of the round."""
    session: ServerSession = field(default_factory=ServerSession)

    @classmethod
    def parts(cls) -> Mapping[str, tuple[str, Any]]:
        """Return what outlasts a process: by the name of each part, its slot (or "") and its type."""
        found: dict[str, tuple[str, Any]] = {}
        for name, kind in get_type_hints(cls).items():
            if isinstance(kind, type) and issubclass(kind, FeatureSlot):
                found |= {part: (name, of) for part, of in get_type_hints(kind).items()}
            elif kind is not ServerSession:
                found[name] = ("", kind)
        return found

    def lasting(self) -> dict[str, Any]:
        """Return the parts that outlast a process by name."""
        parts = self.parts().items()
        return {name: getattr(getattr(self, slot) if slot else self, name) for name, (slot, _) in parts}

    @classmethod
    def of(cls, lasting: Mapping[str, Any]) -> Standing:
        """Return the state with these parts; the others are as in a new run."""
        slots: dict[str, dict[str, Any]] = {"": {}}
        for name, (slot, _) in cls.parts().items():
            if name in lasting:
                slots.setdefault(slot, {})[name] = lasting[name]
        core, kinds = slots.pop(""), get_type_hints(cls)
        return cls(**core, **{slot: kinds[slot](**parts) for slot, parts in slots.items()})


@dataclass(frozen=True, slots=True)
class Joining:
    """Waiting for the parties to turn up."""

    standing: Standing
    joined: frozenset[PartyId]
    deadline: float
    stated: Mapping[PartyId, Stated] = field(default_factory=dict)
    """What they say that they have seen of the run."""


@dataclass(frozen=True, slots=True)
class Greeting:
    """Invited; collecting hellos."""

    standing: Standing
    draw: int
    model: bytes
    excluded: frozenset[PartyId]
    hellos: Mapping[PartyId, tuple[messages.Hello, bytes]] = field(repr=False)
    """Hello and its signed frame."""
    deadline: float
    """Until model and invitation have left, ``deadlines.quorum`` from the round's beginning."""
    sent: bool = False
    """Whether they have left."""
    waits: int = 0
    """Deadlines that have passed with too few hellos."""
    again: frozenset[PartyId] = frozenset()
    """Parties to whom the model has been sent once more: their processes have started since it left."""


@dataclass(frozen=True, slots=True)
class Revealing:
    """Announced; collecting nonces."""

    standing: Standing
    draw: int
    model: bytes
    excluded: frozenset[PartyId]
    hellos: Mapping[PartyId, messages.Hello]
    reveals: Mapping[PartyId, tuple[messages.Reveal, bytes]] = field(repr=False)
    deadline: float


@dataclass(frozen=True, slots=True)
class RoundView:
    """The fixed data of a round once its clusters are drawn."""

    model: bytes
    announced: bytes
    """Digest of all hellos."""
    limits: Mapping[PartyId, messages.Limits] = field(repr=False)
    """What each of them demands."""
    drawn: Draw
    samples: Mapping[PartyId, int]
    """What everybody who is present has declared."""

    @property
    def assignment(self) -> clustering.Assignment:
        """The round's clusters."""
        return self.drawn.assignment


@dataclass(frozen=True, slots=True)
class Summing:
    """All R x c instances at work, each at its own step with its own deadline."""

    standing: Standing
    view: RoundView
    instances: Mapping[reports.ClusterKey, secure_sum.ServerPhase]
    deadlines: Mapping[reports.ClusterKey, float]
    began: Mapping[reports.ClusterKey, float]
    """When the step of each began."""
    paces: Mapping[str, Pace] = field(default_factory=dict)
    """By kind of step, over all instances: in one of them too few could answer to know what is usual."""


@dataclass(frozen=True, slots=True)
class Frozen:
    """The result of the freeze: the survivor set and the instances that can be opened."""

    survivors: frozenset[PartyId]
    statement: bytes
    ledger: bytes
    """Head of the leakage ledger, as every survivor signs it."""
    instances: Mapping[reports.ClusterKey, secure_sum.CollectingInputs]
    commitments: Mapping[reports.ClusterKey, bytes] = field(default_factory=dict)
    """What fixes each sum, in the order of their keys; nothing where sums are not verified."""

    @property
    def holders(self) -> frozenset[PartyId]:
        """The parties that have to release: the survivors, and those who hold shares of their updates."""
        instances = self.instances.values()
        return self.survivors.union(*(i.names(i.holders(self.survivors)) for i in instances))


@dataclass(frozen=True, slots=True)
class Certified:
    """A round whose shares are asked for, as a server that is started again asks for them once more."""

    view: RoundView
    frozen: Frozen
    """Of no use are the handles of its inputs: they are another server's."""
    certificate: tuple[bytes, ...]
    """Signed frames; none where the freeze itself asked for shares."""
    totals: Mapping[reports.ClusterKey, bytes] = field(repr=False)
    """Sums of masked vectors, as vectors travel; of sums that are verified ``vectors`` instead."""
    vectors: Mapping[reports.ClusterKey, Mapping[int, bytes]] = field(repr=False)
    """Masked vectors by member number."""


@dataclass(frozen=True, slots=True)
class Certifying:
    """Collecting endorsements of the survivor set."""

    standing: Standing
    view: RoundView
    frozen: Frozen
    endorsements: Mapping[PartyId, tuple[messages.Endorse, bytes]] = field(repr=False)
    deadline: float


@dataclass(frozen=True, slots=True)
class Releasing:
    """Collecting released shares. The update is spent, whatever happens now."""

    standing: Standing
    view: RoundView
    frozen: Frozen
    released: frozenset[PartyId]
    shares: Mapping[reports.ClusterKey, Mapping[PartyId, secure_sum.Opening]] = field(repr=False)
    deadline: float
    counts: tuple[reports.SlotsCounted, ...] | None = None
    """What the counts of hidden groups say, once they are opened and their slots are asked for."""
    totals: Mapping[reports.ClusterKey, Ring] = field(default_factory=dict, repr=False)
    """Sums of masked vectors, shape (d,), where they are added up before the shares come."""
    again: bool = False
    """Whether an earlier server has asked for the same shares: what was sent to it may come as well."""

    @property
    def awaited(self) -> frozenset[PartyId]:
        """Whoever holds shares of what is to be opened; with slots, the survivors of their clusters."""
        if self.counts is None:
            return self.frozen.holders
        asked = {one.cluster for one in self.counts if one.slots}
        members = (i.setup.members for (_, j), i in self.frozen.instances.items() if j in asked)
        return self.frozen.survivors.intersection(party for row in members for party in row)


@dataclass(frozen=True, slots=True)
class Consulting:
    """All is opened; waiting for gradients of the server's own data, which the rule needs."""

    standing: Standing
    opened: OpenedRound
    asked: tuple[int, ...]
    """The reclusterings, in the order in which gradients come."""


@dataclass(frozen=True, slots=True)
class Attesting:
    """Everything else is there; waiting for those who repeat what the last round came to."""

    standing: Standing
    deadline: float
    then: Greeting | kernel.Finished | None
    """What goes on if they confirm it: the next round, or the end. None where a server that was started again
    begins the next one, with this model or with the one before."""


@dataclass(frozen=True, slots=True)
class Evaluating:
    """The model has stepped; waiting for its accuracy."""

    standing: Standing
    done: reports.RoundDone
    """With accuracy and loss still to be filled in."""
    norm: float | None = None
    """L2 norm of the aggregated update; None if there was none."""
    again: bool = False
    """Whether a server tests it that was started again."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The run is over."""

    goodbye: messages.Goodbye | None
    """What everybody was told, and whoever joins late is told again. None where the run goes on."""


RunningPhase = (
    Joining | Greeting | Revealing | Summing | Certifying | Releasing | Consulting | Attesting | Evaluating
)
ServerPhase = RunningPhase | Ended
