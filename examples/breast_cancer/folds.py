"""Accuracy of five clinics that never show a patient, against one hospital that has them all.

    python folds.py --folds 5 --seeds 5

Both train the same logistic regression. The clinics standardise by `securefl.statistics`, the pooled model by
the columns themselves. Printed: the paired difference over folds and seeds, with its 95 % interval, and what
one scale for all columns costs.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
from clinic import CLINICS, Clinic, chance
from scipy.stats import t
from sklearn.datasets import load_breast_cancer

import securefl

ROUNDS = 20
HERE = Path(__file__).parent


def accuracy(arrays: dict[str, np.ndarray], x: np.ndarray, y: np.ndarray) -> float:
    """Of a model on standardised columns, percent."""
    scores = chance(x, arrays["weight"].astype(float), float(arrays["bias"][0]))
    return 100 * float(((scores > 0.5) == y).mean())


def federated(x: np.ndarray, y: np.ndarray, test: np.ndarray, labels: np.ndarray, seed: int) -> float:
    """Five clinics: statistics first, then training, each by secure sums."""
    scenario = securefl.load(HERE / "federation.toml")
    share = {f"p{n:02d}": slice(n, None, CLINICS) for n in range(CLINICS)}
    told = securefl.statistics(scenario, site=lambda name: Clinic(x[share[name]], y[share[name]]), seed=seed)

    def site(name: str) -> Clinic:
        return Clinic(x[share[name]], y[share[name]], told)

    with tempfile.TemporaryDirectory() as folder:
        first = Path(folder) / "initial.safetensors"
        securefl.save_weights(first, site("p00").parameters())
        changes = {"model.file": str(first), "stop.rounds": ROUNDS}
        result = securefl.simulate(
            securefl.with_overrides(scenario, changes), site=site, seed=seed, out=Path(folder) / "run"
        )
        return accuracy(result.arrays(), told.standardise(test), labels)


def pooled(x: np.ndarray, y: np.ndarray, test: np.ndarray, labels: np.ndarray, *, one_scale: bool) -> float:
    """One hospital with all patients; with ``one_scale`` one mean and one deviation for all columns."""
    axis = None if one_scale else 0
    mean, std = x.mean(axis=axis), x.std(axis=axis)
    site = Clinic((x - mean) / std, y)
    arrays = site.parameters()
    for number in range(ROUNDS):
        arrays, _, _ = site.fit(arrays, securefl.RoundContext(number, ROUNDS, 0))
    return accuracy(arrays, (test - mean) / std, labels)


def interval(differences: np.ndarray) -> tuple[float, float]:
    """Mean, and half the width of its 95 % interval (Student's t)."""
    half = t.ppf(0.975, len(differences) - 1) * differences.std(ddof=1) / np.sqrt(len(differences))
    return float(differences.mean()), float(half)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=5)
    asked = parser.parse_args()
    x, y = load_breast_cancer(return_X_y=True)
    rows = []
    for seed in range(asked.seeds):
        order = np.random.default_rng(seed).permutation(len(y))
        for fold in np.array_split(order, asked.folds):
            rest = np.setdiff1d(order, fold, assume_unique=True)
            data = (x[rest], y[rest], x[fold], y[fold])
            rows.append(
                (federated(*data, seed), pooled(*data, one_scale=False), pooled(*data, one_scale=True))
            )
            print(f"seed {seed}: federated {rows[-1][0]:.2f} %, pooled {rows[-1][1]:.2f} %", flush=True)
    found = np.array(rows)
    print(f"mean accuracy: federated {found[:, 0].mean():.2f} %, pooled {found[:, 1].mean():.2f} %")
    for name, column in (("federated - pooled", 0), ("one scale for all columns - pooled", 2)):
        mean, half = interval(found[:, column] - found[:, 1])
        print(f"{name}: {mean:+.2f} points (95 %: {mean - half:+.2f} to {mean + half:+.2f})")


if __name__ == "__main__":
    main()
