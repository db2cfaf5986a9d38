"""Model files of a run in progress. RunAbortedError: a write failed."""

import json
import os
import re
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

import numpy as np
import torch

from securefl.base import files
from securefl.base.arrays import F32
from securefl.methods import metrics
from securefl.protocol import messages, wire
from securefl.protocol.round import (
    AnyReport,
    ClaimRefused,
    LinkFollowed,
    ModelFinal,
    ModelKept,
    ModelStepped,
    RoundDone,
)
from securefl.runtime import transcript
from securefl.runtime.process.ports import Witness
from securefl.scenario import Scenario
from securefl.training import models
from securefl.training.models import keep_model

ROUND_MODELS: Final = "models"
_NAME: Final = re.compile(r"round-(\d+)(?:-\d+)?\.safetensors")


class RoundModels:
    """Models of a server's single rounds, as links to files written anyway.

    A round without a model, or with a refused step, has no file. The file ``last`` is replaced by renaming
    before a round is done. The latest ``keep`` rounds stay, None for all. A round has ``count`` models (task
    groups).
    """

    def __init__(self, last: Path, module: torch.nn.Module, keep: int | None, count: int) -> None:
        self._last = last
        self._module = module
        self._keep = keep
        self._count = count
        self._folder = last.with_name(ROUND_MODELS)
        self._made = self._refused = False

    def report(self, item: AnyReport) -> None:
        """Handle a report of the server's machine."""
        match item:
            case ModelStepped(update_norm=norm):
                self._made = norm is not None
            case RoundDone(round=round_) if self._made:
                self._refused = False
                if self._keep != 0:
                    self._add(round_)
            case ClaimRefused(round=round_):
                self._refused = True
                self._take_away(path for number, path in self._there() if number == round_)
            case ModelFinal(params=params) if self._refused and self._last.exists():
                # The last file is the result of a void step.
                models.keep_model(self._last, self._module, params)

    def _add(self, round_: int) -> None:
        with transcript.writing(self._folder):
            self._folder.mkdir(exist_ok=True)
            for number in range(self._count):
                _name_again(
                    models.model_path(self._last, number), models.model_path(self._path(round_), number)
                )
        if self._keep is not None:
            there = self._there()
            stay = sorted({number for number, _ in there})[-self._keep :]
            self._take_away(path for number, path in there if number not in stay)

    def _path(self, round_: int) -> Path:
        return self._folder / f"round-{round_:04d}.safetensors"

    def _there(self) -> list[tuple[int, Path]]:
        if not self._folder.is_dir():
            return []
        found = ((_NAME.fullmatch(path.name), path) for path in self._folder.iterdir())
        return [(int(name[1]), path) for name, path in found if name is not None]

    def _take_away(self, paths: Iterable[Path]) -> None:
        for path in paths:
            with suppress(OSError):
                path.unlink()


def _name_again(path: Path, other: Path) -> None:
    partial = other.with_name(f".{other.name}.part")
    partial.unlink(missing_ok=True)
    try:
        os.link(path, partial)
    except OSError:
        shutil.copyfile(path, partial)
    partial.replace(other)


class HeardModel:
    """Last model that a party received, the result of the round before the announced one.

    It is written once final: if rounds are verified, when its link of the chain is confirmed. Only frozen
    parameters of ``module`` are read, since training may be in progress.
    """

    def __init__(self, path: Path, module: torch.nn.Module, scenario: Scenario) -> None:
        self._path = path
        self._module = module
        self._verified = scenario.secure_sum.verified
        self._asked = not scenario.model.by_columns
        self._waiting: F32 | None = None

    def record_received(self, delivery: wire.Delivery) -> None:
        """Handle a message that the party's machine accepted."""
        if not (
            self._asked and isinstance(delivery.message, messages.ModelAnnounce) and delivery.place.round > 0
        ):
            return
        params = np.frombuffer(delivery.message.params, dtype="<f4").astype(np.float32, copy=False)
        if self._verified:
            self._waiting = params
        else:
            models.keep_model(self._path, self._module, params)

    def report(self, item: AnyReport) -> None:
        """Handle a report of the party's machine."""
        if isinstance(item, LinkFollowed) and self._waiting is not None:
            models.keep_model(self._path, self._module, self._waiting)
            self._waiting = None


STATISTICS = "statistics.json"


class ResultKeeper:
    """:class:`securefl.runtime.process.ports.Witness` that also writes results.

    The best model goes to ``path``, statistics beside it. Parameters of ``module`` are overwritten.
    """

    def __init__(
        self,
        witness: Witness,
        path: Path,
        module: torch.nn.Module,
        scenario: Scenario,
        models: RoundModels | HeardModel | None = None,
    ) -> None:
        self._witness = witness
        self._models = models
        self._path = path
        self._module = module
        self._scenario = scenario
        self.record_refusal = witness.record_refusal
        self.record_sent = witness.record_sent
        self.record_gone = witness.record_gone
        self.waits = witness.waits
        self.remark = witness.remark
        self.traffic = witness.traffic

    def report(self, now: float, item: AnyReport) -> None:
        """Write results, then pass the report on."""
        keep_result(item, self._path, self._module, self._scenario)
        if self._models is not None:
            self._models.report(item)
        self._witness.report(now, item)

    def record_received(self, now: float, delivery: wire.Delivery, *, idle: bool = False) -> None:
        """Write results, then pass the message on."""
        if isinstance(self._models, HeardModel) and not idle:
            self._models.record_received(delivery)
        self._witness.record_received(now, delivery, idle=idle)


def keep_result(item: AnyReport, path: Path, module: torch.nn.Module, scenario: Scenario) -> None:
    """Write ``item`` if it is a result; arguments as for :class:`ResultKeeper`."""
    if isinstance(item, ModelKept):
        keep_model(path, module, item.params)
    elif isinstance(item, RoundDone) and scenario.model.by_columns and item.metrics:
        found = metrics.Statistics.of(scenario.evaluation, item.metrics).to_json()
        file = path.with_name(STATISTICS)
        with transcript.writing(file):
            files.write_whole(file, (json.dumps(found, indent=1) + "\n").encode())
