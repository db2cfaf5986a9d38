"""The models that a scenario can name.

They turn samples f32 ``(batch, *input_shape)`` into class scores ``(batch, classes)``, and the tokens of a
text, i64 ``(batch, length)``, into scores of the next one at each position, ``(batch, classes, length)``.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import assert_never

import torch
from torch import nn

from securefl.base.errors import ConfigError
from securefl.scenario import Cnn, CustomModel, GroupNormCnn, Lstm, Mlp, Model, ResidualCnn, Softmax
from securefl.training.models.convolutions import convolutional
from securefl.training.models.flatten import check_averageable
from securefl.training.models.layers import dense


class NextCharacter(nn.Module):
    """Tokens i64 ``(batch, length)`` to the scores of the next one at each position.

    The dense layer is the same at every position, and each sequence begins with a state of zeros. SHARE
    (section 6.2) has two LSTM layers, as McMahan et al. 2017 (section 3), whose layers have 256 units.
    """

    def __init__(self, config: Lstm, classes: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(classes, config.embedding)
        self.lstm = nn.LSTM(config.embedding, config.hidden, config.layers, batch_first=True)
        self.dense = nn.Linear(config.hidden, classes)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Scores ``(batch, classes, length)``: classes second, as losses of torch expect them."""
        states, _ = self.lstm(self.embedding(tokens))
        scores: torch.Tensor = self.dense(states)
        return scores.transpose(1, 2)


def build_model(
    config: Model, input_shape: tuple[int, ...], classes: int, seed: int, *, tokens: bool = False
) -> nn.Module:
    """The model of ``config``, on the CPU, its parameters drawn by ``seed`` (torch's default distributions).

    ``input_shape`` is one sample's; a CNN takes (height, width) or (channels, height, width). ``tokens``
    says that samples are text. The same arguments give the same parameters, and torch's global generator is
    left as it was.

    Raises:
        ConfigError: the model does not fit the data, or the custom factory fails or returns something else.
    """
    if tokens != isinstance(config, Lstm) and not isinstance(config, CustomModel):
        kind = config.__struct_config__.tag
        raise ConfigError(
            "model.type",
            f"{kind} has one label per sample, the data is text with one per character"
            if tokens
            else f"lstm reads text, the data has samples {input_shape} of numbers",
            "lstm" if tokens else "softmax, mlp or cnn",
        )
    with seeded(seed):
        match config:
            case Lstm():
                return NextCharacter(config, classes)
            case Softmax():
                return nn.Sequential(nn.Flatten(), *dense((math.prod(input_shape), classes), "relu"))
            case Mlp(hidden=hidden, activation=activation, dropout=dropout):
                widths = (math.prod(input_shape), *hidden, classes)
                return nn.Sequential(nn.Flatten(), *dense(widths, activation, dropout))
            case Cnn() | GroupNormCnn() | ResidualCnn():
                return convolutional(config, input_shape, classes)
            case CustomModel(factory=factory):
                return _custom(factory, input_shape, classes, tokens)
            case _:
                assert_never(config)


@contextmanager
def seeded(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """Run the body with torch's default generator seeded, then restore it; that of a GPU ``device`` too."""
    gpus = [device] if device is not None and device.type == "cuda" else []
    with torch.random.fork_rng(devices=gpus):
        # torch.manual_seed would also seed GPUs whose state is not restored afterwards.
        torch.default_generator.manual_seed(seed)
        if gpus:
            torch.cuda.manual_seed(seed)
        yield


def _custom(factory: str, input_shape: tuple[int, ...], classes: int, tokens: bool) -> nn.Module:
    where = "model.factory"
    module_name, function_name = factory.split(":")
    try:
        function = getattr(importlib.import_module(module_name), function_name)
    except AttributeError as error:
        raise ConfigError(
            where, f"module {module_name} has no {function_name}", "name a function that it has"
        ) from error
    except Exception as error:  # whatever the user's module raises while it is imported
        raise ConfigError(
            where,
            f"importing {module_name} failed: {type(error).__name__}: {error}",
            "it must be importable by every party: install it or set PYTHONPATH",
        ) from error
    try:
        model = function(input_shape, classes)
    except Exception as error:
        raise ConfigError(
            where,
            f"{factory}({input_shape}, {classes}) raised {type(error).__name__}: {error}",
            "it is called with the shape of one sample and the number of classes",
        ) from error
    if not isinstance(model, nn.Module):
        raise ConfigError(where, f"{factory} returned {type(model).__name__}, expected a torch.nn.Module")
    samples = torch.zeros(2, *input_shape, dtype=torch.int64 if tokens else torch.float32)
    _check_scores(model, factory, samples, (2, classes, *input_shape) if tokens else (2, classes))
    check_averageable(model)
    return model


def _check_scores(model: nn.Module, factory: str, samples: torch.Tensor, expected: tuple[int, ...]) -> None:
    """Two samples through the model; also makes lazy layers create their parameters."""
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            scores = model(samples)
    except Exception as error:
        raise ConfigError(
            "model.factory",
            f"the model of {factory} fails on two samples {tuple(samples.shape[1:])}: {error}",
        ) from error
    model.train(was_training)
    if not isinstance(scores, torch.Tensor) or scores.shape != expected:
        shape = tuple(scores.shape) if isinstance(scores, torch.Tensor) else type(scores).__name__
        raise ConfigError(
            "model.factory", f"the model of {factory} turns 2 samples into {shape}, expected {expected}"
        )
