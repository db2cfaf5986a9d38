from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from securefl.base.arrays import F32
from securefl.base.errors import ConfigError, UsageError
from securefl.training.models.catalogue import build_model
from securefl.training.models.checkpoint import load_model, save_model
from securefl.training.models.flatten import frozen_digest, to_vector
from securefl.training.models.parts.custom import CustomModel
from securefl.training.models.parts.mlp import Mlp

MODULE = build_model(Mlp(hidden=(12,)), (3,), 2, seed=1)
PARAMS = np.arange(3 * 12 + 12 + 12 * 2 + 2, dtype=np.float32)


def flat(path: Path) -> F32:
    named = load_model(path)
    return np.concatenate([named[name].reshape(-1) for name, _ in MODULE.named_parameters()])


def test_round_trip_keeps_names_shapes_and_order(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_model(path, MODULE, PARAMS)
    named = load_model(path)
    assert {name: array.shape for name, array in named.items()} == {
        "1.weight": (12, 3),
        "1.bias": (12,),
        "3.weight": (2, 12),
        "3.bias": (2,),
    }
    np.testing.assert_array_equal(named["1.bias"], np.arange(36, 48))
    np.testing.assert_array_equal(flat(path), PARAMS)
    assert not np.array_equal(to_vector(MODULE), PARAMS)


def test_other_readers_understand_the_file(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_model(path, MODULE, PARAMS)
    np.testing.assert_array_equal(load_file(path)["3.bias"], PARAMS[-2:])


def test_an_old_model_is_replaced_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_model(path, MODULE, PARAMS)
    save_model(path, MODULE, PARAMS + 1)
    np.testing.assert_array_equal(flat(path), PARAMS + 1)
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.safetensors"]


def test_a_failed_write_leaves_the_old_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.safetensors"
    save_model(path, MODULE, PARAMS)

    def full_disk(_self: Path, _target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full_disk)
    with pytest.raises(ConfigError, match="No space left"):
        save_model(path, MODULE, PARAMS + 1)
    np.testing.assert_array_equal(flat(path), PARAMS)
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.safetensors"]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written"):
        save_model(tmp_path / "nowhere" / "model.safetensors", MODULE, PARAMS)


def test_params_that_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        save_model(tmp_path / "model.safetensors", MODULE, PARAMS[1:])
    assert not list(tmp_path.iterdir())


def test_a_model_is_saved_whole_with_what_is_frozen(tmp_path: Path) -> None:
    factory = "tests.unit.training.factories:with_frozen_backbone"
    module = build_model(CustomModel(factory=factory), (4,), 3, seed=1)
    params = np.arange(97 * 3, dtype=np.float32)
    save_model(tmp_path / "model.safetensors", module, params)
    named = load_model(tmp_path / "model.safetensors")
    assert {name: array.shape for name, array in named.items()} == {
        name: tuple(weight.shape) for name, weight in module.named_parameters()
    }
    np.testing.assert_array_equal(named["0.1.weight"], module.get_parameter("0.1.weight").detach().numpy())
    np.testing.assert_array_equal(named["1.bias"], params[-3:])
    again = build_model(CustomModel(factory=factory), (4,), 3, seed=2)
    again.load_state_dict({name: torch.from_numpy(array) for name, array in named.items()})
    assert frozen_digest(again) == frozen_digest(module)


def test_bad_files(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    with pytest.raises(ConfigError, match="cannot be read"):
        load_model(path)
    save_model(path, MODULE, PARAMS)
    whole = path.read_bytes()
    for content in (b"", b"text", whole[:-1], whole[:20], whole + b"x", b"\xff" * 8 + whole[8:]):
        path.write_bytes(content)
        with pytest.raises(ConfigError, match="not a safetensors file"):
            load_model(path)
    save_file({"a": np.zeros(2)}, path)
    with pytest.raises(ConfigError, match="float64") as caught:
        load_model(path)
    assert caught.value.path == f"{path}[a]"
