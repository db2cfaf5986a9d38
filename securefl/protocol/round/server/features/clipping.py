"""Quantile clipping at the server: the unit of opened sums, and the clip of the next round.

The clip stands in the state, with the model in announcement, hello and binding, and in the chain of verified
rounds. Source: :mod:`securefl.methods.privacy.quantile_clip`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from securefl.base import header
from securefl.methods import encoding, robust
from securefl.protocol.round.server.features.feature import RoundFeature
from securefl.protocol.round.server.opened import OpenedRound
from securefl.protocol.round.server.phases import Standing
from securefl.protocol.round.server.stacking import RoundAggregate
from securefl.protocol.round.shared import reports
from securefl.protocol.round.shared.plan import RunPlan
from securefl.scenario import Scenario


class ClipUpdates(RoundFeature):
    """Clip of updates that follows a quantile of their norms."""

    def facts(self, scenario: Scenario) -> Iterator[header.Sentence]:
        """State the quantile and the first clip."""
        clip = scenario.privacy.clip
        if clip is not None:
            follows = (
                f"updates are clipped to the quantile {clip.quantile:g} of norms, at first {clip.initial:g}"
            )
            yield header.privacy(more=f"{follows}; the noisy shares are in the same account")

    def opened(self, plan: RunPlan, standing: Standing, opened: OpenedRound) -> OpenedRound:
        """Give the sums the round's clip as their unit."""
        return opened if standing.clip is None else replace(opened, unit=standing.clip)

    def stepped(
        self, plan: RunPlan, before: Standing, after: Standing, opened: OpenedRound, result: RoundAggregate
    ) -> Standing:
        """Move the clip, unless the round gave no update."""
        words, share = plan.clip, pooled_share(plan, opened)
        if words is None or before.clip is None or share is None or result.update is None:
            return after
        return replace(after, clip=words.following(before.clip, share))

    def completed(
        self,
        plan: RunPlan,
        before: Standing,
        after: Standing,
        done: reports.RoundDone,
        opened: OpenedRound,
    ) -> tuple[Standing, reports.RoundDone, tuple[reports.AnyReport, ...]]:
        """Report the clip of the round, and the next one."""
        if before.clip is None or after.clip is None:
            return after, done, ()
        share = pooled_share(plan, opened)
        return after, done, (reports.ClipMoved(before.round, before.clip, share, after.clip),)


def pooled_share(plan: RunPlan, opened: OpenedRound) -> float | None:
    """Return the share of updates no longer than the clip; None if no sum of bits counts.

    Robust rules take the median over the clusters of reclustering 0. Sums that failed a check do not count.
    """
    words = plan.clip
    if words is None:
        return None
    sums = [
        (int(encoding.from_ring(one.ring[plan.brought :])[0]), len(one.survivors))
        for one in opened.sums
        if one.reclustering == 0 and one.key not in opened.excluded
    ]
    return words.pooled(sums, median=not isinstance(plan.scenario.aggregation.rule, robust.Mean))
