"""``securefl site validate``: a finished model on the data of one site."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from securefl.base import text
from securefl.base.errors import ConfigError
from securefl.base.ids import PartyId
from securefl.cli import console, options
from securefl.cli.member_options import party_id
from securefl.lab import handover
from securefl.methods import feasibility
from securefl.methods.metrics import exact_words, numbers_of, sampling_errors
from securefl.runtime.launch import find_bundled
from securefl.scenario import Scenario, load_scenario

if TYPE_CHECKING:
    from securefl.training.sites import SiteEvaluated, SiteMaker

_SEED = 0
"""Seed of the generators during an evaluation, so that it repeats."""


def validate(
    scenario: options.BundledArgument,
    site: Annotated[
        str, typer.Argument(metavar="MODULE:NAME", help="Class or function that makes a party's site.")
    ],
    *,
    model: Annotated[
        Path, typer.Option(metavar="FILE", help="The model: the model.safetensors of a run or of its export.")
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File to write. Default: PARTY.validation.json.")
    ] = None,
    overrides: options.SetOption = None,
    party: Annotated[str, typer.Option(help="The party's name.")] = "p00",
    site_python: options.SitePythonOption = None,
    site_memory: options.SiteMemoryOption = 0,
) -> None:
    """Evaluate a finished model on a site's own data, and write its metrics to a file.

    It calls the site's evaluate once, trains nothing and sends nothing. securefl export RUN --validation FILE
    puts the numbers into the model card.

    Exit codes: 0 written; 2 refused, or the site's evaluation failed; 3 the file cannot be written.
    """
    from securefl.training.sites import maker_of  # noqa: PLC0415 - torch

    loaded = load_scenario(find_bundled(scenario), tuple(overrides or ()))
    feasibility.check_site(loaded, given=True, apart=site_python is not None)
    name = party_id(party)
    file = Path(f"{name}.validation.json") if out is None else out
    found = validation_of(loaded, maker_of(site, loaded, site_python, site_memory), name, model)
    handover.write_validation(file, found)
    console.say(f"{name}: {text.count(found.samples, 'sample')}")
    for metric, one in found.metrics.items():
        error = "" if one.standard_error is None else f" ± {text.digits(one.standard_error)}"
        console.say(f"{metric} {text.digits(one.value)}{error}")
    for note in found.notes:
        console.say(note)
    console.say(f"written: {file}")


def validation_of(
    scenario: Scenario, maker: SiteMaker, party: PartyId, model: Path
) -> handover.SiteValidation:
    """Return the metrics of the model in a file at the site of ``party``.

    Raises:
        ConfigError: the model cannot be read or is not the site's, or the site's evaluation fails.
    """
    import msgspec  # noqa: PLC0415 - with torch
    import numpy as np  # noqa: PLC0415 - with it

    from securefl.training.models import is_control, load_model  # noqa: PLC0415 - torch
    from securefl.training.sites import (  # noqa: PLC0415 - with it
        Layout,
        RoundContext,
        SiteLog,
        SiteTrainer,
        make_site,
    )

    arrays = load_model(model)
    layout = Layout(
        {key: array.shape for key, array in arrays.items()}, getattr(scenario.model, "averaged", ())
    )
    site = make_site(maker, party, layout, scenario.model)
    if getattr(site, "evaluate", None) is None:
        remedy = "add a method evaluate that returns (samples, metrics)"
        raise ConfigError("--site", "the site has no evaluate", remedy)
    words = exact_words(scenario.evaluation)
    # Every sample counts, however many a round would count.
    trainer = SiteTrainer(site, layout, scenario.stop.rounds, SiteLog(None), words.evaluation)
    vector = np.concatenate([array.reshape(-1) for array in arrays.values()])
    context = RoundContext(scenario.stop.rounds, scenario.stop.rounds, _SEED)
    found = trainer.evaluate(vector, context)
    numbers = dict(found.received or {})
    errors: dict[str, float] = {}
    if found.metric_values is not None and found.metric_values[0] > 0:
        numbers |= numbers_of(words, found.metric_values)
        errors |= sampling_errors(words.evaluation, found.metric_values)
    finite = {key: value for key, value in numbers.items() if math.isfinite(value)}
    _check_evaluated(found, finite, site=party)
    return msgspec.convert(
        {
            "format": handover.FORMAT,
            "party": party,
            "scenario": scenario.name,
            "model": handover.arrays_digest({k: a for k, a in arrays.items() if not is_control(k)}),
            "samples": found.samples,
            "metrics": {
                key: {"value": value, "standard_error": errors.get(key)} for key, value in finite.items()
            },
            "notes": [*found.notes, *(f"{key} is not finite" for key in numbers if key not in finite)],
        },
        handover.SiteValidation,
    )


def _check_evaluated(found: SiteEvaluated, numbers: dict[str, float], site: str) -> None:
    """Check that an evaluation counted samples and has numbers.

    Raises: ConfigError: it does not.
    """
    if numbers and found.samples:
        return
    reason = "; ".join(found.notes) or (
        "it evaluated no samples" if not found.samples else "it returned no number"
    )
    raise ConfigError(
        "--site", f"{site}: {reason}", "evaluate returns (samples, metrics by name): docs/sites.md"
    )
