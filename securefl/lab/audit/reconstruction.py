"""*reconstruction*: updates computed from opened sums, compared with ground truth.

The ledger is wrong unless exactly the exposed updates are recovered to the last step of the encoding.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from securefl.lab.audit import estimates, reconstruction_plots
from securefl.lab.audit.exhibits import Exhibit
from securefl.lab.audit.finding import Chapter, Evidence, Finding, Severity, breach, holds, note
from securefl.lab.audit.openings import Exposed
from securefl.lab.audit.recorded import Recorded
from securefl.lab.audit.truth import GroundTruth
from securefl.methods import clustering, encoding
from securefl.runtime import report

AUDIT: Final = "reconstruction"
_NEAR: Final = 0.5
"""Error relative to the prior's over all rounds below which a warning is due."""


def audit_reconstruction(recorded: Recorded, truth: GroundTruth, versions: Sequence[Exposed]) -> Chapter:
    """Estimate updates from each version's sums, and from all rounds."""
    if clustering.hides_groups(recorded.scenario.groups):
        return _of_slots(recorded, truth, versions)
    attacked = [
        reconstruction_plots.Attacked(one, system, estimates.estimate(system))
        for one, system in ((one, estimates.system_of(recorded, truth, one)) for one in versions)
        if system is not None
    ]
    findings: list[Finding] = []
    exhibits: tuple[Exhibit, ...] = ()
    if not attacked:
        claim = "Nothing to reconstruct: no version has opened sums and recorded updates of all members."
        findings.append(note(AUDIT, claim))
    else:
        together = estimates.over_rounds([one.system for one in attacked], recorded)
        findings += [
            *_disagreements(attacked),
            *_recovery_findings(recorded, attacked),
            *_hidden_findings(attacked),
        ]
        findings += _unsaid(attacked)
        findings += _over_rounds(together)
        exhibits = reconstruction_plots.reconstruction_exhibits(recorded, attacked, together)
    return Chapter(
        audit=AUDIT,
        title="Reconstruction: estimates of single updates from sums",
        method=(
            "The server's best linear estimate: least squares for all updates of a version from its opened"
            " sums. The prior is the median of the sums' means. Errors are measured on the sampled"
            " coordinates against the true encoded updates, as fractions of the prior's error."
        ),
        findings=tuple(findings),
        exhibits=exhibits,
    )


def _of_slots(recorded: Recorded, truth: GroundTruth, versions: Sequence[Exposed]) -> Chapter:
    """Compare slots of hidden groups with single updates: there are no equations to solve."""
    bits, singles, compared = recorded.limits.ring_bits, [], 0
    for one in versions:
        for opening in one.opened.openings:
            uploads = {p: truth.upload(p, one.opened.version.round) for p in opening.survivors}
            known = {p: values for p, values in uploads.items() if values is not None}
            places = estimates.places_of_sums(recorded, min(map(len, known.values()), default=0))
            ring = estimates.rings_of(recorded, one, places).get(opening.key)
            if ring is None or not places.size:
                continue
            compared += 1
            for party, values in known.items():
                if np.array_equal(encoding.to_ring(values[places], bits), ring):
                    singles.append((party, opening))
    parties = tuple(sorted({party for party, _ in singles}))
    if singles:
        finding = breach(
            AUDIT,
            f"The server can compute the exact updates of {report.list_of(parties)} from"
            f" {report.count_of(len(singles), 'opened slot')} with one update each.",
            evidence=tuple(opening.evidence for _, opening in singles[:6]),
            remedy="see the slots in exposure: no slot with a count below f + k_anonymity may be opened",
            parties=parties,
        )
    else:
        finding = Finding(
            Severity.HOLDS if compared else Severity.NOTE,
            AUDIT,
            f"None of {report.count_of(compared, 'opened slot')} is the update of a single member."
            if compared
            else "Nothing to compare: the server opened no slot whose members' updates were recorded.",
            evidence=(Evidence("lab", None, "true encoded updates"),),
        )
    words = "Least squares were not tried: transcripts do not state which party is in which slot."
    return Chapter(
        audit=AUDIT,
        title="Reconstruction: estimates of single updates from sums",
        method=(
            "Each opened slot of hidden groups is compared with the true encoded update of every member of"
            " its cluster, on the sampled coordinates."
        ),
        findings=(finding, note(AUDIT, words)),
    )


def _disagreements(attacked: Sequence[reconstruction_plots.Attacked]) -> Iterator[Finding]:
    for done in attacked:
        recovered = {p for p, yes in zip(done.system.parties, done.found.recovered, strict=True) if yes}
        # An update equal to the prior needs no sum.
        guessed = {p for p, e in zip(done.system.parties, done.found.error, strict=True) if e == 0}
        missed = sorted(done.exposed.intersection(done.system.parties) - recovered)
        beyond = sorted(recovered - done.exposed - guessed)
        if missed or beyond:
            yield breach(
                AUDIT,
                f"Round {done.one.opened.version.round}: the leakage ledger and the reconstruction disagree."
                f" Exposed but not recovered: {report.list_of(missed) or 'none'}. Recovered but not exposed:"
                f" {report.list_of(beyond) or 'none'}.",
                remedy="see the chapter replay: the sums do not fit the updates, or the ledger has a bug",
                parties=tuple(sorted({*missed, *beyond})),
            )


def _recovery_findings(
    recorded: Recorded, attacked: Sequence[reconstruction_plots.Attacked]
) -> Iterator[Finding]:
    hit = [done for done in attacked if done.exposed.intersection(done.system.parties)]
    parties = sorted({p for done in hit for p in done.exposed.intersection(done.system.parties)})
    if parties:
        whose = "1 party" if len(parties) == 1 else f"{len(parties)} parties"
        reckoned = clustering.leakage_colluders(recorded.scenario)
        promised = len(recorded.colluders) <= reckoned or any(done.one.alone.exposed for done in hit)
        yield Finding(
            Severity.BREACH if promised and not recorded.noisy else Severity.WARNING,
            AUDIT,
            f"The exact updates of {whose} ({report.list_of(parties)}) can be computed in"
            f" {len(hit)} of {len(attacked)} versions, as the leakage ledger predicts."
            + (" They contain their noise." if recorded.noisy else "")
            + ("" if promised else f" This takes more colluders than the scenario assumes ({reckoned})."),
            evidence=tuple(o.evidence for o in hit[0].one.opened.openings[:6]),
            remedy=(
                "as in exposure: use fewer sums of one update, new local training, larger clusters or noise"
            ),
            parties=tuple(parties),
        )


def _hidden_findings(attacked: Sequence[reconstruction_plots.Attacked]) -> Iterator[Finding]:
    rows = [
        (float(error), float(predicted), party, done)
        for done in attacked
        for party, error, predicted in zip(
            done.system.parties, done.found.error, done.found.predicted, strict=True
        )
        if party not in done.exposed
    ]
    if not rows:
        return
    errors, predicted = (np.array([row[k] for row in rows], dtype=np.float64) for k in (0, 1))
    best = min(rows, key=lambda row: row[0])
    yield holds(
        AUDIT,
        f"{report.count_of(len(rows), 'update')} that the leakage ledger protects could not be recovered. The"
        f" median error is {np.median(errors):.2f} of the prior's ({np.median(predicted):.2f} predicted by"
        f" leverage). The best estimate, of {best[2]} in round {best[3].one.opened.version.round}, has"
        f" {best[0]:.2f}.",
        evidence=(Evidence("lab", None, "true encoded updates"),),
    )


def _unsaid(attacked: Sequence[reconstruction_plots.Attacked]) -> Iterator[Finding]:
    some = [done for done in attacked if done.system.unsaid]
    if some:
        rounds = sorted({done.one.opened.version.round for done in some})
        added = report.count_of(sum(done.system.unsaid for done in some), "sum")
        yield note(
            AUDIT,
            f"Computed from the true updates (rounds: {report.list_of(map(str, rounds))}): {added} for which"
            " members released shares, but which the server does not report as opened.",
        )


def _over_rounds(together: Sequence[estimates.Estimated]) -> Iterator[Finding]:
    if len(together) < 2:
        return
    median, best = float(np.median(together[-1].error)), float(together[-1].error.min())
    yield Finding(
        Severity.WARNING if median < _NEAR else Severity.NOTE,
        AUDIT,
        f"From {len(together)} versions together, as if updates never changed, the error of a party's mean"
        f" update is {median:.2f} of the prior's (median; best {best:.2f}).",
        remedy=(
            ""
            if median >= _NEAR
            else "use fixed atoms, larger clusters or noise: a ledger of one round cannot prevent it"
        ),
    )
