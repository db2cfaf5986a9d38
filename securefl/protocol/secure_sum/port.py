"""Port of secure sums: a member's end and the server's end.

The machines of a round know no kind. Both ends are functions of a phase and an event. A wrong message raises
``PeerError`` and changes nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Protocol, TypeVar

from msgspec import Struct

from securefl import scenario
from securefl.base import crypto
from securefl.base.arrays import Ring
from securefl.base.entropy import Entropy
from securefl.base.errors import ConfigError, PeerError, UsageError
from securefl.base.ids import PartyId, RunId
from securefl.protocol import kernel, messages
from securefl.protocol.secure_sum import evidence
from securefl.protocol.secure_sum.collecting import (
    CollectingInputs,
    CollectingKeys,
    Lost,
    ServerPhase,
    on_advert,
    on_input,
    on_receipt,
)
from securefl.protocol.secure_sum.removal import VectorStore
from securefl.protocol.secure_sum.setup import Setup

Opening = messages.InstanceShares | messages.InstanceSeed
"""Shares or seed that a member releases after the freeze to open a sum."""


class MemberPhase(Protocol):
    """One attempt of one sum at a member, of any kind."""

    @property
    def setup(self) -> Setup:
        """Setup of the attempt."""
        ...


class InputSent(MemberPhase, Protocol):
    """Member's attempt after its update was sent."""

    @property
    def sharers(self) -> frozenset[int]:
        """Members that share masks; the members in the sum if all are required."""
        ...

    @property
    def lists_digest(self) -> bytes:
        """Digest of lists that this member's receipt states."""
        ...

    @property
    def input_digest(self) -> bytes:
        """Digest of the masked input in the receipt of a verified sum; else empty."""
        ...

    def summed_members(self, survivors: Collection[PartyId]) -> tuple[int, ...]:
        """Return the added members, ascending."""
        ...


class Running(Protocol):
    """Computation that ends with its phase."""

    def close(self) -> None:
        """End it at once."""
        ...


@dataclass(frozen=True, slots=True)
class MemberStep:
    """Result of an event at a member: its phase, and messages to the server."""

    phase: MemberPhase
    outgoing: tuple[messages.AnyMessage, ...] = ()
    refused: PeerError | None = None
    """Error of a rejected peer; the phase may have changed."""


class MemberEnd(ABC):
    """Member's end of all sums of one kind."""

    @abstractmethod
    def advertise(
        self, setup: Setup, me: PartyId, weights: Mapping[PartyId, float], entropy: Entropy
    ) -> tuple[MemberPhase, messages.KeyAdvert]:
        """Draw the fresh keys of one attempt; ``weights`` of all parties are in (0, 1]."""

    @abstractmethod
    def receive(
        self, phase: MemberPhase, message: messages.SumToMember, roster: crypto.Roster, entropy: Entropy
    ) -> MemberStep:
        """Process one message of the server.

        Raises:
            PeerError: out of turn, or not what an honest server sends or relays.
        """

    @abstractmethod
    def submit(self, phase: MemberPhase, encoded: Ring, entropy: Entropy, without: int) -> MemberStep | None:
        """Send the encoded update (ring words, (d,), not changed) if it is due; None if not.

        ``without`` components of removable noise are left out (0 unless the member deviates).
        """

    @abstractmethod
    def awaits_update(self, phase: MemberPhase) -> bool:
        """Return True if only this member's update is missing: its shares have arrived."""

    @abstractmethod
    def input_sent(self, phase: MemberPhase) -> InputSent | None:
        """Return the phase if the update was sent, else None."""

    @abstractmethod
    def release(self, phase: InputSent, survivors: Collection[PartyId]) -> Opening:
        """Return the shares that open the sum. The caller has checked survivors, certificate and ledger."""

    def exposed_members(self, phase: InputSent, _release: Opening) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the members whose secrets the release reveals: survivors, dropouts."""
        return tuple(sorted(phase.sharers)), ()

    def is_final(self, _phase: MemberPhase) -> bool:
        """Return True if the member takes part in no further attempt."""
        return False

    def running(self, _phase: MemberPhase) -> Iterable[Running]:
        """Return the computations to close when the phase is left."""
        return ()


Step = Literal["keys", "shares", "training"]


@dataclass(frozen=True, slots=True)
class Passed:
    """Updates that passed validation, and those that did not."""

    accepted: tuple[PartyId, ...]
    rejected: tuple[PartyId, ...]
    projections: int


@dataclass(frozen=True, slots=True)
class Taken:
    """Result of a message at the server, with messages to relay."""

    phase: ServerPhase
    relayed: tuple[tuple[PartyId, messages.AnyMessage], ...] = ()


@dataclass(frozen=True, slots=True)
class Closed:
    """Result of ending a step with the answers so far."""

    phase: ServerPhase
    """``CollectingKeys`` of a further attempt restarts its members."""
    step: Step = "keys"
    """Meaningless if the sum is lost."""
    vectors: bool = False
    """True if the next step sends vectors, which extends its deadline."""
    outgoing: tuple[tuple[PartyId, messages.AnyMessage], ...] = field(default=(), repr=False)
    passed: Passed | None = None


class DealtSecrets(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, array_like=True, tag=True):
    """Evidence: released shares of one member's secrets, and the values that commit to them."""

    advert: bytes
    """Signed by the owner."""
    members: tuple[messages.Name, ...]
    digests: tuple[tuple[bytes, ...], ...]
    """Digests of all its shares, by holder and kind."""
    secrets: tuple[tuple[int, tuple[tuple[int, bytes], ...]], ...]
    """Shares that open each kind (0: seed, 1: mask key, then noise), by holder's number."""

    __repr__ = messages.Message.__repr__


class ServerEnd(ABC):
    """Server's end of all sums of one kind."""

    collected: ClassVar[type[CollectingInputs]] = CollectingInputs
    """Phase in which a sum is frozen, and which a checkpoint holds."""

    def receive(
        self,
        phase: ServerPhase,
        sender: PartyId,
        message: messages.SumToServer,
        signed: bytes,
        store: VectorStore,
    ) -> Taken:
        """Process a message of a member or the dealer; here those common to all kinds.

        Raises:
            PeerError: out of turn, or not what an honest sender sends.
        """
        match message, phase:
            case messages.KeyAdvert(), CollectingKeys():
                return Taken(on_advert(phase, sender, message, signed))
            case messages.MaskedInput(), CollectingInputs():
                return Taken(on_input(phase, sender, message, store))
            case messages.Receipt(), CollectingInputs():
                return Taken(on_receipt(phase, sender, message, signed))
            case _:
                raise out_of_turn(sender, type(message).__name__, phase)

    @abstractmethod
    def close(self, phase: ServerPhase, max_attempts: int) -> Closed:
        """End a step, complete or not, before inputs are collected."""

    @abstractmethod
    def check_release(
        self, phase: CollectingInputs, survivors: frozenset[PartyId], holder: PartyId, release: Opening
    ) -> None:
        """Raise PeerError if a release differs from its member's advert."""

    @abstractmethod
    def recover_secrets(
        self, phase: CollectingInputs, survivors: frozenset[PartyId], releases: Mapping[PartyId, Opening]
    ) -> evidence.OpenedSecrets:
        """Return the secrets that open the sum.

        Raises:
            PeerError: a member's shares form no secret.
            UsageError: too few releases or survivors.
        """

    def dealt(
        self,
        _phase: CollectingInputs,
        _survivors: frozenset[PartyId],
        _releases: Mapping[PartyId, Opening],
        _owner: PartyId,
    ) -> DealtSecrets | None:
        """Return the released shares of one member's secrets, if any."""
        return None

    @abstractmethod
    def unmask(self, total: Ring, fixed: evidence.FixedSum, secrets: evidence.OpenedSecrets) -> None:
        """Turn the sum of all masked vectors, (d,), into the sum of the updates, in place.

        Raises:
            PeerError: a secret differs from its member's advert.
        """

    def sum_of(
        self, fixed: evidence.FixedSum, secrets: evidence.OpenedSecrets, vectors: evidence.Vectors
    ) -> Ring:
        """Return the ring sum, (d,), for the server or a verifier.

        Raises:
            PeerError: as :func:`added_up` and :meth:`unmask`.
        """
        total = evidence.added_up(fixed, vectors)
        self.unmask(total, fixed, secrets)
        return total

    def open(
        self,
        phase: CollectingInputs,
        survivors: frozenset[PartyId],
        releases: Mapping[PartyId, Opening],
        store: VectorStore,
    ) -> Ring:
        """Return the ring sum, (d,), of the survivors' updates.

        Raises:
            PeerError: as :meth:`recover_secrets` and :meth:`sum_of`.
        """
        secrets = self.recover_secrets(phase, survivors, releases)
        return self.sum_of(phase.fixed_sum(survivors), secrets, phase.vectors(store))

    def complaint(
        self, phase: ServerPhase, sender: PartyId, accused: PartyId, *, over: bool
    ) -> CollectingInputs | Lost:
        """Return the phase to retry without accuser and accused, or ``Lost``.

        Raises:
            PeerError: the step is ``over``, or the accuser has submitted: an honest one complains instead.
        """
        if not isinstance(phase, CollectingInputs):
            raise out_of_turn(sender, "Complaint", phase)
        setup = phase.setup
        submitted = setup.index(sender) in phase.inputs.keys() | phase.receipts.keys()
        if sender == accused or submitted or over or not {sender, accused} <= phase.names(phase.sharers):
            raise PeerError(sender, f"complains about {accused} at the wrong time in {setup.describe()}")
        return phase

    def doubt(self, _phase: CollectingInputs, _opened: Ring, _weights: Mapping[PartyId, float]) -> str:
        """Return the reason why an opened sum must be wrong, or ""."""
        return ""


class SecureSum(ABC):
    """One kind of secure sum, for one scenario."""

    requires_all_members: ClassVar[bool] = False
    """True if opening needs all listed members, not any ``threshold``."""
    dropouts_release: ClassVar[bool] = False
    """True if members outside the sum also hold and release parts of it."""
    dealer: ClassVar[PartyId | None] = None
    bad: ClassVar[str] = "a bad share box"
    deals_secrets: ClassVar[bool] = False
    """True if members share secrets with each other between keys and inputs."""
    simulated_only: ClassVar[bool] = False
    """True if it hides nothing, so that no run may use it."""
    preload: ClassVar[tuple[str, ...]] = ()

    @property
    @abstractmethod
    def member(self) -> MemberEnd:
        """Member's end."""

    @property
    @abstractmethod
    def server(self) -> ServerEnd:
        """Server's end."""

    def vectors(self, step: Literal["shares", "training"], _members: int) -> int:
        """Return the most vectors over one member's connection in a step."""
        return 1 if step == "training" else 0

    def checking(self, _deadlines: scenario.Deadlines) -> float:
        """Return the seconds that steps between shares and inputs may take."""
        return 0.0

    def lists_digest(
        self, setup: Setup, key_list: bytes, sharers: frozenset[int], _alive: Collection[int]
    ) -> bytes:
        """Return the digest of lists that receipts state if ``_alive`` are in the sum."""
        return setup.lists_digest(key_list, sharers)

    def check_run(self) -> None:
        """Raise ConfigError in a real run if this kind hides nothing."""
        if self.simulated_only:
            raise ConfigError(
                "secure_sum.kind",
                "protects nothing: the server would see every update",
                'set kind = "masking", or use securefl simulate',
            )

    def check_machine(self) -> None:
        """Raise ConfigError if this machine lacks a requirement."""
        return

    def prepare(self) -> SecureSum:
        """Return the kind with its members' code loaded; raise as :meth:`check_machine`."""
        return self

    def deal(
        self,
        _request: messages.DealRequest,
        place: kernel.Place,
        _roster: crypto.Roster,
        _run: RunId,
        _entropy: Entropy,
    ) -> tuple[messages.Dealt, ...]:
        """Answer the server's request for one attempt as the dealer.

        Raises:
            PeerError: the request does not follow from honest members' adverts.
            UsageError: the kind has no dealer.
        """
        raise UsageError(f"cannot deal triples for {tuple(place)}: this kind of secure sum has no dealer")


PhaseT = TypeVar("PhaseT")


def own(phase: object, kind: type[PhaseT]) -> PhaseT:
    """Return a phase as the type of the caller's kind; else a UsageError."""
    if not isinstance(phase, kind):
        raise UsageError(
            f"the phase of a sum must be {kind.__name__}, found {type(phase).__name__}, which another"
            " kind of sum created"
        )
    return phase


def out_of_turn(sender: PartyId, what: str, phase: ServerPhase) -> PeerError:
    """Return the error for a message that the server's phase does not expect."""
    return PeerError(sender, f"sends {what} at the wrong time in {phase.setup.describe()}")
