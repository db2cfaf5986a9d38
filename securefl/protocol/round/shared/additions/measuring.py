"""Site metrics: a party's words on the received model."""

from securefl.base.arrays import I64
from securefl.base.entropy import Entropy
from securefl.methods import metrics
from securefl.protocol.round.shared.additions import addition
from securefl.scenario import Scenario


class Metrics(addition.Addition):
    """Metrics of the sites."""

    name = "metrics"

    def words(self, scenario: Scenario) -> int:
        return scenario.evaluation.words

    def encode_words(
        self, scenario: Scenario, ring_bits: int, contribution: addition.Contribution, entropy: Entropy
    ) -> I64:
        words = metrics.metric_words(scenario, ring_bits)
        if words is None:
            return super().encode_words(scenario, ring_bits, contribution, entropy)
        return words.encode_values(contribution.metrics) + words.noise(entropy.child("metric noise"))
