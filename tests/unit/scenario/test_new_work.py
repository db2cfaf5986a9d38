"""Work is new only where its batches can differ."""

from __future__ import annotations

import pytest

from securefl.base.errors import ConfigError
from securefl.methods.feasibility.leakage import check_new_work
from tests.unit.scenario.samples import small

AGAIN = ("clustering.reclusterings=2", "clustering.new_work=true")


@pytest.mark.parametrize(
    ("overrides", "samples", "field"),
    [
        (("training.batch_size=20",), 20, "training.batch_size"),
        (("training.batch_size=20",), 3, "training.batch_size"),
        (("training.batch_fraction=1.0",), 50, "training.batch_fraction"),
        (("training.batch_fraction=0.25",), 1, "training.batch_fraction"),
    ],
)
def test_one_batch_of_all_samples_is_no_new_work(
    overrides: tuple[str, ...], samples: int, field: str
) -> None:
    with pytest.raises(ConfigError, match=f"holds all {samples} samples") as caught:
        check_new_work(small(*AGAIN, *overrides), samples)
    assert caught.value.path == field
    assert "new_work = false" in caught.value.remedy


@pytest.mark.parametrize(
    ("overrides", "samples"),
    [
        ((*AGAIN, "training.batch_size=20"), 21),
        ((*AGAIN, "training.batch_fraction=0.25"), 2),
        ((*AGAIN, "leakage.mode=report", "training.batch_size=20"), 20),
        (
            (*AGAIN, "privacy={unit='party', multiplier=1.0, delta=1e-3}", "encoding.clip=1.0"),
            2,
        ),
        (("clustering.reclusterings=2",), 2),
    ],
)
def test_what_differs_is_noisy_or_is_only_reported_passes(overrides: tuple[str, ...], samples: int) -> None:
    check_new_work(small(*overrides), samples)
