"""BatchNorm of each hospital's own against one that is averaged like all else.

    python compare.py --rounds 6 --seeds 5

Printed: accuracy on the hospitals' kept pictures, and the paired difference with its 95 % interval.
"""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from hospital import Hospital, hospital, resnet18
from scipy.stats import t

import securefl

HERE = Path(__file__).parent


def Averaging(name: str) -> securefl.TorchSite:
    """Return a hospital where everything travels: BatchNorm's scales, and its running means and variances."""
    site: securefl.TorchSite = hospital(name, resnet18(num_classes=10), [], buffers="average")
    return site


def accuracy(site: Callable[[str], securefl.Site], rounds: int, seed: int) -> float:
    """Of the last model that the hospitals looked at, percent."""
    torch.manual_seed(seed)
    with tempfile.TemporaryDirectory() as folder:
        first = Path(folder) / "initial.safetensors"
        securefl.save_weights(first, site("p00").parameters())
        # The last round begins with the model of the one before.
        changes = {"model.file": str(first), "stop.rounds": rounds + 1, "expect": []}
        scenario = securefl.load(HERE / "federation.toml", changes)
        result = securefl.simulate(scenario, site=site, seed=seed, out=Path(folder) / "run")
    return 100 * result.metrics["kept.accuracy"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seeds", type=int, default=5)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for seed in range(asked.seeds):
        rows.append([accuracy(site, asked.rounds, seed) for site in (Hospital, Averaging)])
        print(f"seed {seed}: own {rows[-1][0]:.2f} %, averaged {rows[-1][1]:.2f} %", flush=True)
    found = np.array(rows)
    own, averaged = found.mean(axis=0)
    print(f"mean accuracy: own {own:.2f} %, averaged {averaged:.2f} %")
    if asked.seeds > 1:
        mean, spread = (found[:, 0] - found[:, 1]).mean(), (found[:, 0] - found[:, 1]).std(ddof=1)
        half = t.ppf(0.975, asked.seeds - 1) * spread / np.sqrt(asked.seeds)
        print(f"own - averaged: {mean:+.2f} points (95 %: {mean - half:+.2f} to {mean + half:+.2f})")


if __name__ == "__main__":
    main()
