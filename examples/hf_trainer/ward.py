"""A vision transformer of Hugging Face's, trained by its `Trainer`, as the site of a ward."""

import tempfile

import torch
from sklearn.datasets import load_digits
from transformers import PrinterCallback, Trainer, TrainingArguments, ViTConfig, ViTForImageClassification

import securefl

WARDS = 3


def reader() -> torch.nn.Module:
    """Return a transformer for digits of 8 x 8, made here: nothing is downloaded."""
    model: torch.nn.Module = ViTForImageClassification(
        ViTConfig(
            image_size=8, patch_size=2, num_channels=1, hidden_size=32, num_hidden_layers=2,
            num_attention_heads=4, intermediate_size=64, num_labels=10, hidden_dropout_prob=0.0,
        )
    )  # fmt: skip
    return model


class Digits(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    """Samples as Trainer wants them."""

    def __init__(self, pixels: torch.Tensor, labels: torch.Tensor) -> None:
        self.pixels, self.labels = pixels, labels

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, place: int) -> dict[str, torch.Tensor]:
        return {"pixel_values": self.pixels[place], "labels": self.labels[place]}


def Ward(name: str) -> securefl.TorchSite:
    """Return the site of one ward: every third digit. The first fifty are kept for tests."""
    own = slice(int(name.removeprefix("p")), None, WARDS)
    pixels, digits = load_digits(return_X_y=True)
    x = torch.tensor(pixels[own].reshape(-1, 1, 8, 8) / 16, dtype=torch.float32)
    y = torch.tensor(digits[own])

    def train(model: torch.nn.Module, context: securefl.RoundContext) -> dict[str, float]:
        with tempfile.TemporaryDirectory() as folder:
            settings = TrainingArguments(
                output_dir=folder, num_train_epochs=2, per_device_train_batch_size=16, learning_rate=0.003,
                lr_scheduler_type="constant", seed=context.seed % 2**32, use_cpu=True, save_strategy="no",
                logging_strategy="no", report_to="none", disable_tqdm=True,
            )  # fmt: skip
            # Made anew, so that AdamW's moments begin anew each round. To let them go on, make one optimiser
            # beside the model and give each Trainer optimizers=(optimiser, None).
            trainer = Trainer(model, settings, train_dataset=Digits(x[50:], y[50:]))
            trainer.remove_callback(PrinterCallback)
            return {"loss": trainer.train().training_loss}

    def evaluate(model: torch.nn.Module) -> tuple[int, dict[str, object]]:
        return 50, {"kept": securefl.confusion(y[:50], model(x[:50]).logits.argmax(1), 10)}

    return securefl.TorchSite(reader(), train=train, evaluate=evaluate, samples=len(y) - 50)
