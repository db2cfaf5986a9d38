"""The trial round of a site: what it showed, in lines for people and as a file beside the scenario."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from securefl.base import files, text
from securefl.methods.metrics import metric_words, numbers_of
from securefl.runtime.process import NOTED_SECONDS
from securefl.scenario import Scenario

if TYPE_CHECKING:
    from securefl.base.arrays import F64
    from securefl.training.sites import Metrics, SiteFit

REPEAT_SECONDS = 60.0
"""A training that takes longer is not repeated."""
_SHOWN = 4
"""Names in a line."""


@dataclass(frozen=True)
class SiteTrial:
    """One training at a site, from the first model."""

    site: Any
    fit: SiteFit
    seconds: float
    locked: float
    """Longest time in seconds that the interpreter lock was held."""
    again: F64 | None = None
    """Update of a second training from the same seed, f64 ``(d,)``; None if there was none."""
    alone: str = ""
    """Error of a second site of the same name, which a run does not need; empty without any."""

    @property
    def repeats(self) -> bool | None:
        """Whether both trainings had the same bits; None if there was one."""
        return None if self.again is None else bool(np.array_equal(self.fit.update, self.again))


def trial_lines(scenario: Scenario, trial: SiteTrial) -> Iterator[str]:
    """Yield a line for each finding of a trial, the sizes of the update first."""
    found = trial.fit
    yield f"trained on {found.samples:,} samples in {trial.seconds:.2f} s{_metrics(found.metrics)}"
    if found.received is not None:
        yield f"evaluation of the received model{_metrics(found.received)}"
    words = None if found.said is None else metric_words(scenario, 64)
    if words is not None and found.said is not None:
        yield f"metrics that travel in the masked sum{_metrics(numbers_of(words, found.said))}"
    yield from found.notes
    yield from _update_lines(scenario, found.update)
    yield from _site_lines(trial.site, found.samples)
    if scenario.deadlines.training < trial.seconds:
        yield f"deadlines.training is {scenario.deadlines.training:g} s: this party would be late"
    if trial.again is not None and not trial.repeats:
        apart = float(np.abs(trial.again - found.update).max())
        yield (
            f"two trainings from one seed differ by {apart:.2g}: something draws from a generator of its own"
            " (docs/sites.md), and simulate repeats no run of this site"
        )
    if trial.alone:
        yield f"whether a seed repeats it is unknown: a second site beside the first one fails: {trial.alone}"
    if trial.locked >= NOTED_SECONDS:
        yield (
            f"the training holds the interpreter lock for {trial.locked:.1f} s: no message passes then;"
            " --site-python gives it its own process"
        )


def write_trial(scenario: Path, site: str, party: str, trial: SiteTrial, lines: list[str]) -> str:
    """Write the findings of a trial beside the scenario, for its owner only; return where, or why not.

    The file of a bundled scenario goes to the working directory. A folder that cannot be written to, as a
    service's, changes nothing about the site.
    """
    folder = scenario.parent if scenario.exists() else Path()
    path = folder / f"{scenario.stem}.{party}.check.json"
    told = {
        "site": site,
        "party": party,
        "samples": trial.fit.samples,
        "seconds": round(trial.seconds, 3),
        "interpreter_lock_seconds": round(trial.locked, 3),
        "repeats": trial.repeats,
        "findings": lines,
    }
    try:
        files.write_whole(path, (json.dumps(told, indent=1) + "\n").encode(), private=True)
    except OSError as error:
        return f"{path} cannot be written: {error.strerror}"
    return str(path)


def _update_lines(scenario: Scenario, update: F64) -> Iterator[str]:
    norm, largest = float(np.linalg.norm(update)), float(np.abs(update).max())
    clip, most = scenario.encoding.clip, scenario.encoding.range
    clipped = (
        "not clipped" if clip == "none" else f"clipped to {clip:g}" if norm > clip else f"below {clip:g}"
    )
    yield f"update: L2 norm {norm:.4g} (encoding.clip: {clipped}), largest coordinate {largest:.4g}"
    if not norm:
        yield "nothing was learned: does the loss depend on what travels?"
    if largest > most:
        yield f"coordinates beyond {most:g} are cut off: raise encoding.range, or learn in smaller steps"


def _site_lines(site: Any, samples: int) -> Iterator[str]:
    """Yield differences between what the site has and what travels or counts."""
    if samples < site.samples:
        yield f"it declares {site.samples:,} samples and trained on {samples:,}: its weight is that of all"
    rows = getattr(site, "rows", None)
    if isinstance(rows, int) and rows > site.samples:
        yield f"its loader gives {site.samples:,} of {rows:,} rows (sampler, drop_last): these are its weight"
    head = getattr(site, "state_head", None) or {}
    if stays := head.get("local", {}):
        yield f"{text.count(len(stays), 'array')} kept at the site: {_few(stays)}"
    if tied := head.get("tied", {}):
        yield f"tied parameters travel once: {_few([f'{name} is {one}' for name, one in tied.items()])}"
    wide = [name for name, array in site.parameters().items() if np.asarray(array).dtype.itemsize > 4]
    if wide:
        yield f"the model travels as float32, and {_few(wide)} has more digits at the site"


def _metrics(metrics: Metrics) -> str:
    return "".join(f", {name} {value:.4g}" for name, value in metrics.items())


def _few(names: Any) -> str:
    shown = list(names)
    more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    return ", ".join(shown[:_SHOWN]) + more
