"""*inversion* and *properties*: pictures, and mixes of classes, out of the first round's sums."""

from __future__ import annotations

from typing import Final

import numpy as np

from securefl.arrays import F64
from securefl.audit.chapter import Chapter
from securefl.audit.exhibits import Picture, Pictures, Table
from securefl.audit.finding import Evidence, Finding, Severity
from securefl.audit.laboratory.case import Case
from securefl.audit.laboratory.inversion import Inversion, invert
from securefl.audit.laboratory.properties import LabelAttack, infer_labels, learn_labels, shares_in
from securefl.report.text import listed, percent

CLUSTERS: Final = 2
"""Sums that are inverted."""
SAMPLES: Final = 48
"""Of a cluster, that reconstructions are compared with."""
SHOWN: Final = 8
SHADOWS: Final = 60
"""Parties from which it is learned what a mix of classes does."""


def audit_inversion(case: Case) -> Chapter:
    """Invert some sums of the first round.

    Raises:
        ConfigError: the samples are no pictures.
    """
    generator = np.random.default_rng(case.seed)
    findings, rows, pictures = [], [], []
    for cluster in case.means(case.first)[:CLUSTERS]:
        own = np.concatenate([case.rows[party] for party in cluster.survivors])
        case.progress(f"inversion: the sum of {listed(cluster.survivors)}")
        chosen = own if len(own) <= SAMPLES else generator.permutation(own)[:SAMPLES]
        model, before = case.recorded.scenario.model, case.first.before.values
        found = invert(model, case.dataset, before, cluster.update, chosen, seed=case.seed)
        name = listed(cluster.survivors)
        rows.append(
            (name, len(own), found.candidates, found.ssim, found.blind_ssim, found.mse, found.recognised)
        )
        findings.append(_inverted(case, name, found))
        pictures.append(_pictures(name, found))
    return Chapter(
        audit="inversion",
        title="Inversion: pictures out of sums",
        method=(
            "Candidates are read off the neurons of a dense first layer, and searched for where few samples"
            " are behind a sum. Each sample is compared with the candidate that is most like it, and with as"
            " many unrelated pictures."
        ),
        findings=tuple(findings),
        exhibits=(
            Table(
                title="Reconstructions",
                columns=("cluster", "samples", "candidates", "SSIM", "unrelated", "MSE", "as good"),
                rows=tuple(rows),
            ),
            *pictures,
        ),
    )


def audit_properties(case: Case) -> Chapter:
    """Estimate the mix of classes in every cluster of the first round.

    Raises:
        ConfigError: the model's last parameters are not one bias per class.
    """
    case.progress(f"properties: {SHADOWS} local trainings")
    one, generator = case.first, np.random.default_rng(case.seed)
    samples = int(np.median([len(rows) for rows in case.rows.values()]))
    nobody = np.zeros(0, dtype=np.int64)
    known = case.pool(nobody, len(case.dataset.y_test), generator)
    before, scenario = one.before.values, case.recorded.scenario
    model = learn_labels(scenario, known, before, parties=SHADOWS, samples=samples, seed=case.seed)
    labels = {party: case.labels(party) for party in case.rows}
    prior = shares_in(known.y_train, known.classes)
    found = infer_labels(model, case.means(one), labels, case.weights(one), prior)
    return Chapter(
        audit="properties",
        title="Properties: the classes that a cluster holds",
        method=(
            "From shadow parties on samples that no party holds it is learned what a mix of classes does to"
            " the last layer's bias; the mix of each cluster is then read off its sum. The error is the share"
            " of samples that is booked under a wrong class."
        ),
        findings=(_inferred(found),),
        exhibits=(_errors(found),),
    )


def _inverted(case: Case, name: str, found: Inversion) -> Finding:
    claim = (
        f"Of {len(found.matches)} samples behind the sum of {name}, {percent(found.recognised)} are"
        f" reconstructed as good as the original ({percent(found.blind_recognised)} by as many unrelated"
        f" pictures); mean similarity {found.ssim:.2f} ({found.blind_ssim:.2f})."
    )
    evidence = (Evidence("server", case.first.before.evidence.entry, "the model before"),)
    if found.recognised > found.blind_recognised:
        remedy = "larger clusters and more samples in each step, several local steps, or noise"
        return Finding(
            audit="inversion", severity=Severity.BREACH, claim=claim, evidence=evidence, remedy=remedy
        )
    return Finding(audit="inversion", severity=Severity.HOLDS, claim=claim, evidence=evidence)


def _inferred(found: LabelAttack) -> Finding:
    claim = (
        f"The label shares of clusters are guessed with an error of {found.error:.2f} (without sums"
        f" {found.blind:.2f}), those of single parties with {found.error_by_party:.2f}"
        f" ({found.blind_by_party:.2f})."
    )
    # Clusters may differ by little more than the estimate errs.
    telling = found.error < 0.5 * found.blind
    severity = Severity.WARNING if telling else Severity.HOLDS
    remedy = "larger clusters hide whose classes they are; noise hides them" if telling else ""
    return Finding(audit="properties", severity=severity, claim=claim, remedy=remedy)


def _errors(found: LabelAttack) -> Table:
    rows = (
        ("clusters", len(found.sizes), found.error, found.blind),
        ("parties", sum(found.sizes), found.error_by_party, found.blind_by_party),
    )
    return Table(title="Error of label shares", columns=("of", "number", "with sums", "without"), rows=rows)


def _pictures(name: str, found: Inversion) -> Pictures:
    best = np.argsort([match.mse for match in found.matches])[:SHOWN]
    originals = tuple(Picture(caption="original", pixels=_grey(found.originals[at])) for at in best)
    guesses = tuple(
        Picture(caption=f"SSIM {found.matches[at].ssim:.2f}", pixels=_grey(found.found[at])) for at in best
    )
    title = f"The best reconstructions from the sum of {name}"
    return Pictures(title=title, rows=(originals, guesses))


def _grey(picture: F64) -> tuple[tuple[int, ...], ...]:
    levels = np.clip(np.rint(picture * 255), 0, 255).astype(np.int64)
    return tuple(tuple(row) for row in levels.tolist())
