"""Sums without protection in whole rounds: the bits of masked ones, whoever drops out; no run uses them."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from securefl.base.arrays import digest_of
from securefl.base.errors import ConfigError
from securefl.base.ids import PartyId
from securefl.methods.encoding.ring import from_wire, to_wire
from securefl.methods.feasibility.limits import check
from securefl.protocol.messages.masking import MaskedInput, ShareBoxes
from securefl.protocol.round.shared.reports import ModelFinal, SumOpened
from securefl.protocol.secure_sum.kinds import sums_of
from securefl.scenario.behaviours import Drop, Phase, WrongShare
from tests.simulation.world import Op, World, scenario
from tests.unit.misbehaviour.lab import Lab
from tests.unit.round.test_dropout_exact import PRIVATE
from tests.unit.simulation.test_against_machines import assert_same


def opened(world: World) -> list[tuple[object, ...]]:
    sums = [report.opened for report in world.reports(SumOpened)]
    return [(s.key, s.members, s.survivors, digest_of(s.ring)) for s in sums]


def models(world: World) -> list[bytes]:
    return [digest_of(report.params) for report in world.reports(ModelFinal)]


@pytest.mark.parametrize("phase", ["before-keys", "after-keys", "after-masked-input", "after-freeze"])
@pytest.mark.parametrize("server", ["curious", "active"])
def test_the_same_sums_and_models_as_with_masks(phase: Phase, server: str) -> None:
    worlds = [
        Lab(
            scenario(9, size="9", threshold="5", min_survivors="5", server=server, secure_sum__kind=kind),
            {"p04": (Drop(phase=phase, rounds=(1,)),)},
        ).run()
        for kind in ("masking", "plain")
    ]
    masked, plain = worlds
    assert opened(plain) == opened(masked) != []
    assert models(plain) == models(masked) != []
    assert masked.messages(ShareBoxes)
    assert not plain.messages(ShareBoxes)


@pytest.mark.parametrize("missing", [(), ("p01",), ("p01", "p02")])
def test_noise_that_dropouts_do_not_need_is_taken_out(missing: tuple[str, ...]) -> None:
    ops = [Op("drop", who, "MaskedInput", 0) for who in missing]
    sums = {}
    for kind in ("masking", "plain"):
        config = scenario(
            6,
            size="6",
            threshold="3",
            min_survivors="4",
            rounds="1",
            secure_sum__colluders="1",
            secure_sum__colluders_per_cluster="1",
            secure_sum__kind=kind,
            **PRIVATE,
        )
        sums[kind] = opened(World(config, 50, seed=4, ops=ops).run())
    assert sums["plain"] == sums["masking"] != []


def test_the_server_reads_every_update() -> None:
    world = World(scenario(6, rounds="1", secure_sum__kind="plain"), length=3).run()
    bits = world.plan.limits.ring_bits
    words = [from_wire(m.vector, 3, bits, "test") for m in world.messages(MaskedInput)]
    assert len(words) == 6 * world.scenario.clustering.reclusterings
    expected = np.full(3, 1 << world.scenario.encoding.scale_bits)
    assert all((one == expected).all() for one in words), to_wire(words[0])


def test_a_run_refuses_it() -> None:
    sums = sums_of(scenario(6, secure_sum__kind="plain"))
    with pytest.raises(ConfigError, match="the server would see every update"):
        sums.check_run()


@pytest.mark.parametrize("phase", ["before-keys", "after-keys", "after-masked-input", "after-freeze"])
def test_simulated_rounds_tell_the_same(phase: Phase) -> None:
    cast = {"p01": (Drop(phase=phase, rounds=(0,)),), "p04": (WrongShare(rounds=(1,)),)}
    assert_same(scenario(9, size="3", reclusterings="2", secure_sum__kind="plain"), cast)


def test_there_is_no_falling_silent_after_shares() -> None:
    with pytest.raises(ConfigError, match="sums of kind plain have no such step"):
        check(
            msgspec.structs.replace(
                scenario(6, secure_sum__kind="plain"),
                behaviours=(Drop(phase="after-shares", parties=(PartyId("p01"),)),),
            )
        )
