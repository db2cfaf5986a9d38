"""Metrics of model files on the clinics' data, by torch and safetensors alone.

    python plain.py '{"data": [FOLDER, ...], "models": [FILE, ...]}'

prints one JSON object for each file: mean loss, accuracy, AUC and histograms of all samples together, the
least variance, the number of variances that are 0, and the mean loss on the training data.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from network import BINS, FEW_BINS, judged, load, network  # type: ignore[import-not-found]
from safetensors.torch import load_file


def metrics_of(file: Path, folders: list[Path]) -> dict[str, Any]:
    """Load a file into the network; return its metrics."""
    model, state = network(), load_file(file)
    model.load_state_dict(state)
    model.eval()
    parts = [judged(model, *load(folder / "patients.npz", "test")) for folder in folders]
    trained = [judged(model, *load(folder / "patients.npz", "train")) for folder in folders]
    labels = np.concatenate([load(folder / "patients.npz", "test")[1].numpy() for folder in folders])
    scores = np.concatenate([part["scores"] for part in parts])
    below, above = (np.histogram(scores[labels == label], BINS, (0.0, 1.0))[0].tolist() for label in (0, 1))
    variances = torch.cat([array for name, array in state.items() if name.endswith("running_var")])
    return {
        "samples": len(labels),
        "loss": _mean(parts, "loss"),
        "accuracy": _mean(parts, "accuracy"),
        "auc": _auc(scores, labels),
        "counts": [below, above],
        "few_counts": np.histogram(scores, FEW_BINS, (0.0, 1.0))[0].tolist(),
        "least_variance": variances.min().item(),
        "variances_of_0": int((variances == 0).sum()),
        "finite": all(bool(array.isfinite().all()) for array in state.values()),
        "training_loss": _mean(trained, "loss"),
    }


def _mean(parts: list[dict[str, Any]], name: str) -> float:
    return float(np.average([part[name] for part in parts], weights=[part["samples"] for part in parts]))


def _auc(scores: Any, labels: Any) -> float:
    """The share of pairs of both labels in order, ties by half."""
    positive, negative = scores[labels == 1][:, None], scores[labels == 0][None]
    return float(((positive > negative) + 0.5 * (positive == negative)).mean())


if __name__ == "__main__":
    torch.set_num_threads(1)
    asked = json.loads(sys.argv[1])
    for model_file in asked["models"]:
        print(json.dumps(metrics_of(Path(model_file), [Path(folder) for folder in asked["data"]])))
    assert "securefl" not in sys.modules
