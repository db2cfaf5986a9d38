"""Pairwise masks behind the port."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import ClassVar

from securefl.base.arrays import Ring
from securefl.base.crypto import Roster
from securefl.base.entropy import Entropy
from securefl.base.errors import PeerError, UsageError
from securefl.base.ids import SERVER, PartyId
from securefl.protocol.messages import (
    BoxList,
    Complaint,
    InstanceShares,
    KeyAdvert,
    KeyList,
    ShareBoxes,
    SumToMember,
    SumToServer,
)
from securefl.protocol.secure_sum.collecting import (
    CollectingInputs,
    CollectingKeys,
    Lost,
    ServerPhase,
)
from securefl.protocol.secure_sum.evidence import FixedSum, OpenedSecrets
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
from securefl.protocol.secure_sum.masking.opening import check_release, dealt, recovered, unmask
from securefl.protocol.secure_sum.masking.server import (
    CollectingBoxes,
    MaskedInputs,
    close_boxes,
    close_keys,
    on_boxes,
)
from securefl.protocol.secure_sum.port import (
    Closed,
    DealtSecret,
    InputSent,
    MemberEnd,
    MemberStep,
    Opening,
    SecureSum,
    ServerEnd,
    Taken,
    own,
)
from securefl.protocol.secure_sum.port import MemberPhase as AnyPhase
from securefl.protocol.secure_sum.setup import Setup
from securefl.protocol.secure_sum.store import VectorStore
from securefl.scenario import Scenario


class Masking(SecureSum):
    """Sums under pairwise masks; any ``threshold`` members open them."""

    deals_secrets: ClassVar[bool] = True

    @property
    def member(self) -> MemberEnd:
        """See :class:`securefl.protocol.secure_sum.port.SecureSum`."""
        return _Member()

    @property
    def server(self) -> ServerEnd:
        """See :class:`securefl.protocol.secure_sum.port.SecureSum`."""
        return _Server()


def sums_of(_scenario: Scenario, _length: int) -> Masking:
    """Return the kind; it needs to know nothing."""
    return Masking()


class _Member(MemberEnd):
    def advertise(
        self, setup: Setup, me: PartyId, _weights: Mapping[PartyId, float], entropy: Entropy
    ) -> tuple[MemberPhase, KeyAdvert]:
        return advertise(setup, me, entropy)

    def receive(self, phase: AnyPhase, message: SumToMember, roster: Roster, entropy: Entropy) -> MemberStep:
        match message, phase:
            case KeyList(), Advertised():
                boxed, boxes = on_key_list(phase, message, roster, entropy)
                return MemberStep(boxed, (boxes,))
            case BoxList(), Boxed():
                try:
                    return MemberStep(on_box_list(phase, message))
                except BadBoxError as error:
                    return MemberStep(phase, (Complaint(accused=error.culprit),), error)
            case _:
                raise PeerError(SERVER, f"sends {type(message).__name__} out of turn")

    def submit(self, phase: AnyPhase, encoded: Ring, _entropy: Entropy, without: int) -> MemberStep | None:
        if not isinstance(phase, Ready):
            return None
        submitted, masked, receipt = mask(phase, encoded, without)
        return MemberStep(submitted, (masked, receipt))

    def awaits_update(self, phase: AnyPhase) -> bool:
        return isinstance(phase, Ready)

    def sent(self, phase: AnyPhase) -> InputSent | None:
        return phase if isinstance(phase, Submitted) else None

    def release(self, phase: InputSent, survivors: Collection[PartyId]) -> Opening:
        return shares_for(own(phase, Submitted), survivors)

    def given(self, _phase: InputSent, release: Opening) -> tuple[tuple[int, ...], tuple[int, ...]]:
        shares = own(release, InstanceShares)
        return tuple(o for o, _ in shares.seed_shares), tuple(o for o, _ in shares.key_shares)


class _Server(ServerEnd):
    collected: ClassVar[type[CollectingInputs]] = MaskedInputs

    def receive(
        self, phase: ServerPhase, sender: PartyId, message: SumToServer, signed: bytes, store: VectorStore
    ) -> Taken:
        if isinstance(message, ShareBoxes) and isinstance(phase, CollectingBoxes):
            return Taken(on_boxes(phase, sender, message))
        return super().receive(phase, sender, message, signed, store)

    def close(self, phase: ServerPhase, _max_attempts: int) -> Closed:
        match phase:
            case CollectingKeys():
                after, key_list = close_keys(phase)
                if isinstance(after, Lost) or key_list is None:
                    return Closed(after)
                said = tuple((phase.setup.members[i], key_list) for i in after.adverts)
                return Closed(after, "shares", said=said)
            case CollectingBoxes():
                inputs, lists = close_boxes(phase)
                return Closed(inputs, "training", vectors=True, said=tuple(lists.items()))
            case _:
                raise UsageError(f"{type(phase).__name__} is no step that ends")

    def check_release(
        self, phase: CollectingInputs, survivors: frozenset[PartyId], holder: PartyId, release: Opening
    ) -> None:
        if not isinstance(release, InstanceShares):
            raise PeerError(
                holder, f"releases what sums of another kind open with, in {phase.setup.describe()}"
            )
        check_release(own(phase, MaskedInputs), survivors, holder, release)

    def recovered(
        self, phase: CollectingInputs, survivors: frozenset[PartyId], releases: Mapping[PartyId, Opening]
    ) -> OpenedSecrets:
        shares = {party: item for party, item in releases.items() if isinstance(item, InstanceShares)}
        return recovered(own(phase, MaskedInputs), survivors, shares)

    def dealt(
        self, phase: CollectingInputs, survivors: frozenset[PartyId], releases: Mapping[PartyId, Opening]
    ) -> Iterable[DealtSecret]:
        shares = {party: item for party, item in releases.items() if isinstance(item, InstanceShares)}
        return dealt(own(phase, MaskedInputs), survivors, shares)

    def unmask(self, total: Ring, fixed: FixedSum, secrets: OpenedSecrets) -> None:
        unmask(total, fixed, secrets)
