"""The port that every kind of secure sum stands behind: a member's end, and the server's end.

The machines of a round (:mod:`securefl.protocol.round.shared`) know this and no kind. Both ends are functions
of a phase and an event, as the machines are: a wrong message raises ``PeerError`` and nothing has changed.
Each kind is a folder beside this module, found by its name (:mod:`securefl.protocol.secure_sum.kinds`).
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
"""What a member lets go of after the freeze, so that a sum opens."""


class MemberPhase(Protocol):
    """One attempt of one sum at a member; each kind has its own."""

    @property
    def setup(self) -> Setup:
        """Of the attempt."""
        ...


class InputSent(MemberPhase, Protocol):
    """A member's attempt once the update is out; kinds add what they let go of."""

    @property
    def sharers(self) -> frozenset[int]:
        """Numbers of the members that masks exist between; of those that the sum holds, if ``everyone``."""
        ...

    @property
    def lists_digest(self) -> bytes:
        """The digest of lists that this member's receipt states."""
        ...

    @property
    def input_digest(self) -> bytes:
        """The digest of the masked input that it states, where sums are verified; nothing elsewhere."""
        ...

    def summed_members(self, survivors: Collection[PartyId]) -> tuple[int, ...]:
        """Return the numbers of the members whose vectors the sum adds up, ascending."""
        ...


class Running(Protocol):
    """Something that a phase keeps going, and that ends with it."""

    def close(self) -> None:
        """End it where it stands."""
        ...


@dataclass(frozen=True, slots=True)
class MemberStep:
    """The result of an event at a member: its phase, and messages to the server."""

    phase: MemberPhase
    said: tuple[messages.AnyMessage, ...] = ()
    refused: PeerError | None = None
    """Whom the member refuses, though its phase may have changed."""


class MemberEnd(ABC):
    """A member's end of all sums of one kind."""

    @abstractmethod
    def advertise(
        self, setup: Setup, me: PartyId, weights: Mapping[PartyId, float], entropy: Entropy
    ) -> tuple[MemberPhase, messages.KeyAdvert]:
        """Draw the fresh keys of one attempt; ``weights`` are everybody's, in (0, 1]."""

    @abstractmethod
    def receive(
        self, phase: MemberPhase, message: messages.SumToMember, roster: crypto.Roster, entropy: Entropy
    ) -> MemberStep:
        """Take one message of the server.

        Raises:
            PeerError: out of turn, or not what an honest server sends or relays.
        """

    @abstractmethod
    def submit(self, phase: MemberPhase, encoded: Ring, entropy: Entropy, without: int) -> MemberStep | None:
        """Send the encoded update (ring words, shape (d,), not changed) if it is due; None if not.

        ``without``: components of removable noise that are left out; 0 unless the member deviates.
        """

    @abstractmethod
    def awaits_update(self, phase: MemberPhase) -> bool:
        """Return True if the others wait for nothing of this member but its update: its shares have come."""

    @abstractmethod
    def input_sent(self, phase: MemberPhase) -> InputSent | None:
        """Return the phase if the update is out; None as long as it is not."""

    @abstractmethod
    def release(self, phase: InputSent, survivors: Collection[PartyId]) -> Opening:
        """Return what opens the sum. The caller has checked survivors, certificate and ledger."""

    def exposed_members(self, phase: InputSent, _release: Opening) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Of whom a release gives something away: of members that are counted, and that have dropped out."""
        return tuple(sorted(phase.sharers)), ()

    def is_final(self, _phase: MemberPhase) -> bool:
        """Whether the member takes part in no further attempt."""
        return False

    def running(self, _phase: MemberPhase) -> Iterable[Running]:
        """Computations that have to be ended when the phase is left."""
        return ()


Step = Literal["keys", "shares", "training"]
"""Deadlines that a sum's steps have."""


@dataclass(frozen=True, slots=True)
class Passed:
    """Verdicts of validation: updates of a sum that passed, and those that did not."""

    accepted: tuple[PartyId, ...]
    rejected: tuple[PartyId, ...]
    projections: int


@dataclass(frozen=True, slots=True)
class Taken:
    """The result of a message at the server: the phase, and messages to pass on."""

    phase: ServerPhase
    relayed: tuple[tuple[PartyId, messages.AnyMessage], ...] = ()


@dataclass(frozen=True, slots=True)
class Closed:
    """The result of ending a step with whoever had answered."""

    phase: ServerPhase
    """A next attempt's ``CollectingKeys`` means: start over with its members."""
    step: Step = "keys"
    """How long the next one may take; without meaning where the sum is lost."""
    vectors: bool = False
    """Whether vectors travel in it, so that it may take as long as they need."""
    said: tuple[tuple[PartyId, messages.AnyMessage], ...] = field(default=(), repr=False)
    passed: Passed | None = None


class DealtSecrets(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, array_like=True, tag=True):
    """Released shares of one member's secrets, and the values that commit to them: evidence if wrong."""

    advert: bytes
    """Frame of the owner."""
    members: tuple[messages.Name, ...]
    """Of the attempt."""
    digests: tuple[tuple[bytes, ...], ...]
    """Of all its shares, by holder and kind."""
    secrets: tuple[tuple[int, tuple[tuple[int, bytes], ...]], ...]
    """By kind (0: seed, 1: mask key, then noise) the shares that open it, by holder's number."""

    __repr__ = messages.Message.__repr__


class ServerEnd(ABC):
    """The server's end of all sums of one kind."""

    collected: ClassVar[type[CollectingInputs]] = CollectingInputs
    """The phase in which a sum of this kind is frozen: what a checkpoint holds of it."""

    def receive(
        self,
        phase: ServerPhase,
        sender: PartyId,
        message: messages.SumToServer,
        signed: bytes,
        store: VectorStore,
    ) -> Taken:
        """Take one message of a member or the dealer; what every kind collects is taken here.

        Raises:
            PeerError: out of turn, or not what an honest one sends.
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
        """Check what one member released.

        Raises:
            PeerError: it is not what the member advertised, or of another kind of sum.
        """

    @abstractmethod
    def recover_secrets(
        self, phase: CollectingInputs, survivors: frozenset[PartyId], releases: Mapping[PartyId, Opening]
    ) -> evidence.OpenedSecrets:
        """Return the secrets that open the sum, from as many releases as are needed.

        Raises:
            PeerError: somebody has shared what is no secret.
            UsageError: there are too few releases or survivors.
        """

    def dealt(
        self,
        _phase: CollectingInputs,
        _survivors: frozenset[PartyId],
        _releases: Mapping[PartyId, Opening],
        _owner: PartyId,
    ) -> DealtSecrets | None:
        """Return the released shares of one member's secrets; None if members share none."""
        return None

    @abstractmethod
    def unmask(self, total: Ring, fixed: evidence.FixedSum, secrets: evidence.OpenedSecrets) -> None:
        """Turn the sum of all masked vectors, shape (d,), into that of the updates, in place.

        Raises:
            PeerError: somebody's secret is another one than it advertised.
        """

    def sum_of(
        self, fixed: evidence.FixedSum, secrets: evidence.OpenedSecrets, vectors: evidence.Vectors
    ) -> Ring:
        """Return the ring sum, shape (d,): for the server, and for whoever verifies that it opened it right.

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
        """Return the ring sum, shape (d,), of the survivors' updates.

        Raises:
            PeerError: as :meth:`recover_secrets` and :meth:`sum_of`.
        """
        secrets = self.recover_secrets(phase, survivors, releases)
        return self.sum_of(phase.fixed_sum(survivors), secrets, phase.vectors(store))

    def complaint(
        self, phase: ServerPhase, sender: PartyId, accused: PartyId, *, over: bool
    ) -> CollectingInputs | Lost:
        """Return what is started over without both, or lost.

        An honest member complains instead of submitting: whoever has submitted may not undo others' work.

        Raises:
            PeerError: out of turn; ``over`` says that the step has ended.
        """
        if not isinstance(phase, CollectingInputs):
            raise out_of_turn(sender, "Complaint", phase)
        setup = phase.setup
        submitted = setup.index(sender) in phase.inputs.keys() | phase.receipts.keys()
        if sender == accused or submitted or over or not {sender, accused} <= phase.names(phase.sharers):
            raise PeerError(sender, f"complains about {accused} at the wrong time in {setup.describe()}")
        return phase

    def doubt(self, _phase: CollectingInputs, _opened: Ring, _weights: Mapping[PartyId, float]) -> str:
        """The reason why an opened sum must be wrong; empty if nothing says so."""
        return ""


class SecureSum(ABC):
    """One kind of secure sum, as one scenario asks for it."""

    everyone: ClassVar[bool] = False
    """Whether all members on the key list are needed to open, not any ``threshold``."""
    helped: ClassVar[bool] = False
    """Whether members that are not counted hold parts of what is opened, and release them, too."""
    dealer: ClassVar[PartyId | None] = None
    """Who deals members what they compute with; nobody in most kinds."""
    bad: ClassVar[str] = "a bad share box"
    """What a member complains about."""
    deals_secrets: ClassVar[bool] = False
    """Whether members share secrets with each other between keys and inputs."""
    simulated_only: ClassVar[bool] = False
    """Whether it hides nothing, so that no run may use it."""
    preload: ClassVar[tuple[str, ...]] = ()
    """Modules that the fork server of a run imports for it."""

    @property
    @abstractmethod
    def member(self) -> MemberEnd:
        """The members' end."""

    @property
    @abstractmethod
    def server(self) -> ServerEnd:
        """The server's end."""

    def vectors(self, step: Literal["shares", "training"], _members: int) -> int:
        """Vectors that pass one member's connection in a step of a sum of so many members, at most."""
        return 1 if step == "training" else 0

    def checking(self, _deadlines: scenario.Deadlines) -> float:
        """Seconds that steps between shares and inputs may take."""
        return 0.0

    def lists_digest(
        self, setup: Setup, key_list: bytes, sharers: frozenset[int], _alive: Collection[int]
    ) -> bytes:
        """Return what receipts of a sum state of lists, for whoever verifies that it is about these.

        Args:
            setup: of the attempt.
            key_list: digest of the list of adverts.
            sharers: numbers of the members between whom masks or shares exist.
            _alive: numbers of the members whose updates the sum holds.
        """
        return setup.lists_digest(key_list, sharers)

    def check_run(self) -> None:
        """Refuse to run, other than to simulate, what protects nobody.

        Raises:
            ConfigError: it hides nothing.
        """
        if self.simulated_only:
            raise ConfigError(
                "secure_sum.kind",
                "protects nothing: the server would see every update",
                'set kind = "masking", or use securefl simulate',
            )

    def check_machine(self) -> None:
        """Refuse to compute sums on a machine that lacks what they need, before any process starts.

        Raises:
            ConfigError: what is missing.
        """
        return

    def prepare(self) -> SecureSum:
        """Return the kind with what its members compute with, loaded.

        Raises:
            ConfigError: as :meth:`check_machine`.
        """
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
            PeerError: the request is not one that honest members' adverts make.
            UsageError: the kind has no dealer.
        """
        raise UsageError(f"cannot deal triples for {tuple(place)}: this kind of secure sum has no dealer")


PhaseT = TypeVar("PhaseT")


def own(phase: object, kind: type[PhaseT]) -> PhaseT:
    """Return a phase as one of the kind that made it.

    Raises:
        UsageError: another kind has made it.
    """
    if not isinstance(phase, kind):
        raise UsageError(
            f"the phase of a sum must be {kind.__name__}, found {type(phase).__name__}, which another"
            " kind of sum created"
        )
    return phase


def out_of_turn(sender: PartyId, what: str, phase: ServerPhase) -> PeerError:
    """The refusal of a message that the server's phase does not wait for."""
    return PeerError(sender, f"sends {what} at the wrong time in {phase.setup.describe()}")
