"""Quantile clipping: announced clip and bits."""

import numpy as np

from securefl.base.arrays import I64
from securefl.base.entropy import Entropy
from securefl.methods import privacy
from securefl.protocol.round.shared.additions import addition
from securefl.scenario import Scenario


class Clip(addition.Addition):
    """Clip of updates, in the parameters' unit, and each party's bit: True if its update is within it."""

    name = "clip"

    def announced_value(self, scenario: Scenario) -> addition.AnnouncedValue | None:
        clip = scenario.privacy.clip
        return None if clip is None else addition.AnnouncedValue(clip.initial, clip.minimum, clip.maximum)

    def unit(self, value: float) -> float:
        """Return the clip: updates are encoded in its units."""
        return value

    def words(self, scenario: Scenario) -> int:
        return privacy.words_of(scenario)

    def encode_words(
        self, scenario: Scenario, ring_bits: int, contribution: addition.Contribution, entropy: Entropy
    ) -> I64:
        bits = privacy.clip_words(scenario, ring_bits)
        if bits is None:
            return super().encode_words(scenario, ring_bits, contribution, entropy)
        word = bits.word(float(np.linalg.norm(contribution.update)), contribution.values[self.name])
        return word + bits.noise(entropy.child("bit noise"))
