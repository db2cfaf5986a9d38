"""Evidence against parties, from the server's frames (ADR 0044, Evidence)."""

from collections.abc import Iterator, Mapping

from securefl.base.errors import PeerError
from securefl.base.ids import SERVER, PartyId
from securefl.protocol import kernel, messages, secure_sum, wire
from securefl.protocol.round.server import phases
from securefl.protocol.round.shared import charges
from securefl.protocol.round.shared.plan import RunPlan


def equivocation_evidence(
    plan: RunPlan, phase: phases.ServerPhase, event: kernel.Received[messages.AnyMessage]
) -> bytes:
    """Return a rejected message with a conflicting earlier one of its sender, or empty."""
    if isinstance(event.message, messages.Attest | messages.Endorse | messages.Receipt) and event.signed:
        for frame in _earlier_frames(phase, event):
            known = wire.open_relayed(frame, plan.roster, plan.run, SERVER, SERVER)
            if charges.contradiction(known.place, known.message, event.place, event.message):
                return charges.encode_evidence(charges.Equivocation(first=frame, second=event.signed))
    return b""


def bad_shares_evidence(
    plan: RunPlan,
    instance: secure_sum.CollectingInputs,
    survivors: frozenset[PartyId],
    releases: Mapping[PartyId, secure_sum.Opening],
    error: PeerError,
) -> bytes:
    """Return the shares of the member whose secret does not open a sum, or empty."""
    if error.culprit not in instance.setup.members:
        return b""
    dealt = plan.sums.server.dealt(instance, survivors, releases, PartyId(error.culprit))
    return b"" if dealt is None else charges.encode_evidence(dealt)


def _earlier_frames(
    phase: phases.ServerPhase, event: kernel.Received[messages.AnyMessage]
) -> Iterator[bytes]:
    party, place = event.sender, event.place
    if isinstance(phase, phases.Certifying) and party in phase.endorsements:
        yield phase.endorsements[party][1]
    if isinstance(phase, phases.Summing):
        instance = phase.instances.get((place.reclustering, place.cluster))
        if isinstance(instance, secure_sum.CollectingInputs) and party in instance.setup.members:
            index = instance.setup.index(party)
            if index in instance.receipts:
                yield instance.receipts[index]
    pending = None if isinstance(phase, phases.Ended) else phase.standing.claims.pending
    for given in () if pending is None else pending.attests.values():
        if party in given:
            yield given[party]
