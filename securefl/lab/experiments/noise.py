"""Effect of privacy noise on updates opened in several sums.

The R openings of an update are one Gaussian release with mu = sensitivity / s * sqrt(exposure) and one
party's noise s (privacy-notes, section 2). Only then does sampling amplify. Parties that share a sum's noise
add 1 / h of its variance each.
"""

import math
from typing import Annotated, Final, Literal

from msgspec import Meta

from securefl import scenario
from securefl.methods import privacy

Noise = Literal["once", "fresh", "local"]
"""Placement of noise. ``once``: each party adds its share of a sum's noise to its update. ``fresh``: it adds
a new share to each opening. ``local``: it adds all of the noise to its update, once.
"""

IN_WORDS: Final[dict[Noise, str]] = {
    "once": "shared noise once",
    "fresh": "fresh shared noise",
    "local": "local noise",
}


class Accounting(scenario.FileTable, frozen=True, kw_only=True):
    """Run to account for: records, Poisson sampling, add-remove."""

    multiplier: scenario.PositiveReal
    """sigma: noise in a sum of h that the adversary does not know, over the sensitivity."""
    rounds: scenario.Positive
    """Rounds, in each of which an update is opened R times."""
    records: scenario.Positive = 1
    """Records of a party. 1, with a batch of 1: no sampling."""
    batch: scenario.Positive = 1
    delta: Annotated[float, Meta(ge=1e-12, lt=1)]


def honest(size: int, colluders: int) -> int:
    """Return h: members of a cluster of ``size`` with trusted noise, if it has all ``colluders``."""
    return max(size - colluders, 1)


def relative_exposure(noise: Noise, h: int, *, once: float, fresh: float) -> float:
    """Return mu^2 sigma^2 of all openings of an update; 1 is one opening with all noise of a sum of h.

    Args:
        noise: its placement.
        h: members that share a sum's noise.
        once: leverage.
        fresh: exposure under fresh noise, in units of one party's noise.
    """
    match noise:
        case "once":
            return h * once
        case "fresh":
            return h * fresh
        case "local":
            return once


def spent(accounting: Accounting, exposure: float, works: int) -> float:
    """Return epsilon of the run, by PLD, for a :func:`relative_exposure` > 0 of each update.

    ``works`` is the number of updates of a party in a round, each with its own batch.

    Raises:
        ConfigError: dp_accounting is missing.
    """
    sampled = accounting.batch < accounting.records
    event = privacy.ReleaseEvent(
        noise_multiplier=accounting.multiplier / math.sqrt(exposure),
        steps=accounting.rounds * works,
        sampler="poisson" if sampled else "none",
        records=accounting.records,
        batch=accounting.batch,
        denominator=accounting.batch,
    )
    return privacy.epsilon([event], accounting.delta)
