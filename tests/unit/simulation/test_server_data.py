"""Rules with data of the server's own, on digits: what they keep out, and what Zeno++ lets pass."""

from __future__ import annotations

from securefl.base.ids import PartyId, RunId
from securefl.protocol.kernel.effects import Finished
from securefl.protocol.round.shared.reports import (
    ClustersDrawn,
    ConsultingFailed,
    ModelStepped,
    RoundDone,
    SumOpened,
)
from securefl.runtime.simulation.federation import assemble
from securefl.runtime.simulation.rounds import SimulatedRounds
from securefl.scenario.load import parse_scenario

SCENARIO = """
name = "server-data"
parties = 30
[data]
set = "digits"
server_fraction = 0.05
[model]
type = "softmax"
[training]
epochs = 2
batch_size = 10
device = "cpu"
[clustering]
size = 3
[secure_sum]
threshold = 2
min_survivors = 2
[weighting]
mode = "ignore"
[stop]
rounds = 5
[[behaviours]]
kind = "scale"
factor = -10
parties = ["p00"]
"""


class Ear:
    """Which clusters of the attacker's, and of the others, the rule kept or left out, by round."""

    def __init__(self) -> None:
        self.spoilt_kept: list[bool] = []
        self.honest_left_out = 0
        self.accuracies: list[float] = []
        self.failures: list[str] = []
        self._spoilt: set[tuple[int, int]] = set()

    def on_report(self, _now: float, report: object) -> None:
        match report:
            case ClustersDrawn():
                self._spoilt = set()
            case SumOpened(opened=opened) if PartyId("p00") in opened.survivors:
                self._spoilt.add((opened.reclustering, opened.cluster))
            case ModelStepped(kept=kept, rejected=rejected):
                self.spoilt_kept.append(bool(self._spoilt.intersection(kept)))
                self.honest_left_out += len(set(rejected) - self._spoilt)
            case RoundDone(accuracy=float(accuracy)):
                self.accuracies.append(accuracy)
            case ConsultingFailed(reason=reason):
                self.failures.append(reason)
            case _:
                pass

    def on_reject(self, *_refusal: str) -> None: ...


def simulated(rule: str, *overrides: str) -> Ear:
    scenario = parse_scenario(SCENARIO, (f"aggregation.rule={rule}", *overrides))
    federation = assemble(scenario, RunId("r"), 1)
    ear = Ear()
    assert isinstance(SimulatedRounds(federation, [ear]).run(federation.evaluator.evaluate), Finished)
    return ear


def zeno(scale: str, eps: float) -> str:
    return f"{{ type = 'zeno++', scale = '{scale}', rho = 1e-4, eps = {eps} }}"


def test_the_published_threshold_lets_a_tenfold_sign_flip_pass_from_an_early_round_on() -> None:
    """rho = 1e-4, eps = 0.2 (SHARE, section 6) with the n_i / n sums of algorithm 2."""
    published = simulated(zeno("sum", 0.2))
    assert published.spoilt_kept[2:] == [True] * 3, "accepted from the third round at the latest"
    strict = simulated(zeno("sum", 0.0))
    assert strict.spoilt_kept == [False] * 5
    assert strict.honest_left_out == 0
    assert strict.accuracies[-1] > published.accuracies[-1] + 0.02


def test_normalising_only_delays_it() -> None:
    heard = simulated(zeno("normalised", 0.2), "stop.rounds=6")
    assert heard.spoilt_kept[0] is False
    assert True in heard.spoilt_kept
    assert True not in simulated(zeno("normalised", 0.0), "stop.rounds=6").spoilt_kept


def test_fltrust_holds_where_the_mean_breaks() -> None:
    worse = ("behaviours.0.factor=-100", "stop.rounds=3")
    assert simulated("{ type = 'fltrust' }", *worse).accuracies[-1] > 0.8
    assert simulated("{ type = 'mean' }", *worse).accuracies[-1] < 0.4
