"""A hospital's own training: logistic regression on its own patients, in torch or in nothing but numpy."""

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer
from torch.utils.data import DataLoader, TensorDataset

import securefl

HOSPITALS = 5


def patients(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return this hospital's patients in the Wisconsin breast cancer data: every fifth of them.

    Your own function reads your own files here.
    """
    x, y = load_breast_cancer(return_X_y=True)
    own = slice(int(name.removeprefix("p")), None, HOSPITALS)
    x, y = x[own], y[own]
    return ((x - x.mean(axis=0)) / x.std(axis=0)).astype(np.float32), y.astype(np.float32)


def Hospital(name: str) -> securefl.TorchSite:
    """Return the site of one hospital: a module, a loader, a loss and an optimiser as in any torch script."""
    x, y = (torch.from_numpy(array) for array in patients(name))
    train, test = slice(None, -20), slice(-20, None)
    model = torch.nn.Linear(x.shape[1], 1)

    def evaluate(model: torch.nn.Module) -> tuple[int, dict[str, object]]:
        scores, labels = model(x[test]).squeeze(1), y[test]
        loss = torch.nn.functional.binary_cross_entropy_with_logits(scores, labels)
        return len(labels), {
            "scores": securefl.score_histogram(torch.sigmoid(scores), labels),
            "loss": loss.item(),
        }

    return securefl.TorchSite(
        model,
        DataLoader(TensorDataset(x[train], y[train]), batch_size=16, shuffle=True),
        loss=lambda scores, labels: torch.nn.functional.binary_cross_entropy_with_logits(
            scores[:, 0], labels
        ),
        optimiser=lambda weights: torch.optim.SGD(weights, lr=0.1, momentum=0.9),
        evaluate=evaluate,
    )


class PlainHospital:
    """The same without torch: `evaluate` may be missing."""

    def __init__(self, name: str) -> None:
        self.x, self.y = patients(name)
        self.samples = len(self.y)

    def parameters(self) -> dict[str, np.ndarray]:
        return {"weight": np.zeros((1, self.x.shape[1]), np.float32), "bias": np.zeros(1, np.float32)}

    def fit(
        self, parameters: dict[str, np.ndarray], context: securefl.RoundContext
    ) -> tuple[dict[str, np.ndarray], int, dict[str, float]]:
        weight, bias = parameters["weight"], parameters["bias"]
        for _ in range(20):
            error = 1 / (1 + np.exp(-(self.x @ weight[0] + bias[0]))) - self.y
            weight -= 0.5 * (error @ self.x) / len(error)
            bias -= 0.5 * error.mean()
        return {"weight": weight, "bias": bias}, self.samples, {"error": float(np.abs(error).mean())}

    def evaluate(
        self, parameters: dict[str, np.ndarray], context: securefl.RoundContext
    ) -> tuple[int, dict[str, object]]:
        scores = 1 / (1 + np.exp(-(self.x @ parameters["weight"][0] + parameters["bias"][0])))
        right = np.where(self.y > 0, scores, 1 - scores)
        return self.samples, {
            "scores": securefl.score_histogram(scores, self.y),
            "loss": float(-np.log(np.maximum(right, 1e-6)).mean()),
        }
