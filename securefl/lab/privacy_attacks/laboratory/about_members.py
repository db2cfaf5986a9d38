"""*membership*: records identified by the final model or by one opened sum."""

import math
import time
from typing import Final

import numpy as np

from securefl.base.arrays import F32, I64
from securefl.lab import audit
from securefl.lab.privacy_attacks.laboratory import membership
from securefl.lab.privacy_attacks.laboratory.case import Case
from securefl.lab.privacy_attacks.roc import Roc
from securefl.runtime import report, simulation
from securefl.scenario import Scenario
from securefl.training import data

AUDIT: Final = "membership"
SHADOWS: Final = 16
RECORDS: Final = 4000
FEW: Final = 0.01
_FEW: Final = f"{100 * FEW:.0f} %"
_REMEDY: Final = (
    "use fewer epochs, a smaller model or more samples per party; differential privacy bounds the risk"
)


def audit_membership(case: Case, shadows: int = SHADOWS) -> audit.Chapter:
    """Attack the final model and the first sum of the first round.

    This takes twice ``shadows`` simulations; those for the sum have one round and cluster.

    Raises:
        ConfigError: the scenario cannot be simulated on other records.
    """
    generator = np.random.default_rng(case.seed)
    scenario = case.recorded.scenario
    records = generator.permutation(np.concatenate(list(case.rows.values())))[:RECORDS]
    final = _attack(case, "the final model", scenario, records, case.final, None, shadows)
    cluster = case.means(case.first)[0]
    own = np.concatenate([case.rows[party] for party in cluster.survivors])
    before = case.first.before.values
    after = (before + cluster.update).astype(np.float32)
    name = f"a sum of {len(cluster.survivors)} parties"
    one = _attack(
        case, name, simulation.one_cluster(scenario, len(cluster.survivors)), own, after, before, shadows
    )
    found = {"the final model": final, name: one}
    return audit.Chapter(
        audit=AUDIT,
        title="Membership: records used for training",
        method=(
            f"The attack separates the parties' records from records that no party held. It uses the model's"
            f" confidence, and its likelihood ratio over {shadows} shadow models, trained alike on random"
            f" halves of all records (LiRA). Chance finds {_FEW} of members at {_FEW} false alarms."
        ),
        findings=tuple(_finding(case, name, attack) for name, attack in found.items()),
        exhibits=(_table(found), _plot(found)),
    )


def _attack(
    case: Case,
    name: str,
    scenario: Scenario,
    members: I64,
    target: F32,
    initial: F32 | None,
    shadows: int,
) -> membership.MembershipAttack:
    dataset = case.pool(members, len(members), np.random.default_rng(case.seed))
    pool = simulation.Pool(
        scenario=scenario, dataset=dataset, initial=initial, share=len(members) / _size(dataset)
    )
    began = time.monotonic()

    def show_progress(done: int) -> None:
        each = (time.monotonic() - began) / done
        if done in {1, shadows // 2}:
            left = report.seconds(each * (shadows - done))
            case.progress(f"membership, {name}: {done} of {shadows} shadow models, about {left} left")

    known = membership.shadow_scores(pool, shadows, case.seed + 1, progress=show_progress)
    member = np.arange(_size(dataset)) < len(members)
    return known.on(membership.confidences_in(pool)(target), member)


def _size(dataset: data.Dataset) -> int:
    return len(dataset.y_train)


def _finding(case: Case, name: str, attack: membership.MembershipAttack) -> audit.Finding:
    """Return a warning if hits exceed chance, a breach if they exceed the limit by epsilon."""
    ratio = attack.ratio
    hits, interval = ratio.hits_at(FEW), ratio.interval_at(FEW, 0.99)
    severity = audit.Severity.WARNING if interval.low > 2 * FEW else audit.Severity.HOLDS
    claim = (
        f"The attack identifies {report.percent(hits)} of the {ratio.members:,} records behind {name} at"
        f" {_FEW} false alarms (area under the curve {ratio.area:.3f}). By confidence alone it identifies"
        f" {report.percent(attack.threshold.hits_at(FEW))} (area {attack.threshold.area:.3f})."
    )
    privacy = case.recorded.summary.get("privacy") or {}
    epsilon, delta = privacy.get("epsilon"), privacy.get("delta")
    if isinstance(epsilon, int | float) and isinstance(delta, int | float):
        allowed = math.exp(min(float(epsilon), 30.0)) * FEW + float(delta)
        claim += f" Epsilon {epsilon:.3g} allows {report.percent(min(1.0, allowed))}."
        if interval.low > allowed:
            severity = audit.Severity.BREACH
    remedy = "" if severity is audit.Severity.HOLDS else _REMEDY
    return audit.Finding(severity, AUDIT, claim, remedy=remedy, error_rate=0.005)


def _table(found: dict[str, membership.MembershipAttack]) -> audit.Table:
    kinds = [(name, kind, roc) for name, one in found.items() for kind, roc in _kinds(one)]
    return audit.Table(
        title="Hits and area under the curve",
        columns=("attacked", "by", "members", "others", "area", "hits at 1 %", "at 0.1 %"),
        rows=tuple(
            (name, kind, roc.members, roc.others, roc.area, roc.hits_at(0.01), roc.hits_at(0.001))
            for name, kind, roc in kinds
        ),
    )


def _plot(found: dict[str, membership.MembershipAttack]) -> audit.AuditPlot:
    curves = []
    for name, one in found.items():
        for kind, roc in _kinds(one):
            kept = np.flatnonzero((roc.false_alarms > 0) & (roc.hits > 0))
            thin = kept[:: max(1, len(kept) // 200)]
            x, y = tuple(roc.false_alarms[thin].tolist()), tuple(roc.hits[thin].tolist())
            curves.append(audit.Curve(label=f"{name}, {kind}", x=x, y=y))
    return audit.AuditPlot(
        title="Membership inference",
        x_name="false alarms",
        y_name="hits",
        curves=tuple(curves),
        x_log=True,
        y_log=True,
        x_range=(1e-3, 1.0),
        y_range=(1e-3, 1.0),
        diagonal=True,
    )


def _kinds(attack: membership.MembershipAttack) -> tuple[tuple[str, Roc], ...]:
    return ("likelihood ratio", attack.ratio), ("confidence", attack.threshold)
