"""``securefl site``: preparation and trial of a user's site before a run."""

from __future__ import annotations

import fnmatch
import json
import secrets
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import typer

from securefl.base import entropy, files, foreign, text
from securefl.base.errors import ConfigError, SecureflError
from securefl.base.ids import PartyId
from securefl.cli import console, options
from securefl.cli.member_options import party_id
from securefl.cli.program import Program
from securefl.cli.site_validation import validate
from securefl.methods import feasibility
from securefl.methods.metrics import metric_words, numbers_of
from securefl.runtime import process
from securefl.runtime.launch import find_bundled
from securefl.runtime.process import NOTED_SECONDS
from securefl.scenario import (
    Scenario,
    SiteEvaluation,
    SiteStatistics,
    load_scenario,
    own_parts_from,
    statistics_round,
)

if TYPE_CHECKING:
    from securefl.base.arrays import F64
    from securefl.training.sites import Layout, Metrics, SiteFit

REPEAT_SECONDS = 60.0
"""Longest training that is repeated, s."""
_SHOWN = 4


@dataclass(frozen=True)
class SiteTrial:
    """One training at a site, from the first model."""

    site: Any
    fit: SiteFit
    seconds: float
    locked: float
    """Longest time that the interpreter lock was held, s."""
    again: F64 | None = None
    """Update of a second training from the same seed, f64 ``(d,)``; None without one."""
    alone: str = ""
    """Error of a second site of the same name; a run needs no second one."""

    @property
    def repeats(self) -> bool | None:
        """True if both trainings had the same bits; None after one."""
        return None if self.again is None else bool(np.array_equal(self.fit.update, self.again))


def trial_lines(scenario: Scenario, trial: SiteTrial) -> Iterator[str]:
    """Yield a line for each finding of a trial, sizes first."""
    found = trial.fit
    yield f"trained on {found.samples:,} samples in {trial.seconds:.2f} s{_metrics(found.metrics)}"
    if found.received is not None:
        yield f"evaluation of the received model{_metrics(found.received)}"
    words = None if found.metric_values is None else metric_words(scenario, 64)
    if words is not None and found.metric_values is not None:
        yield f"metrics in the masked sum{_metrics(numbers_of(words, found.metric_values))}"
    yield from found.notes
    yield from _update_lines(scenario, found.update)
    yield from _site_lines(trial.site, found.samples)
    if scenario.deadlines.training < trial.seconds:
        yield f"deadlines.training is {scenario.deadlines.training:g} s: this party would be late"
    if trial.again is not None and not trial.repeats:
        apart = float(np.abs(trial.again - found.update).max())
        yield (
            f"two trainings from one seed differ by {apart:.2g}: the site uses a generator that is not "
            "seeded (docs/sites.md)"
        )
    if trial.alone:
        yield f"repeatability is unknown: a second site beside the first one failed: {trial.alone}"
    if trial.locked >= NOTED_SECONDS:
        yield (
            f"the training blocks messages for {trial.locked:.1f} s: run the site in its own process "
            "(--site-python)"
        )


def write_trial(scenario: Path, site: str, party: str, trial: SiteTrial, lines: list[str]) -> str:
    """Write the findings to a private file beside the scenario; return the path, or the error.

    For a bundled scenario the file is in the working directory.
    """
    folder = scenario.parent if scenario.exists() else Path()
    path = folder / f"{scenario.stem}.{party}.check.json"
    report = {
        "site": site,
        "party": party,
        "samples": trial.fit.samples,
        "seconds": round(trial.seconds, 3),
        "interpreter_lock_seconds": round(trial.locked, 3),
        "repeats": trial.repeats,
        "findings": lines,
    }
    try:
        files.write_whole(path, (json.dumps(report, indent=1) + "\n").encode(), private=True)
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
        yield "the update is zero: check that the loss depends on the shared parameters"
    if largest > most:
        yield f"coordinates beyond {most:g} are cut off: raise encoding.range, or use a smaller learning rate"


def _site_lines(site: Any, samples: int) -> Iterator[str]:
    """Yield a line for each mismatch of the site's arrays and samples with those sent or counted."""
    if samples < site.samples:
        yield (
            f"the site declares {site.samples:,} samples, but trained on {samples:,}: its weight is "
            f"{site.samples:,}"
        )
    rows = getattr(site, "rows", None)
    if isinstance(rows, int) and rows > site.samples:
        yield (
            f"its loader returns {site.samples:,} of {rows:,} rows (sampler, drop_last), which are its weight"
        )
    head = getattr(site, "state_head", None) or {}
    if stays := head.get("local", {}):
        yield f"{text.count(len(stays), 'array')} kept at the site: {_few(stays)}"
    if tied := head.get("tied", {}):
        yield f"tied parameters are sent once: {_few([f'{name} is {one}' for name, one in tied.items()])}"
    wide = [name for name, array in site.parameters().items() if np.asarray(array).dtype.itemsize > 4]
    if wide:
        yield f"the model is sent as float32, but {_few(wide)} has more digits at the site"


def _metrics(metrics: Metrics) -> str:
    return "".join(f", {name} {value:.4g}" for name, value in metrics.items())


def _few(names: Any) -> str:
    shown = list(names)
    more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    return ", ".join(shown[:_SHOWN]) + more


app = Program(add_completion=False, no_args_is_help=True)

SiteArgument = Annotated[
    str, typer.Argument(metavar="MODULE:NAME", help="Class or function that makes a party's site; or an app.")
]
ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODULE:NAME", help="Class or function that makes a party's site, or the model of an app."
    ),
]
PartyOption = Annotated[str, typer.Option(help="The party's name.")]
MOST_ARRAYS = 40


@app.callback()
def _site() -> None:
    """Write the first weights of your own training, try one round, or validate a finished model."""


@app.command()
def weights(
    site: ModelArgument,
    *,
    out: Annotated[Path, typer.Option(help="The file to write, for model.file.")] = Path(
        "initial.safetensors"
    ),
    party: PartyOption = "p00",
    local: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Arrays of an app that stay at its sites. Repeat for more."),
    ] = None,
    site_python: options.SitePythonOption = None,
) -> None:
    """Write the parameters of a site to the safetensors file that a federation begins with.

    For a Flower app or an NVFlare script, name the function or class that makes its torch module, or its
    arrays by name. Arrays of integers stay at the sites, with their values here.

    Exit codes: 0 done; 2 refused.
    """
    own_parts_from(Path())
    written = write_first(site, out, party_id(party), tuple(local or ()), site_python)
    console.say(f"{out}: {written.arrays} arrays, {written.parameters:,} parameters")
    if written.stays:
        console.say(
            f"{text.count(len(written.stays), 'array')} kept at the sites: {', '.join(written.stays)}"
        )
        console.say("the file holds their values at this site: check that they show no data of a party")
    for line in ("[model]", 'type = "weights"', f'file = "{out}"', f'sha256 = "{written.digest}"'):
        console.say(line)
    if written.frozen:
        console.say(f'frozen_sha256 = "{written.frozen}"')


class FirstWeights(NamedTuple):
    """First weights in a file: sizes, digests, and the arrays that stay at sites."""

    arrays: int
    parameters: int
    digest: str
    stays: tuple[str, ...]
    frozen: str


def write_first(
    site: str, out: Path, party: PartyId, local: tuple[str, ...] = (), site_python: Path | None = None
) -> FirstWeights:
    """Write the parameters of a site or of an app's model to a file.

    Raises:
        ConfigError: the site cannot be made, or ``local`` names no arrays of an app.
    """
    from securefl.training.models import write_tensors  # noqa: PLC0415 - torch
    from securefl.training.sites import first_of, open_site  # noqa: PLC0415 - with it

    made, arrays = open_site(first_of(site, site_python, local), party)
    head = getattr(made, "state_head", {})
    stays = head.get("local", {})
    if not all(fnmatch.filter(stays, one) for one in local):
        raise ConfigError(
            "--local",
            "is for a Flower app only",
            "leave it out: a site keeps the parameters that it does not share",
        )
    digest = write_tensors(out, arrays, head)
    parameters = sum(array.size for array in arrays.values())
    return FirstWeights(len(arrays), parameters, digest, tuple(stays), getattr(made, "frozen_sha256", ""))


@app.command()
def check(
    scenario: options.BundledArgument,
    site: SiteArgument,
    *,
    overrides: options.SetOption = None,
    party: PartyOption = "p00",
    site_python: options.SitePythonOption = None,
    site_memory: options.SiteMemoryOption = 0,
) -> None:
    """Train one round at a site, alone, from the first model: does it fit, and how long is its update?

    A training of at most a minute is done twice, to test if a seed repeats it. All findings also go to
    SCENARIO.PARTY.check.json beside the scenario.

    Exit codes: 0 it fits; 2 refused, or its result cannot be used.
    """
    from securefl.training.models import model_of, to_vector  # noqa: PLC0415 - torch
    from securefl.training.sites import (  # noqa: PLC0415 - with it
        Layout,
        RoundContext,
        SiteLog,
        SiteTrainer,
        make_site,
        maker_of,
    )

    loaded = load_scenario(find_bundled(scenario), tuple(overrides or ()))
    feasibility.check(loaded)
    feasibility.check_site(loaded, given=True, apart=site_python is not None)
    maker = maker_of(site, loaded, site_python, site_memory)
    if loaded.model.by_columns:
        _check_columns(maker(party_id(party)), loaded.evaluation)
        return
    module = model_of(loaded, (), 0, 0)
    layout, name = Layout.of(module), party_id(party)
    # Seeds the generators while the site is made; no secret is drawn.
    seed = entropy.InsecureSeededEntropy(secrets.token_bytes(16))
    made = make_site(maker, name, layout, loaded.model, seed)
    console.say(f"{len(layout.shapes)} arrays, {layout.length:,} parameters: {_describe_layout(layout)}")
    console.say(f"{name}: {made.samples:,} samples, training one round")
    if loaded.statistics != SiteStatistics():
        _check_columns(made, statistics_round(loaded).evaluation)
    context = RoundContext(0, loaded.stop.rounds, secrets.randbits(63))

    def train_site(one: Any) -> SiteFit:
        trainer = SiteTrainer(
            one, layout, loaded.stop.rounds, SiteLog(None), loaded.evaluation, loaded.training
        )
        return trainer.fit(to_vector(module), context, entropy.OsEntropy())

    began = time.monotonic()
    try:
        with process.LockProbe() as probe:
            found = train_site(made)
    except Exception as error:  # any error of users' code
        traceback.print_exception(error)
        raise ConfigError(f"--site {site}", _line_of(error)) from error
    seconds, again, alone = time.monotonic() - began, None, ""
    if seconds <= REPEAT_SECONDS and not loaded.training.dp_sgd:
        console.say("training it once more from the same seed, at a second site of the same name")
        try:
            again = train_site(make_site(maker, name, layout, loaded.model, seed)).update
        except Exception as error:  # no fault: a run has one site of a name
            alone = _line_of(error)
    trial = SiteTrial(made, found, seconds, probe.longest, again, alone)
    lines = list(trial_lines(loaded, trial))
    for line in lines:
        console.say(line)
    console.say(f"findings: {write_trial(scenario, site, name, trial, lines)}")


def _line_of(error: Exception) -> str:
    """Return an error of users' code on one line, with its place."""
    return str(error) if isinstance(error, SecureflError) else foreign.describe(error)


app.command()(validate)


def _check_columns(site: object, asked: SiteEvaluation) -> None:
    """Print each difference between the site's columns and the requested statistics.

    Raises:
        ConfigError: no columns, or some that cannot be counted.
    """
    from securefl.training.sites import ColumnSite, differences  # noqa: PLC0415 - with torch

    if hasattr(site, "columns"):
        for line, _ in differences(site.columns(), asked):
            console.say(f"columns: {line}")
    made = ColumnSite(site, asked)
    console.say(f"columns: {len(asked.metrics)} to count, {made.samples:,} samples")


def _describe_layout(layout: Layout) -> str:
    shown = [f"{name} {shape}" for name, shape in layout.shapes.items()]
    more = f" and {len(shown) - MOST_ARRAYS} more" if len(shown) > MOST_ARRAYS else ""
    return ", ".join(shown[:MOST_ARRAYS]) + more
