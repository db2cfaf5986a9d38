"""Shares that colluders were dealt: the threshold of them takes off masks without any release.

Each member of a sum is dealt a share of the seed and of the key of every other. What colluders hold is no
release, and no sum: the leakage ledger does not see it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from securefl.base.ids import SERVER, PartyId
from securefl.lab.audit import finding
from securefl.lab.audit.recorded import Recorded
from securefl.runtime import report

_Where = tuple[int, int, int, int]
"""Round, reclustering, cluster, attempt."""


def opened_by_colluders(recorded: Recorded, audit: str) -> Iterator[finding.Finding]:
    """Yield one finding where as many colluders as the threshold shared one sum with others."""
    plan = recorded.scenario.secure_sum
    if plan.kind != "masking" or len(recorded.colluders) < plan.threshold:
        return
    dealt, masked = _at(recorded, "ShareBoxes"), _at(recorded, "MaskedInput")
    hit = {
        where: together
        for where, parties in sorted(dealt.items())
        if len(together := recorded.colluders.intersection(parties)) >= plan.threshold
    }
    open_ = {where: masked[where].keys() - recorded.colluders for where in hit}
    known = sorted({party for others in open_.values() for party in others})
    if not known:
        return
    # Fewer than the threshold collude in a sum, says the scenario.
    most = max(len(hit[where]) for where, others in open_.items() if others)
    promised = most <= plan.colluders_per_cluster
    yield finding.Finding(
        finding.Severity.BREACH if promised else finding.Severity.WARNING,
        audit,
        f"{report.listed(sorted(recorded.colluders))} and the server can take the masks off single updates of"
        f" {len(known)} others ({report.listed(known)}): up to {most} of the colluders were in one sum, and"
        f" {plan.threshold} shares of a seed and of a key open what they mask. The scenario reckons with"
        f" {plan.colluders_per_cluster} in a sum.",
        evidence=tuple(masked[where][party] for where, some in open_.items() for party in sorted(some))[:4],
        remedy="secure_sum.threshold above the colluders that may be in one sum, or larger clusters",
        parties=tuple(known),
    )


def _at(recorded: Recorded, message: str) -> dict[_Where, dict[PartyId, finding.Evidence]]:
    """Senders of such a message in which sum: as it came in at the server, or else as it went out."""
    found: dict[_Where, dict[PartyId, finding.Evidence]] = defaultdict(dict)
    if recorded.has_server:
        said = [(str(e.fields["from"]), e, at) for e, at in recorded.said(SERVER, "received", message)]
    else:
        said = [(p, e, at) for p in recorded.watched for e, at in recorded.said(p, "sent", message)]
    for party, entry, evidence in said:
        place: Any = entry.fields["place"]
        found[tuple(place)][PartyId(party)] = evidence
    return found
