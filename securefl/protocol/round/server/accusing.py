"""Charges against parties, from what the server has of a round (ADR 0044, Evidence)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from securefl.base.ids import PartyId
from securefl.protocol import kernel, messages, secure_sum
from securefl.protocol.round.server import phases
from securefl.protocol.round.shared import charges
from securefl.protocol.round.shared.plan import RunPlan


def of_words(
    phase: phases.ServerPhase, event: kernel.Received[messages.AnyMessage]
) -> Iterator[charges.Charge]:
    """Return what a refused word may contradict: what its sender has signed before."""
    if isinstance(event.message, messages.Attest | messages.Endorse | messages.Receipt) and event.signed:
        for earlier in _said(phase, event):
            yield charges.TwoWords(first=earlier, second=event.signed)


def of_deals(
    plan: RunPlan,
    instance: secure_sum.CollectingInputs,
    survivors: frozenset[PartyId],
    releases: Mapping[PartyId, secure_sum.Opening],
) -> Iterator[charges.Charge]:
    """Return the secrets of a sum that does not open, each as its owner has shared it."""
    for one in plan.sums.server.dealt(instance, survivors, releases):
        yield charges.BadDeal(
            advert=one.advert,
            members=one.members,
            kind=one.kind,
            digests=one.digests,
            shares=one.shares,
        )


def _said(phase: phases.ServerPhase, event: kernel.Received[messages.AnyMessage]) -> Iterator[bytes]:
    """Frames of the same party that are kept."""
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
