"""Charges against parties, from what the server has of a round (ADR 0044, Evidence)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from securefl.base.ids import PartyId
from securefl.protocol.kernel import Received
from securefl.protocol.messages import AnyMessage, Attest, Endorse, Receipt
from securefl.protocol.round.server.phases import Certifying, Ended, ServerPhase, Summing
from securefl.protocol.round.shared.charges import BadDeal, Charge, TwoWords
from securefl.protocol.round.shared.plan import RunPlan
from securefl.protocol.secure_sum import CollectingInputs, Opening


def of_words(phase: ServerPhase, event: Received[AnyMessage]) -> Iterator[Charge]:
    """Return what a refused word may contradict: what its sender has signed before."""
    if isinstance(event.message, Attest | Endorse | Receipt) and event.signed:
        for earlier in _said(phase, event):
            yield TwoWords(first=earlier, second=event.signed)


def of_deals(
    plan: RunPlan,
    instance: CollectingInputs,
    survivors: frozenset[PartyId],
    releases: Mapping[PartyId, Opening],
) -> Iterator[Charge]:
    """Return the secrets of a sum that does not open, each as its owner has shared it."""
    for one in plan.sums.server.dealt(instance, survivors, releases):
        yield BadDeal(
            advert=one.advert,
            members=one.members,
            kind=one.kind,
            digests=one.digests,
            shares=one.shares,
        )


def _said(phase: ServerPhase, event: Received[AnyMessage]) -> Iterator[bytes]:
    """Frames of the same party that are kept."""
    party, place = event.sender, event.place
    if isinstance(phase, Certifying) and party in phase.endorsements:
        yield phase.endorsements[party][1]
    if isinstance(phase, Summing):
        instance = phase.instances.get((place.reclustering, place.cluster))
        if isinstance(instance, CollectingInputs) and party in instance.setup.members:
            index = instance.setup.index(party)
            if index in instance.receipts:
                yield instance.receipts[index]
    pending = None if isinstance(phase, Ended) else phase.standing.pending
    for given in () if pending is None else pending.attests.values():
        if party in given:
            yield given[party]
