"""A LightningModule, trained by `lightning.Trainer`, as the site of a ward."""

import logging
import warnings

import lightning
import torch
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import securefl

WARDS = 3
# Each round makes a Trainer, and each Trainer says the same.
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.filterwarnings("ignore", message=".*(many workers|LeafSpec)")


class Reader(lightning.LightningModule):
    """Reads digits. Nothing in here knows of a federation."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(64, 32), torch.nn.BatchNorm1d(32), torch.nn.ReLU(), torch.nn.Linear(32, 10)
        )

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.layers(pixels)
        return scores

    def training_step(self, batch: list[torch.Tensor]) -> torch.Tensor:
        loss = cross_entropy(self(batch[0]), batch[1])
        self.log("loss", loss, on_step=False, on_epoch=True)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        # Each Trainer calls this, so that Adam's moments begin anew each round. To let them go on, make the
        # optimiser in __init__ and return that.
        return torch.optim.Adam(self.parameters(), lr=0.005)


def Ward(name: str) -> securefl.TorchSite:
    """Return the site of one ward: every third digit. The first fifty are kept for tests."""
    own = slice(int(name.removeprefix("p")), None, WARDS)
    pixels, digits = load_digits(return_X_y=True)
    x, y = torch.tensor(pixels[own] / 16, dtype=torch.float32), torch.tensor(digits[own])
    loader = DataLoader(TensorDataset(x[50:], y[50:]), batch_size=32, shuffle=True)

    def train(model: torch.nn.Module, context: securefl.RoundContext) -> dict[str, float]:
        trainer = lightning.Trainer(
            max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False,
        )  # fmt: skip
        trainer.fit(model, loader)
        return {"loss": float(trainer.callback_metrics["loss"])}

    def evaluate(model: torch.nn.Module) -> tuple[int, dict[str, object]]:
        return 50, {"kept": securefl.confusion(y[:50], model(x[:50]).argmax(1), 10)}

    return securefl.TorchSite(Reader(), train=train, evaluate=evaluate, samples=len(y) - 50)
