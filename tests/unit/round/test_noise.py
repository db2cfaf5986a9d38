"""Step 5: privacy noise in uploads, drawn once per update, and in the sums that are opened."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from securefl.base.arrays import F32, F64, I64
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import ConfigError, UsageError
from securefl.base.ids import PartyId
from securefl.methods.attacks.parts.scale import Scale
from securefl.methods.encoding.ring import from_ring
from securefl.protocol.round.party.upload import HONEST, Seams, UpdateId, make_upload
from securefl.protocol.round.shared.reports import SumOpened
from securefl.runtime.misbehaviour.assignment import party_behaviour
from securefl.scenario.behaviours import NoClip, NoNoise
from tests.simulation.world import World, scenario
from tests.unit.round.samples import plan_of

LENGTH = 64
SETTLED = {
    "privacy__unit": "party",
    "privacy__multiplier": "0.5",
    "privacy__delta": "0.05",
    "encoding__clip": "1.0",
    "encoding__scale_bits": "7",
}
PLAN = plan_of(scenario(6, **SETTLED), LENGTH)
SILENT = plan_of(scenario(6, **{**SETTLED, "privacy__unit": "none"}), LENGTH)
OCCASION = UpdateId(0, 0, np.zeros(LENGTH, np.float32), ())
UPDATE: F64 = np.full(LENGTH, 1 / 16)
ME = PartyId("p00")


def entropy(seed: int = 1) -> InsecureSeededEntropy:
    return InsecureSeededEntropy(seed).child("update", 0)


def uploaded(seams: Seams = HONEST, seed: int = 1, update: F64 = UPDATE) -> I64:
    return from_ring(make_upload(PLAN, OCCASION, update, 1.0, entropy(seed), seams).ring)


def noise(seed: int = 1) -> I64:
    assert PLAN.mechanism is not None
    return PLAN.mechanism.noise(entropy(seed).child("noise"))


def test_an_upload_is_the_rounded_update_and_the_noise_of_its_own_entropy() -> None:
    assert PLAN.mechanism is not None
    rounded = PLAN.mechanism.encode(PLAN.fixed_point, UPDATE * 2, entropy().child("rounding")).values
    assert np.array_equal(uploaded(update=UPDATE * 2), rounded + noise())
    assert np.abs(noise()).max() > 0
    assert not np.array_equal(uploaded(seed=1), uploaded(seed=2))


def test_noise_is_drawn_once_per_update_whatever_is_done_with_it() -> None:
    """Attempts and reclusterings share the upload; asked again, the same entropy gives the same bits."""
    assert np.array_equal(uploaded(), uploaded())


def test_without_privacy_no_bit_changes() -> None:
    plain = make_upload(SILENT, OCCASION, UPDATE, 1.0, entropy())
    expected = SILENT.fixed_point.encode(UPDATE, entropy().child("rounding")).values
    assert np.array_equal(from_ring(plain.ring), expected)


def test_the_encoded_seam_sees_values_after_noise() -> None:
    seen: list[I64] = []

    def look(values: I64, _occasion: UpdateId) -> I64:
        seen.append(values)
        return values

    assert np.array_equal(uploaded(Seams(encoded=look)), seen[0])
    assert np.array_equal(seen[0], uploaded())


def test_a_skipper_sends_what_it_trained_without_noise_in_its_rounds() -> None:
    seams = party_behaviour((NoNoise(parties=("p00",), rounds=(1,)),), ME).seams
    assert np.array_equal(uploaded(seams), uploaded())
    later = replace(OCCASION, round=1)
    bare = from_ring(make_upload(PLAN, later, UPDATE, 1.0, entropy(), seams).ring)
    assert np.array_equal(bare + noise(), uploaded())


def test_an_update_that_was_not_clipped_is_a_bug_of_ours_unless_it_is_an_attack() -> None:
    lying = (Scale(parties=("p00",), factor=100.0), NoClip(parties=("p00",)))
    forged = uploaded(party_behaviour(lying, ME).seams) - noise()
    assert np.linalg.norm(forged) > 40 * 2**7
    with pytest.raises(UsageError, match="clipped"):
        uploaded(Seams(clip=lambda update, _bound, _occasion: update), update=UPDATE * 100)
    assert PLAN.mechanism is not None
    clipped = uploaded(update=UPDATE * 100) - noise()
    assert np.linalg.norm(clipped) <= PLAN.mechanism.rounding.sensitivity


def test_opened_sums_hold_everybodys_noise_once_in_every_reclustering() -> None:
    """What a server opens is the sum of the uploads, the same upload in both reclusterings."""
    config = scenario(6, rounds="1", reclusterings="2", **SETTLED)
    world = World(config, length=LENGTH, train=lambda _party, _round, params: params + np.float32(1 / 16))
    world.run()
    opened = [report.opened for report in world.reports(SumOpened)]
    assert len(opened) == 4
    totals = []
    for reclustering in range(2):
        rows = [from_ring(o.ring) for o in opened if o.reclustering == reclustering]
        totals.append(np.sum(rows, axis=0))
    assert np.array_equal(totals[0], totals[1])
    expected = []
    for party in world.parties:
        own = world.entropy_of(party).child("update", 0)
        expected.append(from_ring(make_upload(world.plan, OCCASION, UPDATE, 1.0, own).ring))
    assert np.array_equal(totals[0], np.sum(expected, axis=0))


def test_a_plan_whose_noise_does_not_follow_from_it_is_refused() -> None:
    unsettled = {**SETTLED, "privacy__delta": "auto"}
    with pytest.raises(ConfigError, match="dp settle"):
        _ = plan_of(scenario(6, **unsettled), LENGTH).mechanism


def test_parameters_of_another_length_have_other_noise() -> None:
    assert PLAN.mechanism is not None
    longer: F32 = np.zeros(4 * LENGTH, np.float32)
    other = replace(PLAN, length=longer.size).mechanism
    assert other is not None
    assert other.rounding.sensitivity > PLAN.mechanism.rounding.sensitivity
