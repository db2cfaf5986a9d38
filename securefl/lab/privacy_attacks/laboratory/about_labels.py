"""*properties*: class shares estimated from the first round's sums."""

from typing import Final

import numpy as np

from securefl.lab import audit
from securefl.lab.privacy_attacks.laboratory import properties
from securefl.lab.privacy_attacks.laboratory.case import Case

SHADOWS: Final = 60


def audit_properties(case: Case) -> audit.Chapter:
    """Estimate the class shares of all clusters of the first round.

    Raises:
        ConfigError: the model's last parameters are not one bias per class.
    """
    case.progress(f"properties: {SHADOWS} local trainings")
    one, generator = case.first, np.random.default_rng(case.seed)
    samples = int(np.median([len(rows) for rows in case.rows.values()]))
    no_members = np.zeros(0, dtype=np.int64)
    known = case.pool(no_members, len(case.dataset.y_test), generator)
    before, scenario = one.before.values, case.recorded.scenario
    model = properties.learn_labels(scenario, known, before, parties=SHADOWS, samples=samples, seed=case.seed)
    labels = {party: case.labels(party) for party in case.rows}
    prior = properties.shares_in(known.y_train, known.classes)
    found = properties.infer_labels(model, case.means(one), labels, case.weights(one), prior)
    return audit.Chapter(
        audit="properties",
        title="Properties: class shares of clusters",
        method=(
            "The attack trains shadow parties on samples that no party holds. From them it learns how class"
            " shares change the last layer's bias, and estimates each cluster's shares from its sum. The"
            " error is the fraction of samples that are assigned to a wrong class."
        ),
        findings=(_inference_finding(found),),
        exhibits=(_errors(found),),
    )


def _inference_finding(found: properties.LabelAttack) -> audit.Finding:
    claim = (
        f"The server estimates class shares of clusters with an error of {found.error:.2f} ({found.blind:.2f}"
        f" without sums), and those of single parties with {found.error_by_party:.2f}"
        f" ({found.blind_by_party:.2f})."
    )
    # Clusters may differ by little more than the estimate errs.
    telling = found.error < 0.5 * found.blind
    severity = audit.Severity.WARNING if telling else audit.Severity.HOLDS
    remedy = (
        "use larger clusters, which hide whose classes they are, or noise, which hides the classes"
        if telling
        else ""
    )
    return audit.Finding(severity, "properties", claim, remedy=remedy)


def _errors(found: properties.LabelAttack) -> audit.Table:
    rows = (
        ("clusters", len(found.sizes), found.error, found.blind),
        ("parties", sum(found.sizes), found.error_by_party, found.blind_by_party),
    )
    return audit.Table(
        title="Error of class shares", columns=("of", "number", "with sums", "without"), rows=rows
    )
