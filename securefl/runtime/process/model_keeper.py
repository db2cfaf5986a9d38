"""A process's copy of the best model, written once its machine says which one that is."""

from __future__ import annotations

from pathlib import Path

import torch

from securefl.protocol.round import AnyReport, ModelKept
from securefl.runtime.process.ports import Witness
from securefl.training.models import keep_model


class ModelKeeper:
    """A :class:`securefl.runtime.process.ports.Witness` that writes the best model besides.

    Args:
        witness: is told everything.
        path: of the file.
        module: the model, whose parameters are overwritten.
    """

    def __init__(self, witness: Witness, path: Path, module: torch.nn.Module) -> None:
        self._witness = witness
        self._path = path
        self._module = module
        self.refused = witness.refused
        self.received = witness.received
        self.sent = witness.sent
        self.waits = witness.waits
        self.traffic = witness.traffic

    def report(self, now: float, item: AnyReport) -> None:
        """Take a fact that the machine reports.

        Raises:
            RunAbortedError: the file cannot be written.
        """
        if isinstance(item, ModelKept):
            keep_model(self._path, self._module, item.params)
        self._witness.report(now, item)
