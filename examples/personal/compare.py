"""Own heads against one model for all, and against training alone.

    python compare.py --rounds 10 --seeds 5

Printed: accuracy on the samples that the clinics kept, and paired differences with their standard errors.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
from clinic import CLINICS, Clinic

import securefl

HERE = Path(__file__).parent


def accuracy(rounds: int, seed: int, *, shared: bool) -> float:
    """Return the accuracy at the clinics after ``rounds`` rounds, percent."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def site(party: str) -> Clinic:
            return Clinic(party, folder, shared=shared, seed=seed)

        torch.manual_seed(seed)
        first = folder / "initial.safetensors"
        securefl.save_weights(first, site("p00").parameters())
        # The last round begins with the model of the one before.
        changes = {"model.file": str(first), "stop.rounds": rounds + 1, "expect": []}
        scenario = securefl.load(HERE / "federation.toml", changes)
        result = securefl.simulate(scenario, site=site, seed=seed, out=folder / "run")
    return 100 * result.metrics["kept.accuracy"]


def alone(rounds: int, seed: int) -> float:
    """Return the accuracy of clinics that send nothing and train as many epochs, percent."""
    hits = samples = 0
    for number in range(CLINICS):
        torch.manual_seed(seed)
        with tempfile.TemporaryDirectory() as name:
            site = Clinic(f"p{number:02d}", Path(name), shared=True, seed=seed)
            arrays = site.parameters()
            for round_ in range(rounds):
                arrays, _, _ = site.fit(arrays, securefl.RoundContext(round_, rounds, seed))
            table = site.judge(site.net)[1]["kept"]
        hits, samples = hits + np.trace(table), samples + np.sum(table)
    return 100 * hits / samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=5)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for seed in range(asked.seeds):
        own, one = (accuracy(asked.rounds, seed, shared=shared) for shared in (False, True))
        rows.append((own, one, alone(asked.rounds, seed)))
        print("seed {}: own heads {:.2f} %, one model {:.2f} %, alone {:.2f} %".format(seed, *rows[-1]))
    found = np.array(rows)
    print("mean: own heads {:.2f} %, one model {:.2f} %, alone {:.2f} %".format(*found.mean(axis=0)))
    for other, name in ((1, "one model"), (2, "alone")):
        gain = found[:, 0] - found[:, other]
        error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else float("nan")
        print(f"own heads - {name}: {gain.mean():+.2f} points, standard error {error:.2f}")


if __name__ == "__main__":
    main()
