from __future__ import annotations

import pytest

from securefl.base.entropy import InsecureSeededEntropy
from securefl.lab.bench.floor import (
    Operations,
    Rates,
    floor_seconds,
    measure_rates,
    median_rates,
    member_operations,
    server_operations,
    vector_frames,
)
from securefl.lab.bench.rehearsal import Rehearsal, rehearse

CASES = [(3, 1, 0), (4, 50, 1), (7, 300, 2), (3, 140_000, 1)]


@pytest.fixture(scope="module")
def rehearsals() -> dict[tuple[int, int, int], Rehearsal]:
    return {case: rehearse(*case, InsecureSeededEntropy(5)) for case in CASES}


@pytest.mark.parametrize("case", CASES)
def test_the_counted_signatures_are_those_that_were_made(
    case: tuple[int, int, int], rehearsals: dict[tuple[int, int, int], Rehearsal]
) -> None:
    members, length, dropped = case
    run = rehearsals[case]
    assert len(run.members) == members - dropped
    for meter in run.members:
        needed = member_operations(members, members - dropped, length, meter.hashed)
        assert (needed.signatures, needed.verifications) == (meter.signatures, meter.verifications)
    needed = server_operations(members, members - dropped, length, run.server.hashed)
    assert (needed.signatures, needed.verifications) == (run.server.signatures, run.server.verifications)


def test_what_members_send_is_what_the_server_gets_when_nobody_drops_out(
    rehearsals: dict[tuple[int, int, int], Rehearsal],
) -> None:
    run = rehearsals[3, 1, 0]
    assert sum(meter.sent for meter in run.members) == run.server.received
    assert sum(meter.received for meter in run.members) == run.server.sent
    # Everything that is sent is signed: all but the signature itself is hashed, relayed frames twice.
    sent = run.server.sent + run.server.received
    assert run.server.hashed == sent - 64 * (run.server.signatures + run.server.verifications)


def test_a_vector_travels_as_words_and_little_else(
    rehearsals: dict[tuple[int, int, int], Rehearsal],
) -> None:
    small, large = (rehearse(3, length, 0, InsecureSeededEntropy(5)) for length in (20_000, 100_000))
    for one, other in zip(small.members, large.members, strict=True):
        assert other.sent - one.sent == 4 * 80_000
        assert other.received == one.received


@pytest.mark.parametrize(
    ("length", "frames"), [(1, 1), (100_000, 1), (131_003, 1), (131_004, 2), (1_000_000, 8)]
)
def test_frames_of_a_vector(length: int, frames: int) -> None:
    assert vector_frames(length) == frames


def test_operations_of_a_sum_without_and_with_dropouts() -> None:
    assert member_operations(10, 10, 1_000, 7) == Operations(40_000, 40_000, 3, 19, 5, 21, 7)
    assert member_operations(10, 9, 1_000, 7).verifications == 20
    assert server_operations(10, 10, 1_000, 7) == Operations(40_000, 80_000, 0, 10, 30, 50, 7)
    # One dropped member: nine self masks, nine pairwise masks, nine inputs.
    assert server_operations(10, 9, 1_000, 7) == Operations(72_000, 108_000, 1, 18, 29, 47, 7)


def test_the_floor_is_operations_times_rates() -> None:
    rates = Rates(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0)
    assert list(floor_seconds(Operations(1, 1, 1, 1, 1, 1, 2), rates).values()) == [1, 2, 3, 4, 5, 6, 14]


def test_rates_are_positive_and_their_median_is_taken_each_by_itself() -> None:
    measured = measure_rates(10)
    assert all(getattr(measured, name) > 0 for name in Rates.__slots__)
    samples = [Rates(1, 9, 1, 1, 1, 1, 1), Rates(2, 8, 1, 1, 1, 1, 1), Rates(3, 7, 1, 1, 1, 1, 1)]
    assert median_rates(samples) == Rates(2, 8, 1, 1, 1, 1, 1)
