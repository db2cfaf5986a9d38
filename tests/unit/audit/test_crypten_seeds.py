"""The seeds of CrypTen's own shares of zero are found by trying; pairwise keys are not attacked that way."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from securefl.base.arrays import I64
from securefl.base.entropy import InsecureSeededEntropy
from securefl.lab.audit.crypten_seeds import VICTIM, attack_sum
from securefl.lab.audit.finding import Severity
from securefl.lab.audit.run import audit_seeds
from securefl.protocol.secure_sum.crypten.library import load
from tests.simulation.world import scenario

BOUND = 2**24
BITS = 9


def updates(members: int, length: int = 12) -> list[I64]:
    generator = np.random.default_rng(4)
    return [generator.integers(-BOUND, BOUND, length, dtype=np.int64) for _ in range(members)]


@pytest.mark.parametrize("members", [3, 4])
def test_a_reduced_space_of_seeds_gives_the_update_away(members: int) -> None:
    inputs = updates(members)
    search = attack_sum(inputs, BOUND, BITS, "crypten-insecure", InsecureSeededEntropy(members))
    assert len(search.found) == 1
    np.testing.assert_array_equal(search.recovered, inputs[VICTIM])
    assert search.whole_space_hours > 0


def test_pairwise_keys_have_no_such_seed() -> None:
    """By chance a seed fits with probability 2^-(39 x 12) each."""
    search = attack_sum(updates(3), BOUND, BITS, "pairwise", InsecureSeededEntropy(3))
    assert search.found == ()
    assert search.recovered is None


def test_torch_keeps_32_bits_of_a_seed() -> None:
    torch = load().torch
    draws = [
        torch.randint(-(2**62), 2**62, (4,), generator=torch.Generator().manual_seed(seed)).tolist()
        for seed in (5, 5 + 2**32, 5 + 2**40, 6)
    ]
    assert draws[0] == draws[1] == draws[2] != draws[3]


@pytest.mark.parametrize(
    ("source", "severity"), [("pairwise", Severity.HOLDS), ("crypten-insecure", Severity.WARNING)]
)
def test_the_audit_of_a_run_says_so(source: str, severity: Severity) -> None:
    made = scenario(secure_sum__kind="crypten", secure_sum__mask_source=source)
    recorded = SimpleNamespace(scenario=made)
    (finding,) = audit_seeds(recorded).findings  # type: ignore[arg-type]
    assert finding.severity is severity
    assert "1024 seeds" in finding.claim
