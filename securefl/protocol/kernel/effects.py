"""Effects: requests of a machine to its shell, performed in order."""

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from securefl.base.arrays import F32, F64
from securefl.base.ids import PartyId
from securefl.methods import leakage
from securefl.protocol.kernel import events

ItemT_co = TypeVar("ItemT_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Send(Generic[events.MessageT]):
    """Sign and send a message to one party, the server, or all (``ids.EVERYONE``)."""

    to: PartyId
    place: events.Place
    message: events.MessageT


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Deliver ``DeadlinePassed`` at this time, which replaces the earlier one."""

    when: float | None


ATOMS = "atoms "
"""Journal step (prefix): the seed of the run's atoms follows in hexadecimal."""

ROOT = "root "
"""Journal step (prefix): the last root of the chain of models follows."""
CHOSE = "chose "
"""Journal step (prefix): number of choices and the named task group follow."""


ANNOUNCED = "announced"
"""Journal step of a server before it announces a draw."""
DREW = "drew "
"""Journal step (prefix) of a server before it sends a draw. Spaces separate reclusterings, slashes their
clusters, commas members.
"""
CLAIMED = "claimed "
"""Journal step (prefix) of a server before it proves a claim; its root follows."""
REVEALED = "revealed "
"""Journal step (prefix) of a party before it reveals a nonce; the draw's number follows."""
LEADS = "leads "
"""Journal step (prefix): the session of the followed server follows."""


@dataclass(frozen=True, slots=True)
class Lead:
    """Lead an epoch of the run: all later frames have this session."""

    session: bytes


@dataclass(frozen=True, slots=True)
class Keep:
    """Write durably (whole, fsync) the state for a resume, before any later effect."""

    state: object = field(repr=False)


@dataclass(frozen=True, slots=True)
class Journal:
    """Write durably (fsync) that the party reached or released this round, before any later effect.

    If that fails, the shell stops: a party never releases shares that it could forget having released.
    """

    round: int
    step: str


@dataclass(frozen=True, slots=True)
class UpdateGiven:
    """Updates whose masked inputs are about to be sent; each counts against the privacy budget."""

    round: int
    count: int
    """One per local work."""
    atom_seed: bytes = b""
    drawn: leakage.Given = field(default_factory=lambda: leakage.NOTHING_GIVEN, repr=False)
    """Clusters of the round, as drawn, by digest of the model."""
    silent: int = -1
    """See ``UnresolvedRound.silent``."""


@dataclass(frozen=True, slots=True)
class ClustersClosed:
    """Clusters of an earlier round that can no longer be opened, as their members state."""

    run: str
    round: int
    clusters: leakage.Given
    refunded: bool
    """True if the party's updates were not released: none of its clusters may open any more."""


@dataclass(frozen=True, slots=True)
class AtomsCounted:
    """Atoms of all parties about to send metrics without noise; the own one is kept permanently."""

    atoms: tuple[tuple[PartyId, ...], ...]


@dataclass(frozen=True, slots=True)
class RoundMissing:
    """Round that the chain lacks although it took the party's input, or its update waited for it."""

    round: int


@dataclass(frozen=True, slots=True)
class SumsGiven:
    """Sums whose shares a party is about to release."""

    round: int
    sums: leakage.Given


@dataclass(frozen=True, slots=True)
class ChoiceGiven:
    """Task group that a party is about to name by randomised response."""

    round: int
    epsilon: float
    made: int
    """Choices including this one."""
    group: int


AccountEntry = UpdateGiven | SumsGiven | ChoiceGiven | ClustersClosed | RoundMissing | AtomsCounted


@dataclass(frozen=True, slots=True)
class Enter:
    """Write durably (fsync) in the party's account what it is about to release, before any later effect.

    The account belongs to key and data, and outlives the run. If writing fails, the shell stops.
    """

    entry: AccountEntry


@dataclass(frozen=True, slots=True)
class Train:
    """Train on the local data from these parameters, then deliver ``Trained``."""

    round: int
    work: int
    """From 0; each draws its own randomness."""
    params: F32 = field(repr=False)
    carry: F64 | None = field(default=None, repr=False)
    """Initial per-example momentum, f64 ``(d,)``, uphill; None for zeros."""
    samples: int | None = None
    """Most own samples to use; None for all."""


@dataclass(frozen=True, slots=True)
class Choose:
    """Find which of all models has least loss on the local data, then deliver ``Chosen``."""

    round: int
    params: F32 = field(repr=False)


@dataclass(frozen=True, slots=True)
class Evaluate:
    """Test these parameters, then deliver ``Evaluated``."""

    round: int
    params: F32 = field(repr=False)


@dataclass(frozen=True, slots=True)
class Consult:
    """Compute a gradient per reclustering on the server's own data, then deliver ``Consulted``."""

    round: int
    params: F32 = field(repr=False)
    reclusterings: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AwaitSent:
    """Deliver ``AllSent`` once the broker has acknowledged all earlier frames."""

    round: int
    draw: int


@dataclass(frozen=True, slots=True)
class Reject:
    """Record a rejected message in log, transcript and statistics; the phase is unchanged."""

    culprit: str
    reason: str
    evidence: bytes = field(default=b"", repr=False)
    """Encoded signed values that prove the fault, perhaps an opened sum."""


@dataclass(frozen=True, slots=True)
class Report(Generic[ItemT_co]):
    """Report a fact for metrics, progress and transcript."""

    item: ItemT_co


@dataclass(frozen=True, slots=True)
class Finished:
    """End: the machine takes no more events."""

    reason: str


@dataclass(frozen=True, slots=True)
class Aborted:
    """Abort: the machine cannot continue."""

    reason: str
    resumable: bool = False
    """True if another machine may resume the paused run from the last ``Keep``."""
    over: bool = True
    """False for a server that another one has replaced."""
    decide: bool = False
    """True if a person must decide before this process continues."""
