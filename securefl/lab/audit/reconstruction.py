"""*reconstruction*: single updates computed from opened sums, beside the ledger's verdict.

With ground truth only. Exposed means recovered to the last step of the encoding; not exposed means not
recovered. Either way the audit would show a ledger that is wrong.
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
"""Errors below this part of the prior's are told as a warning where the ledger of one round cannot see it."""


def audit_reconstruction(recorded: Recorded, truth: GroundTruth, versions: Sequence[Exposed]) -> Chapter:
    """Least squares on the sums of each update version, and over all rounds."""
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
        claim = "No version has opened sums and the true updates of all that are in them."
        findings.append(note(AUDIT, claim))
    else:
        together = estimates.over_rounds([one.system for one in attacked], recorded)
        findings += [*_disagreements(attacked), *_recovered(recorded, attacked), *_hidden(attacked)]
        findings += _unsaid(attacked)
        findings += _over_rounds(together)
        exhibits = reconstruction_plots.reconstruction_exhibits(recorded, attacked, together)
    return Chapter(
        audit=AUDIT,
        title="Reconstruction: single updates from sums",
        method=(
            "What the server can compute: least squares for all updates of a version from its opened sums,"
            " with the median of the sums' means as the prior, on the sampled coordinates. The error is"
            " compared with the true encoded update, as a part of the prior's error."
        ),
        findings=tuple(findings),
        exhibits=exhibits,
    )


def _of_slots(recorded: Recorded, truth: GroundTruth, versions: Sequence[Exposed]) -> Chapter:
    """Slots of hidden groups against single updates: no equation says whose update is in which."""
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
            f"{report.counted(len(singles), 'opened slot')} show the update of one party each"
            f" ({report.listed(parties)}), to the last step of the encoding.",
            evidence=tuple(opening.evidence for _, opening in singles[:6]),
            remedy="what exposure says of slots: nothing may be opened with a count below f + k_anonymity",
            parties=parties,
        )
    else:
        finding = Finding(
            Severity.HOLDS if compared else Severity.NOTE,
            AUDIT,
            f"None of {report.counted(compared, 'opened slot')} is the update of a single member."
            if compared
            else "No slot was opened by the server whose members' true updates are kept.",
            evidence=(Evidence("lab", None, "true encoded updates"),),
        )
    words = "Least squares were not tried: who is in which slot is not recorded, so that there are no rows."
    return Chapter(
        audit=AUDIT,
        title="Reconstruction: single updates from sums",
        method=(
            "Each opened slot of hidden groups is compared with the true encoded update of every member of"
            " its cluster, on the sampled coordinates."
        ),
        findings=(finding, note(AUDIT, words)),
    )


def _disagreements(attacked: Sequence[reconstruction_plots.Attacked]) -> Iterator[Finding]:
    for done in attacked:
        recovered = {p for p, yes in zip(done.system.parties, done.found.recovered, strict=True) if yes}
        # An update that equals the prior is recovered without any sum.
        guessed = {p for p, e in zip(done.system.parties, done.found.error, strict=True) if e == 0}
        missed = sorted(done.exposed.intersection(done.system.parties) - recovered)
        beyond = sorted(recovered - done.exposed - guessed)
        if missed or beyond:
            yield breach(
                AUDIT,
                f"Round {done.one.opened.version.round}: the ledger and the reconstruction disagree;"
                f" exposed and not recovered: {report.listed(missed) or 'nobody'}; recovered and not exposed:"
                f" {report.listed(beyond) or 'nobody'}.",
                remedy="sums are not those of the recorded updates, or the ledger is wrong: look at replay",
                parties=tuple(sorted({*missed, *beyond})),
            )


def _recovered(recorded: Recorded, attacked: Sequence[reconstruction_plots.Attacked]) -> Iterator[Finding]:
    hit = [done for done in attacked if done.exposed.intersection(done.system.parties)]
    parties = sorted({p for done in hit for p in done.exposed.intersection(done.system.parties)})
    if parties:
        whose = "1 party" if len(parties) == 1 else f"{len(parties)} parties"
        reckoned = clustering.leakage_colluders(recorded.scenario)
        promised = len(recorded.colluders) <= reckoned or any(done.one.alone.exposed for done in hit)
        yield Finding(
            Severity.BREACH if promised and not recorded.noisy else Severity.WARNING,
            AUDIT,
            f"Updates of {whose} ({report.listed(parties)}) are recovered to the last step"
            " of the encoding, in"
            f" {len(hit)} of {len(attacked)} versions, as the ledger says."
            + (" Their noise is in them." if recorded.noisy else "")
            + ("" if promised else f" It takes more than the {reckoned} colluders that are reckoned with."),
            evidence=tuple(o.evidence for o in hit[0].one.opened.openings[:6]),
            remedy=(
                "what exposure says: fewer sums of one update, new local work, larger clusters, or noise"
            ),
            parties=tuple(parties),
        )


def _hidden(attacked: Sequence[reconstruction_plots.Attacked]) -> Iterator[Finding]:
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
        f"{len(rows)} updates that the ledger calls hidden are not recovered: the error is"
        f" {np.median(errors):.2f} of the prior's in the median, {np.median(predicted):.2f} by leverage."
        f" The nearest is {best[2]} in round {best[3].one.opened.version.round} with {best[0]:.2f}.",
        evidence=(Evidence("lab", None, "true encoded updates"),),
    )


def _unsaid(attacked: Sequence[reconstruction_plots.Attacked]) -> Iterator[Finding]:
    some = [done for done in attacked if done.system.unsaid]
    if some:
        rounds = sorted({done.one.opened.version.round for done in some})
        added = report.counted(sum(done.system.unsaid for done in some), "sum")
        yield note(
            AUDIT,
            f"Added up from true updates (rounds: {report.listed(map(str, rounds))}): {added} for which"
            " members"
            " released shares, and which the server does not say that it opened.",
        )


def _over_rounds(together: Sequence[estimates.Estimated]) -> Iterator[Finding]:
    if len(together) < 2:
        return
    median, best = float(np.median(together[-1].error)), float(together[-1].error.min())
    yield Finding(
        Severity.WARNING if median < _NEAR else Severity.NOTE,
        AUDIT,
        f"Over {len(together)} versions together, as if updates never changed, the error of a party's"
        f" mean update is {median:.2f} of the prior's in the median and {best:.2f} at best.",
        remedy=(
            ""
            if median >= _NEAR
            else "fixed atoms, larger clusters or noise: the ledger of one round does not see it"
        ),
    )
