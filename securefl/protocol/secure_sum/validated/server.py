"""Server's part of a validated sum: it relays, waits, and counts verdicts (ADR 0024).

::

    CollectingKeys -> AwaitingHeld -> AwaitingNonces -> AwaitingVerdicts -> CheckedShares

``on_*`` raise ``PeerError`` for a message that is not due, or not from a listed member. A member missing
before all receipts are in causes another attempt; later, the sum is lost, since an update has only one
sketch.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from securefl.base import text
from securefl.base.errors import PeerError
from securefl.base.ids import PartyId
from securefl.protocol import messages
from securefl.protocol.secure_sum.collecting import CollectingKeys, Lost, retry
from securefl.protocol.secure_sum.crypten import server
from securefl.protocol.secure_sum.crypten.server import BlindedShares
from securefl.protocol.secure_sum.setup import Setup
from securefl.protocol.secure_sum.validated.relayed import check_nonce
from securefl.protocol.secure_sum.validated.shares import LEAST_MEMBERS
from securefl.protocol.secure_sum.validated.validation import (
    SHARE_NUMBER,
    Validation,
    accepted_by,
    validated_lists,
)


@dataclass(frozen=True, slots=True)
class _Based:
    base: BlindedShares
    validation: Validation

    @property
    def setup(self) -> Setup:
        """Setup of the attempt."""
        return self.base.setup

    @property
    def listed(self) -> frozenset[int]:
        """Members; all are needed."""
        return self.base.sharers


@dataclass(frozen=True, slots=True)
class AwaitingHeld(_Based):
    """Phase that relays shares and triples, and collects receipts."""

    shared: frozenset[tuple[int, int]] = frozenset()
    """(owner, holder) of the relayed shares."""
    dealt: frozenset[int] = frozenset()
    held: Mapping[int, bytes] = field(default_factory=dict, repr=False)

    @property
    def missing(self) -> frozenset[PartyId]:
        """Members that have not shared; else the dealer; else members without a receipt."""
        missing = silent_owners(self)
        if not missing and self.dealt != self.listed:
            return frozenset({self.validation.dealer})
        return self.base.names(missing or self.listed - self.held.keys())


@dataclass(frozen=True, slots=True)
class AwaitingNonces(_Based):
    """Phase that collects nonces."""

    nonces: Mapping[int, bytes] = field(default_factory=dict, repr=False)

    @property
    def missing(self) -> frozenset[PartyId]:
        """Members without a nonce."""
        return self.base.names(self.listed - self.nonces.keys())


@dataclass(frozen=True, slots=True)
class AwaitingVerdicts(_Based):
    """Phase that relays checks and collects verdicts."""

    verdicts: Mapping[int, frozenset[int]] = field(default_factory=dict)
    frames: Mapping[int, bytes] = field(default_factory=dict, repr=False)
    sent: Mapping[int, int] = field(default_factory=dict)
    """Check messages by member."""

    @property
    def missing(self) -> frozenset[PartyId]:
        """Members that seem to delay the others."""
        return self.base.names(without_verdict(self))


@dataclass(frozen=True, slots=True)
class CheckedShares(BlindedShares):
    """Phase that collects the members' shares of the sum of accepted updates; all must submit and release."""

    accepted: frozenset[int] = field(kw_only=True)

    @property
    def submitted(self) -> frozenset[PartyId]:
        """Members in the sum, once *all* shares have arrived."""
        return self.names(self.accepted if self.answered == self.sharers else ())

    @property
    def counted(self) -> frozenset[int]:
        """Accepted members."""
        return self.accepted

    @property
    def unfinished(self) -> str:
        """Loss if any share is missing."""
        names = ", ".join(sorted(self.missing))
        return f"{names} sent no share of the sum" if names else ""

    @property
    def final(self) -> str:
        """Constant reason: the sketch is known."""
        return "a member that is in this sum is missing in another one"

    def holders(self, _survivors: Collection[PartyId]) -> tuple[int, ...]:
        """Return all members."""
        return tuple(sorted(self.sharers))

    def releases_needed(self, _survivors: Collection[PartyId]) -> int:
        """Return the number of members."""
        return len(self.sharers)


ValidatedPhase = AwaitingHeld | AwaitingNonces | AwaitingVerdicts


def close_keys(
    phase: CollectingKeys, validation: Validation
) -> tuple[AwaitingHeld | Lost, messages.KeyList | None, messages.DealRequest | None]:
    """End the key step; list and request go to listed members and dealer."""
    base, key_list = server.close_keys(phase)
    if isinstance(base, Lost) or key_list is None:
        return Lost(phase.setup, base.reason if isinstance(base, Lost) else ""), None, None
    if len(base.sharers) < LEAST_MEMBERS:
        reason = (
            f"{text.count(len(base.sharers), 'member')} sent keys, validation needs at least {LEAST_MEMBERS}"
        )
        return Lost(phase.setup, reason), None, None
    request = messages.DealRequest(members=tuple(phase.setup.members), adverts=key_list.adverts)
    return AwaitingHeld(base, validation), key_list, request


def _relay(phase: _Based, sender: PartyId, message: messages.PeerBox) -> tuple[PartyId, messages.PeerBox]:
    setup, index = phase.setup, phase.setup.index(sender)
    if index not in phase.listed or message.peer not in phase.listed or message.peer == index:
        raise PeerError(
            sender,
            f"sends to member {message.peer}, which is not another listed member of {setup.describe()}",
        )
    passed = messages.PeerBox(peer=index, number=message.number, box=message.box)
    return setup.members[message.peer], passed


def on_share(
    phase: AwaitingHeld, sender: PartyId, message: messages.PeerBox
) -> tuple[AwaitingHeld, tuple[PartyId, messages.PeerBox]]:
    """Relay the first share of an update between two listed members."""
    passed = _relay(phase, sender, message)
    pair = (phase.setup.index(sender), message.peer)
    if message.number != SHARE_NUMBER or pair in phase.shared:
        raise PeerError(
            sender,
            f"sends message {message.number}, not a first share of its update, in {phase.setup.describe()}",
        )
    return replace(phase, shared=phase.shared | {pair}), passed


def on_dealt(
    phase: AwaitingHeld, sender: PartyId, message: messages.Dealt, signed: bytes
) -> tuple[AwaitingHeld, tuple[PartyId, messages.DealtTo]]:
    """Relay one member's triples."""
    setup = phase.setup
    if sender != phase.validation.dealer or not signed:
        raise PeerError(sender, f"sends triples in {setup.describe()}, but is not its dealer")
    if message.member not in phase.listed or message.member in phase.dealt:
        raise PeerError(
            sender,
            f"sends triples for member {message.member} twice or of no listed member in {setup.describe()}",
        )
    after = replace(phase, dealt=phase.dealt | {message.member})
    return after, (setup.members[message.member], messages.DealtTo(frame=signed))


def on_held(phase: AwaitingHeld, sender: PartyId, message: messages.Held, signed: bytes) -> AwaitingHeld:
    """Store one receipt, of the same lists."""
    index = _due(phase, sender, phase.held, signed, "acknowledges shares")
    if message.lists != phase.base.lists_digest:
        raise PeerError(sender, f"acknowledges shares of another key list in {phase.setup.describe()}")
    return replace(phase, held={**phase.held, index: signed})


def close_held(
    phase: AwaitingHeld, max_attempts: int
) -> tuple[AwaitingNonces | CollectingKeys | Lost, messages.HeldList | None]:
    """End the step: send all receipts to all, or retry without the members that have none.

    Without the dealer no attempt can succeed. A member that has not shared is excluded first: it alone is the
    cause.
    """
    missing = silent_owners(phase) or phase.listed - phase.held.keys()
    if not missing:
        frames = tuple(frame for _, frame in sorted(phase.held.items()))
        return AwaitingNonces(phase.base, phase.validation), messages.HeldList(receipts=frames)
    if phase.dealt != phase.listed:
        undealt = text.count(len(phase.listed - phase.dealt), "member")
        reason = f"{phase.validation.dealer} sent no triples for {undealt}"
        return Lost(phase.setup, reason), None
    return retry(phase.base, frozenset(phase.setup.members[i] for i in missing), max_attempts), None


def silent_owners(phase: AwaitingHeld) -> frozenset[int]:
    """Return the members that have not shared their update with all others."""
    return frozenset(i for i in phase.listed for j in phase.listed - {i} if (i, j) not in phase.shared)


def on_nonce(
    phase: AwaitingNonces, sender: PartyId, message: messages.SketchNonce, signed: bytes
) -> AwaitingNonces:
    """Store one nonce, the one committed to."""
    index = _due(phase, sender, phase.nonces, signed, "reveals a nonce")
    check_nonce(phase.setup, index, phase.base.adverts[index].shares_root, message)
    return replace(phase, nonces={**phase.nonces, index: signed})


def close_nonces(phase: AwaitingNonces) -> tuple[AwaitingVerdicts | Lost, messages.SketchNonces | None]:
    """End the step: send all nonces to all; if one is missing, the sum is lost."""
    missing = _names(phase, phase.listed - phase.nonces.keys())
    if missing:
        return Lost(phase.setup, f"the updates cannot be checked: {missing} revealed no nonce"), None
    frames = tuple(frame for _, frame in sorted(phase.nonces.items()))
    return AwaitingVerdicts(phase.base, phase.validation), messages.SketchNonces(nonces=frames)


def on_words(
    phase: AwaitingVerdicts, sender: PartyId, message: messages.PeerBox
) -> tuple[AwaitingVerdicts, tuple[PartyId, messages.PeerBox]]:
    """Relay one message of a check between two listed members, and count it."""
    passed, index = _relay(phase, sender, message), phase.setup.index(sender)
    return replace(phase, sent={**phase.sent, index: phase.sent.get(index, 0) + 1}), passed


def without_verdict(phase: AwaitingVerdicts) -> frozenset[int]:
    """Return the members without a verdict that have sent least: they delay the others."""
    waiting = phase.listed - phase.frames.keys()
    least = min((phase.sent.get(i, 0) for i in waiting), default=0)
    return frozenset(i for i in waiting if phase.sent.get(i, 0) == least)


def on_verdict(
    phase: AwaitingVerdicts, sender: PartyId, message: messages.Verdict, signed: bytes
) -> AwaitingVerdicts:
    """Store one verdict, about members that its sender checked."""
    index = _due(phase, sender, phase.frames, signed, "gives a verdict")
    accepted = frozenset(message.accepted)
    if not accepted <= phase.listed - {index}:
        raise PeerError(sender, f"accepts updates that it did not check in {phase.setup.describe()}")
    return replace(
        phase,
        verdicts={**phase.verdicts, index: accepted},
        frames={**phase.frames, index: signed},
    )


def close_verdicts(phase: AwaitingVerdicts) -> tuple[CheckedShares | Lost, messages.Verdicts | None]:
    """End the step: send all verdicts to all; the sum holds the accepted updates."""
    setup = phase.setup
    missing = _names(phase, without_verdict(phase))
    if missing:
        return Lost(setup, f"the updates were not checked: {missing} did not finish in time"), None
    accepted = accepted_by(phase.verdicts)
    shortage = phase.validation.shortage(len(accepted), setup.min_survivors)
    if shortage:
        return Lost(setup, f"too few updates passed: {shortage}"), None
    frames = tuple(frame for _, frame in sorted(phase.frames.items()))
    base, lists = phase.base, validated_lists(phase.base.lists_digest, accepted)
    checked = CheckedShares(
        base.setup,
        base.adverts,
        base.key_list,
        lists,
        base.sharers,
        frames=base.frames,
        accepted=accepted,
    )
    return checked, messages.Verdicts(verdicts=frames)


def rejected_members(phase: AwaitingVerdicts) -> tuple[PartyId, ...]:
    """Return the rejected members, once all verdicts are in."""
    return tuple(phase.setup.members[i] for i in sorted(phase.listed - accepted_by(phase.verdicts)))


def _due(
    phase: ValidatedPhase, sender: PartyId, received_from: Mapping[int, object], signed: bytes, does: str
) -> int:
    index = phase.setup.index(sender)
    if index not in phase.listed or index in received_from or not signed:
        raise PeerError(sender, f"{does} at the wrong time or twice in {phase.setup.describe()}")
    return index


def _names(phase: ValidatedPhase, missing: frozenset[int]) -> str:
    return ", ".join(phase.setup.members[index] for index in sorted(missing))
