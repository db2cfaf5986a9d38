"""Models that a scenario can name.

They map samples f32 ``(batch, *input_shape)`` to class scores ``(batch, classes)``, and the tokens of a text,
i64 ``(batch, length)``, to scores of the next token at each position, ``(batch, classes, length)``.
"""

import torch
from torch import nn

from securefl.base.errors import ConfigError
from securefl.scenario import Model, Scenario
from securefl.training.models.controls import add_controls
from securefl.training.models.flatten import check_averageable
from securefl.training.models.generators import seeded_generators


def build_model(
    config: Model, input_shape: tuple[int, ...], classes: int, seed: int, *, tokens: bool = False
) -> nn.Module:
    """Return the model of ``config`` on the CPU, with parameters drawn from ``seed`` (torch's defaults).

    ``input_shape`` is that of one sample; a CNN takes (height, width) or (channels, height, width).
    ``tokens`` is True for text. Equal arguments give equal parameters; torch's global generator is restored.

    Raises:
        ConfigError: the model does not fit the data, or the custom factory fails or returns something else.
    """
    if config.reads not in {"text" if tokens else "numbers", "both"}:
        kind = config.name
        raise ConfigError(
            "model.type",
            f"{kind} needs one label per sample, and the data is text with one per character"
            if tokens
            else f"lstm needs text, and the data has samples {input_shape} of numbers",
            "use lstm" if tokens else "use softmax, mlp or cnn",
        )
    where, source = _place(config)
    with seeded_generators(seed):
        try:
            model = config.build(input_shape, classes)
        except ConfigError:
            raise
        except Exception as error:  # any exception of a user's model
            raise ConfigError(
                where,
                f"{source}({input_shape}, {classes}) raised {type(error).__name__}: {error}",
                "let it take the shape of a sample and the number of classes",
            ) from error
        if not isinstance(model, nn.Module):
            raise ConfigError(
                where,
                f"{source} returned {type(model).__name__}, expected a torch.nn.Module",
                "return a module",
            )
        if config.is_own:
            samples = torch.zeros(2, *input_shape, dtype=torch.int64 if tokens else torch.float32)
            _check_scores(model, config, samples, (2, classes, *input_shape) if tokens else (2, classes))
            check_averageable(model)
        return model


def model_of(
    scenario: Scenario, input_shape: tuple[int, ...], classes: int, seed: int, *, tokens: bool = False
) -> nn.Module:
    """Return the model of :func:`build_model`, with control variates if the scenario's local method has them.

    Raises:
        ConfigError: as for :func:`build_model`.
    """
    module = build_model(scenario.model, input_shape, classes, seed, tokens=tokens)
    if scenario.training.method.controls:
        add_controls(module)
    return module


def _place(config: Model) -> tuple[str, str]:
    """Return field and value of a user's model."""
    factory = getattr(config, "factory", None)
    return ("model.type", config.name) if factory is None else ("model.factory", factory)


def _check_scores(model: nn.Module, config: Model, samples: torch.Tensor, expected: tuple[int, ...]) -> None:
    """Check the scores of two samples; lazy layers then create their parameters."""
    where, source = _place(config)
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            scores = model(samples)
    except Exception as error:
        raise ConfigError(
            where,
            f"the model of {source} failed on two samples {tuple(samples.shape[1:])}: {error}",
            "make it accept a batch of two samples",
        ) from error
    model.train(was_training)
    if not isinstance(scores, torch.Tensor) or scores.shape != expected:
        shape = tuple(scores.shape) if isinstance(scores, torch.Tensor) else type(scores).__name__
        raise ConfigError(
            where,
            f"the model of {source} returned {shape} for 2 samples, expected {expected}",
            "return one row of scores per sample",
        )
