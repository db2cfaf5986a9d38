"""*canary*: a lower bound on epsilon beside the claim."""

from typing import Final

from securefl.base.entropy import OsEntropy
from securefl.base.ids import RunId
from securefl.lab import audit
from securefl.lab.privacy_attacks.laboratory import canary
from securefl.lab.privacy_attacks.laboratory.case import Case
from securefl.methods import attacks
from securefl.runtime import report, simulation

AUDIT: Final = "canary"
CANARIES: Final = 1000


def audit_epsilon(case: Case, canaries: int = CANARIES) -> audit.Chapter:
    """Simulate the run's scenario with canaries in the updates of all honest parties.

    Raises:
        ConfigError: the scenario cannot be simulated, or its batches cannot have canaries.
    """
    scenario = simulation.without_messages(case.recorded.scenario)
    if scenario.privacy.unit == "none":
        claim = "Nothing to test: the scenario claims no epsilon."
        return _chapter((audit.note(AUDIT, claim),), None)
    entropy = OsEntropy()
    run = RunId(case.recorded.run)
    federation = simulation.assemble(scenario, run, case.seed, secret=entropy, dataset=case.dataset)
    honest = [name for name in federation.parties if name not in attacks.behaviours_of(scenario, case.seed)]
    case.progress(f"canary: one simulation of {scenario.stop.rounds} rounds")
    found = canary.audit_canaries(federation, honest, entropy, count=canaries)
    findings = [_finding(found)]
    return _chapter(tuple(findings), found)


def _finding(found: canary.CanaryAudit) -> audit.Finding:
    bound, (epsilon, delta) = found.bound, found.announced
    claim = (
        f"Epsilon is at least {bound.epsilon:.3g} at delta {found.delta:.2g}, by {found.present.size}"
        f" canaries in {report.count_of(found.releases, 'release')} ({100 * bound.confidence:.0f} %"
        f" confidence). The accountant claims {found.claimed:.3g} there, and {epsilon:.3g} at delta"
        f" {delta:.2g}."
    )
    if found.gaussian is not None:
        claim += f" If releases are Gaussian, epsilon is at least {found.gaussian:.3g}."
    error = 2 * (1 - bound.confidence) if found.gaussian is not None else 1 - bound.confidence
    if found.holds:
        return audit.holds(AUDIT, claim, error_rate=error)
    remedy = (
        "do not rely on an epsilon of this scenario: its noise, sampling or counting of releases is wrong"
    )
    return audit.breach(AUDIT, claim, remedy=remedy, error_rate=error)


def _chapter(findings: tuple[audit.Finding, ...], found: canary.CanaryAudit | None) -> audit.Chapter:
    rows = () if found is None else _rows(found)
    table = audit.Table(title="Bounds", columns=("value", "epsilon", "at delta"), rows=rows)
    return audit.Chapter(
        audit=AUDIT,
        title="Canaries: a lower bound on epsilon",
        method=(
            "Canaries are records that move one coordinate by the largest amount allowed. Fair coins include"
            " or omit each, and an attack guesses which from the sums of one simulation of this scenario"
            " (Steinke et al. 2023). A bound above the claim refutes it; a bound below proves nothing about"
            " better attacks."
        ),
        findings=findings,
        exhibits=(table,) if rows else (),
    )


def _rows(found: canary.CanaryAudit) -> tuple[tuple[str, float | None, float], ...]:
    return (
        ("lower bound, one run", found.bound.epsilon, found.delta),
        ("lower bound, if Gaussian", found.gaussian, found.delta),
        ("claimed", found.claimed, found.delta),
        ("claimed, as announced", *found.announced),
    )
