"""A feature that changes the step: servers, verifiers and simulations take it from the walk."""

from __future__ import annotations

import numpy as np
import pytest

from securefl.protocol.round import walk
from securefl.protocol.round.server.features.catalogue import FEATURES
from securefl.protocol.round.server.features.feature import Models, RoundFeature, RoundStep
from tests.simulation.lying import followed, verified


class Halved(RoundFeature):
    """Half of each step."""

    def change_models(self, step: RoundStep, models: Models) -> Models:
        before = step.before.params
        return models._replace(params=before + (models.params - before) / np.float32(2))


def test_verifiers_confirm_a_step_that_a_feature_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = followed(verified(rounds="2"))
    with monkeypatch.context() as patched:
        patched.setattr(walk, "FEATURES", (Halved(), *FEATURES))
        halved = followed(verified(rounds="3"))
    assert halved.confirmed == [0, 1, 2]
    np.testing.assert_array_equal(2 * halved.world.models[1], plain.world.models[1])
