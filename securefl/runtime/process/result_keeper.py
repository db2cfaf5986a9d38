"""Results on disk as soon as the machine tells them: the best model, or the statistics."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from securefl.base import files
from securefl.methods import metrics
from securefl.protocol import wire
from securefl.protocol.round import AnyReport, ModelKept, RoundDone
from securefl.runtime import transcript
from securefl.runtime.process import model_files
from securefl.runtime.process.ports import Witness
from securefl.scenario import Scenario
from securefl.training.models import keep_model

STATISTICS = "statistics.json"


class ResultKeeper:
    """A :class:`securefl.runtime.process.ports.Witness` that writes results besides.

    Args:
        witness: is told everything.
        path: of the best model; statistics lie beside it.
        module: the model, whose parameters are overwritten.
        scenario: of the run.
        models: of rounds, or the last one heard.
    """

    def __init__(
        self,
        witness: Witness,
        path: Path,
        module: torch.nn.Module,
        scenario: Scenario,
        models: model_files.RoundModels | model_files.HeardModel | None = None,
    ) -> None:
        self._witness = witness
        self._models = models
        self._path = path
        self._module = module
        self._scenario = scenario
        self.refused = witness.refused
        self.sent = witness.sent
        self.waits = witness.waits
        self.remark = witness.remark
        self.traffic = witness.traffic

    def report(self, now: float, item: AnyReport) -> None:
        """Take a fact that the machine reports.

        Raises:
            RunAbortedError: the file cannot be written.
        """
        keep_result(item, self._path, self._module, self._scenario)
        if self._models is not None:
            self._models.report(item)
        self._witness.report(now, item)

    def received(self, now: float, delivery: wire.Delivery, *, idle: bool = False) -> None:
        """Take a message that came in.

        Raises:
            RunAbortedError: the file cannot be written.
        """
        if isinstance(self._models, model_files.HeardModel) and not idle:
            self._models.received(delivery)
        self._witness.received(now, delivery, idle=idle)


def keep_result(item: AnyReport, path: Path, module: torch.nn.Module, scenario: Scenario) -> None:
    """Write what ``item`` tells, if it is a result; arguments as of :class:`ResultKeeper`.

    Raises:
        RunAbortedError: the file cannot be written.
    """
    if isinstance(item, ModelKept):
        keep_model(path, module, item.params)
    elif isinstance(item, RoundDone) and scenario.model.by_columns and item.metrics:
        found = metrics.Statistics.of(scenario.evaluation, item.metrics).to_json()
        file = path.with_name(STATISTICS)
        with transcript.writing(file):
            files.write_whole(file, (json.dumps(found, indent=1) + "\n").encode())
