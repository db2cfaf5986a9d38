from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from securefl.base.arrays import digest_of, expect
from securefl.base.errors import UsageError


@pytest.mark.parametrize(
    ("array", "shape"),
    [
        (np.zeros(3, np.float32), (3,)),
        (np.zeros(3, np.float32), (None,)),
        (np.zeros((2, 3), np.float32), (None, 3)),
        (np.zeros((0, 3), np.float32), (None, None)),
        (np.zeros((), np.float32), ()),
    ],
)
def test_what_fits(array: npt.NDArray[Any], shape: tuple[int | None, ...]) -> None:
    expect(array, "x", np.float32, shape)


@pytest.mark.parametrize(
    ("array", "shape", "reason"),
    [
        (np.zeros(3, np.float64), (3,), "x has dtype float64, expected float32"),
        (np.zeros(3, ">f4"), (3,), "x has dtype >f4, expected float32"),
        (np.zeros(4, np.float32), (3,), "x has shape"),
        (np.zeros((3, 1), np.float32), (3,), "x has shape"),
        (np.zeros((), np.float32), (None,), "x has shape"),
        (np.zeros((2, 3), np.float32), (None, 2), "x has shape"),
    ],
)
def test_what_does_not(array: npt.NDArray[Any], shape: tuple[int | None, ...], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        expect(array, "x", np.float32, shape)


def test_digest_is_of_the_values_not_of_their_layout() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    digest = digest_of(array)
    assert len(digest) == 32
    assert digest_of(array.astype(">f4")) == digest
    assert digest_of(np.asfortranarray(array)) == digest
    assert digest_of(np.repeat(array, 2, axis=1)[:, ::2]) == digest


def test_digest_covers_dtype_shape_and_values() -> None:
    array = np.arange(6, dtype=np.float32)
    others: list[npt.NDArray[Any]] = [
        array.reshape(2, 3),
        array.reshape(3, 2),
        array.view(np.uint32),
        array.astype(np.float64),
        array[::-1],
        array[:-1],
        np.where(array == 0, np.float32(-0.0), array),
    ]
    assert len({digest_of(a) for a in [array, *others]}) == 1 + len(others)


def test_digest_leaves_the_array_alone() -> None:
    array = np.arange(6, dtype=np.float32)
    array.flags.writeable = False
    digest_of(array)
    assert array.dtype == np.float32
