"""*exposure*: parties that opened sums expose to the server, alone and with colluders (docs/leakage.md).

The ledger of each update version is computed from released shares. Integer combinations of sums prove
exposure, witnesses protection; both are checked. Sums of rounds with the same model count as sums of the same
updates (docs/adr/0043).
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, cast

from securefl.base.ids import SERVER, PartyId
from securefl.lab.audit import exposure_theory, finding, openings
from securefl.lab.audit.atom_seeds import atoms_checked
from securefl.lab.audit.exposure_plots import exhibits
from securefl.lab.audit.openings import SEARCHED, Exposed, prime_of
from securefl.lab.audit.recorded import Recorded
from securefl.lab.audit.slots import slot_findings
from securefl.methods import leakage
from securefl.methods.clustering import hides_groups, leakage_colluders
from securefl.runtime import report

_REPEATED = (
    'set leakage.mode = "veto": parties then refuse to release such sums. Atoms (clustering.atoms) protect'
    " even"
    " if the server changes one bit of the model"
)


def repeated_models(
    recorded: Recorded, versions: Sequence[openings.Exposed], audit: str
) -> Iterator[finding.Finding]:
    """Yield a finding for each model on which sums of several rounds were opened.

    The server's transcript states the model of each round.
    """
    rounds: dict[str, list[int]] = defaultdict(list)
    for entry, _ in recorded.of(SERVER, "round_started"):
        rounds[str(entry.fields["model_digest"])].append(cast("int", entry.fields["round"]))
    for of_model in rounds.values():
        own = [one for one in versions if one.opened.version.round in of_model]
        again = sorted({one.opened.version.round for one in own})
        if len(again) > 1:
            yield _exposure_finding(recorded, own, again, audit)


def _exposure_finding(
    recorded: Recorded, own: Sequence[openings.Exposed], rounds: Sequence[int], audit: str
) -> finding.Finding:
    ledger = leakage.LeakageLedger.begin(
        leakage.UpdateVersion(rounds[0]),
        {p for one in own for p in one.opened.participants},
        openings.prime_of(recorded),
    )
    opened = (opening for one in own for opening in one.opened.openings if opening.opens(recorded))
    for row in dict.fromkeys(opening.survivors for opening in opened):
        ledger = ledger.open(row)
    numbers = report.list_of(map(str, rounds))
    evidence = (finding.Evidence(SERVER, None, f"round_started of rounds {numbers}"),)
    if not ledger.exposed:
        claim = f"Rounds {numbers} used the same model, but their sums together reveal no party's update."
        return finding.Finding(finding.Severity.HOLDS, audit, claim, evidence=evidence)
    return finding.Finding(
        finding.Severity.WARNING if recorded.noisy else finding.Severity.BREACH,
        audit,
        f"The sums of rounds {numbers} together reveal {report.count_of(len(ledger.exposed), 'update')}"
        f" ({report.list_of(sorted(ledger.exposed))}): these rounds used the same model, so that updates"
        " differ by batches only.",
        evidence=evidence,
        remedy=_REPEATED,
        parties=tuple(sorted(ledger.exposed)),
    )


AUDIT: Final = "exposure"
_REMEDY: Final = (
    "use fewer reclusterings of one update, new local training for each (clustering.new_work), larger"
    " clusters"
    ' or noise. With leakage.mode = "veto" parties refuse to release such sums'
)
_NOISY: Final = " These updates contain their noise, and the privacy guarantee assumes that they are known."
_SHOWN: Final = 6


def audit_exposure(recorded: Recorded, versions: Sequence[Exposed]) -> finding.Chapter:
    """Return the chapter on the results of :func:`securefl.lab.audit.openings.exposed_in`."""
    theory = exposure_theory.expectation(recorded)
    findings = [_alone(recorded, versions)]
    if recorded.colluders:
        findings.append(_pooled_finding(recorded, versions))
    findings += [*_supports(recorded, versions), *_thresholds(recorded, theory), *_across(recorded, versions)]
    findings += repeated_models(recorded, versions, AUDIT)
    findings += [
        *slot_findings(recorded, AUDIT),
        *atoms_checked(recorded, AUDIT),
        *_unpredicted_findings(recorded),
    ]
    return finding.Chapter(
        audit=AUDIT,
        title="Exposure: updates that the server can compute",
        method=(
            "Each opened sum is an equation over the updates of the parties in it. A party is exposed if some"
            " combination of sums equals its update, whatever the updates are. A sum counts as opened once a"
            " member released shares for it. An update version is one local training of all parties. Exposed"
            " and protected parties are proved over the integers."
            + (
                " Atoms are formed again from the atom seed."
                if recorded.scenario.clustering.atoms > 1
                else ""
            )
            + (
                " Groups are hidden: each slot is a version of its own. A member's update there is zero if it"
                " chose another model. Counts state how many members chose the slot."
                if hides_groups(recorded.scenario.groups)
                else ""
            )
        ),
        findings=tuple(findings),
        exhibits=exhibits(recorded, versions, theory),
    )


def _alone(recorded: Recorded, versions: Sequence[Exposed]) -> finding.Finding:
    sums = sum(len(one.opened.openings) for one in versions)
    hit = [one for one in versions if one.alone.exposed]
    slots = " Slots of hidden groups are judged below." if hides_groups(recorded.scenario.groups) else ""
    if not hit:
        return finding.holds(
            AUDIT,
            f"The server alone cannot compute any party's update from the"
            f" {report.count_of(sums, 'opened sum')} of {report.count_of(len(versions), 'update version')}."
            f" Proof: in each version all updates can change without a change of any sum.{slots}",
        )
    parties = sorted({party for one in hit for party in one.alone.exposed})
    return finding.Finding(
        finding.Severity.WARNING if recorded.noisy else finding.Severity.BREACH,
        AUDIT,
        f"The server alone can compute the exact updates of {len(parties)} of"
        f" {len(recorded.parties)} parties ({report.list_of(parties)}), in {len(hit)} of"
        f" {report.count_of(len(versions), 'update version')}." + (_NOISY if recorded.noisy else ""),
        evidence=_combination(hit[0], hit[0].alone.exposed),
        remedy=_REMEDY,
        parties=tuple(parties),
    )


def _pooled_finding(recorded: Recorded, versions: Sequence[Exposed]) -> finding.Finding:
    colluders = sorted(recorded.colluders)
    more = sorted({p for one in versions for p in one.pooled.exposed.keys() - one.alone.exposed.keys()})
    if not more:
        return finding.holds(
            AUDIT,
            f"Collusion of {report.list_of(colluders)} with the server exposes no further party.",
        )
    bound = leakage_colluders(recorded.scenario)
    allowed = len(colluders) <= bound
    hit = next(one for one in versions if one.pooled.exposed.keys() - one.alone.exposed.keys())
    return finding.Finding(
        finding.Severity.BREACH if allowed and not recorded.noisy else finding.Severity.WARNING,
        AUDIT,
        f"Collusion of {report.list_of(colluders)} with the server exposes"
        f" {report.count_of(len(more), 'further update')} ({report.list_of(more)}). The scenario assumes at"
        f" most {report.count_of(bound, 'colluder')} in a combination of sums.",
        evidence=_combination(hit, {p: proof for p, proof in hit.pooled.exposed.items() if p in more}),
        remedy=_REMEDY,
        parties=tuple(more),
    )


def _supports(recorded: Recorded, versions: Sequence[Exposed]) -> list[finding.Finding]:
    known = [(len(one.support.parties), one, one.support) for one in versions if one.support is not None]
    if hides_groups(recorded.scenario.groups):
        # For slots, members with an update count: slots_of().
        return []
    if not known:
        several = any(len(one.ledger.parties) > SEARCHED for one in versions)
        claim = "Not computed: the number of colluders that the opened sums withstand. The search takes too"
        claim += f" long with more than {SEARCHED} parties."
        return [finding.note(AUDIT, claim)] if several else []
    size, least, support = min(known, key=lambda item: item[0])
    parties = support.parties
    colluders, k = leakage_colluders(recorded.scenario), recorded.scenario.secure_sum.k_anonymity
    needed = colluders + k
    at = f"round {least.opened.version.round}"
    if size == 1:
        claim = "A combination of opened sums contains a single party's update: no colluder is needed."
    else:
        claim = (
            f"The smallest combination of opened sums contains {size} parties ({report.list_of(parties)},"
            f" {at}): {report.count_of(size - 1, 'colluder')} among them could compute the last one's update."
        )
    claim += f" The scenario requires leakage.colluders + k = {colluders} + {k} = {needed} parties."
    if not support.exact:
        claim += f" (The search is exhaustive below {support.at_least} only: {size} is an upper bound.)"
    broken = size < needed
    worst = finding.Severity.WARNING if recorded.noisy else finding.Severity.BREACH
    return [
        finding.Finding(
            worst if broken else finding.Severity.HOLDS,
            AUDIT,
            claim,
            evidence=tuple(
                least.opened.openings[k].evidence for k, factor in enumerate(support.proof.factors) if factor
            )[:4],
            remedy=_REMEDY if broken else "",
            parties=parties if broken else (),
        )
    ]


def _thresholds(recorded: Recorded, theory: exposure_theory.Expectation | None) -> list[finding.Finding]:
    if theory is None:
        return []
    clustering = recorded.scenario.clustering
    atoms = theory.atoms < theory.participants
    what = "reveal the sum of every atom" if atoms else "expose all parties"
    measured = f"more than {theory.most}" if theory.measured is None else str(theory.measured)
    ran = f"The run used R = {clustering.reclusterings}" + (
        " with new local training for each." if clustering.new_work else "."
    )
    count = f" for N = {theory.atoms} atoms" if atoms else ""
    return [
        finding.note(
            AUDIT,
            f"Random reclusterings R of one update {what} from about R = {theory.estimate}{count}, by the"
            f" estimate (N - 1) / (C - 1). In simulations: {measured}; SHARE's lower bound n/c:"
            f" {theory.share_bound}. {ran}",
        )
    ]


def _unpredicted_findings(recorded: Recorded) -> list[finding.Finding]:
    if recorded.scenario.groups.count == 1:
        return []
    claim = "Exposure by random reclusterings is not predicted: task groups are not reclustered."
    return [finding.note(AUDIT, claim)]


def _across(recorded: Recorded, versions: Sequence[Exposed]) -> list[finding.Finding]:
    """Judge all rounds as one ledger, as if updates never changed."""
    if len({one.opened.version.round for one in versions}) < 2:
        return []
    all_parties = {party for one in versions for party in one.opened.participants}
    ledger = leakage.LeakageLedger.begin(leakage.UpdateVersion(0), all_parties, prime_of(recorded))
    for row in dict.fromkeys(opening.survivors for one in versions for opening in one.opened.openings):
        ledger = ledger.open(row)
    if recorded.colluders and len(recorded.colluders & all_parties) < len(all_parties):
        ledger = ledger.without(recorded.colluders & all_parties)
    exposed = len(ledger.exposed)
    return [
        finding.note(
            AUDIT,
            f"If updates stayed the same in all rounds, all sums together would reveal {exposed} of"
            f" {len(ledger.parties)} updates. Updates change, but their common part leaks (So et al. 2021).",
            remedy=(
                "" if not exposed else "use fixed atoms or noise: a ledger of one round cannot prevent it"
            ),
        )
    ]


def _combination(one: Exposed, proofs: Mapping[PartyId, leakage.Combination]) -> tuple[finding.Evidence, ...]:
    """Return the sums of the shortest combination that equals a party's update."""
    party, proof = min(proofs.items(), key=lambda item: (sum(map(bool, item[1].factors)), item[0]))
    used = [(k, factor) for k, factor in enumerate(proof.factors) if factor]
    shown = tuple(
        at.with_text(f"{factor:+d} x sum of {report.list_of(one.opened.openings[k].survivors)}")
        for k, factor in used[:_SHOWN]
        for at in (one.opened.openings[k].evidence,)
    )
    divisor = next(value for value in proof.value if value)
    rest = f", {len(used) - _SHOWN} more sums" if len(used) > _SHOWN else ""
    what = f"round {one.opened.version.round}: these add up to {divisor} x the update of {party}{rest}"
    return (*shown, finding.Evidence("ledger", None, what))
