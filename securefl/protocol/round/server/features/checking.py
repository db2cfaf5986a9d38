"""Checks of opened sums before the rule (step 12, docs/checks.md)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from securefl.base import header
from securefl.base.errors import UsageError
from securefl.methods import encoding, feasibility, privacy
from securefl.protocol.round.server.features import suspicion
from securefl.protocol.round.server.features.feature import RoundFeature
from securefl.protocol.round.server.opened import OpenedRound
from securefl.protocol.round.server.phases import ServerState
from securefl.protocol.round.server.stacking import ClusterSum
from securefl.protocol.round.shared.plan import RunPlan
from securefl.protocol.round.shared.reports import RoundDone, SumChecked
from securefl.scenario import Scenario


def check_sums(plan: RunPlan, round_: int, sums: Sequence[ClusterSum]) -> tuple[SumChecked, ...]:
    """Check every opened sum of a round, in order; empty if the scenario has no checks.

    Raises:
        UsageError: checks without noise, which loading rejects.
    """
    checks = plan.scenario.checks
    if checks.kind == "none" or not sums:
        return ()
    if plan.mechanism is None:
        raise UsageError(
            "cannot check sums for their noise: the run has no noise mechanism; set checks.kind ="
            ' "none" or add noise'
        )
    if checks.kind == "published":
        return tuple(_check_published(plan.mechanism, round_, opened, plan.length) for opened in sums)
    agreed = agreed_terms(plan.scenario, plan.mechanism)
    opened_sums = [
        privacy.OpenedSum(encoding.from_ring(one.ring[: plan.length]), len(one.survivors)) for one in sums
    ]
    verdicts = privacy.check_sums(opened_sums, agreed)
    return tuple(
        SumChecked(
            round_, *opened.key, verdict.ok, verdict.family.p_value, verdict.family.reason, verdict.e_values
        )
        for opened, verdict in zip(sums, verdicts, strict=True)
    )


def agreed_terms(scenario: Scenario, mechanism: privacy.Mechanism) -> privacy.CheckPlan:
    """Return the terms that all parties agreed to, for checks of kind ``corrected``."""
    return privacy.CheckPlan(
        law=scenario.privacy.law,
        std=mechanism.shares.kept_std,
        member_norm=mechanism.signal,
        alpha=scenario.checks.alpha,
    )


def sums_out_of_range(plan: RunPlan, round_: int, sums: Sequence[ClusterSum]) -> tuple[SumChecked, ...]:
    """Return the sums with a coordinate beyond their survivors' encodings, in verified rounds.

    A member masked something else, possibly once its colluders saw the other sums. The rule sees no such sum,
    so it costs the others no round.
    """
    if not plan.scenario.secure_sum.verified:
        return ()
    found = []
    for one in sums:
        values, most = (
            encoding.from_ring(one.ring[: plan.length]),
            feasibility.largest_sum(plan.scenario, len(one.survivors)),
        )
        # No absolute values: the lowest integer has none.
        if (values > most).any() or (values < -most).any():
            reason = "longer than its members can encode"
            found.append(SumChecked(round_, *one.key, ok=False, p_value=0.0, reason=reason, e_values=()))
    return tuple(found)


def _check_published(
    mechanism: privacy.Mechanism, round_: int, opened: ClusterSum, length: int
) -> SumChecked:
    values = encoding.from_ring(opened.ring[:length]).astype(np.float64)
    verdict = privacy.first_stage(values, mechanism.shares.share_std)
    worst = min(verdict, key=lambda one: (one.ok, one.p_value))
    return SumChecked(round_, *opened.key, verdict.ok, worst.p_value, f"{worst.check}: {worst.reason}", ())


class DpChecks(RoundFeature):
    """Checks of opened sums against the agreed noise, with evidence over rounds."""

    def header_sentences(self, scenario: Scenario) -> Iterator[header.Sentence]:
        checks, alpha = scenario.checks, f"{100 * scenario.checks.alpha:g} %"
        if checks.kind == "published":
            rejected = "norm and KS test of Xiang et al. reject 1 of 19 to 1 of 15, more if signals agree"
            yield header.tolerance("CHECKS REJECT HONEST UPDATES", rejected)
        if checks.kind == "corrected":
            noise = (
                f"sums without the agreed noise are left out, any honest one of a round with {alpha} at most"
            )
            yield header.limits("sums without noise are rejected", noise)
            yield suspicion.evidence_sentence(scenario)

    def screen(self, plan: RunPlan, round_: int, opened: OpenedRound) -> tuple[SumChecked, ...]:
        return check_sums(plan, round_, opened.sums)

    def record_screen(
        self, plan: RunPlan, standing: ServerState, opened: OpenedRound, checked: tuple[SumChecked, ...]
    ) -> ServerState:
        evidence = suspicion.update_evidence(plan, standing.suspicion, opened.drawn, opened.sums, checked)
        return replace(standing, suspicion=evidence)

    def add_state(self, standing: ServerState, done: RoundDone) -> RoundDone:
        return replace(done, suspects=suspicion.list_suspects(standing.suspicion))


class LengthCheck(RoundFeature):
    """Check that no verified sum exceeds its survivors' encodings."""

    def screen(self, plan: RunPlan, round_: int, opened: OpenedRound) -> tuple[SumChecked, ...]:
        return sums_out_of_range(plan, round_, opened.sums)
