"""The leakage ledger of each update version of a recorded run, decided and proved."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from securefl.base.arrays import F64
from securefl.base.ids import PartyId
from securefl.lab.audit import openings
from securefl.lab.audit.recorded import Recorded
from securefl.methods import leakage, privacy
from securefl.runtime import report

SEARCHED = 150
"""Parties up to which smallest supports are searched: minutes beyond."""


@dataclass(frozen=True, slots=True)
class Exposed:
    """The decided exposure of one update version."""

    opened: openings.OpenedVersion
    ledger: leakage.LeakageLedger
    """Of the server alone."""
    alone: leakage.Decision
    pooled: leakage.Decision
    """With the supposed colluders, whose columns are deleted; the same as ``alone`` without any."""
    support: leakage.LeastSupport | None
    """None where nothing was opened, or where it was not searched."""
    leverage: F64
    """By party of ``ledger``, in [0, 1], with the colluders, who have 1. Those who add noise add equally
    much; without privacy, as if everybody added it. A party that adds none has what the noise of others
    leaves of it, in the same unit; 1 stands for more, too."""


def exposed_in(recorded: Recorded) -> tuple[Exposed, ...]:
    """The ledgers of all update versions."""
    return tuple(_decided(recorded, opened) for opened in openings.opened_versions(recorded))


def prime_of(recorded: Recorded) -> int:
    """A prime that nobody knew when the sums were chosen: it follows from the transcripts' last hashes."""
    heads = sorted(t.head for ts in recorded.transcripts.values() for t in ts)
    return leakage.prime_from(hashlib.sha256("\n".join((recorded.run, *heads)).encode()).digest())


def _decided(recorded: Recorded, opened: openings.OpenedVersion) -> Exposed:
    ledger = opened.ledger(prime_of(recorded))
    alone = leakage.decide(ledger)
    colluders = recorded.colluders.intersection(ledger.parties)
    without = ledger
    pooled = alone
    if colluders and len(colluders) < len(ledger.parties):
        without = ledger.without(colluders)
        pooled = leakage.decide(without)
    searched = len(ledger.parties) <= SEARCHED
    return Exposed(
        opened,
        ledger,
        alone,
        pooled,
        leakage.least_support(ledger) if searched else None,
        _leverages(recorded, ledger, without),
    )


def _leverages(recorded: Recorded, ledger: leakage.LeakageLedger, without: leakage.LeakageLedger) -> F64:
    """Of the parties of ``ledger``, where those that ``without`` lacks collude."""
    noiseless = _noiseless(recorded).intersection(without.parties)
    rest = np.full(len(without.parties), 1.0)
    if not noiseless:
        rest = leakage.leverages(without)
    elif len(noiseless) < len(without.parties):
        variances = np.array([float(party not in noiseless) for party in without.parties])
        rank = without.without(noiseless).echelon.rank
        rest = privacy.exposures(without.matrix, variances, rank=rank).clip(0.0, 1.0)
    known = dict(zip(without.parties, rest.tolist(), strict=True))
    return np.array([known.get(party, 1.0) for party in ledger.parties])


def _noiseless(recorded: Recorded) -> frozenset[PartyId]:
    """The parties whose noise nobody can count on, as far as the run's seed tells."""
    if recorded.scenario.privacy.unit == "none" or recorded.seed is None:
        return frozenset()
    return report.forgoing(recorded.scenario, recorded.seed)
