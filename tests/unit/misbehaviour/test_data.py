from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from securefl.base.errors import UsageError
from securefl.methods.attacks.needs import trigger_of
from securefl.methods.attacks.parts.backdoor import Backdoor, add_patch, poison_samples
from securefl.methods.attacks.parts.label_flip import flip_labels
from securefl.methods.attacks.parts.label_shift import shift_labels
from securefl.methods.attacks.parts.scale import Scale


def images(count: int, channels: int = 1, side: int = 5) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.random.default_rng(3).normal(size=(count, channels, side, side)).astype(np.float32)


@given(st.integers(2, 30), st.integers(-40, 40))
def test_shifted_labels_are_a_permutation_of_the_classes(classes: int, shift: int) -> None:
    y = np.arange(classes, dtype=np.int64)
    shifted = shift_labels(y, classes, shift)
    assert sorted(shifted.tolist()) == y.tolist()
    assert np.array_equal(shift_labels(shifted, classes, -shift), y)
    assert np.array_equal(flip_labels(flip_labels(y, classes), classes), y)


def test_the_patch_is_bright_and_in_the_corner_of_every_channel() -> None:
    x = images(4, channels=3)
    shown = add_patch(x, 2)
    assert (shown[:, :, 3:, 3:] == x.max()).all()
    changed = shown != x
    assert not changed[:, :, :3, :].any()
    assert not changed[:, :, :, :3].any()
    assert np.array_equal(x, images(4, channels=3))


@given(st.integers(1, 60), st.floats(0.01, 1.0))
def test_the_stated_share_of_samples_is_poisoned_evenly(count: int, fraction: float) -> None:
    x, y = images(count), np.arange(count, dtype=np.int64) % 3 + 1
    seen, labels = poison_samples(x, y, target=0, fraction=fraction, size=2)
    poisoned = labels == 0
    wanted = round(fraction * count)
    assert poisoned.sum() == wanted
    assert np.array_equal(seen[poisoned], add_patch(x, 2)[poisoned])
    assert np.array_equal(seen[~poisoned], x[~poisoned])
    assert np.array_equal(labels[~poisoned], y[~poisoned])
    half = poisoned[: count // 2].sum()
    assert abs(half - wanted * (count // 2) / count) <= 1


@pytest.mark.parametrize(("shape", "size"), [((3, 10), 2), ((3, 1, 4, 4), 5), ((3, 1, 8, 2), 3)])
def test_no_patch_without_room(shape: tuple[int, ...], size: int) -> None:
    with pytest.raises(UsageError, match="must be images"):
        add_patch(np.zeros(shape, dtype=np.float32), size)


def test_the_trigger_leaves_out_samples_of_the_target_class() -> None:
    x, y = images(5), np.array([0, 2, 1, 2, 0], dtype=np.int64)
    trigger = trigger_of((Scale(count=1), Backdoor(count=1, target=2, size=2)))
    assert trigger is not None
    seen, labels = trigger(x, y)
    assert np.array_equal(seen, add_patch(x, 2)[[0, 2, 4]])
    assert labels.tolist() == [2, 2, 2]
    assert trigger_of((Scale(count=1),)) is None
