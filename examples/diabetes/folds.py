"""Error of four clinics that never show a patient, against one hospital that has them all.

    python folds.py --folds 5 --seeds 5

Both train the same network, stop by the same kept patients, and end with the best model. Printed: root mean
squared errors on the fold that neither saw, and their paired difference with its 95 % interval.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
from clinic import CLINICS, NAMES, TARGET, Clinic, network
from scipy.stats import t
from sklearn.datasets import load_diabetes

import securefl

HERE = Path(__file__).parent
Patients = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Measurements, target, and who is kept to stop by."""


def error(
    weights: dict[str, torch.Tensor], told: securefl.Statistics, test: tuple[np.ndarray, np.ndarray]
) -> float:
    """Root mean squared error of a model, in the target's unit."""
    x, y = test
    model, target = network(), told.features[TARGET]
    model.load_state_dict(weights)
    with torch.no_grad():
        found = model(torch.tensor(told.standardise(x, NAMES), dtype=torch.float32))[:, 0].numpy()
    return float(np.sqrt(((target.mean + target.std * found - y) ** 2).mean()))


def federated(patients: Patients, seed: int) -> tuple[dict[str, torch.Tensor], securefl.Statistics]:
    """Four clinics: statistics first, then training, each by secure sums."""
    scenario = securefl.load(HERE / "federation.toml")
    share = {f"p{n:02d}": slice(n, None, CLINICS) for n in range(CLINICS)}
    own = {name: tuple(column[part] for column in patients) for name, part in share.items()}
    told = securefl.statistics(scenario, site=lambda name: Clinic(*own[name]), seed=seed)
    with tempfile.TemporaryDirectory() as folder:
        first = Path(folder) / "initial.safetensors"
        securefl.save_weights(first, Clinic(*own["p00"]).parameters())
        result = securefl.simulate(
            securefl.with_overrides(scenario, {"model.file": str(first)}),
            site=lambda name: Clinic(*own[name], told),
            seed=seed,
            out=Path(folder) / "run",
        )
        return result.state_dict(), told


def pooled(patients: Patients, told: securefl.Statistics, seed: int) -> dict[str, torch.Tensor]:
    """One hospital with all patients: as many rounds, the same patience."""
    stop = securefl.load(HERE / "federation.toml").stop
    site = Clinic(*patients, told)
    arrays, least, best, since = site.parameters(), np.inf, {}, 0
    for number in range(stop.rounds):
        found = site.evaluate(arrays, securefl.RoundContext(number, stop.rounds, 0))[1]["squared_error"]
        since = 0 if found < least else since + 1
        if since == 0:
            least, best = found, arrays
        if since == stop.patience:
            break
        arrays, _, _ = site.fit(arrays, securefl.RoundContext(number, stop.rounds, 1000 * seed + number))
    return {name: torch.from_numpy(array) for name, array in best.items()}


def interval(differences: np.ndarray) -> tuple[float, float]:
    """Mean, and half the width of its 95 % interval (Student's t)."""
    half = t.ppf(0.975, len(differences) - 1) * differences.std(ddof=1) / np.sqrt(len(differences))
    return float(differences.mean()), float(half)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=5)
    asked = parser.parse_args()
    x, y = load_diabetes(return_X_y=True, scaled=False)
    rows = []
    for seed in range(asked.seeds):
        chance = np.random.default_rng(seed)
        for fold in np.array_split(chance.permutation(len(y)), asked.folds):
            rest = np.setdiff1d(np.arange(len(y)), fold)
            patients = (x[rest], y[rest], chance.random(len(rest)) < 0.2)
            weights, told = federated(patients, seed)
            test = (x[fold], y[fold])
            constant = float(np.sqrt(((y[rest].mean() - y[fold]) ** 2).mean()))
            rows.append(
                (error(weights, told, test), error(pooled(patients, told, seed), told, test), constant)
            )
            print(f"seed {seed}: federated {rows[-1][0]:.2f}, pooled {rows[-1][1]:.2f}", flush=True)
    found = np.array(rows)
    means = found.mean(axis=0)
    print(f"mean error: federated {means[0]:.2f}, pooled {means[1]:.2f}, the mean of all {means[2]:.2f}")
    mean, half = interval(found[:, 0] - found[:, 1])
    print(f"federated - pooled: {mean:+.2f} (95 %: {mean - half:+.2f} to {mean + half:+.2f})")


if __name__ == "__main__":
    main()
