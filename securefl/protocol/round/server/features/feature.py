"""Port of round features: hooks at the end of a round (ADR 0065).

:mod:`securefl.protocol.round.walk` calls them for servers, simulations and verifiers alike.
"""

from collections.abc import Iterator
from typing import NamedTuple

from securefl.base import header
from securefl.base.arrays import F32, F64
from securefl.protocol.round.server.opened import OpenedRound
from securefl.protocol.round.server.phases import ServerState
from securefl.protocol.round.server.stacking import RoundAggregate
from securefl.protocol.round.shared import reports
from securefl.protocol.round.shared.plan import RunPlan
from securefl.scenario import Scenario


class Models(NamedTuple):
    """Models and optimiser's moments after a step."""

    params: F32
    """(k d,)."""
    moments: F64
    """(s, k d)."""


class RoundStep(NamedTuple):
    """Input of a round's step."""

    plan: RunPlan
    before: ServerState
    opened: OpenedRound
    result: RoundAggregate


class RoundFeature:
    """Feature of a round, whose hooks have no effect by default."""

    def header_sentences(self, scenario: Scenario) -> Iterator[header.Sentence]:
        """Yield sentences for the header of a run."""
        yield from ()

    def screen(self, plan: RunPlan, round_: int, opened: OpenedRound) -> tuple[reports.SumChecked, ...]:
        """Check opened sums; the rule sees no sum that fails."""
        return ()

    def record_screen(
        self,
        plan: RunPlan,
        standing: ServerState,
        opened: OpenedRound,
        checked: tuple[reports.SumChecked, ...],
    ) -> ServerState:
        """Record the results of this feature's :meth:`screen`."""
        return standing

    def change_models(self, step: RoundStep, models: Models) -> Models:
        """Change the models after the optimiser, also to replay the step in audits."""
        return models

    def reason_against_sampling(self, scenario: Scenario) -> str:
        """Return why :meth:`change_models` cannot be replayed on sampled coordinates; empty if it can."""
        return ""

    def record_step(self, step: RoundStep, after: ServerState) -> ServerState:
        """Record the aggregate and the step to ``after``."""
        return after

    def store_former_model(self, plan: RunPlan, standing: ServerState) -> ServerState:
        """Store parts of the model about to be replaced, even in void rounds."""
        return standing

    def complete_report(
        self, step: RoundStep, after: ServerState, done: reports.RoundDone
    ) -> tuple[ServerState, reports.RoundDone, tuple[reports.AnyReport, ...]]:
        """Extend the report of a round; return further ones."""
        return after, done, ()

    def add_state(self, standing: ServerState, done: reports.RoundDone) -> reports.RoundDone:
        """Add the feature's state to a round's report, even of a void one."""
        return done

    def check_end(
        self, plan: RunPlan, standing: ServerState, done: reports.RoundDone
    ) -> tuple[ServerState, str]:
        """Return the state and why the run ends with this tested round, or empty."""
        return standing, ""
