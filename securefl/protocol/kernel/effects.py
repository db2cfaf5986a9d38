"""Effects: requests of a machine to its shell. Those of one step are performed in order."""

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from securefl.base.arrays import F32, F64
from securefl.base.ids import PartyId
from securefl.methods import leakage
from securefl.protocol.kernel import events

ItemT_co = TypeVar("ItemT_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Send(Generic[events.MessageT]):
    """Sign and send a message to one party, the server, or everybody (``ids.EVERYONE``)."""

    to: PartyId
    place: events.Place
    message: events.MessageT


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Deliver ``DeadlinePassed`` at this time; replaces the earlier wish. None: no deadline."""

    when: float | None


ATOMS = "atoms "
"""How the step of a journal entry begins that keeps the seed of the run's atoms."""

ROOT = "root "
"""How the step of a journal entry begins that keeps the last root of the chain of models."""
CHOSE = "chose "
"""How the step of a journal entry begins that keeps the task group that a party names."""


ANNOUNCED = "announced"
"""The step of a server's journal entry before it announces the draw of a round."""
DREW = "drew "
"""How the step of a server's journal entry begins before who was drawn hears of it: reclusterings with spaces
between them, their clusters with slashes, and members with commas."""
CLAIMED = "claimed "
"""How the step of a server's journal entry begins before it proves a claim, whose root follows."""
REVEALED = "revealed "
"""How the step of a party's journal entry begins before it reveals the nonce of a draw, then its number."""
LEADS = "leads "
"""How the step of a journal entry begins that keeps the session of the server that a party follows."""


@dataclass(frozen=True, slots=True)
class Lead:
    """Lead an epoch of the run: all later frames are of this session."""

    session: bytes
    """8 bytes (:mod:`securefl.protocol.wire.carried`)."""


@dataclass(frozen=True, slots=True)
class Keep:
    """Write durably (whole, fsync) what the machine goes on from after a crash, before any later effect."""

    state: object = field(repr=False)
    """Of a type that machine and keeper agree on."""


@dataclass(frozen=True, slots=True)
class Journal:
    """Write durably (fsync) that this round was reached or released, before any later effect.

    When that fails, the shell stops and performs none of the later effects: a party never releases shares
    that it could forget having released.
    """

    round: int
    step: str
    """What is reached; :data:`ATOMS` and hexadecimal digits for the seed of the run's atoms; :data:`CHOSE`
    with the number of choices and the group that is named; :data:`LEADS` with a session."""


@dataclass(frozen=True, slots=True)
class UpdateGiven:
    """Updates of a round of which masked inputs are about to leave: releases, by the privacy budget."""

    round: int
    count: int
    """One for each local work of the round."""
    atom_seed: bytes = b""
    """Seed of the atoms in which they leave; empty without any."""
    drawn: leakage.Given = field(default_factory=lambda: leakage.NOTHING_GIVEN, repr=False)
    """Members of each cluster of the round, as drawn, by digest of the model."""
    silent: int = -1
    """Most members without a statement of a cluster that stays closed (``UnresolvedRound.silent``)."""


@dataclass(frozen=True, slots=True)
class ClustersClosed:
    """Clusters of an earlier round that can no longer be opened, by the statements of their members."""

    run: str
    round: int
    clusters: leakage.Given
    """Members, as drawn, by digest of the model."""
    refunded: bool
    """True if no cluster of the party may be open any more: its updates were not released."""


@dataclass(frozen=True, slots=True)
class AtomsCounted:
    """Atoms over which metrics without noise are about to leave: the party keeps its own for good."""

    atoms: tuple[tuple[PartyId, ...], ...]
    """Of all parties of the run that give metrics, its own among them."""


@dataclass(frozen=True, slots=True)
class RoundMissing:
    """A round that took the party's input, or for which its update waited, and that the chain lacks."""

    round: int


@dataclass(frozen=True, slots=True)
class SumsGiven:
    """Sums for which a party is about to give its shares."""

    round: int
    sums: leakage.Given


@dataclass(frozen=True, slots=True)
class ChoiceGiven:
    """A task group that is about to be named."""

    round: int
    epsilon: float
    """Of the randomised response."""
    made: int
    """Number of choices up to it."""
    group: int
    """The one that is named."""


AccountEntry = UpdateGiven | SumsGiven | ChoiceGiven | ClustersClosed | RoundMissing | AtomsCounted
"""Facts that a party's account holds."""


@dataclass(frozen=True, slots=True)
class Enter:
    """Write durably (fsync) in the party's account what it is about to give away, before any later effect.

    The account outlives the run: it is by key and data, not by run. When that fails, the shell stops, as
    with :class:`Journal`.
    """

    entry: AccountEntry


@dataclass(frozen=True, slots=True)
class Train:
    """Train on the local data from these parameters, then deliver ``Trained``."""

    round: int
    work: int
    """Which training of the round it is, from 0: each draws randomness of its own."""
    params: F32 = field(repr=False)
    carry: F64 | None = field(default=None, repr=False)
    """What per-example momentum goes on from, f64 ``(d,)``, uphill as gradients are; None for zeros."""
    samples: int | None = None
    """Use so many of the own samples at most; None for all of them."""


@dataclass(frozen=True, slots=True)
class Choose:
    """Find the model of least loss on the local data, then deliver ``Chosen``."""

    round: int
    params: F32 = field(repr=False)
    """All models, one behind the other."""


@dataclass(frozen=True, slots=True)
class Evaluate:
    """Test these parameters, then deliver ``Evaluated``."""

    round: int
    params: F32 = field(repr=False)


@dataclass(frozen=True, slots=True)
class Consult:
    """Ask the server's own data for gradients at these parameters, then deliver ``Consulted``."""

    round: int
    params: F32 = field(repr=False)
    reclusterings: tuple[int, ...]
    """For which a gradient is needed, one each."""


@dataclass(frozen=True, slots=True)
class AwaitSent:
    """Deliver ``AllSent`` once everything that was sent before has left: the broker has acknowledged it."""

    round: int
    draw: int


@dataclass(frozen=True, slots=True)
class Reject:
    """A message was refused and the phase is unchanged. For the log, the transcript and the statistics."""

    culprit: str
    reason: str
    evidence: bytes = field(default=b"", repr=False)
    """Encoded signed values that show the fault; they may hold an opened sum. Empty if there are none."""


@dataclass(frozen=True, slots=True)
class Report(Generic[ItemT_co]):
    """A fact for metrics, progress and transcript: one of the closed set of a machine's reports."""

    item: ItemT_co


@dataclass(frozen=True, slots=True)
class Finished:
    """The machine has done its work and takes no more events."""

    reason: str


@dataclass(frozen=True, slots=True)
class Aborted:
    """The machine cannot go on and takes no more events."""

    reason: str
    resumable: bool = False
    """Whether it has paused, and another one is to go on from the last ``Keep``."""
    over: bool = True
    """Whether the run is over with it. It is not for a server that another one has replaced."""
    decide: bool = False
    """True if a person must decide before this process may take part again."""
