"""Label shares of simulated clusters: inferred, less so by party, and not under noise."""

import numpy as np
import pytest

from securefl.base.errors import ConfigError
from securefl.base.ids import RunId
from securefl.lab.privacy_attacks.laboratory.properties import (
    LabelAttack,
    infer_labels,
    learn_labels,
    shares_in,
)
from securefl.methods.attacks.assignment import party_names
from securefl.runtime.simulation.federation import assemble
from securefl.training.data.split import split
from tests.unit.audit.laboratory.scenarios import digits, opened_in_a_round, scenario

PARTIES = (
    "parties=9",
    "clustering.size=3",
    "data.partition={type='dirichlet', alpha=0.3}",
    "training.epochs=2",
)


def attack(*overrides: str, draw: int = 0) -> LabelAttack:
    held = scenario(*PARTIES, *overrides)
    data = digits(450)
    federation = assemble(held, RunId(f"{draw:032d}"), 4, dataset=data)
    rows = split(data, held.data, party_names(9), 4).parties
    labels = {party: data.y_train[own] for party, own in rows.items()}
    model = learn_labels(held, digits(600), federation.initial, parties=40, samples=50, seed=2)
    weights = dict.fromkeys(labels, 1.0)
    return infer_labels(model, opened_in_a_round(federation), labels, weights, shares_in(data.y_train, 10))


def test_shares_of_clusters_are_inferred() -> None:
    # How much is learned hangs on who is with whom: of single draws .49 to .95 of the blind error is left.
    drawn = [attack(draw=number) for number in range(4)]
    assert all(found.estimated.shape == found.true.shape == (3, 10) for found in drawn)
    error, blind = (sum(errors) for errors in zip(*((one.error, one.blind) for one in drawn), strict=True))
    assert error < 0.8 * blind
    # As a party is unlike its cluster, less is known of it.
    for found in drawn:
        assert found.error < found.error_by_party < found.blind_by_party


def test_noise_hides_them() -> None:
    private = (
        "training.epochs=",
        "training.learning_rate=",
        "training.batch_size=20",
        "training.dp_sgd={}",
        "weighting.mode=ignore",
        "encoding.scale_bits=12",
        "privacy={unit='record', multiplier=5.0, delta=1e-3, records=40}",
    )
    found = attack(*private)
    assert found.error > 0.8 * found.blind


def test_a_model_without_one_bias_per_class_is_refused() -> None:
    held = scenario("model={type='custom', factory='a:b'}")
    with pytest.raises(ConfigError, match="one bias per class"):
        learn_labels(held, digits(40), np.zeros(1, np.float32), parties=2, samples=5, seed=1)
