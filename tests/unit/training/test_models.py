from __future__ import annotations

import math
import re

import numpy as np
import pytest
import torch
from torch import nn

from securefl.base.errors import ConfigError
from securefl.scenario.load import parse_scenario
from securefl.scenario.model import Model
from securefl.training.models.catalogue import build_model
from securefl.training.models.flatten import dimension, to_vector
from securefl.training.models.generators import seed_torch
from securefl.training.models.parts.cnn import Cnn
from securefl.training.models.parts.custom import CustomModel
from securefl.training.models.parts.lstm import Lstm
from securefl.training.models.parts.mlp import Mlp
from securefl.training.models.parts.softmax import Softmax
from tests.looped import looped

FACTORIES = "tests.unit.training.factories"


def custom(name: str) -> CustomModel:
    return CustomModel(factory=f"{FACTORIES}:{name}")


@looped(
    "config, input_shape, parameters",
    [
        (Softmax(), (1, 8, 8), 64 * 10 + 10),
        (Softmax(), (3,), 3 * 10 + 10),
        (Mlp(hidden=(32,)), (1, 28, 28), 784 * 32 + 32 + 32 * 10 + 10),
        (Mlp(hidden=(5, 4)), (7,), 7 * 5 + 5 + 5 * 4 + 4 + 4 * 10 + 10),
        (Mlp(hidden=()), (7,), 7 * 10 + 10),
        (Cnn(), (1, 8, 8), 26 * 16 + (16 * 25 + 1) * 32 + (32 * 4 + 1) * 64 + 650),
        (Cnn(), (8, 8), 26 * 16 + (16 * 25 + 1) * 32 + (32 * 4 + 1) * 64 + 650),
        (Cnn(channels=(2, 3), dense=5), (3, 32, 32), (3 * 25 + 1) * 2 + (2 * 25 + 1) * 3 + 193 * 5 + 60),
        # SHARE's and McMahan's on CIFAR-10: two poolings leave 8x8 of 32x32 pixels.
        (
            Cnn(channels=(32, 64), dense=512),
            (3, 32, 32),
            76 * 32 + 801 * 64 + (64 * 64 + 1) * 512 + 513 * 10,
        ),
        (Cnn(channels=(2, 3), dense=5), (4, 7), 26 * 2 + (2 * 25 + 1) * 3 + (3 + 1) * 5 + 60),
        (custom("good"), (2, 2), 50),
        (custom("with_group_norm"), (2, 2), 58),
    ],
)
def test_shapes_and_sizes(config: Model, input_shape: tuple[int, ...], parameters: int) -> None:
    model = build_model(config, input_shape, 10, seed=1)
    assert dimension(model) == parameters
    for batch in (1, 6):
        scores = model(torch.zeros(batch, *input_shape))
        assert scores.shape == (batch, 10)
        assert scores.dtype == torch.float32


@pytest.mark.parametrize("layers", [1, 2])
def test_an_lstm_scores_the_next_token_at_every_position(layers: int) -> None:
    config = Lstm(embedding=3, hidden=5, layers=layers)
    model = build_model(config, (7,), 4, seed=1, tokens=True)
    gates = 4 * 5 * (3 + 5 + 2) + (layers - 1) * 4 * 5 * (5 + 5 + 2)
    assert dimension(model) == 4 * 3 + gates + (5 + 1) * 4
    tokens = torch.arange(14).reshape(2, 7) % 4
    scores = model(tokens)
    assert scores.shape == (2, 4, 7)
    # A score depends on the tokens up to its position and on no later one.
    changed = tokens.clone()
    changed[:, 3] = (changed[:, 3] + 1) % 4
    moved = (model(changed) - scores).abs().amax(dim=(0, 1)) > 1e-6
    assert moved.tolist() == [False] * 3 + [True] * 4
    again = build_model(config, (7,), 4, seed=1, tokens=True)
    assert np.array_equal(to_vector(model), to_vector(again))


@pytest.mark.parametrize("config", [Softmax(), Mlp(), Cnn()])
def test_models_of_samples_refuse_text_and_the_other_way_round(config: Model) -> None:
    with pytest.raises(ConfigError, match="needs one label per sample, and the data is text") as caught:
        build_model(config, (8,), 10, seed=1, tokens=True)
    assert (caught.value.path, caught.value.remedy) == ("model.type", "use lstm")
    with pytest.raises(ConfigError, match="lstm needs text, and the data has samples") as caught:
        build_model(Lstm(), (1, 8, 8), 10, seed=1)
    assert caught.value.path == "model.type"


def test_an_own_model_may_read_text() -> None:
    model = build_model(custom("for_text"), (7,), 4, seed=1, tokens=True)
    assert model(torch.zeros(3, 7, dtype=torch.int64)).shape == (3, 4, 7)
    with pytest.raises(ConfigError, match=r"returned \(2, 7, 4\) for 2 samples, expected \(2, 4, 7\)"):
        build_model(custom("for_text_transposed"), (7,), 4, seed=1, tokens=True)


@pytest.mark.parametrize("config", [Softmax(), Mlp(), Cnn(), custom("good")])
def test_the_seed_decides_and_global_state_is_left_alone(config: Model) -> None:
    torch.manual_seed(123)
    before = torch.get_rng_state()
    first = to_vector(build_model(config, (8, 8), 10, seed=2**64 - 1))
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(456)
    assert np.array_equal(first, to_vector(build_model(config, (8, 8), 10, seed=2**64 - 1)))
    assert not np.array_equal(first, to_vector(build_model(config, (8, 8), 10, seed=0)))


def test_seeded_restores_after_an_error() -> None:
    before = torch.get_rng_state()

    def draw_and_fail() -> None:
        with seed_torch(1):
            torch.rand(1)
            raise LookupError

    with pytest.raises(LookupError):
        draw_and_fail()
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("input_shape", [(64,), (3, 8), (1, 2, 8), (1, 1, 8, 8)])
def test_cnn_needs_images(input_shape: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="images of at least 4x4") as caught:
        build_model(Cnn(), input_shape, 10, seed=1)
    assert (caught.value.path, caught.value.remedy) == ("model.type", "use mlp")


@pytest.mark.parametrize("channels", [(), (8,), (8, 8, 8)])
def test_cnn_needs_two_channel_counts(channels: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="two numbers") as caught:
        build_model(Cnn(channels=channels), (8, 8), 10, seed=1)
    assert caught.value.path == "model.channels"


@pytest.mark.parametrize(
    ("factory", "reason"),
    [
        ("no.such.module:f", "no.such.module cannot be imported: ModuleNotFoundError: No module"),
        (f"{FACTORIES}:absent", "has no absent"),
        (f"{FACTORIES}:not_callable", "TypeError"),
        (f"{FACTORIES}:takes_nothing", "TypeError"),
        (f"{FACTORIES}:raises", "KeyError: 'no model for (2, 2) and 3'"),
        (f"{FACTORIES}:returns_text", "returned str, expected a torch.nn.Module"),
        (
            f"{FACTORIES}:with_wrong_classes",
            "the model of tests.unit.training.factories:with_wrong_classes returned",
        ),
        (f"{FACTORIES}:with_wrong_input", "failed on two samples (2, 2)"),
    ],
)
def test_bad_factories(factory: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(reason)) as caught:
        build_model(CustomModel(factory=factory), (2, 2), 3, seed=1)
    assert caught.value.path == "model.factory"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("with_batch_norm", "1.running_mean"),
        ("in_double_precision", "torch.float64"),
        ("without_parameters", "has no parameters"),
        ("all_frozen", "has no trainable parameter"),
    ],
)
def test_models_that_cannot_be_averaged(name: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        build_model(custom(name), (2, 2), 3, seed=1)
    assert caught.value.path == "model"


def test_batch_norm_is_told_the_remedy() -> None:
    with pytest.raises(ConfigError, match="GroupNorm"):
        build_model(custom("with_batch_norm"), (2, 2), 3, seed=1)


def test_a_custom_model_stays_in_training_mode() -> None:
    assert build_model(custom("with_dropout"), (2, 2), 3, seed=1).training


class Wide(Model, frozen=True, kw_only=True):
    """A model of one's own, with a field; ``how`` spoils it."""

    width: int = 7
    how: str = ""

    def build(self, input_shape: tuple[int, ...], classes: int) -> object:
        inputs = math.prod(input_shape)
        match self.how:
            case "raises":
                raise RuntimeError("no such width")
            case "nothing":
                return None
            case "scores":
                return nn.Sequential(nn.Flatten(), nn.Linear(inputs, classes + 1))
            case "norm":
                return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(inputs), nn.Linear(inputs, classes))
            case _:
                return nn.Sequential(
                    nn.Flatten(), nn.Linear(inputs, self.width), nn.Linear(self.width, classes)
                )


def test_a_model_of_ones_own_is_a_class_with_fields() -> None:
    model = Wide(width=3)
    assert (model.name, model.is_own, model.draws) == ("tests.unit.training.test_models:Wide", True, True)
    assert dimension(build_model(model, (2, 2), 5, 0)) == 4 * 3 + 3 + 3 * 5 + 5
    type_ = "tests.unit.training.test_models:Wide"
    same = parse_scenario(f'name = "a"\nparties = 3\nmodel = {{ type = "{type_}", width = 3 }}')
    assert same.model == model


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("raises", r"Wide\(\(2, 2\), 5\) raised RuntimeError: no such width"),
        ("nothing", r"Wide returned NoneType, expected a torch\.nn\.Module"),
        ("scores", r"Wide returned \(2, 6\) for 2 samples, expected \(2, 5\)"),
    ],
)
def test_a_model_of_ones_own_is_checked(how: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=rf"^model\.type: .*{reason}"):
        build_model(Wide(how=how), (2, 2), 5, 0)


def test_a_model_of_ones_own_has_no_running_statistics() -> None:
    with pytest.raises(ConfigError, match="floating-point state"):
        build_model(Wide(how="norm"), (2, 2), 5, 0)
