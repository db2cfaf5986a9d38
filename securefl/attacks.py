"""Attacks of Byzantine parties, as objects for arrays and tensors.

``attack(x)`` returns the attacker's update, from its own update or, for a coalition, the honest updates that
it knows. ``poison`` of an attack on data changes samples and labels. In a scenario these objects are
``behaviours``.

    >>> import numpy as np
    >>> from securefl.attacks import ALIE
    >>> ALIE(z=1.5)(np.array([[1.0, 2.0], [2.0, 3.0], [3.0, 4.0]])).round(3)
    array([0.775, 1.775])
"""

from typing import TYPE_CHECKING

from securefl.base.text import refuse_attribute
from securefl.methods.attacks.parts.alie import ALIE
from securefl.methods.attacks.parts.backdoor import Backdoor
from securefl.methods.attacks.parts.fall_of_empires import FallOfEmpires
from securefl.methods.attacks.parts.gaussian import Gaussian
from securefl.methods.attacks.parts.inner_product_manipulation import InnerProductManipulation
from securefl.methods.attacks.parts.label_flip import LabelFlip
from securefl.methods.attacks.parts.label_shift import LabelShift
from securefl.methods.attacks.parts.local_model_poisoning import LocalModelPoisoning
from securefl.methods.attacks.parts.mimic import Mimic
from securefl.methods.attacks.parts.min_max import MinMax
from securefl.methods.attacks.parts.min_sum import MinSum
from securefl.methods.attacks.parts.model_negation import ModelNegation
from securefl.methods.attacks.parts.scale import Scale

__all__ = [
    "ALIE",
    "Backdoor",
    "FallOfEmpires",
    "Gaussian",
    "InnerProductManipulation",
    "LabelFlip",
    "LabelShift",
    "LocalModelPoisoning",
    "Mimic",
    "MinMax",
    "MinSum",
    "ModelNegation",
    "Scale",
]

if not TYPE_CHECKING:  # otherwise a type checker would accept any name
    __getattr__ = refuse_attribute(__name__, __all__)
