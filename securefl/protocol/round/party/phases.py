"""Phases of a party, each with exactly the state that exists in it.

::

    Idle -> ModelReceived -> HelloSent -> NonceRevealed -> Working -> (Endorsed ->) Idle -> Ended

``Choosing`` precedes ``HelloSent`` with task groups, ``CountsReleased`` precedes ``Idle`` with hidden ones.
The model of a newer round leads from any phase to ``ModelReceived``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from securefl.base import crypto
from securefl.base.arrays import F32, F64
from securefl.base.entropy import Entropy
from securefl.base.ids import PartyId
from securefl.methods import clustering, leakage
from securefl.protocol import kernel, messages, secure_sum
from securefl.protocol.round.party import upload
from securefl.protocol.round.shared import chain, charges, choices
from securefl.protocol.round.shared.additions.addition import NO_VALUES, StartValues
from securefl.protocol.round.shared.draw import Draw
from securefl.protocol.round.shared.leakage import LedgerQuestion
from securefl.protocol.round.shared.missing import Outcomes
from securefl.protocol.round.shared.plan import RunPlan
from securefl.protocol.round.shared.reports import ClusterKey


@dataclass(frozen=True, slots=True)
class PartyContext:
    """Constants of a party machine, with its state at the start (:class:`PartyHistory`).

    Its journal has ``spent``, ``releases``, ``atom_seed``, ``choice``, ``root``, ``rooted`` and ``leader``,
    its account ``given``, ``unresolved``, ``unreleased``, ``outcomes``, ``taken`` and ``kept``.
    """

    plan: RunPlan
    me: PartyId
    samples: int
    entropy: Entropy = field(repr=False)
    seams: upload.Seams = upload.HONEST
    last_spent_round: int = -1
    """Last round in the journal; the party sits it out if it is still open."""
    releases: int = 0
    atom_seed: bytes = b""
    own_budget: int | None = None
    """Updates that the party's own budget allows in this run."""
    released_sums: leakage.Given = field(default_factory=lambda: leakage.NOTHING_GIVEN, repr=False)
    unresolved: tuple[leakage.UnresolvedRound, ...] = ()
    rounds_without_release: tuple[tuple[str, int], ...] = ()
    outcomes: Outcomes = ()
    unknown_outcomes: tuple[int, ...] = ()
    metric_atoms: tuple[clustering.Atom, ...] = ()
    """Known atoms of metrics; the party's own never changes."""
    choice: choices.LastChoice = choices.NO_CHOICE
    identity: crypto.Identity | None = field(default=None, repr=False)
    """Opens messages sealed to this party; in verified rounds only."""
    first: chain.ChainLink | None = None
    root: bytes = b""
    """Last root of the chain of models."""
    root_round: int = -1
    """Round of that root; earlier links are rejected."""
    leader: bytes = b""
    prepared: secure_sum.SecureSum | None = field(default=None, repr=False)
    """With its members' software (CrypTen) loaded; None if they need none."""

    software: messages.Software | None = None
    """Versions to report when joining."""
    trains_last: bool = False
    """True if training may block sending; it then starts when only inputs are due."""

    @property
    def sums(self) -> secure_sum.SecureSum:
        """Secure sum of the run."""
        return self.prepared or self.plan.sums


@dataclass(frozen=True, slots=True)
class VerifiableRound:
    """A round that this party helped to open and may verify."""

    certified: chain.CertifiedRound
    params: F32 = field(repr=False)
    """Models at the round's start, f32 ``(k d,)``."""
    instances: Mapping[ClusterKey, secure_sum.Repeatable]
    record: charges.RoundPreimage | None = field(default=None, repr=False)
    certificate: tuple[bytes, ...] = field(default=(), repr=False)
    attested: bytes = b""
    """One root per round."""
    places: tuple[kernel.Place, ...] = ()
    """Places of its attestations."""
    signed: charges.SignedClaim | None = None
    values: StartValues = field(default_factory=lambda: NO_VALUES)


@dataclass(frozen=True, slots=True)
class SentRelease:
    """Sealed shares as sent, for a later server that opens the same sums."""

    round: int
    message: messages.Release
    leader: bytes
    """Session of the server that last received them."""


@dataclass(frozen=True, slots=True)
class PartyHistory:
    """State that a party carries between rounds."""

    last_spent_round: int
    """Last round that it will not start again."""
    releases: int = 0
    """Made or about to be, counted against the privacy budget."""
    model: tuple[int, F32] | None = field(default=None, compare=False, repr=False)
    """Round and model received last, if momentum carries its step."""
    carry: F64 | None = field(default=None, compare=False, repr=False)
    """Start of per-example momentum, f64 (d,); None for zeros."""
    atom_seed: bytes = b""
    """Kept from the first draw seen."""
    released_sums: leakage.Given = field(default_factory=lambda: leakage.NOTHING_GIVEN, repr=False)
    """Sums with released shares, in all runs of its account."""
    unresolved: tuple[leakage.UnresolvedRound, ...] = ()
    """Rounds that took the masked input and whose opened sums are unknown."""
    rounds_without_release: tuple[tuple[str, int], ...] = ()
    """Rounds of this server that clustered the party without a release; hellos state those that are over."""
    outcomes: Outcomes = ()
    """Rounds with this server, over all runs."""
    unknown_outcomes: tuple[int, ...] = ()
    """Rounds with unknown outcome that took the input, or for which the update waited."""
    choice: choices.LastChoice = choices.NO_CHOICE
    link: chain.ChainLink | None = None
    verifying: VerifiableRound | None = None
    trained_models: frozenset[bytes] = frozenset()
    """Digests of the models trained on, if the server is to name the best."""
    leader: bytes = b""
    """Session of the followed server; empty before the first one leads."""
    stated_group: tuple[int, int, str] | None = field(default=None, repr=False)
    """Round, group and reason for no choice, as sent to a replaced server. Another group would disclose that
    the party could not choose.
    """
    announced: charges.SignedClaim | None = None
    """Link of the last announcement."""
    released: SentRelease | None = None
    """Last shares sent; None with hidden groups."""
    values: StartValues = field(default_factory=lambda: NO_VALUES)
    is_paused: bool = False
    """True if the server last announced a pause: silence is then expected."""
    leaves: str = ""
    """Reason to leave before the next round; empty to stay."""


@dataclass(frozen=True, slots=True)
class Idle:
    """Phase between rounds, or while sitting one out."""

    past: PartyHistory


@dataclass(frozen=True, slots=True)
class ModelReceived:
    """Phase between the round's model and the invitation."""

    past: PartyHistory
    round: int
    params: F32 = field(repr=False)
    model: bytes


@dataclass(frozen=True, slots=True)
class Choosing:
    """Phase between the invitation and the choice of a task group."""

    past: PartyHistory
    round: int
    draw: int
    params: F32 = field(repr=False)
    model: bytes


@dataclass(frozen=True, slots=True)
class HelloSent:
    """Phase between the hello and the announcement of all hellos."""

    past: PartyHistory
    round: int
    draw: int
    params: F32 = field(repr=False)
    model: bytes
    nonce: bytes = field(repr=False)
    hello: messages.Hello
    group: int = field(default=0, repr=False)
    """Model to train; confidential if groups are hidden."""
    no_choice_reason: str = field(default="", repr=False)
    """Reason for no choice, so that updates are zeros."""


@dataclass(frozen=True, slots=True)
class NonceRevealed:
    """Phase between the own nonce's reveal and all nonces."""

    past: PartyHistory
    round: int
    draw: int
    params: F32 = field(repr=False)
    model: bytes
    hellos: Mapping[PartyId, messages.Hello]
    group: int = field(default=0, repr=False)
    no_choice_reason: str = field(default="", repr=False)
    unconfirmed_link: chain.ChainLink | None = None
    """Link of the round's model, if its confirmation was missed."""


@dataclass(frozen=True, slots=True)
class Working:
    """Phase in the clusters: keys, shares, training, masked inputs."""

    past: PartyHistory
    round: int
    params: F32 = field(repr=False)
    model: bytes
    drawn: Draw
    hellos: Mapping[PartyId, messages.Hello]
    nonces: Mapping[PartyId, bytes] = field(repr=False)
    samples: int | None
    instances: Mapping[ClusterKey, secure_sum.MemberPhase | None]
    """None if a retry left this party out, so that it is not counted."""
    clusters: leakage.Given = field(default_factory=lambda: leakage.NOTHING_GIVEN, repr=False)
    """All clusters of the round as drawn, by digest of the model."""
    counted_atoms: tuple[clustering.Atom, ...] | None = None
    """Atoms of the parties that send metrics; None if metrics ignore atoms."""
    uploads: tuple[upload.EncodedUpdate, ...] = ()
    """By local work; with hidden groups counts and slots."""
    group: int = field(default=0, repr=False)
    no_choice_reason: str = field(default="", repr=False)
    seat: int = field(default=-1, repr=False)
    submit_at: float | None = None
    """Time to send all masked inputs (``Scenario.submit_seconds``); None: each when ready."""
    late_at: float | None = None
    """Time at which an unfinished training fails; None once passed or with ``submit_at``."""
    kept_results: tuple[kernel.Trained, ...] = field(default=(), repr=False)
    """Results before ``submit_at``, by local work; encoded, entered and sent together."""
    is_training_due: bool = False
    train_at: float | None = None
    """Latest start of training: the server does not announce lost instances."""

    @property
    def assignment(self) -> clustering.Assignment:
        """Clusters of the round."""
        return self.drawn.assignment

    @property
    def weights(self) -> Mapping[PartyId, float]:
        """Weights of all participants, in (0, 1]."""
        return self.drawn.weights


@dataclass(frozen=True, slots=True)
class Endorsed:
    """Phase between the endorsement and the certificate."""

    past: PartyHistory
    history_after_release: PartyHistory
    """State after the release."""
    round: int
    statement: bytes
    survivors: frozenset[PartyId]
    question: LedgerQuestion
    admission: leakage.Admission
    released_sums: leakage.Given = field(repr=False)
    """Sums that may open, by model of their updates, about to enter the account."""
    instances: Mapping[ClusterKey, secure_sum.InputSent]
    seat: int = field(default=-1, repr=False)


@dataclass(frozen=True, slots=True)
class CountsReleased:
    """Phase between the release and the opening of hidden groups' counts."""

    past: PartyHistory
    round: int
    statement: bytes
    survivors: frozenset[PartyId]
    question: LedgerQuestion
    seat: int = field(repr=False)
    slots: Mapping[ClusterKey, secure_sum.InputSent]


@dataclass(frozen=True, slots=True)
class Ended:
    """Phase after the end of the run."""


RunningPhase = ModelReceived | Choosing | HelloSent | NonceRevealed | Working | Endorsed | CountsReleased
PartyPhase = Idle | RunningPhase | Ended


def sit_out(phase: RunningPhase, past: PartyHistory | None = None) -> Idle:
    """Leave the round with state ``past``, by default that of the phase."""
    return Idle(replace(past or phase.past, last_spent_round=phase.round))


def last_spent_round(phase: PartyPhase) -> int:
    """Return the last round that this party will not start again."""
    match phase:
        case Idle() | ModelReceived():
            return phase.past.last_spent_round
        case Choosing() | HelloSent() | NonceRevealed() | Working() | Endorsed() | CountsReleased():
            return phase.round
        case Ended():
            return 2**31
