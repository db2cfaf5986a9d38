"""The best model that a party is told to keep."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from securefl.base.errors import PeerError
from securefl.base.ids import PartyId
from securefl.protocol.kernel.effects import Report
from securefl.protocol.kernel.events import Place
from securefl.protocol.messages.rounds import BestModel
from securefl.protocol.round.party.draw import on_best
from securefl.protocol.round.party.phases import Idle, PartyContext, PartyHistory
from securefl.protocol.round.shared.reports import ModelKept
from securefl.protocol.round.shared.statement import model_digest
from securefl.scenario.load import parse_scenario
from tests.unit.round.samples import plan_of

TEXT = """
name = "best"
parties = 8
[model]
type = "weights"
[clustering]
size = 4
[secure_sum]
threshold = 3
min_survivors = 3
[[evaluation.metrics]]
name = "loss"
kind = "mean"
[evaluation]
repeats = "accept"
[stop]
metric = "loss"
"""
PARAMS = np.array([1, 2, -3, 0.5], dtype=np.float32)
MESSAGE = BestModel(params=PARAMS.tobytes())


def context(*overrides: str) -> PartyContext:
    plan = plan_of(parse_scenario(TEXT, overrides))
    return PartyContext(plan, PartyId("p00"), 10, None)  # type: ignore[arg-type]


def past(*models: np.ndarray) -> Idle:
    return Idle(replace(PartyHistory(-1), trained_models=frozenset(map(model_digest, models))))


def test_it_is_kept() -> None:
    (effect,) = on_best(context(), past(), Place(3), MESSAGE)
    assert isinstance(effect, Report)
    assert isinstance(effect.item, ModelKept)
    assert effect.item.round == 3
    assert effect.item.params.tolist() == PARAMS.tolist()


def test_of_an_active_server_only_if_this_party_has_worked_on_it() -> None:
    active = context("secure_sum.server='active'", "secure_sum.verify='off'")
    assert on_best(active, past(PARAMS + 1, PARAMS), Place(3), MESSAGE)
    for phase in (past(), past(PARAMS + 1)):
        with pytest.raises(PeerError, match="names a best model of round 3, which this party does not know"):
            on_best(active, phase, Place(3), MESSAGE)


@pytest.mark.parametrize(
    ("overrides", "params"),
    [((), PARAMS[:3].tobytes()), ((), b""), (("stop.metric=null",), PARAMS.tobytes())],
)
def test_nobody_asked_for_another(overrides: tuple[str, ...], params: bytes) -> None:
    scenario = parse_scenario(TEXT if not overrides else TEXT.replace('metric = "loss"', ""))
    ctx = PartyContext(plan_of(scenario), PartyId("p00"), 10, None)  # type: ignore[arg-type]
    with pytest.raises(PeerError, match="sends a best model of"):
        on_best(ctx, past(PARAMS), Place(3), BestModel(params=params))
