"""Gradient inversion of opened sums: the pictures that the server gets, and how like they are.

Every sample of a cluster's members is compared with the reconstruction that is most like it. That choice
takes ground truth; a server has to make it by eye. Beside it stands what the same choice makes of pictures
that have nothing to do with the run: as many others of the same data set.
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
"""Samples that are searched for; of more, what is found is no picture, and it takes long."""

_AS_GOOD = 1e-3
"""Mean squared error, 3 % of the range on average: 30 dB."""


@dataclass(frozen=True, slots=True, eq=False)
class Inversion:
    """Reconstructions of the samples behind one opened sum, compared with the originals."""

    originals: F64
    """Brightness 0 to 1, f64 ``(n, height, width)``; colours are averaged."""
    found: F64
    """The reconstruction that is most like each of them, same shape."""
    matches: tuple[pictures.Match, ...]
    blind: tuple[pictures.Match, ...]
    """The same with unrelated pictures in place of reconstructions."""
    candidates: int
    recognised: float
    """Share of all samples that a candidate equals but for an error below 0.001: as good as the original."""
    blind_recognised: float
    """The same of unrelated pictures: what chance does."""

    @property
    def ssim(self) -> float:
        """Mean over the samples."""
        return float(np.mean([match.ssim for match in self.matches]))

    @property
    def mse(self) -> float:
        """Mean over the samples."""
        return float(np.mean([match.mse for match in self.matches]))

    @property
    def blind_ssim(self) -> float:
        """Mean over the samples, of unrelated pictures."""
        return float(np.mean([match.ssim for match in self.blind]))


def reconstructed(
    config: scenario.Model,
    dataset: data.Dataset,
    params: F32,
    update: F64,
    rows: I64,
    *,
    seed: int,
    search: sgd.Search | None = None,
) -> F64:
    """Candidates for the samples behind one cluster's mean update.

    First-layer neurons where the model is dense, and a search for up to 16 samples in any case; that costs
    about three times as much as so many trainings on them as it has steps.

    Args:
        config: of the model.
        dataset: whose training half the samples are of.
        params: of the model before the update, f32 ``(d,)``.
        update: mean update, f64 ``(d,)``: minus a gradient, up to a factor.
        rows: ground truth, all rows of ``dataset`` that the members trained on; the search is told their
            labels.
        seed: of the search.
        search: how it goes.

    Returns:
        Brightness, about 0 to 1, f64 ``(k, height, width)``, k >= 1: the first is evenly grey.

    Raises:
        ConfigError: the samples are no pictures.
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


def compared(
    dataset: data.Dataset, candidates: F64, rows: I64, behind: I64, *, seed: int, most: int = 48
) -> Inversion:
    """Set candidates beside true samples, and beside them as many pictures that have nothing to do with them.

    Args:
        dataset: with the samples.
        candidates: of :func:`reconstructed`.
        rows: ground truth, of the training half: the samples to look for.
        behind: rows that no unrelated picture is taken from, such as all that are in the sum. Where the rest
            of the training half is too small, the test half serves, too.
        seed: of the choice of unrelated pictures.
        most: samples whose similarity is computed, which takes long; of more, those nearest to a candidate.
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
    """Of each original the mean squared error of the candidate that is nearest, f64 ``(n,)``."""
    inside = np.clip(candidates, 0.0, 1.0)
    errors: F64 = np.array([((inside - one) ** 2).mean(axis=(1, 2)).min() for one in originals])
    return errors


def _brightness(dataset: data.Dataset, standardised: npt.NDArray[Any]) -> F64:
    """f64 ``(n, height, width)``, 0 to 1 for true samples, of pictures with or without channels."""
    values: F64 = standardised.astype(np.float64) * dataset.std + dataset.mean
    return values if values.ndim == 3 else values.mean(axis=1)
