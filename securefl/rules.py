"""Robust aggregation rules and pre-aggregation steps, as objects for arrays and tensors.

``rule(x)`` aggregates the rows of ``x``. In a scenario this object is ``aggregation.rule``.

    >>> import numpy as np
    >>> from securefl.rules import TrimmedMean
    >>> TrimmedMean(trim=1)(np.array([[1.0, 2.0], [2.0, 3.0], [3.0, 4.0], [100.0, -50.0]]))
    array([2.5, 2.5])
"""

from typing import TYPE_CHECKING

from securefl.base.text import refuse_attribute
from securefl.methods.robust.pre_aggregation.arc import AdaptiveClipping
from securefl.methods.robust.pre_aggregation.bucketing import Bucketing
from securefl.methods.robust.pre_aggregation.nearest_neighbour_mixing import NearestNeighbourMixing
from securefl.methods.robust.pre_aggregation.norm_clipping import NormClipping
from securefl.methods.robust.rules.bulyan import Bulyan
from securefl.methods.robust.rules.centred_clipping import CentredClipping
from securefl.methods.robust.rules.fltrust import FlTrust
from securefl.methods.robust.rules.geometric_median import GeometricMedian
from securefl.methods.robust.rules.inner_product import InnerProduct
from securefl.methods.robust.rules.krum import Krum
from securefl.methods.robust.rules.mean import Mean
from securefl.methods.robust.rules.mean_around_median import MeanAroundMedian
from securefl.methods.robust.rules.median import Median
from securefl.methods.robust.rules.minimum_diameter import MinimumDiameter
from securefl.methods.robust.rules.multi_krum import MultiKrum
from securefl.methods.robust.rules.sign_majority import SignMajority
from securefl.methods.robust.rules.trimmed_mean import TrimmedMean
from securefl.methods.robust.rules.zeno_plus_plus import ZenoPlusPlus

__all__ = [
    "AdaptiveClipping",
    "Bucketing",
    "Bulyan",
    "CentredClipping",
    "FlTrust",
    "GeometricMedian",
    "InnerProduct",
    "Krum",
    "Mean",
    "MeanAroundMedian",
    "Median",
    "MinimumDiameter",
    "MultiKrum",
    "NearestNeighbourMixing",
    "NormClipping",
    "SignMajority",
    "TrimmedMean",
    "ZenoPlusPlus",
]

if not TYPE_CHECKING:  # otherwise a type checker would accept any name
    __getattr__ = refuse_attribute(__name__, __all__)
