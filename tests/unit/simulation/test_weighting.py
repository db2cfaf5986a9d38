"""Declared counts in rounds: what a lie buys, what truncation leaves of it, and what nobody can see."""

from __future__ import annotations

import numpy as np
import pytest

from securefl.base.arrays import F32
from securefl.base.ids import PartyId, RunId
from securefl.methods.weighting.weights import cap_of, public_weights
from securefl.protocol.round.shared.reports import ClustersDrawn, ModelFinal, ModelStepped
from securefl.runtime.simulation.federation import assemble
from securefl.runtime.simulation.rounds import SimulatedRounds
from securefl.scenario.load import parse_scenario

SCENARIO = """
name = "weighting"
parties = 12
[data]
set = "digits"
train_limit = 400
test_limit = 60
partition = { type = "log-normal", sigma = 2.5 }
[model]
type = "softmax"
[training]
device = "cpu"
[encoding]
scale_bits = 30
[clustering]
size = 1
[secure_sum]
threshold = 1
min_survivors = 1
k_anonymity = 1
[leakage]
mode = "report"
[stop]
rounds = 1
"""
LIAR = PartyId("p03")
LIE = "{ kind = 'false-count', parties = ['p03'], samples = 10_000_000 }"
NEGATION = "{ kind = 'model-negation', parties = ['p03'] }"
TRUNCATE = "weighting={ mode = 'truncate', alpha = 0.1 }"
TIGHT = "weighting={ mode = 'truncate', alpha = 0.2, alpha_star = 0.3 }"


class Heard:
    def __init__(self) -> None:
        self.reports: list[object] = []

    def on_report(self, _now: float, report: object) -> None:
        self.reports.append(report)

    def on_reject(self, *_refusal: str) -> None: ...

    def drawn(self) -> ClustersDrawn:
        return next(r for r in self.reports if isinstance(r, ClustersDrawn))

    def final(self) -> F32:
        return next(r.params for r in self.reports if isinstance(r, ModelFinal))

    def stepped(self) -> ModelStepped:
        return next(r for r in self.reports if isinstance(r, ModelStepped))


def one_round(*overrides: str, exact: bool = True) -> tuple[Heard, F32]:
    """What is heard, and the step of the model."""
    made = assemble(parse_scenario(SCENARIO, overrides), RunId("r"), 1, exact=exact)
    heard = Heard()
    SimulatedRounds(made, [heard]).run(made.evaluator.evaluate)
    return heard, heard.final() - made.initial


def step(*overrides: str) -> F32:
    return one_round(*overrides)[1]


def test_a_liar_is_the_model_unless_counts_are_truncated_or_ignored() -> None:
    """Negation moves the model towards zero: by twice its length for a share of 1."""
    lies = f"behaviours=[{LIE}, {NEGATION}]"
    initial = assemble(parse_scenario(SCENARIO, ()), RunId("r"), 1).initial
    shares = []
    for mode in ("weighting.mode=passthrough", TRUNCATE, "weighting.mode=ignore"):
        # A count that does nothing is refused.
        attack = f"behaviours=[{NEGATION}]" if "ignore" in mode else lies
        moved = step(attack, mode) - step(mode)
        shares.append(float(moved @ -initial) / float(2 * initial @ initial))
    assert shares[0] == pytest.approx(1.0, abs=0.05)
    assert shares[1] < 0.4
    assert shares[2] < 0.2


def test_every_party_knows_the_cap_from_the_declared_counts() -> None:
    heard, _ = one_round(f"behaviours=[{LIE}]", TIGHT)
    counts = dict(heard.drawn().counts)
    weighting = parse_scenario(SCENARIO, (TIGHT,)).weighting
    assert counts[LIAR] == 10_000_000
    honest = {party: count for party, count in counts.items() if party != LIAR}
    cap = cap_of(weighting, counts)
    assert cap is not None
    assert cap < max(honest.values())
    weights = public_weights(weighting, counts)
    top = sorted(weights.values())[-3:]
    assert sum(top) <= 0.3 * sum(weights.values()), "ceil(0.2 x 12) = 3 parties"


@pytest.mark.parametrize(
    "training", ["training.epochs=2", "training={batch_fraction=0.5, steps=3, device='cpu'}"]
)
def test_a_party_may_train_on_what_it_weighs_for_alone(training: str) -> None:
    """The vectorised simulation and that of single parties do the same."""
    use = f"{TIGHT[:-2]}, use = 'truncated' }}"
    all_, some = step(TIGHT, training), step(use, training)
    assert not np.allclose(all_, some, atol=1e-4)
    assert np.allclose(one_round(use, training, exact=False)[1], some, atol=1e-5)


def test_a_scaled_vector_passes_for_one_of_the_declared_weight() -> None:
    """Here nothing refuses it, and it counts as often as it is scaled.

    Validated sums refuse it: ``tests/simulation/test_validated.py``, ``TestDeclaredCounts``.
    """
    scaled = "{ kind = 'scale', parties = ['p03'], factor = 100 }"
    honest, attacked = one_round(TRUNCATE), one_round(TRUNCATE, f"behaviours=[{scaled}]")
    clusters = (
        "clustering.size=3",
        "secure_sum={ threshold = 2, min_survivors = 2, k_anonymity = 2 }",
        TRUNCATE,
    )
    in_clusters = one_round(*clusters), one_round(*clusters, f"behaviours=[{scaled}]")
    for (before, plain), (after, moved) in ((honest, attacked), in_clusters):
        assert after.stepped().kept == before.stepped().kept
        assert not after.stepped().rejected
        weights = public_weights(parse_scenario(SCENARIO, (TRUNCATE,)).weighting, dict(after.drawn().counts))
        alone = step(TRUNCATE, "behaviours=[]", f"behaviours=[{scaled.replace('100', '2')}]")
        assert weights[LIAR] <= 1
        # What one more time its own update does, 99 times over.
        assert np.allclose(moved - plain, 99 * (alone - honest[1]), atol=2e-4)
