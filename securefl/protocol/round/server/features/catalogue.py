"""All round features, in the order in which the walk calls their hooks."""

from __future__ import annotations

from typing import Final

from securefl.protocol.round.server.features.checking import DpChecks, LengthCheck
from securefl.protocol.round.server.features.clipping import ClipUpdates
from securefl.protocol.round.server.features.feature import RoundFeature
from securefl.protocol.round.server.features.measuring import SiteMetrics
from securefl.protocol.round.server.features.memory import FormerModel, TrustMemory
from securefl.protocol.round.server.features.stopping import AccuracyStop, PlannedRounds, ReleaseBudget

FEATURES: Final[tuple[RoundFeature, ...]] = (
    ClipUpdates(),
    DpChecks(),
    LengthCheck(),
    FormerModel(),
    TrustMemory(),
    SiteMetrics(),
    AccuracyStop(),
    PlannedRounds(),
    ReleaseBudget(),
)
