"""Quantile clipping at the server: the next round's clip follows from the parties' bits.

Source: :mod:`securefl.methods.privacy.quantile_clip`.
"""

from collections.abc import Iterator
from dataclasses import replace

from securefl.base import header
from securefl.methods import encoding, privacy, robust
from securefl.protocol.round.server.features.feature import RoundFeature, RoundStep
from securefl.protocol.round.server.opened import OpenedRound
from securefl.protocol.round.server.phases import ServerState
from securefl.protocol.round.shared import reports
from securefl.protocol.round.shared.additions.clipping import Clip
from securefl.protocol.round.shared.plan import RunPlan
from securefl.scenario import Scenario

CLIP = Clip.name


class ClipUpdates(RoundFeature):
    """Clip of updates that follows a quantile of their norms."""

    def header_sentences(self, scenario: Scenario) -> Iterator[header.Sentence]:
        clip = scenario.privacy.clip
        if clip is not None:
            follows = (
                f"updates are clipped to the quantile {clip.quantile:g} of norms, at first {clip.initial:g}"
            )
            yield header.privacy(more=f"{follows}; the noisy shares are in the same account")

    def record_step(self, step: RoundStep, after: ServerState) -> ServerState:
        """Update the clip, unless the round gave no update."""
        words, share = _words(step.plan), pooled_share(step.plan, step.opened)
        if words is None or share is None or step.result.update is None:
            return after
        clip = words.following(step.before.values[CLIP], share)
        return replace(after, values={**after.values, CLIP: clip})

    def complete_report(
        self, step: RoundStep, after: ServerState, done: reports.RoundDone
    ) -> tuple[ServerState, reports.RoundDone, tuple[reports.AnyReport, ...]]:
        clip, share = step.before.values.get(CLIP), pooled_share(step.plan, step.opened)
        if clip is None:
            return after, done, ()
        return after, done, (reports.ClipMoved(done.round, clip, share, after.values[CLIP]),)


def _words(plan: RunPlan) -> privacy.ClipWords | None:
    return privacy.clip_words(plan.scenario, plan.limits.ring_bits)


def pooled_share(plan: RunPlan, opened: OpenedRound) -> float | None:
    """Return the share of updates within the clip; None if no sum of bits counts.

    Robust rules take the median over the clusters of reclustering 0. Sums that failed a check do not count.
    """
    words = _words(plan)
    if words is None:
        return None
    sums = [
        (int(encoding.from_ring(one.ring[plan.words_slice(CLIP)])[0]), len(one.survivors))
        for one in opened.sums
        if one.reclustering == 0 and one.key not in opened.excluded
    ]
    return words.pool_shares(sums, median=not isinstance(plan.scenario.aggregation.rule, robust.Mean))
