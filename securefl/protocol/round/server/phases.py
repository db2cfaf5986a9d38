"""Phases of the server.

::

    Joining -> CollectingHellos (-> Attesting) -> CollectingNonces -> Summing -> (Certifying ->) Releasing
        (-> Consulting) -> Evaluating -> CollectingHellos ... -> Ended

A withheld nonce voids the draw, and leads from ``CollectingNonces`` back to ``CollectingHellos``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, get_type_hints

from securefl.base import crypto
from securefl.base.arrays import F32, F64, Ring
from securefl.base.entropy import Entropy
from securefl.base.ids import PartyId
from securefl.methods import clustering
from securefl.protocol import kernel, messages, secure_sum
from securefl.protocol.round.server.features.suspicion import NO_SUSPICION, Suspicion
from securefl.protocol.round.server.features.trust import NO_TRUST, Trust
from securefl.protocol.round.server.opened import OpenedRound
from securefl.protocol.round.server.session import ServerSession
from securefl.protocol.round.server.waiting import Pace
from securefl.protocol.round.shared import budget, reports
from securefl.protocol.round.shared.additions.addition import NO_VALUES, StartValues
from securefl.protocol.round.shared.chain import Attested, CertifiedRound, ChainLink
from securefl.protocol.round.shared.draw import Draw
from securefl.protocol.round.shared.plan import RunPlan


@dataclass(frozen=True, slots=True)
class ServerContext:
    """Constants of a server machine."""

    plan: RunPlan
    identity: crypto.Identity = field(repr=False)
    store: secure_sum.VectorStore
    initial: F32 = field(repr=False)
    """Parameters before the first round, (d,)."""
    entropy: Entropy = field(repr=False)
    resumed: Resumed | None = None
    """None for the run's first server."""
    software: messages.Software | None = None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """State that a killed server continues from."""

    epoch: int
    """Last epoch that the server led."""
    standing: ServerState
    done: reports.RoundDone | None = None
    """Report of a round whose model is to be tested."""
    certified: StoredOpening | None = None
    norm: float | None = None


@dataclass(frozen=True, slots=True)
class Resumed:
    """Stored state of an earlier server of the run."""

    checkpoint: Checkpoint
    announced: int = -1
    """Last round whose draw was announced."""
    drawn_clusters: tuple[tuple[tuple[PartyId, ...], ...], ...] = ()
    """Its clusters, by reclustering; empty if not drawn."""
    atom_seed: bytes = b""
    """Last formed one, even if unsent."""
    last_claim: tuple[int, bytes] = (-1, b"")
    """Round and root of the last claim that may have been proven."""

    @property
    def last_round(self) -> int:
        """Last round that the earlier server announced or finished; -1 if none."""
        return max(self.announced, self.checkpoint.standing.round - 1)


@dataclass(frozen=True, slots=True)
class StatedProgress:
    """Progress that a joining party reports."""

    epoch: int
    round: int


@dataclass(frozen=True, slots=True)
class PendingClaim:
    """A claim that is not confirmed yet."""

    link: ChainLink
    certified: CertifiedRound
    before: ServerState
    """State to return to if the claim is not confirmed."""
    verifiers_by_place: Mapping[kernel.Place, frozenset[PartyId]]
    """Parties to attest each sum and the step."""
    attests: Mapping[kernel.Place, Mapping[PartyId, bytes]] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class BestOfRun:
    """Best model so far by ``stop.metric``."""

    round: int
    """Round that began with it."""
    value: float
    params: F32 = field(repr=False)


class FeatureSlot:
    """State of a feature, or of a part of the core, between rounds."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Attendance(FeatureSlot):
    """Attendance of the last rounds."""

    present: int = 0
    """Hellos in the last round with enough of them."""
    skipped_in_a_row: int = 0
    """Rounds in a row with too few parties."""
    waited_seconds: float = 0.0
    """Online seconds of waiting in these rounds."""


@dataclass(frozen=True, slots=True)
class ModelProgress(FeatureSlot):
    """Best model so far."""

    best_accuracy: float = -1.0
    stale_rounds: int = 0
    """Rounds since the best value."""
    best: BestOfRun | None = None
    unused_rounds: int = 0
    """Rounds with a too noisy ``stop.metric``."""


@dataclass(frozen=True, slots=True)
class Claims(FeatureSlot):
    """Claims about models in verified rounds."""

    chain: Attested | None = None
    """Last confirmed link."""
    pending: PendingClaim | None = None


STORED_NAMES: Final = {
    "excluded": "barred",
    "rounds_without_update": "fruitless_rounds",
    "skipped_in_a_row": "lone_rounds",
    "waited_seconds": "lone_seconds",
}
"""Names in checkpoints of fields that were renamed; the file's format stays."""


class CheckpointPart(NamedTuple):
    """Field that a checkpoint stores. ``slot`` is empty for a field of the core."""

    slot: str
    field: str
    type: Any


@dataclass(frozen=True, slots=True)
class ServerState:
    """State between rounds: core fields, and a slot per feature."""

    # In the order of the parts of a checkpoint file.
    round: int
    params: F32 = field(repr=False)
    moments: F64 = field(repr=False)
    """f64 ``(s, k d)``."""
    progress: ModelProgress = field(default_factory=ModelProgress)
    updates: int = 0
    """Rounds with an update."""
    rounds_without_update: int = 0
    """In a row, without an update."""
    trust: Trust = NO_TRUST
    suspicion: Suspicion = field(default_factory=lambda: NO_SUSPICION)
    before: F32 | None = field(default=None, repr=False)
    """Parameters of the round before, for momentum."""
    releases: budget.Releases = field(default_factory=lambda: budget.NO_RELEASES)
    atom_seed: bytes = b""
    excluded: frozenset[PartyId] = frozenset()
    """Parties that cost a sum by another secret than advertised."""
    late: frozenset[PartyId] = frozenset()
    """Parties that missed a deadline and have sent nothing since."""
    quorum: Attendance = field(default_factory=Attendance)
    claims: Claims = field(default_factory=Claims)
    epoch: int = 0
    """0 for none."""
    values: StartValues = field(default_factory=lambda: NO_VALUES)
    session: ServerSession = field(default_factory=ServerSession)

    @classmethod
    def checkpoint_parts(cls) -> Mapping[str, CheckpointPart]:
        """Return the parts that outlast a process, by their names in a checkpoint."""
        found: list[CheckpointPart] = []
        for name, kind in get_type_hints(cls).items():
            if isinstance(kind, type) and issubclass(kind, FeatureSlot):
                found += [CheckpointPart(name, part, of) for part, of in get_type_hints(kind).items()]
            elif kind is not ServerSession:
                found.append(CheckpointPart("", name, kind))
        return {STORED_NAMES.get(part.field, part.field): part for part in found}

    def checkpoint_values(self) -> dict[str, Any]:
        """Return the parts that outlast a process, by their names in a checkpoint."""
        parts = self.checkpoint_parts().items()
        return {
            name: getattr(getattr(self, part.slot) if part.slot else self, part.field) for name, part in parts
        }

    @classmethod
    def from_checkpoint(cls, lasting: Mapping[str, Any]) -> ServerState:
        """Return the state with these parts, and the others as in a new run."""
        slots: dict[str, dict[str, Any]] = {"": {}}
        for name, part in cls.checkpoint_parts().items():
            if name in lasting:
                slots.setdefault(part.slot, {})[part.field] = lasting[name]
        core, kinds = slots.pop(""), get_type_hints(cls)
        return cls(**core, **{slot: kinds[slot](**parts) for slot, parts in slots.items()})


@dataclass(frozen=True, slots=True)
class Joining:
    """Phase in which parties join."""

    standing: ServerState
    joined: frozenset[PartyId]
    deadline: float
    progress_by_party: Mapping[PartyId, StatedProgress] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CollectingHellos:
    """Phase of collecting hellos."""

    standing: ServerState
    draw: int
    model: bytes
    excluded: frozenset[PartyId]
    hellos: Mapping[PartyId, tuple[messages.Hello, bytes]] = field(repr=False)
    deadline: float
    """Until model and invitation are sent: ``deadlines.quorum`` from the round's start."""
    is_model_sent: bool = False
    waits: int = 0
    """Deadlines passed with too few hellos."""
    reinvited: frozenset[PartyId] = frozenset()
    """Parties that were resent the model."""


@dataclass(frozen=True, slots=True)
class CollectingNonces:
    """Phase of collecting nonces."""

    standing: ServerState
    draw: int
    model: bytes
    excluded: frozenset[PartyId]
    hellos: Mapping[PartyId, messages.Hello]
    reveals: Mapping[PartyId, tuple[messages.Reveal, bytes]] = field(repr=False)
    deadline: float


@dataclass(frozen=True, slots=True)
class RoundView:
    """Fixed data of a round once its clusters are drawn."""

    model: bytes
    announced: bytes
    limits: Mapping[PartyId, messages.Limits] = field(repr=False)
    drawn: Draw
    samples: Mapping[PartyId, int]

    @property
    def assignment(self) -> clustering.Assignment:
        """Clusters of the round."""
        return self.drawn.assignment


@dataclass(frozen=True, slots=True)
class Summing:
    """Phase of all R x c instances, each with its own step and deadline."""

    standing: ServerState
    view: RoundView
    instances: Mapping[reports.ClusterKey, secure_sum.ServerPhase]
    deadlines: Mapping[reports.ClusterKey, float]
    step_starts: Mapping[reports.ClusterKey, float]
    paces: Mapping[str, Pace] = field(default_factory=dict)
    """By kind of step, over all instances: one alone has too few answers."""


@dataclass(frozen=True, slots=True)
class Frozen:
    """Result of the freeze: survivor set and instances to open."""

    survivors: frozenset[PartyId]
    statement: bytes
    ledger: bytes
    instances: Mapping[reports.ClusterKey, secure_sum.CollectingInputs]
    commitments: Mapping[reports.ClusterKey, bytes] = field(default_factory=dict)
    """In the order of keys; empty if not verified."""

    @property
    def share_holders(self) -> frozenset[PartyId]:
        """Parties that must release: survivors, and holders of shares of their updates."""
        instances = self.instances.values()
        return self.survivors.union(*(i.names(i.holders(self.survivors)) for i in instances))


@dataclass(frozen=True, slots=True)
class StoredOpening:
    """A round whose shares were requested, and may be again after a restart."""

    view: RoundView
    frozen: Frozen
    """Its handles of inputs belong to another server and are invalid."""
    certificate: tuple[bytes, ...]
    """Empty if the freeze itself requested shares."""
    totals: Mapping[reports.ClusterKey, bytes] = field(repr=False)
    """Masked sums in wire format; verified ones have ``vectors`` instead."""
    vectors: Mapping[reports.ClusterKey, Mapping[int, bytes]] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Certifying:
    """Phase of collecting endorsements."""

    standing: ServerState
    view: RoundView
    frozen: Frozen
    endorsements: Mapping[PartyId, tuple[messages.Endorse, bytes]] = field(repr=False)
    deadline: float


@dataclass(frozen=True, slots=True)
class Releasing:
    """Phase of collecting released shares. The update is spent, whatever happens next."""

    standing: ServerState
    view: RoundView
    frozen: Frozen
    released: frozenset[PartyId]
    shares: Mapping[reports.ClusterKey, Mapping[PartyId, secure_sum.Opening]] = field(repr=False)
    deadline: float
    counts: tuple[reports.SlotsCounted, ...] | None = None
    """Opened counts of hidden groups, once slots are requested."""
    totals: Mapping[reports.ClusterKey, Ring] = field(default_factory=dict, repr=False)
    """Masked sums, (d,), if added up before the shares."""
    is_repeated: bool = False
    """True if an earlier server requested the same shares; answers to it may arrive."""

    @property
    def awaited_parties(self) -> frozenset[PartyId]:
        """Parties with shares to release; with slots, the survivors of their clusters."""
        if self.counts is None:
            return self.frozen.share_holders
        asked = {one.cluster for one in self.counts if one.slots}
        members = (i.setup.members for (_, j), i in self.frozen.instances.items() if j in asked)
        return self.frozen.survivors.intersection(party for row in members for party in row)


@dataclass(frozen=True, slots=True)
class Consulting:
    """Phase of waiting for gradients of the server's own data, in the order ``asked``."""

    standing: ServerState
    opened: OpenedRound
    verifiers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Attesting:
    """Phase of waiting for attestations."""

    standing: ServerState
    deadline: float
    next_phase: CollectingHellos | kernel.Finished | None
    """Next round, or the end; None in a restarted server, which then starts a round."""


@dataclass(frozen=True, slots=True)
class Evaluating:
    """Phase of waiting for the accuracy of the new model."""

    standing: ServerState
    done: reports.RoundDone
    """Without accuracy and loss."""
    norm: float | None = None
    is_repeated: bool = False
    """True if a restarted server tests the model."""


@dataclass(frozen=True, slots=True)
class Ended:
    """Phase after the end of the run."""

    goodbye: messages.Goodbye | None
    """Message to all parties, and to late ones. None if the run continues elsewhere."""


RunningPhase = (
    Joining
    | CollectingHellos
    | CollectingNonces
    | Summing
    | Certifying
    | Releasing
    | Consulting
    | Attesting
    | Evaluating
)
ServerPhase = RunningPhase | Ended
