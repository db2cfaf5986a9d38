"""Result of a run or simulation in the public API."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from securefl.base.errors import ConfigError
from securefl.base.text import count
from securefl.runtime import report
from securefl.scenario import Scenario

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import torch

Array = TypeVar("Array")


@dataclass(frozen=True, slots=True)
class RunResult:
    """Result of a run or a simulation. Iteration yields the records of its rounds.

    >>> import securefl
    >>> result = securefl.simulate("quickstart", rounds=2)
    >>> len(result), result.accuracy > 0.5, sorted(result.arrays())[0]
    (2, True, '1.bias')
    """

    summary: report.Summary
    """Outcome, expectations, traffic and privacy: the content of ``summary.json``."""
    path: Path
    """Run directory: scenario, metrics, model, summary and, for a live run, transcripts."""

    def __repr__(self) -> str:
        reached = "" if math.isnan(self.accuracy) else f", accuracy {self.accuracy:.3f}"
        missed = sum(not one.ok for one in self.summary.judgements)
        expected = f", {count(missed, 'expectation')} missed" if missed else ""
        outcome = f"{self.summary.outcome.reason}{reached}{expected}"
        return f"<RunResult {self.scenario.name}: {outcome}, in {self.path}>"

    @property
    def rounds(self) -> tuple[report.RoundRecord, ...]:
        """Records of the rounds, in order."""
        return self.summary.rounds

    def __iter__(self) -> Iterator[report.RoundRecord]:
        return iter(self.rounds)

    def __len__(self) -> int:
        return len(self.rounds)

    @property
    def scenario(self) -> Scenario:
        """Scenario of the run, with its privacy parameters computed."""
        return self.summary.scenario

    @property
    def accuracy(self) -> float:
        """Test accuracy of the final model, 0 to 1; NaN without rounds or a test set."""
        accuracy = self.rounds[-1].accuracy if self.rounds else None
        return float("nan") if accuracy is None else accuracy

    @property
    def metrics(self) -> Mapping[str, float]:
        """Pooled metrics by name, for the last model that the sites evaluated."""
        return self.summary.outcome.evaluation

    def arrays(self, group: int = 0) -> dict[str, np.ndarray[Any, Any]]:
        """Return the final model (the best one by ``stop.metric``): f32 arrays by parameter name.

        Control variates of SCAFFOLD in the file are left out.

        Args:
            group: task group, from 0.

        Raises:
            ConfigError: the run has written no model.
        """
        from safetensors.numpy import load_file  # noqa: PLC0415 - for those who want the model

        return _without_controls(load_file(self._model(group)))

    def state_dict(self, module: torch.nn.Module | None = None, *, group: int = 0) -> dict[str, torch.Tensor]:
        """Return the final model for ``module.load_state_dict``, with tied parameters and integer buffers.

        Local entries (local buffers, personal and frozen parameters) have their values in the initial model's
        file. It must have been written for a site, with at most 100,000 local numbers.

        Args:
            module: model that will load the result. It gives the names, with prefixes of ``torch.compile``
                and ``DataParallel``, and the values of local entries; it is not changed.
            group: as in :meth:`arrays`.

        Raises:
            ConfigError: the run has written no model, or the module has other arrays.
        """
        from securefl.training.models import completed_by, load_model, load_state_dict  # noqa: PLC0415 - torch

        if module is None:
            return _without_controls(load_state_dict(self._model(group)))
        import torch  # noqa: PLC0415 - with it

        arrays = _without_controls(load_model(self._model(group)))
        return completed_by(module, {name: torch.from_numpy(array) for name, array in arrays.items()})

    def _model(self, group: int) -> Path:
        directory = report.RunDirectory(self.path)
        first = directory.best_file if directory.best_file.exists() else directory.model_file
        file = first if group == 0 else first.with_stem(f"{first.stem}-{group}")
        if not file.exists():
            raise ConfigError(str(file), "does not exist", "a run writes one after its first round")
        return file

    def plot(self, file: str | Path, metrics: str | Iterable[str] = ()) -> Path:
        """Draw the measured numbers by round, a panel each, and return the path.

        Args:
            file: ends in .png, .svg or .pdf.
            metrics: numbers to draw, such as ``"scores.auc"``; all if empty.

        Raises:
            ConfigError: the run has no such numbers, the ending is unknown, or matplotlib is missing.
            RunAbortedError: the disk is full or gone, or the folder cannot be made.
        """
        from securefl.lab.experiments import write_result  # noqa: PLC0415 - torch
        from securefl.lab.plots import draw_run, picture_format, run_plot  # noqa: PLC0415 - an extra

        path = Path(file)
        kind = picture_format(path)
        wanted = (metrics,) if isinstance(metrics, str) else tuple(metrics)
        write_result(path, draw_run(run_plot(self.scenario, self.rounds, wanted), kind))
        return path

    def report(self, file: str | Path = "") -> Path:
        """Write one HTML page about the run for people, and return its path.

        Args:
            file: ends in .html; ``report.html`` in the run directory if empty.

        Raises:
            ConfigError: the ending is another one, or a file of the run is damaged.
            RunAbortedError: the disk is full or gone, or the folder cannot be made.
        """
        from securefl.lab.run_page import read_run, run_page, write_page  # noqa: PLC0415 - the lab

        path = Path(file) if file else self.path / "report.html"
        write_page(path, run_page(read_run(self.path)))
        return path

    def frame(self) -> pd.DataFrame:
        """Return a table with a row for each round, indexed by round.

        Raises:
            ConfigError: pandas is not installed.
        """
        try:
            import pandas as pd  # noqa: PLC0415 - an extra of the user's
        except ImportError:
            raise ConfigError(
                "frame()", "needs pandas, which is not installed", "pip install pandas"
            ) from None
        rows = [_row(record) for record in self.rounds]
        return pd.DataFrame(rows, columns=None if rows else ["round", "accuracy", "loss"]).set_index("round")


def _without_controls(arrays: dict[str, Array]) -> dict[str, Array]:
    from securefl.training.models import is_control  # noqa: PLC0415 - torch

    return {name: array for name, array in arrays.items() if not is_control(name)}


def _row(record: report.RoundRecord) -> dict[str, float | int | None]:
    spent = [epsilon for epsilon in (record.epsilon or {}).values() if epsilon is not None]
    return {
        "round": record.round,
        "accuracy": record.accuracy,
        "loss": record.loss,
        "backdoor_success": record.backdoor_success,
        "update_norm": record.update_norm,
        "participants": len(record.participants),
        "survivors": record.survivor_count,
        "sums": len(record.sums),
        "rejected": len(record.rejected),
        "lost": len(record.lost),
        "failed_trainings": None if record.failures is None else len(record.failures),
        "updates_beyond_range": None if record.beyond_range is None else len(record.beyond_range),
        "epsilon": max(spent, default=None),
        "seconds": math.fsum(record.seconds.values()),
        **{one.name: one.value for one in record.metrics},
        **{f"{one.name}.deviation": one.deviation for one in record.metrics if one.deviation},
    }
