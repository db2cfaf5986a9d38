from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from securefl.base.arrays import F64
from securefl.scenario.privacy import ClipEach, DpSgd, Normalise
from securefl.training.dpsgd.bounded import BoundedSums, PartyRows, factors
from securefl.training.dpsgd.examples import Examples, Rows

LENGTH = 40
CPU = torch.device("cpu")


def examples_of(gradients: F64) -> Examples:
    """In two blocks."""
    there = torch.from_numpy(gradients.copy())
    return Examples([Rows(0, there[:, :15]), Rows(15, there[:, 15:])])


def bounded(gradients: F64, dp: DpSgd, carry: F64 | None = None, batch: int = 4) -> F64:
    total = BoundedSums(dp, batch, [carry], gradients.shape[1], CPU)
    total.add(examples_of(gradients), [PartyRows(0, slice(0, len(gradients)))])
    return total.results()[0]


def by_definition(gradients: F64, dp: DpSgd, carry: F64, batch: int = 4) -> F64:
    """Algorithm 1, lines 9 and 11, without the noise and with the sign of an update."""
    total = np.zeros(gradients.shape[1])
    for gradient in gradients:
        mixed = (1 - dp.momentum) * gradient + dp.momentum * carry
        length = np.linalg.norm(mixed)
        if isinstance(dp.bound, ClipEach):
            total += mixed * min(1.0, dp.bound.norm / length) if length else 0
        else:
            total += mixed / length if length else 0
    result: F64 = -total / batch
    return result


def normal(*shape: int, seed: int = 0) -> F64:
    return np.random.default_rng(seed).standard_normal(shape)


def test_factors() -> None:
    squares, none = np.array([4.0, 0.25, 0.0]), np.zeros(3)
    assert factors(Normalise(), squares, none).tolist() == [0.5, 2.0, 0.0]
    assert factors(ClipEach(norm=1.0), squares, none).tolist() == [0.5, 1.0, 1.0]
    assert factors(ClipEach(norm=0.25), squares, none).tolist() == [0.125, 0.5, 1.0]
    assert factors(Normalise(), np.array([-1e-20]), np.array([4.0])).tolist() == [0.5], "never negative"


@pytest.mark.parametrize("bound", [Normalise(), ClipEach(norm=3.0), ClipEach(norm=6.3)])
@pytest.mark.parametrize("momentum", [0.0, 0.1, 0.9])
def test_sums_are_those_of_the_definition(bound: Normalise | ClipEach, momentum: float) -> None:
    gradients, carry = normal(9, LENGTH), normal(LENGTH, seed=1)
    dp = DpSgd(bound=bound, momentum=momentum, carry="own")
    np.testing.assert_allclose(
        bounded(gradients, dp, carry), by_definition(gradients, dp, carry), rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(
        bounded(gradients, dp), by_definition(gradients, dp, np.zeros(LENGTH)), rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("momentum", [0.0, 0.3])
def test_parties_of_one_block_have_sums_of_their_own(momentum: float) -> None:
    """Some with a carry, some without; in two blocks, one of which holds the end of a party's batch."""
    gradients, dp = normal(9, LENGTH), DpSgd(momentum=momentum, carry="own")
    carries = [normal(LENGTH, seed=1), None, normal(LENGTH, seed=2)]
    sums = BoundedSums(dp, 4, carries, LENGTH, CPU)
    first, second = examples_of(gradients[:6]), examples_of(gradients[6:])
    sums.add(first, [PartyRows(0, slice(0, 2)), PartyRows(1, slice(2, 5)), PartyRows(2, slice(5, 6))])
    sums.add(second, [PartyRows(2, slice(0, 3))])
    batches = gradients[:2], gradients[2:5], gradients[5:]
    for found, rows, carry in zip(sums.results(), batches, carries, strict=True):
        np.testing.assert_allclose(found, bounded(rows, dp, carry), rtol=1e-12, atol=1e-15)


def test_rows_may_be_added_in_parts() -> None:
    gradients, carry = normal(9, LENGTH), normal(LENGTH, seed=1)
    dp = DpSgd(momentum=0.3, carry="own")
    total = BoundedSums(dp, 4, [carry], LENGTH, CPU)
    examples = examples_of(gradients)
    for rows in (slice(0, 2), slice(2, 9)):
        total.add(examples, [PartyRows(0, rows)])
    np.testing.assert_allclose(total.results()[0], bounded(gradients, dp, carry), rtol=1e-12)


@given(
    scale=st.floats(-20, 20).map(lambda power: 10.0**power),
    off=st.floats(-17, 1).map(lambda power: 10.0**power),
    momentum=st.sampled_from([0.0, 0.1, 0.5, 0.9]),
    norm=st.sampled_from([None, 1.0, 1e-3, 1e5]),
    seed=st.integers(0, 99),
)
def test_no_term_is_longer_than_its_bound(
    scale: float, off: float, momentum: float, norm: float | None, seed: int
) -> None:
    """A carry that cancels a gradient almost, or altogether, is the worst that the other side can choose."""
    gradient = scale * normal(1, LENGTH, seed=seed)
    carry = np.zeros(LENGTH)
    if momentum:
        miss = np.linalg.norm(gradient) * off * normal(LENGTH, seed=seed + 1) / np.sqrt(LENGTH)
        carry = -(1 - momentum) / momentum * (gradient[0] + miss)
    dp = DpSgd(bound=Normalise() if norm is None else ClipEach(norm=norm), momentum=momentum, carry="own")
    length = np.linalg.norm(bounded(gradient, dp, carry, batch=1))
    assert length <= (norm or 1.0) * (1 + 1e-9)
    if norm is None and (off > 1e-4 or not momentum):
        assert length > 1 - 1e-3, "nor much shorter"


@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_a_vector_of_zeros_stays_zero(momentum: float) -> None:
    gradient = normal(1, LENGTH)
    dp = DpSgd(momentum=momentum, carry="own")
    carry = np.zeros(LENGTH) if not momentum else -gradient[0]
    update = bounded(gradient if momentum else 0 * gradient, dp, carry)
    np.testing.assert_allclose(update, 0, atol=1e-9 if momentum else 0)


def test_nothing_added_is_zero_whatever_the_carry() -> None:
    total = BoundedSums(DpSgd(momentum=0.5, carry="own"), 4, [normal(LENGTH)], LENGTH, CPU)
    assert total.results()[0].tolist() == [0.0] * LENGTH
