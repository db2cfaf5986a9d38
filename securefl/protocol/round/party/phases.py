"""The phases of a party, each with what exists in it and nothing else.

::

    Outside -> Informed -> Greeted -> Revealed -> Working -> (Endorsed ->) Outside      -> Ended

With task groups ``Choosing`` comes before ``Greeted``, and with hidden ones ``Counted`` before ``Outside``.

A newer round's model takes the party from any phase to ``Informed``: it never looks back.
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
from securefl.protocol.round.shared.leakage import Question
from securefl.protocol.round.shared.missing import Outcomes
from securefl.protocol.round.shared.plan import RunPlan
from securefl.protocol.round.shared.reports import ClusterKey


@dataclass(frozen=True, slots=True)
class PartyContext:
    """Constants of a party machine, given when it is made."""

    plan: RunPlan
    me: PartyId
    samples: int
    """Declared sample count."""
    entropy: Entropy = field(repr=False)
    seams: upload.Seams = upload.HONEST
    spent: int = -1
    """Last round in the journal: a party restarted in mid-round sits out the current update."""
    releases: int = 0
    """Updates in the journal: each counts against the privacy budget."""
    atom_seed: bytes = b""
    """Seed of the run's atoms in the journal; empty for none."""
    allowed: int | None = None
    """Updates that the party's own budget allows in this run; None without one."""
    given: leakage.Given = field(default_factory=lambda: leakage.NOTHING_GIVEN, repr=False)
    """Sums that it gave shares for before it was started, by its account."""
    unresolved: tuple[leakage.UnresolvedRound, ...] = ()
    """Rounds whose opened sums its account does not know."""
    unreleased: tuple[tuple[str, int], ...] = ()
    """Runs of this server, and their rounds, in which it released no shares, by its account."""
    outcomes: Outcomes = ()
    """Outcomes of its rounds with this server, over all runs, by its account."""
    taken: tuple[int, ...] = ()
    """Rounds of this run whose outcome its account does not know."""
    kept: tuple[clustering.Atom, ...] = ()
    """Atoms that it and others have given metrics in, by its account: its own for good."""
    choice: choices.KeptChoice = choices.NO_CHOICE
    """The task group that it had named before it was started, by its journal."""
    identity: crypto.Identity | None = field(default=None, repr=False)
    """Opens what is sealed to this party; nothing is, unless rounds are verified."""
    first: chain.ChainLink | None = None
    """What the chain of models begins with, where rounds are verified."""
    root: bytes = b""
    """The last root in the journal of a party that was started again."""
    rooted: int = -1
    """The round of that root: no link of an earlier one is gone back to."""
    leader: bytes = b""
    """The session of the server that it followed before it was started, by its journal."""
    prepared: secure_sum.SecureSum | None = field(default=None, repr=False)
    """The kind of sum with what members compute with; None where they need nothing."""

    software: messages.Software | None = None
    """Versions that it reports when it joins; None for no report."""
    trains_last: bool = False
    """True if training may keep this process from sending: it begins when only the inputs are still due."""

    @property
    def sums(self) -> secure_sum.SecureSum:
        """The run's kind of secure sum."""
        return self.prepared or self.plan.sums


@dataclass(frozen=True, slots=True)
class Verifying:
    """A round that this party has helped to open, while what the server makes of it is to be verified."""

    certified: chain.CertifiedRound
    params: F32 = field(repr=False)
    """The round's models, f32 ``(k d,)``."""
    instances: Mapping[ClusterKey, secure_sum.Repeatable]
    """Its own sums."""
    record: charges.RoundPreimage | None = field(default=None, repr=False)
    """What the certified statement is a digest of: for charges."""
    certificate: tuple[bytes, ...] = field(default=(), repr=False)
    """Frames of those who endorsed it."""
    attested: bytes = b""
    """The root that it has attested: one a round."""
    places: tuple[kernel.Place, ...] = ()
    """Where it has attested it: sums, and the step."""
    signed: charges.SignedClaim | None = None
    """The same claim, as the server signed it."""
    values: StartValues = field(default_factory=lambda: NO_VALUES)
    """Announced values of the round."""


@dataclass(frozen=True, slots=True)
class Released:
    """The sealed shares that this party has sent, for another server that opens the same sums."""

    round: int
    message: messages.Release
    leader: bytes
    """The session of the server that they were sent to last."""


@dataclass(frozen=True, slots=True)
class Past:
    """State that a party carries from round to round."""

    spent: int
    """The party takes part in later rounds than this one only."""
    releases: int = 0
    """Updates that it has released, or is about to: its account of its privacy budget."""
    model: tuple[int, F32] | None = field(default=None, compare=False, repr=False)
    """The last model that it was sent, and its round; kept where momentum goes on from the model's step."""
    carry: F64 | None = field(default=None, compare=False, repr=False)
    """What per-example momentum goes on from in the next training, f64 (d,); None for zeros."""
    atom_seed: bytes = b""
    """Seed of the run's atoms, kept from the first draw that this party saw; empty before, or without."""
    given: leakage.Given = field(default_factory=lambda: leakage.NOTHING_GIVEN, repr=False)
    """Sums that it has given shares for, in this run and in all that its account knows."""
    unresolved: tuple[leakage.UnresolvedRound, ...] = ()
    """Rounds that took its masked input, and of which it does not know the opened sums."""
    unreleased: tuple[tuple[str, int], ...] = ()
    """Runs of this server, and their rounds, in whose clusters it was, and released no shares. A hello states
    those before its own round: each of them is over for this party."""
    outcomes: Outcomes = ()
    """Outcomes of its rounds with this server, as far as they count, over all runs."""
    taken: tuple[int, ...] = ()
    """Rounds that took its input, or for which its update waited, and whose outcome it does not know."""
    choice: choices.KeptChoice = choices.NO_CHOICE
    """The task group that it has named, where that is kept (``groups.choice_epsilon``)."""
    link: chain.ChainLink | None = None
    """The last link of the chain of models that this party has seen confirmed."""
    verifying: Verifying | None = None
    """The last round that it can verify."""
    seen: frozenset[bytes] = frozenset()
    """Digests of the models that it has worked on; kept where the server is to name the best of them."""
    leader: bytes = b""
    """The session of the server that it follows; empty before the first one leads."""
    named: tuple[int, int, str] | None = field(default=None, repr=False)
    """Round, task group, and why it could not choose that: what it told a server that another one replaced.

    Another group the second time would tell that it could not choose."""
    announced: charges.SignedClaim | None = None
    """The link of the last announcement, as the server signed it."""
    released: Released | None = None
    """The last shares that it has sent; None with hidden groups, or before."""
    values: StartValues = field(default_factory=lambda: NO_VALUES)
    """Announced values of the round."""
    paused: bool = False
    """Whether the server has said last that another one goes on later: its silence says nothing then."""


@dataclass(frozen=True, slots=True)
class Outside:
    """Between rounds, or sitting one out."""

    past: Past


@dataclass(frozen=True, slots=True)
class Informed:
    """The round's model is here; waiting for the invitation."""

    past: Past
    round: int
    params: F32 = field(repr=False)
    model: bytes
    """Digest of ``params``."""


@dataclass(frozen=True, slots=True)
class Choosing:
    """Invited; finding out which task group it is in before it says hello."""

    past: Past
    round: int
    draw: int
    params: F32 = field(repr=False)
    model: bytes


@dataclass(frozen=True, slots=True)
class Greeted:
    """Hello said with a commitment; waiting for the announcement of all hellos."""

    past: Past
    round: int
    draw: int
    params: F32 = field(repr=False)
    model: bytes
    nonce: bytes = field(repr=False)
    hello: messages.Hello
    group: int = field(default=0, repr=False)
    """Number of the model that it learns; nobody else's business where groups are hidden."""
    groupless: str = field(default="", repr=False)
    """Why it could not choose that, so that its updates are zeros; empty where it could."""


@dataclass(frozen=True, slots=True)
class Revealed:
    """Nonce revealed; waiting for everybody's."""

    past: Past
    round: int
    draw: int
    params: F32 = field(repr=False)
    model: bytes
    hellos: Mapping[PartyId, messages.Hello]
    group: int = field(default=0, repr=False)
    groupless: str = field(default="", repr=False)
    unseen: chain.ChainLink | None = None
    """The link of the round's model, where this party was away when it was confirmed."""


@dataclass(frozen=True, slots=True)
class Working:
    """In the clusters: keys, shares, training, masked inputs; waiting for the freeze."""

    past: Past
    round: int
    params: F32 = field(repr=False)
    model: bytes
    drawn: Draw
    hellos: Mapping[PartyId, messages.Hello]
    nonces: Mapping[PartyId, bytes] = field(repr=False)
    samples: int | None
    """How many of its own samples the party trains on at most; None for all of them."""
    instances: Mapping[ClusterKey, secure_sum.MemberPhase | None]
    """None: this party was left out of a retry and is not counted in this round."""
    clusters: leakage.Given = field(default_factory=lambda: leakage.NOTHING_GIVEN, repr=False)
    """All clusters of the round, as drawn, by the digest of the model of their updates."""
    counting: tuple[clustering.Atom, ...] | None = None
    """Parties that give metrics, in atoms that each keeps; None where metrics do not go by atoms."""
    uploads: tuple[upload.Upload, ...] = ()
    """By local work, as far as they are done; with hidden groups counts and slots."""
    group: int = field(default=0, repr=False)
    groupless: str = field(default="", repr=False)
    seat: int = field(default=-1, repr=False)
    """Of a hidden group, once the update is there."""
    submit_at: float | None = None
    """When its masked inputs leave (``Scenario.submit_seconds``); None if each leaves once it is there."""
    late_at: float | None = None
    """When a training that has not ended counts as failed; None once it has passed, or with ``submit_at``."""
    trained: tuple[kernel.Trained, ...] = field(default=(), repr=False)
    """What ended before that, by local work: encoded, entered and sent in one go."""
    untrained: bool = False
    """True if the first training has yet to begin (``PartyContext.trains_last``)."""
    train_at: float | None = None
    """When it begins at the latest: the server does not say that it has lost an instance."""

    @property
    def assignment(self) -> clustering.Assignment:
        """The round's clusters."""
        return self.drawn.assignment

    @property
    def weights(self) -> Mapping[PartyId, float]:
        """Of everybody who takes part, in (0, 1]."""
        return self.drawn.weights


@dataclass(frozen=True, slots=True)
class Endorsed:
    """The survivor set is endorsed; waiting for the certificate."""

    past: Past
    after: Past
    """The past once this party has released: momentum may go on from what it has let go."""
    round: int
    statement: bytes
    survivors: frozenset[PartyId]
    question: Question
    admission: leakage.Admission
    """What the ledger says may be opened, and the question that it answers."""
    given: leakage.Given = field(repr=False)
    """The same sums by the models of their updates: what is about to enter the account."""
    instances: Mapping[ClusterKey, secure_sum.InputSent]
    """Those that may."""
    seat: int = field(default=-1, repr=False)


@dataclass(frozen=True, slots=True)
class Counted:
    """Its shares for the counts of hidden groups are released; waiting to be told what these are."""

    past: Past
    round: int
    statement: bytes
    survivors: frozenset[PartyId]
    question: Question
    seat: int = field(repr=False)
    """The one that it took."""
    slots: Mapping[ClusterKey, secure_sum.InputSent]
    """Instances that are still closed."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The run is over."""


RunningPhase = Informed | Choosing | Greeted | Revealed | Working | Endorsed | Counted
PartyPhase = Outside | RunningPhase | Ended


def sit_out(phase: RunningPhase, past: Past | None = None) -> Outside:
    """Leave the round, ``past`` being what the party takes along; what it brought unless given."""
    return Outside(replace(past or phase.past, spent=phase.round))


def spent_in(phase: PartyPhase) -> int:
    """Return the last round that this party will not start again."""
    match phase:
        case Outside() | Informed():
            return phase.past.spent
        case Choosing() | Greeted() | Revealed() | Working() | Endorsed() | Counted():
            return phase.round
        case Ended():
            return 2**31
