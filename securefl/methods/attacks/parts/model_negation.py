"""Model negation."""

import numpy as np

from securefl import scenario
from securefl.base.arrays import F32, F64
from securefl.base.entropy import Entropy


class ModelNegation(scenario.UpdateAttack, tag="model-negation", frozen=True, kw_only=True):
    """Negated model: as an update -2 theta for the round's parameters theta.

    Example:
        >>> ModelNegation()([1.0, 2.0], before=[0.5, 0.5])
        array([-1., -1.])
    """

    def craft(self, update: F64, before: F32, entropy: Entropy) -> F64:
        return model_negation(before)


def model_negation(params: F32) -> F64:
    """Return -2 theta for the round's global parameters theta, f32 ``(d,)``.

    The source's attacker sends the model -theta: as an update -theta - theta.

    Knows: the global model.
    Source: Portnoy, Tirosh and Hendler 2022 ("Towards federated learning with Byzantine-robust client
    weighting"), section 3.1.3, after Blanchard et al. 2017.
    """
    return -2.0 * params.astype(np.float64)
