"""CrypTen's arithmetic shares behind the port."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from securefl.base.arrays import Ring
from securefl.base.crypto import Roster
from securefl.base.entropy import Entropy
from securefl.base.errors import PeerError, UsageError
from securefl.base.ids import SERVER, PartyId
from securefl.protocol.messages import (
    AnyMessage,
    Complaint,
    InstanceSeed,
    KeyAdvert,
    KeyList,
    PeerBox,
    SumToMember,
    SumToServer,
)
from securefl.protocol.secure_sum.collecting import (
    CollectingInputs,
    CollectingKeys,
    Lost,
    ServerPhase,
)
from securefl.protocol.secure_sum.crypten import member
from securefl.protocol.secure_sum.crypten.library import check_machine
from securefl.protocol.secure_sum.crypten.member import MaskSource
from securefl.protocol.secure_sum.crypten.ports import Engine
from securefl.protocol.secure_sum.crypten.server import (
    BlindedShares,
    check_seed,
    close_keys,
    recovered,
    relay,
    unmask,
)
from securefl.protocol.secure_sum.evidence import FixedSum, OpenedSecrets
from securefl.protocol.secure_sum.port import (
    Closed,
    InputSent,
    MemberEnd,
    MemberPhase,
    MemberStep,
    Opening,
    Running,
    SecureSum,
    ServerEnd,
    Taken,
    own,
)
from securefl.protocol.secure_sum.setup import Setup
from securefl.protocol.secure_sum.store import VectorStore
from securefl.scenario import Scenario


@dataclass(frozen=True, slots=True)
class CryptenSums(SecureSum):
    """Sums of shares; all listed members open them."""

    source: MaskSource
    device: Literal["auto", "cpu", "cuda"]
    engine: Engine | None = None

    everyone: ClassVar[bool] = True
    bad: ClassVar[str] = "a message that cannot be"
    preload: ClassVar[tuple[str, ...]] = ("securefl.protocol.secure_sum.crypten.preloaded",)

    @property
    def member(self) -> MemberEnd:
        """See :class:`securefl.protocol.secure_sum.port.SecureSum`."""
        return _Member(self.source, self.engine)

    @property
    def server(self) -> ServerEnd:
        """See :class:`securefl.protocol.secure_sum.port.SecureSum`."""
        return SharesServer()

    def vectors(self, step: Literal["shares", "training"], members: int) -> int:
        """See :class:`securefl.protocol.secure_sum.port.SecureSum`: everybody's shares go to everybody."""
        return 1 + 2 * (members - 1) if step == "training" else 0

    def check_machine(self) -> None:
        """See :class:`securefl.protocol.secure_sum.port.SecureSum`."""
        check_machine(self.device)

    def prepared(self) -> SecureSum:
        """See :class:`securefl.protocol.secure_sum.port.SecureSum`."""
        self.check_machine()
        from securefl.protocol.secure_sum.crypten.engine import CryptenEngine  # noqa: PLC0415 - imports torch and CrypTen

        return replace(self, engine=CryptenEngine(self.device))


def sums_of(scenario: Scenario, _length: int) -> CryptenSums:
    """Return the kind as the scenario's table has it."""
    return CryptenSums(scenario.secure_sum.mask_source, scenario.secure_sum.device)


@dataclass(frozen=True, slots=True)
class _Member(MemberEnd):
    source: MaskSource
    engine: Engine | None

    def advertise(
        self, setup: Setup, me: PartyId, _weights: Mapping[PartyId, float], entropy: Entropy
    ) -> tuple[MemberPhase, KeyAdvert]:
        return member.advertise(setup, me, entropy)

    def receive(
        self, phase: MemberPhase, message: SumToMember, roster: Roster, entropy: Entropy
    ) -> MemberStep:
        match message, phase:
            case KeyList(), member.Advertised():
                return MemberStep(member.on_key_list(phase, message, roster, entropy, self.source))
            case PeerBox(), member.Listed() | member.Computing():
                return _told(member.on_peer_box(phase, message, entropy))
            case PeerBox(), member.Spoiled():
                # Under way when it was spoiled; the retry will have others.
                return MemberStep(phase)
            case _:
                raise PeerError(SERVER, f"sends {type(message).__name__} out of turn")

    def submit(self, phase: MemberPhase, encoded: Ring, entropy: Entropy, without: int) -> MemberStep | None:
        if not isinstance(phase, member.Listed):
            return None
        if self.engine is None:
            raise UsageError("this party was made without CrypTen")
        return _told(member.submit(phase, encoded, self.engine, entropy, without))

    def awaits_update(self, phase: MemberPhase) -> bool:
        return isinstance(phase, member.Listed)

    def sent(self, phase: MemberPhase) -> InputSent | None:
        return phase if isinstance(phase, member.Submitted) else None

    def release(self, phase: InputSent, survivors: Collection[PartyId]) -> Opening:
        return member.seed_for(own(phase, member.Submitted), survivors)

    def running(self, phase: MemberPhase) -> Iterable[Running]:
        return (phase.computation,) if isinstance(phase, member.Computing) else ()


def _told(step: member.Step) -> MemberStep:
    said: tuple[AnyMessage, ...] = (*step.boxes, *(step.submitted or ()))
    if step.accused is not None:
        said += (Complaint(accused=step.accused.culprit),)
    return MemberStep(step.phase, said, step.accused)


class SharesServer(ServerEnd):
    """The server's end of sums whose members compute together."""

    collected: ClassVar[type[CollectingInputs]] = BlindedShares

    def receive(
        self, phase: ServerPhase, sender: PartyId, message: SumToServer, signed: bytes, store: VectorStore
    ) -> Taken:
        """See :class:`securefl.protocol.secure_sum.port.ServerEnd`."""
        if isinstance(message, PeerBox) and isinstance(phase, BlindedShares):
            counted, to, passed = relay(phase, sender, message)
            return Taken(counted, ((to, passed),))
        return super().receive(phase, sender, message, signed, store)

    def close(self, phase: ServerPhase, _max_attempts: int) -> Closed:
        """See :class:`securefl.protocol.secure_sum.port.ServerEnd`."""
        after, key_list = close_keys(own(phase, CollectingKeys))
        if isinstance(after, Lost) or key_list is None:
            return Closed(after)
        said = tuple((after.setup.members[i], key_list) for i in after.adverts)
        return Closed(after, "training", vectors=True, said=said)

    def check_release(
        self, phase: CollectingInputs, _survivors: frozenset[PartyId], holder: PartyId, release: Opening
    ) -> None:
        """See :class:`securefl.protocol.secure_sum.port.ServerEnd`."""
        if not isinstance(release, InstanceSeed):
            raise PeerError(
                holder, f"releases what sums of another kind open with, in {phase.setup.describe()}"
            )
        check_seed(phase, holder, release)

    def recovered(
        self, phase: CollectingInputs, _survivors: frozenset[PartyId], releases: Mapping[PartyId, Opening]
    ) -> OpenedSecrets:
        """See :class:`securefl.protocol.secure_sum.port.ServerEnd`."""
        return recovered(phase, {p: one for p, one in releases.items() if isinstance(one, InstanceSeed)})

    def unmask(self, total: Ring, fixed: FixedSum, secrets: OpenedSecrets) -> None:
        """See :class:`securefl.protocol.secure_sum.port.ServerEnd`."""
        unmask(total, fixed, secrets)
