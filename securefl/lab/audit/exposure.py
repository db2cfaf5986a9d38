"""*exposure*: parties exposed by opened sums, to the server alone and with colluders (docs/leakage.md).

The ledger is computed anew from the survivors for whom shares were released, by update version. Who is
exposed is proved by integer combinations of the sums, who is not by witnesses; both are checked.

Models that came more than once in a run: their sums are sums of the same updates (docs/adr/0043).
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
from securefl.lab.audit.slots import slotted
from securefl.methods import leakage
from securefl.methods.clustering import hides_groups, leakage_colluders
from securefl.runtime import report

_REPEATED = (
    'leakage.mode = "veto" releases nothing that would do this; atoms (clustering.atoms) withstand a server'
    " that changes one bit of its model, too"
)


def repeated_models(
    recorded: Recorded, versions: Sequence[openings.Exposed], audit: str
) -> Iterator[finding.Finding]:
    """Yield a finding for each model that sums of several rounds were opened on; none where none repeats.

    Args:
        recorded: the run. Which rounds have one model is by the server's transcript.
        versions: what was opened.
        audit: the name of the audit that says it.
    """
    rounds: dict[str, list[int]] = defaultdict(list)
    for entry, _ in recorded.of(SERVER, "round_started"):
        rounds[str(entry.fields["model_digest"])].append(cast("int", entry.fields["round"]))
    for of_model in rounds.values():
        own = [one for one in versions if one.opened.version.round in of_model]
        again = sorted({one.opened.version.round for one in own})
        if len(again) > 1:
            yield _found(recorded, own, again, audit)


def _found(
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
    numbers = report.listed(map(str, rounds))
    which = f"Rounds {numbers} had one model, so that their sums are of the same updates,"
    evidence = (finding.Evidence(SERVER, None, f"round_started of rounds {numbers}"),)
    if not ledger.exposed:
        claim = f"{which} but for batches; together they determine nobody's."
        return finding.Finding(finding.Severity.HOLDS, audit, claim, evidence=evidence)
    return finding.Finding(
        finding.Severity.WARNING if recorded.noisy else finding.Severity.BREACH,
        audit,
        f"{which} but for batches; together they determine {report.counted(len(ledger.exposed), 'update')}"
        f" ({report.listed(sorted(ledger.exposed))}).",
        evidence=evidence,
        remedy=_REPEATED,
        parties=tuple(sorted(ledger.exposed)),
    )


AUDIT: Final = "exposure"
_REMEDY: Final = (
    "fewer reclusterings of one update, new local work for each (clustering.new_work), larger clusters, or"
    ' noise; leakage.mode = "veto" releases nothing that would do this'
)
_NOISY: Final = " Each carries all of its noise, and the guarantee reckons with updates that are known."
_SHOWN: Final = 6
"""Sums of a combination that are listed as evidence."""


def audit_exposure(recorded: Recorded, versions: Sequence[Exposed]) -> finding.Chapter:
    """Findings, tables and plots on what :func:`securefl.lab.audit.openings.exposed_in` says."""
    theory = exposure_theory.expectation(recorded)
    findings = [_alone(recorded, versions)]
    if recorded.colluders:
        findings.append(_pooled(recorded, versions))
    findings += [*_supports(recorded, versions), *_thresholds(recorded, theory), *_across(recorded, versions)]
    findings += repeated_models(recorded, versions, AUDIT)
    findings += [*slotted(recorded, AUDIT), *atoms_checked(recorded, AUDIT), *_unpredicted(recorded)]
    return finding.Chapter(
        audit=AUDIT,
        title="Exposure: whom the server knows",
        method=(
            "Each opened sum is a row of zeros and ones over the parties it contains; the same update in"
            " several sums gives several rows. A party is exposed if its unit vector is a combination of the"
            " rows, whatever the updates are. Rows are the survivors for whom members released shares. Who is"
            " exposed and who is not is proved over the integers."
            + (
                " Atoms are formed again from the atom seed."
                if recorded.scenario.clustering.atoms > 1
                else ""
            )
            + (
                " Groups are hidden: each slot is a version of its own, an update there is what a member put"
                " into it, zeros if it chose another model; how many are no zeros is what counts say."
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
    slots = (
        " What is in a slot is another question, see below." if hides_groups(recorded.scenario.groups) else ""
    )
    if not hit:
        return finding.holds(
            AUDIT,
            f"The server alone knows no party's update: none follows from the"
            f" {report.counted(sums, 'opened sum')} of"
            f" {report.counted(len(versions), 'update version')}. For each"
            f" version a witness changes every update and no sum.{slots}",
        )
    parties = sorted({party for one in hit for party in one.alone.exposed})
    return finding.Finding(
        finding.Severity.WARNING if recorded.noisy else finding.Severity.BREACH,
        AUDIT,
        f"The server alone can compute the updates of {len(parties)} of"
        f" {len(recorded.parties)} parties"
        f" exactly ({report.listed(parties)}), in {len(hit)} of"
        f" {report.counted(len(versions), 'update version')}." + (_NOISY if recorded.noisy else ""),
        evidence=_combination(hit[0], hit[0].alone.exposed),
        remedy=_REMEDY,
        parties=tuple(parties),
    )


def _pooled(recorded: Recorded, versions: Sequence[Exposed]) -> finding.Finding:
    colluders = sorted(recorded.colluders)
    more = sorted({p for one in versions for p in one.pooled.exposed.keys() - one.alone.exposed.keys()})
    if not more:
        return finding.holds(
            AUDIT,
            f"{report.listed(colluders)} and the server together can compute no more from the opened"
            " sums than the server alone.",
        )
    bound = leakage_colluders(recorded.scenario)
    allowed = len(colluders) <= bound
    hit = next(one for one in versions if one.pooled.exposed.keys() - one.alone.exposed.keys())
    return finding.Finding(
        finding.Severity.BREACH if allowed and not recorded.noisy else finding.Severity.WARNING,
        AUDIT,
        f"{report.listed(colluders)} and the server together can compute updates of {len(more)} more parties"
        f" ({report.listed(more)}); a combination of sums is reckoned to hold"
        f" {report.counted(bound, 'colluder')}.",
        evidence=_combination(hit, {p: proof for p, proof in hit.pooled.exposed.items() if p in more}),
        remedy=_REMEDY,
        parties=tuple(more),
    )


def _supports(recorded: Recorded, versions: Sequence[Exposed]) -> list[finding.Finding]:
    known = [(len(one.support.parties), one, one.support) for one in versions if one.support is not None]
    if hides_groups(recorded.scenario.groups):
        # Of slots, what matters is how many of a sum's members are really in it: slotted().
        return []
    if not known:
        several = any(len(one.ledger.parties) > SEARCHED for one in versions)
        claim = f"Not searched, with more than {SEARCHED} parties: the smallest support, which decides"
        claim += " how many colluders an opened sum withstands."
        return [finding.note(AUDIT, claim)] if several else []
    size, least, support = min(known, key=lambda item: item[0])
    parties = support.parties
    colluders, k = leakage_colluders(recorded.scenario), recorded.scenario.secure_sum.k_anonymity
    needed = colluders + k
    at = f"round {least.opened.version.round}"
    if size == 1:
        claim = "A single party's update is a combination of the opened sums; no colluder is needed."
    else:
        claim = (
            f"The fewest parties that a combination of sums is about are {size}"
            f" ({report.listed(parties)}, {at}):"
            f" {report.counted(size - 1, 'colluder')} among them would know the last one's update."
        )
    claim += f" The scenario asks for leakage.colluders + k = {colluders} + {k} = {needed}."
    if not support.exact:
        claim += f" (Searched exhaustively below {support.at_least}; the figure is an upper bound.)"
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
    what = "determine the sum of each atom" if atoms else "expose everybody"
    measured = (
        f"from R = {theory.measured} on random reclusterings of this size {what} (simulated)"
        if theory.measured is not None
        else f"none of up to {theory.most} random reclusterings {what} (simulated)"
    )
    ran = f"The run had R = {clustering.reclusterings}" + (
        " with new work for each." if clustering.new_work else "."
    )
    count = f" for {theory.atoms} atoms" if atoms else ""
    return [
        finding.note(
            AUDIT,
            f"SHARE's necessary bound R >= n/c is {theory.share_bound} here, the estimate"
            f" (N - 1) / (C - 1) is {theory.estimate}{count}, and {measured}. {ran}",
        )
    ]


def _unpredicted(recorded: Recorded) -> list[finding.Finding]:
    if recorded.scenario.groups.count == 1:
        return []
    claim = "What random reclusterings would expose is not predicted: with task groups there are none."
    return [finding.note(AUDIT, claim)]


def _across(recorded: Recorded, versions: Sequence[Exposed]) -> list[finding.Finding]:
    """All rounds as one ledger: what would be known of updates that stayed the same."""
    if len({one.opened.version.round for one in versions}) < 2:
        return []
    everybody = {party for one in versions for party in one.opened.participants}
    ledger = leakage.LeakageLedger.begin(leakage.UpdateVersion(0), everybody, prime_of(recorded))
    for row in dict.fromkeys(opening.survivors for one in versions for opening in one.opened.openings):
        ledger = ledger.open(row)
    if recorded.colluders and len(recorded.colluders & everybody) < len(everybody):
        ledger = ledger.without(recorded.colluders & everybody)
    exposed = len(ledger.exposed)
    return [
        finding.note(
            AUDIT,
            f"Over all rounds together the sums would determine {exposed} of"
            f" {len(ledger.parties)} updates if these stayed the same from round to round. They do not,"
            " but what they have in common leaks (So et al. 2021).",
            remedy=("" if not exposed else "fixed atoms, or noise: no ledger of single rounds sees this"),
        )
    ]


def _combination(one: Exposed, proofs: Mapping[PartyId, leakage.Combination]) -> tuple[finding.Evidence, ...]:
    """The sums that give the party whose combination takes the fewest of them."""
    party, proof = min(proofs.items(), key=lambda item: (sum(map(bool, item[1].factors)), item[0]))
    used = [(k, factor) for k, factor in enumerate(proof.factors) if factor]
    shown = tuple(
        at.with_text(f"{factor:+d} x sum of {report.listed(one.opened.openings[k].survivors)}")
        for k, factor in used[:_SHOWN]
        for at in (one.opened.openings[k].evidence,)
    )
    divisor = next(value for value in proof.value if value)
    rest = f", {len(used) - _SHOWN} more sums" if len(used) > _SHOWN else ""
    what = f"round {one.opened.version.round}: these add up to {divisor} x the update of {party}{rest}"
    return (*shown, finding.Evidence("ledger", None, what))
