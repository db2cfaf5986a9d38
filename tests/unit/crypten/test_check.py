"""The check under CrypTen against the same test in the clear: bounds, wrapping values, worlds of 2 to 5."""

from __future__ import annotations

import math

import numpy as np
import pytest

from securefl.base.arrays import U64
from securefl.base.errors import UsageError
from securefl.base.ids import PartyId
from securefl.methods.privacy.norm_check import NormTest, norm_test
from securefl.protocol.secure_sum.crypten.session import Session
from securefl.protocol.secure_sum.crypten.world import World
from securefl.protocol.secure_sum.validated.check import check_session, check_zeros
from securefl.protocol.secure_sum.validated.dealing import Deal, Request, Tuples, requests_of
from tests.unit.crypten.driving import CONTEXT, drive, shared, worlds

TEST = norm_test(1000, 64, 1e-3)
ROOT = math.isqrt(TEST.threshold)
BOUND = 1 << TEST.range_bits


def sessions(values: list[int], evaluators: int, test: NormTest, seed: int = 1) -> list[Session[bool]]:
    """One check of these projections, shared at random."""
    shares = shared(values, evaluators, seed)
    everybody = worlds(evaluators, requests_of(evaluators, len(values)), seed)
    return [
        check_session(world, share, test, tuples)
        for share, (world, tuples) in zip(shares, everybody, strict=True)
    ]


CASES = {
    "zeros": [0] * 64,
    "at the threshold": [0] * 63 + [ROOT],
    "one beyond": [0] * 63 + [ROOT + 1],
    "negative, at the threshold": [-ROOT] + [0] * 63,
    "negative, beyond": [-ROOT - 1] + [0] * 63,
    "spread, within": [round(math.sqrt(TEST.threshold / 64)) - 1] * 64,
    "spread, beyond": [round(math.sqrt(TEST.threshold / 64)) + 1] * 64,
    "lowest in range": [-BOUND] + [0] * 63,
    "below the range": [0] * 5 + [-BOUND - 1] + [0] * 58,
    "above the range": [BOUND] * 64,
    "squares of 0": [2**32] * 64,
    "half of the ring": [-(2**63)] + [0] * 63,
    "ends of the ring": [2**63 - 1, -(2**63)] * 32,
}


@pytest.mark.parametrize("case", CASES)
def test_two_evaluators_agree_with_plain_numbers(case: str) -> None:
    values = CASES[case]
    results, _ = drive(sessions(values, 2, TEST))
    assert results == [TEST.passes(values)] * 2


@pytest.mark.parametrize("evaluators", [3, 4, 5])
def test_more_evaluators(evaluators: int) -> None:
    for case in ("at the threshold", "one beyond", "below the range"):
        results, _ = drive(sessions(CASES[case], evaluators, TEST, seed=evaluators))
        assert results == [TEST.passes(CASES[case])] * evaluators


def test_random_projections_around_the_threshold() -> None:
    generator = np.random.default_rng(5)
    seen = set()
    for seed in range(8):
        factor = generator.uniform(0.8, 1.2)
        values = [round(x) for x in generator.normal(size=8) * math.sqrt(TEST.threshold / 8) * factor]
        test = NormTest(TEST.norm, 8, TEST.range_bits, TEST.threshold)
        results, _ = drive(sessions(values, 2, test, seed))
        assert results == [test.passes(values)] * 2
        seen.add(results[0])
    assert seen == {True, False}


@pytest.mark.parametrize(("evaluators", "rounds"), [(2, 22), (3, 29), (4, 29), (5, 36)])
def test_rounds(evaluators: int, rounds: int) -> None:
    """One for the squares, 7 for each level of additions, 13 for the tree of ANDs, one for the bit."""
    assert rounds == 1 + 7 * math.ceil(math.log2(evaluators)) + 13 + 1
    assert drive(sessions(CASES["zeros"], evaluators, TEST))[1] == rounds


def test_what_is_said_is_uniform_but_for_one_bit() -> None:
    """Of an all-zero input nothing shows: bytes of all messages but the last of each member, chi-squared.

    255 degrees of freedom, 6 standard deviations of 22.6: wrong once in some million.
    """
    said: list[list[bytes]] = [[], []]

    def spy(sender: int, payload: bytes) -> bytes:
        said[sender].append(payload)
        return payload

    for seed in range(4):
        drive(sessions(CASES["zeros"], 2, TEST, seed), spy)
        for messages in said:
            assert int.from_bytes(messages.pop(), "little") in {0, 1}
    raw = np.frombuffer(b"".join(m for messages in said for m in messages), np.uint8)
    counts = np.bincount(raw, minlength=256)
    statistic = float(((counts - raw.size / 256) ** 2).sum() / (raw.size / 256))
    assert statistic < 255 + 6 * math.sqrt(2 * 255)


def test_a_deviating_evaluator_turns_the_bit() -> None:
    """What the protocol does not stop, as ADR 0024 says: it has no MACs."""
    last = [0, 0]

    def flip(sender: int, payload: bytes) -> bytes:
        last[sender] += 1
        is_the_bit = last[sender] == 1 + 2 * 20 + 1  # after the squares and two messages for each AND
        if sender == 1 and is_the_bit:
            return bytes([payload[0] ^ 1]) + payload[1:]
        return payload

    results, _ = drive(sessions(CASES["zeros"], 2, TEST), flip)
    assert False in results


def test_triples_are_for_one_check() -> None:
    """A check that is dealt too little stops with its reason, and does not go on with used ones."""
    everybody = worlds(2, requests_of(2, 64)[:-1], seed=1)
    made = [check_session(world, np.zeros(64, np.uint64), TEST, tuples) for world, tuples in everybody]
    with pytest.raises(UsageError, match="all triples that were dealt are used"):
        drive(made)


def test_projections_of_another_length_are_refused() -> None:
    world = World([PartyId("a"), PartyId("b")], 0, check_zeros({1: bytes(32)}, (0, 1), 0))
    tuples = Tuples(Deal(bytes(32), bytes(8)), 0, CONTEXT, [Request("and", (1,))], "dealer")
    short: U64 = np.zeros(63, np.uint64)
    with pytest.raises(UsageError, match="projections"):
        check_session(world, short, TEST, tuples)
