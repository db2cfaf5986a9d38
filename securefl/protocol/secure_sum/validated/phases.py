"""Member's phases in one attempt of a validated sum (ADR 0024).

::

    Advertised -> Gathering -> Holding -> Revealed -> Checking -> Judged -> member.Submitted '-> Spoiled
        (complained; a retry follows)

A member that has revealed its nonce takes part in no other attempt.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from securefl.base import crypto
from securefl.base.arrays import U64
from securefl.base.errors import PeerError
from securefl.base.ids import PartyId
from securefl.methods import privacy
from securefl.protocol import messages
from securefl.protocol.secure_sum.crypten import member
from securefl.protocol.secure_sum.crypten.peers import Peers
from securefl.protocol.secure_sum.crypten.ports import Computation
from securefl.protocol.secure_sum.crypten.progress import Incoming
from securefl.protocol.secure_sum.crypten.zeros import ZeroShares
from securefl.protocol.secure_sum.setup import Setup
from securefl.protocol.secure_sum.validated.dealing import Tuples
from securefl.protocol.secure_sum.validated.validation import Validation


@dataclass(frozen=True, slots=True)
class CheckLines:
    """Channels and zero shares of one evaluator for one owner's check."""

    evaluators: tuple[int, ...]
    """By rank."""
    peers: Peers
    zeros: ZeroShares = field(repr=False)


@dataclass(frozen=True, slots=True)
class Core:
    """Constants after the key list."""

    listed: member.Listed
    validation: Validation
    tests: tuple[privacy.NormTest, ...]
    nonce: bytes = field(repr=False)
    box: crypto.KeyPair = field(repr=False)
    key_list: bytes
    commitments: Mapping[int, bytes]
    """To sketch nonces."""
    lines: Peers
    """For shares of updates."""
    checks: Mapping[int, CheckLines]
    """By owner."""

    @property
    def setup(self) -> Setup:
        """Setup of the attempt."""
        return self.listed.setup

    @property
    def others(self) -> tuple[int, ...]:
        """Other listed members."""
        return tuple(index for index in self.listed.listed if index != self.listed.me)


@dataclass(frozen=True, slots=True)
class Advertised:
    """Phase that waits for the key list."""

    base: member.Advertised
    validation: Validation
    tests: tuple[privacy.NormTest, ...]
    """By member number."""
    nonce: bytes = field(repr=False)

    @property
    def setup(self) -> Setup:
        """Setup of the attempt."""
        return self.base.setup

    @property
    def advert(self) -> messages.KeyAdvert:
        """Sent advert, with the commitment to the nonce."""
        return self.base.advert


@dataclass(frozen=True, slots=True)
class _Cored:
    core: Core

    @property
    def setup(self) -> Setup:
        """Setup of the attempt."""
        return self.core.setup


@dataclass(frozen=True, slots=True)
class Gathering(_Cored):
    """Phase that waits for the own update, the others' shares and the triples."""

    shared: bool = False
    words: Mapping[int, U64] = field(default_factory=dict, repr=False)
    """Others' updates, as shares, u64 (d,), by owner."""
    digests: Mapping[int, bytes] = field(default_factory=dict)
    tuples: Mapping[int, Tuples] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Holding(_Cored):
    """Phase that waits for all receipts."""

    words: Mapping[int, U64] = field(repr=False)
    tuples: Mapping[int, Tuples] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Revealed(_Cored):
    """Phase of a member that has revealed its sketch nonce and waits for those of the other members.

    It holds its shares of their updates and its tuples for the checks, both by owner.
    """

    words: Mapping[int, U64] = field(repr=False)
    tuples: Mapping[int, Tuples] = field(repr=False)
    receipts: bytes
    early: Mapping[int, tuple[Incoming, ...]] = field(default_factory=dict)
    """Check messages of faster members, by owner."""


@dataclass(frozen=True, slots=True)
class Checking(_Cored):
    """Phase of running checks of the others' updates."""

    words: Mapping[int, U64] = field(repr=False)
    running: Mapping[int, Computation[bool]]
    """By owner."""
    results: Mapping[int, bool]


@dataclass(frozen=True, slots=True)
class Judged(_Cored):
    """Phase after the own verdict that waits for the others."""

    words: Mapping[int, U64] = field(repr=False)
    verdict: frozenset[int]


@dataclass(frozen=True, slots=True)
class Spoiled:
    """Phase that waits for a retry after a complaint."""

    setup: Setup


ValidatedPhase = Advertised | Gathering | Holding | Revealed | Checking | Judged | Spoiled
NO_RETURN = (Revealed, Checking, Judged, member.Submitted)
"""No retry: the sketch may be known."""


class UpdateChecks(Protocol):
    """Factory of checks."""

    def check(
        self,
        members: Sequence[PartyId],
        rank: int,
        zeros: ZeroShares,
        projections: U64,
        test: privacy.NormTest,
        tuples: Tuples,
    ) -> Computation[bool]:
        """Prepare one evaluator's part in the check of a shared update; ``members`` by rank."""
        ...


@dataclass(frozen=True, slots=True)
class Step:
    """Next phase, with messages to the server."""

    phase: ValidatedPhase | member.Submitted
    outgoing: tuple[messages.AnyMessage, ...] = ()
    accused: PeerError | None = None
