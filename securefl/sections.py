"""Tables of a scenario as classes that validate their fields (docs/fields.md).

Classes for ``[[behaviours]]`` are also in :mod:`securefl.attacks`; those for ``aggregation.rule`` are in
:mod:`securefl.rules`.

    >>> import securefl
    >>> from securefl.sections import Aggregation, Clustering, Drop, Stop
    >>> scenario = securefl.Scenario(
    ...     name="wards",
    ...     parties=12,
    ...     clustering=Clustering(size=4),
    ...     aggregation=Aggregation(rule=securefl.rules.Median()),
    ...     behaviours=(Drop(parties=("p03",), phase="after-shares"),),
    ...     stop=Stop(rounds=2),
    ... )
    >>> len(securefl.simulate(scenario))
    2
"""

from typing import TYPE_CHECKING

from securefl.base.text import refuse_attribute
from securefl.scenario.aggregation import Aggregation
from securefl.scenario.behaviours import (
    Drop,
    FalseCount,
    FalseMetrics,
    Garbage,
    Kill,
    NoClip,
    NoNoise,
    Replay,
    SparseEnergy,
    WrongShare,
)
from securefl.scenario.data import Data, ImageFolder, Standardise
from securefl.scenario.evaluation import Feature, Labels, Metric, SiteEvaluation, SiteStatistics
from securefl.scenario.privacy import Checks, ClipEach, DpSgd, Normalise, Privacy, QuantileClip, Transfer
from securefl.scenario.scenario import (
    Clustering,
    Deadlines,
    Expect,
    Groups,
    Participation,
    Stop,
    Training,
    Weighting,
)
from securefl.scenario.secure_sum import Encoding, Leakage, SecureSum
from securefl.scenario.tables import TableSchema

__all__ = [
    "Aggregation",
    "Checks",
    "ClipEach",
    "Clustering",
    "Data",
    "Deadlines",
    "DpSgd",
    "Drop",
    "Encoding",
    "Expect",
    "FalseCount",
    "FalseMetrics",
    "Feature",
    "Garbage",
    "Groups",
    "ImageFolder",
    "Kill",
    "Labels",
    "Leakage",
    "Metric",
    "NoClip",
    "NoNoise",
    "Normalise",
    "Participation",
    "Privacy",
    "QuantileClip",
    "Replay",
    "SecureSum",
    "SiteEvaluation",
    "SiteStatistics",
    "SparseEnergy",
    "Standardise",
    "Stop",
    "TableSchema",
    "Training",
    "Transfer",
    "Weighting",
    "WrongShare",
]

if not TYPE_CHECKING:  # otherwise a type checker would accept any name
    __getattr__ = refuse_attribute(__name__, __all__)
