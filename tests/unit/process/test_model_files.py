"""Which models lie where while a run goes on: of rounds at the server, the last one heard at a party."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from securefl.base.arrays import F32
from securefl.base.errors import RunAbortedError
from securefl.base.ids import SERVER
from securefl.protocol.kernel.events import Place
from securefl.protocol.messages.control import RollCall
from securefl.protocol.messages.rounds import ModelAnnounce
from securefl.protocol.round.shared.reports import (
    ClaimRefused,
    LinkFollowed,
    ModelFinal,
    ModelStepped,
    RoundDone,
)
from securefl.protocol.wire.inbox import Delivery
from securefl.runtime.process.model_files import HeardModel, RoundModels
from securefl.training.models.checkpoint import keep_model, load_model
from tests.simulation.world import scenario

MODULE = torch.nn.Linear(2, 1)
LENGTH = 3


def params(value: float, count: int = 1) -> F32:
    return np.concatenate([np.full(LENGTH, value + 100 * n, np.float32) for n in range(count)])


def value_in(path: Path) -> float:
    return float(load_model(path)["bias"][0])


class Server:
    """A server that makes models as its machine says, and has them kept."""

    def __init__(self, folder: Path, keep: int | None, count: int = 1) -> None:
        self.folder, self.count = folder, count
        self.last = folder / "model.safetensors"
        self.files = RoundModels(self.last, MODULE, keep, count)

    def round(self, number: int, norm: float | None = 1.0, value: float | None = None) -> None:
        self.files.report(ModelStepped(number, (), (), norm))
        keep_model(self.last, MODULE, params(float(number) if value is None else value, self.count))
        self.files.report(RoundDone(number, None, None, (), (), (), (), (), ()))

    def names(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "models").glob("*"))


def test_by_default_no_round_keeps_its_model(tmp_path: Path) -> None:
    server = Server(tmp_path, 0)
    server.round(0)
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]


@pytest.mark.parametrize(("keep", "rounds"), [(None, [0, 1, 2, 3]), (2, [2, 3]), (1, [3]), (9, [0, 1, 2, 3])])
def test_so_many_rounds_keep_theirs(keep: int | None, rounds: list[int], tmp_path: Path) -> None:
    server = Server(tmp_path, keep)
    for number in range(4):
        server.round(number)
    assert server.names() == [f"round-{number:04d}.safetensors" for number in rounds]
    for number in rounds:
        assert value_in(tmp_path / "models" / f"round-{number:04d}.safetensors") == number


def test_a_round_that_made_no_model_has_none(tmp_path: Path) -> None:
    server = Server(tmp_path, 2)
    server.round(0)
    server.round(1, norm=None, value=0.0)
    server.round(2)
    assert server.names() == ["round-0000.safetensors", "round-0002.safetensors"]


def test_models_of_task_groups_lie_side_by_side_and_leave_together(tmp_path: Path) -> None:
    server = Server(tmp_path, 1, count=2)
    server.round(0)
    server.round(1)
    assert server.names() == ["round-0001-1.safetensors", "round-0001.safetensors"]
    assert value_in(tmp_path / "models" / "round-0001-1.safetensors") == 101


def test_rounds_are_in_order_beyond_four_digits(tmp_path: Path) -> None:
    server = Server(tmp_path, 2)
    for number in (9_999, 10_000, 10_001):
        server.round(number)
    assert server.names() == ["round-10000.safetensors", "round-10001.safetensors"]


def test_a_void_step_leaves_no_model_neither_of_its_round_nor_as_the_last_one(tmp_path: Path) -> None:
    server = Server(tmp_path, None)
    server.round(0)
    server.round(1)
    server.files.report(ClaimRefused(1, "nobody attests it"))
    assert server.names() == ["round-0000.safetensors"]
    assert value_in(server.last) == 1
    server.files.report(ModelFinal(1, params(0.0)))
    assert value_in(server.last) == 0


def test_without_a_refusal_the_last_file_is_not_written_again(tmp_path: Path) -> None:
    server = Server(tmp_path, 0)
    server.files.report(ModelFinal(0, params(0.0)))
    assert not server.last.exists(), "no round has ended"
    server.round(0)
    before = server.last.stat()
    server.files.report(ModelFinal(0, params(0.0)))
    assert server.last.stat() == before


def test_where_files_have_one_name_only_it_is_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    server = Server(tmp_path, None)
    server.round(0)
    assert value_in(tmp_path / "models" / "round-0000.safetensors") == 0
    assert (tmp_path / "models" / "round-0000.safetensors").stat().st_nlink == 1


def test_a_folder_that_cannot_be_made_ends_the_run(tmp_path: Path) -> None:
    (tmp_path / "models").write_text("mine")
    with pytest.raises(RunAbortedError, match="models: cannot be written"):
        Server(tmp_path, 1).round(0)
    assert (tmp_path / "models").read_text() == "mine"


def announced(round_: int, value: float) -> Delivery:
    message = ModelAnnounce(params=params(value).astype("<f4").tobytes())
    return Delivery(SERVER, Place(round_), message, b"")


def heard(folder: Path, **changes: str) -> tuple[HeardModel, Path]:
    path = folder / "north.last.safetensors"
    return HeardModel(path, MODULE, scenario(6, **changes)), path


def test_a_party_keeps_the_last_model_that_it_was_sent(tmp_path: Path) -> None:
    model, path = heard(tmp_path)
    model.record_received(announced(0, 7.0))
    model.record_received(Delivery(SERVER, Place(0), RollCall(), b""))
    assert not path.exists(), "what everybody begins with is no model that anybody trained"
    for round_ in (1, 2):
        model.record_received(announced(round_, float(round_)))
        assert value_in(path) == round_


def test_where_rounds_are_verified_a_party_waits_for_the_chain(tmp_path: Path) -> None:
    verified: dict[str, Any] = {
        "server": "active",
        "size": "6",
        "threshold": "4",
        "min_survivors": "5",
        "secure_sum__verify": "committee",
    }
    model, path = heard(tmp_path, **verified)
    model.record_received(announced(1, 1.0))
    assert not path.exists(), "the server may have made it up"
    model.report(LinkFollowed(0, b""))
    assert value_in(path) == 1
    model.record_received(announced(2, 2.0))
    assert value_in(path) == 1
