"""Outcomes of a round with dropouts: survivors, opened sums, and killed parties.

They equal those of the machines of :mod:`securefl.protocol.round.shared` with
:mod:`securefl.runtime.misbehaviour.silence`, if the server waits for all answering parties.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from securefl import scenario
from securefl.base import text
from securefl.base.ids import PartyId
from securefl.methods import clustering, leakage
from securefl.protocol.round import ClusterKey, LedgerQuestion, RunPlan
from securefl.runtime.simulation import attempts

_SAYS_KEYS: Final[frozenset[scenario.Phase]] = frozenset(
    {"after-keys", "after-shares", "after-masked-input", "after-freeze", "after-release"}
)
_SAYS_SHARES: Final = _SAYS_KEYS - {"after-keys"}
_SAYS_INPUT: Final = _SAYS_SHARES - {"after-shares"}


@dataclass(frozen=True, slots=True)
class RoundOutcomes:
    """End of a round, without its vectors."""

    unready: Mapping[ClusterKey, str]
    """Sums lost before any update was submitted, with reasons."""
    eligible: frozenset[PartyId]
    """Survivor set before the ledger's decision."""
    admission: leakage.Admission
    survivors: frozenset[PartyId]
    """Frozen survivor set; empty if no sum may be opened."""
    certified: bool
    """True if the survivor set got its certificate, or needs none."""
    opened: frozenset[ClusterKey]
    unopened: Mapping[ClusterKey, str]
    """Frozen sums that were not opened, with reasons."""
    refused: tuple[tuple[PartyId, ClusterKey], ...]
    """Wrong shares that the server rejected."""
    silenced: frozenset[PartyId]
    """Parties that fell silent, having reached their phase."""
    further: tuple[tuple[ClusterKey, attempts.Attempt], ...]
    givers: frozenset[PartyId] = frozenset()
    """Parties that released shares, by their own accounts."""


Vetoes = Callable[[frozenset[PartyId], tuple[int, ...]], frozenset[PartyId]]
"""From survivors and admitted reclusterings to the survivors that refuse to release shares."""


def nobody_vetoes(_survivors: frozenset[PartyId], _admitted: tuple[int, ...]) -> frozenset[PartyId]:
    """Return no veto, for a first model."""
    return frozenset()


def fates(
    plan: RunPlan,
    round_: int,
    assignment: clustering.Assignment,
    deviations: attempts.Deviations,
    vetoes: Vetoes = nobody_vetoes,
) -> RoundOutcomes:
    """Return the outcomes of one round."""
    clusters = {(r, j): m for r, row in enumerate(assignment.clusters) for j, m in enumerate(row)}
    summing = _until_inputs(plan, clusters, deviations)
    submitted = summing.able
    further: tuple[tuple[ClusterKey, attempts.Attempt], ...] = ()
    unready = summing.unready
    if plan.sums.requires_all_members:
        tried = attempts.started_over(plan, assignment, clusters, summing, submitted, deviations)
        submitted, further, unready = dict(tried.submitted), tried.further, {**unready, **tried.lost}
    quorum = plan.limits.quorum
    survivors = clustering.survivor_set(
        clusters, submitted, plan.scenario.secure_sum.min_survivors, assignment.atoms
    )
    if quorum is not None and len(survivors) < quorum:
        survivors = frozenset()
    limits = dict.fromkeys(assignment.participants, plan.published_limits)
    admission = LedgerQuestion(
        round_, assignment, survivors, limits, clustering.sums_apart(plan.scenario)
    ).answer()
    eligible, survivors = survivors, survivors if admission.admitted else frozenset()
    mute = {party for party, phase in deviations.silent.items() if phase != "after-release"}
    giving = survivors - vetoes(survivors, admission.admitted)
    talking = giving - mute
    frozen = {
        key: survivors.intersection(m)
        for key, m in clusters.items()
        if key[0] in admission.admitted and survivors.intersection(m)
    }
    opened: set[ClusterKey] = set()
    unopened: dict[ClusterKey, str] = {}
    refused: list[tuple[PartyId, ClusterKey]] = []
    certified = quorum is None or len(talking) >= quorum
    for key, counted in sorted(frozen.items()):
        if not certified:
            unopened[key] = f"{len(talking)} signatures, a certificate needs {quorum}"
            continue
        releasing = counted & talking
        refused += [(p, key) for p in sorted(releasing & deviations.wrong_shares)]
        useful, needed = len(releasing - deviations.wrong_shares), _releases_needed(plan, len(counted))
        if useful < needed:
            unopened[key] = f"{text.count(useful, 'member')} released shares, {needed} are needed"
        else:
            opened.add(key)
    return RoundOutcomes(
        unready=unready,
        eligible=eligible,
        admission=admission,
        survivors=survivors,
        certified=certified,
        opened=frozenset(opened),
        unopened=unopened,
        refused=tuple(refused),
        silenced=_silent_parties(assignment, deviations, summing, survivors),
        further=further,
        # A party records its shares before sending, and never learns that they were lost.
        givers=giving if certified else frozenset(),
    )


def _releases_needed(plan: RunPlan, counted: int) -> int:
    return counted if plan.sums.requires_all_members else plan.scenario.secure_sum.threshold


def _until_inputs(
    plan: RunPlan, clusters: Mapping[ClusterKey, Collection[PartyId]], deviations: attempts.Deviations
) -> attempts.BeforeInputs:
    silent, needed = deviations.silent, plan.scenario.secure_sum.min_survivors
    unready: dict[ClusterKey, str] = {}
    keyless: set[PartyId] = set()
    able: dict[ClusterKey, list[PartyId]] = {}
    lists: dict[ClusterKey, list[PartyId]] = {}
    for key, members in clusters.items():
        listed = [p for p in members if p not in silent or silent[p] in _SAYS_KEYS]
        sharing = [p for p in listed if p not in silent or silent[p] in _SAYS_SHARES]
        if len(listed) < needed:
            unready[key] = f"only {text.count(len(listed), 'member')} advertised keys"
            keyless.update(members)
        elif len(sharing) < needed and plan.sums.deals_secrets:
            unready[key] = f"only {text.count(len(sharing), 'member')} shared secrets"
        else:
            lists[key] = listed
            able[key] = [p for p in sharing if p not in silent or silent[p] in _SAYS_INPUT]
    halted = frozenset(p for key in unready for p in clusters[key])
    return attempts.BeforeInputs(unready, frozenset(keyless), halted, lists, able)


def _silent_parties(
    assignment: clustering.Assignment,
    deviations: attempts.Deviations,
    summing: attempts.BeforeInputs,
    survivors: frozenset[PartyId],
) -> frozenset[PartyId]:
    """Return the silent parties that reached their phase in all their sums, or the freeze."""

    def came(party: PartyId, phase: scenario.Phase) -> bool:
        match phase:
            case "before-keys" | "after-keys":
                return True
            case "after-shares":
                return party not in summing.keyless
            case "after-masked-input":
                return party not in summing.halted
            case "after-freeze" | "after-release":
                return party in survivors

    return frozenset(
        p for p in assignment.participants if p in deviations.silent and came(p, deviations.silent[p])
    )
