"""Pairwise masks as a kind of secure sum."""

from collections.abc import Collection, Mapping
from typing import ClassVar

from securefl import scenario
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
from securefl.protocol.secure_sum.masking.client import (
    Advertised,
    BadBoxError,
    Boxed,
    MemberPhase,
    Ready,
    Submitted,
    advertise,
    mask,
    on_box_list,
    on_key_list,
    shares_for,
)
from securefl.protocol.secure_sum.masking.opening import check_release, dealt, recover_secrets, unmask
from securefl.protocol.secure_sum.masking.server import (
    CollectingBoxes,
    MaskedInputs,
    close_boxes,
    close_keys,
    on_boxes,
)
from securefl.protocol.secure_sum.removal import VectorStore
from securefl.protocol.secure_sum.setup import Setup


class Masking(port.SecureSum):
    """Sums under pairwise masks; any ``threshold`` members open them."""

    deals_secrets: ClassVar[bool] = True

    @property
    def member(self) -> port.MemberEnd:
        return _Member()

    @property
    def server(self) -> port.ServerEnd:
        return _Server()


def sums_of(_scenario: scenario.Scenario, _length: int) -> Masking:
    """Return the kind."""
    return Masking()


class _Member(port.MemberEnd):
    def advertise(
        self, setup: Setup, me: PartyId, _weights: Mapping[PartyId, float], entropy: Entropy
    ) -> tuple[MemberPhase, messages.KeyAdvert]:
        return advertise(setup, me, entropy)

    def receive(
        self, phase: port.MemberPhase, message: messages.SumToMember, roster: crypto.Roster, entropy: Entropy
    ) -> port.MemberStep:
        match message, phase:
            case messages.KeyList(), Advertised():
                boxed, boxes = on_key_list(phase, message, roster, entropy)
                return port.MemberStep(boxed, (boxes,))
            case messages.BoxList(), Boxed():
                try:
                    return port.MemberStep(on_box_list(phase, message))
                except BadBoxError as error:
                    return port.MemberStep(phase, (messages.Complaint(accused=error.culprit),), error)
            case _:
                raise PeerError(SERVER, f"sends {type(message).__name__} at the wrong time")

    def submit(
        self, phase: port.MemberPhase, encoded: Ring, _entropy: Entropy, without: int
    ) -> port.MemberStep | None:
        if not isinstance(phase, Ready):
            return None
        submitted, masked, receipt = mask(phase, encoded, without)
        return port.MemberStep(submitted, (masked, receipt))

    def awaits_update(self, phase: port.MemberPhase) -> bool:
        return isinstance(phase, Ready)

    def input_sent(self, phase: port.MemberPhase) -> port.InputSent | None:
        return phase if isinstance(phase, Submitted) else None

    def release(self, phase: port.InputSent, survivors: Collection[PartyId]) -> port.Opening:
        return shares_for(port.own(phase, Submitted), survivors)

    def exposed_members(
        self, _phase: port.InputSent, release: port.Opening
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        shares = port.own(release, messages.InstanceShares)
        return tuple(o for o, _ in shares.seed_shares), tuple(o for o, _ in shares.key_shares)


class _Server(port.ServerEnd):
    collected: ClassVar[type[CollectingInputs]] = MaskedInputs

    def receive(
        self,
        phase: ServerPhase,
        sender: PartyId,
        message: messages.SumToServer,
        signed: bytes,
        store: VectorStore,
    ) -> port.Taken:
        if isinstance(message, messages.ShareBoxes) and isinstance(phase, CollectingBoxes):
            return port.Taken(on_boxes(phase, sender, message))
        return super().receive(phase, sender, message, signed, store)

    def close(self, phase: ServerPhase, _max_attempts: int) -> port.Closed:
        match phase:
            case CollectingKeys():
                after, key_list = close_keys(phase)
                if isinstance(after, Lost) or key_list is None:
                    return port.Closed(after)
                messages_out = tuple((phase.setup.members[i], key_list) for i in after.adverts)
                return port.Closed(after, "shares", outgoing=messages_out)
            case CollectingBoxes():
                inputs, lists = close_boxes(phase)
                return port.Closed(inputs, "training", vectors=True, outgoing=tuple(lists.items()))
            case _:
                raise UsageError(
                    f"cannot close a masked sum: phase {type(phase).__name__} does not end with a deadline"
                )

    def check_release(
        self, phase: CollectingInputs, survivors: frozenset[PartyId], holder: PartyId, release: port.Opening
    ) -> None:
        if not isinstance(release, messages.InstanceShares):
            raise PeerError(holder, f"releases shares of another kind of sum in {phase.setup.describe()}")
        check_release(port.own(phase, MaskedInputs), survivors, holder, release)

    def recover_secrets(
        self, phase: CollectingInputs, survivors: frozenset[PartyId], releases: Mapping[PartyId, port.Opening]
    ) -> evidence.OpenedSecrets:
        shares = {
            party: item for party, item in releases.items() if isinstance(item, messages.InstanceShares)
        }
        return recover_secrets(port.own(phase, MaskedInputs), survivors, shares)

    def dealt(
        self,
        phase: CollectingInputs,
        survivors: frozenset[PartyId],
        releases: Mapping[PartyId, port.Opening],
        owner: PartyId,
    ) -> port.DealtSecrets:
        shares = {
            party: item for party, item in releases.items() if isinstance(item, messages.InstanceShares)
        }
        return dealt(port.own(phase, MaskedInputs), survivors, shares, owner)

    def unmask(self, total: Ring, fixed: evidence.FixedSum, secrets: evidence.OpenedSecrets) -> None:
        unmask(total, fixed, secrets)
