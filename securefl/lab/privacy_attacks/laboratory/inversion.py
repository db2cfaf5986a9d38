"""Gradient inversion of opened sums: reconstructed pictures and their similarity to the samples.

Every sample of a cluster's members is compared with the most similar reconstruction. This choice needs ground
truth; a server would choose by eye. The baseline is the same choice among as many unrelated pictures.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from securefl import scenario
from securefl.base.arrays import F32, F64, I64
from securefl.base.errors import ConfigError
from securefl.lab.privacy_attacks import pictures
from securefl.training import data, models, sgd

MOST = 16
"""Most samples of a search, which is slow and finds no pictures beyond."""

_AS_GOOD = 1e-3
"""Mean squared error of 30 dB: 3 % of the range on average."""


@dataclass(frozen=True, slots=True, eq=False)
class Inversion:
    """Reconstructions of the samples behind one opened sum."""

    originals: F64
    """Brightness 0 to 1, f64 ``(n, height, width)``; colours are averaged."""
    found: F64
    """Most similar reconstruction of each original, same shape."""
    matches: tuple[pictures.Match, ...]
    blind: tuple[pictures.Match, ...]
    """Matches with unrelated pictures."""
    candidates: int
    recognised: float
    """Fraction of samples with a candidate of MSE below 0.001, as good as the original."""
    blind_recognised: float
    """The same for unrelated pictures."""

    @property
    def ssim(self) -> float:
        """Mean over samples."""
        return float(np.mean([match.ssim for match in self.matches]))

    @property
    def mse(self) -> float:
        """Mean over samples."""
        return float(np.mean([match.mse for match in self.matches]))

    @property
    def blind_ssim(self) -> float:
        """Mean for unrelated pictures."""
        return float(np.mean([match.ssim for match in self.blind]))


def reconstruct(
    config: scenario.Model,
    dataset: data.Dataset,
    params: F32,
    update: F64,
    rows: I64,
    *,
    seed: int,
    search: sgd.Search | None = None,
) -> F64:
    """Return candidates for the samples behind one cluster's mean update.

    They come from first-layer neurons of a dense model, and from a search for up to 16 samples. A step of the
    search takes as long as about three training steps.

    Args:
        config: of the model.
        dataset: has the samples in its training half.
        params: model before the update, f32 ``(d,)``.
        update: mean update, f64 ``(d,)``: minus a gradient, up to a factor.
        rows: ground truth: all rows that the members trained on; the search uses their labels.
        seed: of the search.
        search: its options.

    Returns:
        Brightness, about 0 to 1, f64 ``(k, height, width)``, k >= 1: the first is evenly grey.

    Raises:
        ConfigError: the samples are not pictures.
    """
    shape = dataset.input_shape
    if len(shape) not in {2, 3} or min(shape[-2:]) < 8 or dataset.x_train.dtype == np.int64:
        raise ConfigError(
            "data.set", f"holds samples of shape {shape}, which are not pictures", "use a set of images"
        )
    module = models.build_model(config, shape, dataset.classes, 0)
    raw: list[F64] = []
    if config.flat:
        raw.append(sgd.from_neurons(module, -update).reshape(-1, *shape))
    if len(rows) <= MOST:
        labels = dataset.y_train[rows]
        raw.append(sgd.match_gradient(module, params, -update, labels, shape, seed=seed, search=search))
    return _brightness(dataset, np.concatenate([np.zeros((1, *shape)), *raw]))


def compare_candidates(
    dataset: data.Dataset, candidates: F64, rows: I64, behind: I64, *, seed: int, most: int = 48
) -> Inversion:
    """Compare true samples with candidates, and with as many unrelated pictures.

    Args:
        dataset: has the samples.
        candidates: of :func:`reconstruct`.
        rows: ground truth: training rows of the samples to look for.
        behind: rows excluded from unrelated pictures. If too few remain, the test half is used too.
        seed: of the choice of unrelated pictures.
        most: most samples for the slow similarity; of more, those nearest to a candidate.
    """
    rest = np.setdiff1d(np.arange(len(dataset.y_train)), behind)
    others = dataset.x_train[np.random.default_rng(seed).permutation(rest)[: len(candidates)]]
    others = np.concatenate([others, dataset.x_test[: len(candidates) - len(others)]])
    originals, unrelated = (
        _brightness(dataset, dataset.standardise(some)) for some in (dataset.x_train[rows], others)
    )
    errors, blind = _least_errors(originals, candidates), _least_errors(originals, unrelated)
    if len(rows) > most:
        originals = originals[np.argsort(errors, kind="stable")[:most]]
    matches = pictures.best_matches(originals, candidates)
    return Inversion(
        originals=originals,
        found=np.clip(np.stack([candidates[match.candidate] for match in matches]), 0, 1),
        matches=matches,
        blind=pictures.best_matches(originals, unrelated),
        candidates=len(candidates),
        recognised=float(np.mean(errors < _AS_GOOD)),
        blind_recognised=float(np.mean(blind < _AS_GOOD)),
    )


def _least_errors(originals: F64, candidates: F64) -> F64:
    """Return the mean squared error of each original's nearest candidate, f64 ``(n,)``."""
    inside = np.clip(candidates, 0.0, 1.0)
    errors: F64 = np.array([((inside - one) ** 2).mean(axis=(1, 2)).min() for one in originals])
    return errors


def _brightness(dataset: data.Dataset, standardised: npt.NDArray[Any]) -> F64:
    """Return brightness, f64 ``(n, height, width)``, 0 to 1 for true samples, averaged over channels."""
    values: F64 = standardised.astype(np.float64) * dataset.std + dataset.mean
    return values if values.ndim == 3 else values.mean(axis=1)
