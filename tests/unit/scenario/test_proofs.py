"""Bytes that verifiers receive in a round, against recorded rounds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from securefl.base.crypto.identity import SEAL_OVERHEAD
from securefl.base.errors import ConfigError
from securefl.methods.feasibility import proofs
from securefl.methods.feasibility.limits import check
from securefl.methods.feasibility.proofs import (
    MAX_PROOF,
    check_proofs,
    most_parameters,
    proofs_of,
)
from securefl.protocol.messages.base import MAX_VECTOR
from securefl.protocol.messages.verification import OpeningProof, StepProof
from securefl.protocol.round.shared.allowance import proof_bytes
from securefl.runtime.process.assemble import make_plan, read_own_identity
from securefl.runtime.simulation.federation import assemble
from securefl.scenario.load import parse_scenario
from securefl.scenario.resolved import to_toml
from securefl.scenario.scenario import Scenario
from tests.simulation.lying import verified
from tests.simulation.world import RUN, Op, World
from tests.unit.process.test_assemble import keys
from tests.unit.scenario.samples import header_of

LENGTH = 300
_LISTS = 200
"""Bytes of digests, headers and seals that come on top of the vectors of a step."""
MODES: dict[str, dict[str, str]] = {
    "masking": {},
    "two reclusterings": {"reclusterings": "2", "leakage__mode": '"report"'},
    "everybody": {"secure_sum__verify": '"all"'},
    "ring of 64 bits": {"encoding__ring_bits": "64"},
    "CrypTen": {"secure_sum__kind": '"crypten"'},
    "atoms": {"size": "6", "clustering__atoms": "3", "threshold": "4", "min_survivors": "4"},
}


def refused(scenario: Scenario, length: int) -> str:
    """Why a model of this length is refused."""
    with pytest.raises(ConfigError) as caught:
        check_proofs(scenario, check(scenario).ring_bits, length)
    return str(caught.value)


@pytest.mark.parametrize("mode", MODES)
def test_a_recorded_round_has_these_bytes(mode: str) -> None:
    made = verified(rounds="1", **MODES[mode])
    world = World(made, length=LENGTH).run()
    found = proofs_of(made, world.plan.limits.ring_bits, LENGTH)
    openings = [len(one.vectors) for one in world.messages(OpeningProof)]
    steps = [len(one.sealed) - SEAL_OVERHEAD for one in world.messages(StepProof)]
    assert sum(openings) == found.openings
    assert all(0 <= step - found.step < _LISTS for step in steps)
    assert len(steps) * found.step == found.steps
    assert (found.opening, found.step) == proof_bytes(world.plan)
    assert max(openings) <= found.opening


def test_nobody_is_sent_anything_where_nobody_verifies() -> None:
    made = verified(secure_sum__verify='"off"')
    assert proofs_of(made, 32, LENGTH).total == 0
    assert not [line for line in header_of(made) if "verifiers up to" in line]


def test_absent_parties_make_no_round_dearer_than_is_reckoned() -> None:
    """Eleven of twelve make larger clusters, of which more members are asked."""
    made = verified(size="3", threshold="3", rounds="1")
    sent = []
    for ops in ([], [Op("drop", "p11", "Hello")]):
        world = World(made, length=LENGTH, ops=ops).run()
        sent.append(sum(len(one.vectors) for one in world.messages(OpeningProof)))
    assert sent == [4 * LENGTH * 4 * 3 * 3, 4 * LENGTH * (2 * 4 * 4 + 3 * 3)]
    assert sent[0] < sent[1] <= proofs_of(made, 32, LENGTH).openings


def test_the_largest_model_that_fits_just_fits() -> None:
    """A proof of a step holds most: three sums, a moment and the next model."""
    made = verified()
    bits = check(made).ring_bits
    most = most_parameters(made, bits)
    # 12 parties in clusters of 4 of whom 4 are asked, 5 members of the committee.
    assert proofs_of(made, bits, 1).total == 4 * 12 * 4 + 5 * (3 * 4 + 8 + 4) == 312
    assert most == MAX_PROOF // 24
    check_proofs(made, bits, most)
    assert "the proof of a step needs 536.9 MB with 22,369,622 parameters" in refused(made, most + 1)
    assert MAX_PROOF == MAX_VECTOR


def test_the_header_says_it_for_models_of_any_size() -> None:
    (line,) = [line for line in header_of(verified()) if "verifiers receive" in line]
    assert "verifiers receive 192 MB openings and 120 MB steps a round for a million parameters" in line
    assert "at most 22,369,621 parameters" in line


def test_processes_and_simulations_refuse_it_before_they_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = verified()
    mine, _ = keys(tmp_path, parties=12)
    _, roster = read_own_identity(mine)
    monkeypatch.setattr(proofs, "MAX_PROOF", 24 * 3_000)
    assert make_plan(replace(mine, scenario=made), roster, 3_000, b"").length == 3_000
    with pytest.raises(ConfigError, match=r"^secure_sum.verify: .* with 4,000 parameters"):
        make_plan(replace(mine, scenario=made), roster, 4_000, b"")
    large = ("model={type='mlp', hidden=[64]}", "data.set=digits")
    simulated = parse_scenario(to_toml(made), large)
    with pytest.raises(ConfigError, match=r"^secure_sum.verify: .* with 4,810 parameters"):
        assemble(simulated, RUN, 1, None)
