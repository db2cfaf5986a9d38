"""Task groups at the end of a round: models without an update stay, new ones start."""

import numpy as np

from securefl.protocol.round.server.features.feature import Models, RoundFeature, RoundStep
from securefl.protocol.round.server.group_start import split_models
from securefl.scenario import Scenario


class TaskGroups(RoundFeature):
    """Several models, one per task group."""

    def change_models(self, step: RoundStep, models: Models) -> Models:
        """Keep model and momentum of a group without an update; see :func:`split_models`."""
        plan, before, opened, result = step
        made, kept = models
        if not result.covered.all():
            made = np.where(result.covered, made, before.params)
            kept = np.where(result.covered, kept, before.moments)
        return Models(*split_models(plan, before.round, made, kept, opened.sums, opened.drawn, opened.totals))

    def reason_against_sampling(self, scenario: Scenario) -> str:
        return (
            "with task groups models and sums are sampled at other coordinates"
            if scenario.groups.count > 1
            else ""
        )
