"""Catalogue of all round features, in the order of their hooks."""

from collections.abc import Iterator
from typing import Final

from securefl.base import header
from securefl.protocol.round.server.features.checking import DpChecks, LengthCheck
from securefl.protocol.round.server.features.clipping import ClipUpdates
from securefl.protocol.round.server.features.feature import RoundFeature
from securefl.protocol.round.server.features.grouping import TaskGroups
from securefl.protocol.round.server.features.measuring import SiteMetrics
from securefl.protocol.round.server.features.memory import FormerModel, TrustMemory
from securefl.protocol.round.server.features.stopping import AccuracyStop, PlannedRounds, ReleaseBudget
from securefl.protocol.round.shared import account_rounds, choices
from securefl.scenario import Scenario

FEATURES: Final[tuple[RoundFeature, ...]] = (
    ClipUpdates(),
    DpChecks(),
    LengthCheck(),
    TaskGroups(),
    FormerModel(),
    TrustMemory(),
    SiteMetrics(),
    AccuracyStop(),
    PlannedRounds(),
    ReleaseBudget(),
)


def reason_against_sampling(scenario: Scenario) -> str:
    """Return why a step cannot be replayed on sampled coordinates; empty if it can."""
    return next((why for feature in FEATURES if (why := feature.reason_against_sampling(scenario))), "")


def header_sentences(scenario: Scenario) -> Iterator[header.Sentence]:
    """Yield the sentences of all features, of group choices and of accounts."""
    for feature in FEATURES:
        yield from feature.header_sentences(scenario)
    yield from choices.choice_sentences(scenario)
    yield from account_rounds.account_sentences(scenario)
