"""CrypTen's arithmetic shares as a kind of secure sum."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from securefl.base import crypto
from securefl.base.arrays import Ring
from securefl.base.entropy import Entropy
from securefl.base.errors import PeerError, UsageError
from securefl.base.ids import SERVER, PartyId
from securefl.protocol import messages
from securefl.protocol.secure_sum import evidence, port
from securefl.protocol.secure_sum.collecting import (
    CollectingInputs,
    CollectingKeys,
    Lost,
    ServerPhase,
)
from securefl.protocol.secure_sum.crypten import member
from securefl.protocol.secure_sum.crypten.library import check_machine
from securefl.protocol.secure_sum.crypten.ports import Engine
from securefl.protocol.secure_sum.crypten.server import (
    BlindedShares,
    check_seed,
    close_keys,
    recover_seeds,
    unmask,
)
from securefl.protocol.secure_sum.setup import Setup
from securefl.scenario import Scenario


@dataclass(frozen=True, slots=True)
class CryptenSums(port.SecureSum):
    """Sums of shares; all listed members open them."""

    device: Literal["auto", "cpu", "cuda"]
    engine: Engine | None = None

    requires_all_members: ClassVar[bool] = True
    bad: ClassVar[str] = "a message that cannot be"
    preload: ClassVar[tuple[str, ...]] = ("securefl.protocol.secure_sum.crypten.preloaded",)

    @property
    def member(self) -> port.MemberEnd:
        return _Member(self.engine)

    @property
    def server(self) -> port.ServerEnd:
        return SharesServer()

    def vectors(self, step: Literal["shares", "training"], members: int) -> int:
        """See :class:`securefl.protocol.secure_sum.port.SecureSum`: all exchange shares with all."""
        return 1 + 2 * (members - 1) if step == "training" else 0

    def check_machine(self) -> None:
        check_machine(self.device)

    def prepare(self) -> port.SecureSum:
        self.check_machine()
        from securefl.protocol.secure_sum.crypten.peers import CryptenEngine  # noqa: PLC0415 - imports torch and CrypTen

        return replace(self, engine=CryptenEngine(self.device))


def sums_of(scenario: Scenario, _length: int) -> CryptenSums:
    """Return the kind for the scenario's device."""
    return CryptenSums(scenario.training.device)


@dataclass(frozen=True, slots=True)
class _Member(port.MemberEnd):
    engine: Engine | None

    def advertise(
        self, setup: Setup, me: PartyId, _weights: Mapping[PartyId, float], entropy: Entropy
    ) -> tuple[port.MemberPhase, messages.KeyAdvert]:
        return member.advertise(setup, me, entropy)

    def receive(
        self, phase: port.MemberPhase, message: messages.SumToMember, roster: crypto.Roster, _entropy: Entropy
    ) -> port.MemberStep:
        match message, phase:
            case messages.KeyList(), member.Advertised():
                return port.MemberStep(member.on_key_list(phase, message, roster))
            case _:
                raise PeerError(SERVER, f"sends {type(message).__name__} at the wrong time")

    def submit(
        self, phase: port.MemberPhase, encoded: Ring, _entropy: Entropy, without: int
    ) -> port.MemberStep | None:
        if not isinstance(phase, member.Listed):
            return None
        if self.engine is None:
            raise UsageError(
                "cannot compute with CrypTen: this party was created without an engine; pass engine"
            )
        return port.MemberStep(*member.submit(phase, encoded, self.engine, without))

    def awaits_update(self, phase: port.MemberPhase) -> bool:
        return isinstance(phase, member.Listed)

    def input_sent(self, phase: port.MemberPhase) -> port.InputSent | None:
        return phase if isinstance(phase, member.Submitted) else None

    def release(self, phase: port.InputSent, survivors: Collection[PartyId]) -> port.Opening:
        return member.seed_for(port.own(phase, member.Submitted), survivors)


class SharesServer(port.ServerEnd):
    """Server's end of sums that members compute jointly."""

    collected: ClassVar[type[CollectingInputs]] = BlindedShares

    def close(self, phase: ServerPhase, _max_attempts: int) -> port.Closed:
        after, key_list = close_keys(port.own(phase, CollectingKeys))
        if isinstance(after, Lost) or key_list is None:
            return port.Closed(after)
        messages_out = tuple((after.setup.members[i], key_list) for i in after.adverts)
        return port.Closed(after, "training", vectors=True, outgoing=messages_out)

    def check_release(
        self, phase: CollectingInputs, _survivors: frozenset[PartyId], holder: PartyId, release: port.Opening
    ) -> None:
        if not isinstance(release, messages.InstanceSeed):
            raise PeerError(holder, f"releases shares of another kind of sum in {phase.setup.describe()}")
        check_seed(phase, holder, release)

    def recover_secrets(
        self,
        phase: CollectingInputs,
        _survivors: frozenset[PartyId],
        releases: Mapping[PartyId, port.Opening],
    ) -> evidence.OpenedSecrets:
        return recover_seeds(
            phase, {p: one for p, one in releases.items() if isinstance(one, messages.InstanceSeed)}
        )

    def unmask(self, total: Ring, fixed: evidence.FixedSum, secrets: evidence.OpenedSecrets) -> None:
        unmask(total, fixed, secrets)
