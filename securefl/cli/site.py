"""``securefl site``: a site of your own, tried before it takes part in anything."""

from __future__ import annotations

import fnmatch
import secrets
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from securefl.base import entropy, text
from securefl.base.errors import ConfigError
from securefl.cli import console, options
from securefl.cli.joining import party_id
from securefl.cli.program import Program
from securefl.cli.site_trial import REPEAT_SECONDS, SiteTrial, trial_lines, write_trial
from securefl.methods import feasibility
from securefl.runtime import process
from securefl.runtime.launch import bundled
from securefl.scenario import (
    SiteEvaluation,
    SiteStatistics,
    load_scenario,
    own_parts_from,
    statistics_round,
)

if TYPE_CHECKING:
    from securefl.training.sites import Layout, SiteFit

app = Program(add_completion=False, no_args_is_help=True)

SiteArgument = Annotated[
    str, typer.Argument(metavar="MODULE:NAME", help="What makes a party's site of its name; or an app.")
]
ModelArgument = Annotated[
    str, typer.Argument(metavar="MODULE:NAME", help="What makes a party's site, or the model of an app.")
]
PartyOption = Annotated[str, typer.Option(help="The party's name.")]
MOST_ARRAYS = 40
"""Names that are printed; a large model has hundreds."""


@app.callback()
def _site() -> None:
    """Your own training: the weights that it begins with, and a trial round."""


@app.command()
def weights(
    site: ModelArgument,
    *,
    out: Annotated[Path, typer.Option(help="The file, for model.file.")] = Path("initial.safetensors"),
    party: PartyOption = "p00",
    local: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Arrays of an app that stay at its sites. Repeat for more."),
    ] = None,
    site_python: options.SitePythonOption = None,
) -> None:
    """Write the parameters of a site to the safetensors file that a federation begins with.

    For a Flower app or an NVFlare script name what makes its torch module, or arrays by name. Arrays of
    integers stay at the sites, with the values that they have here.

    Exit codes: 0 done; 2 refused.
    """
    from securefl.training.models import write_tensors  # noqa: PLC0415 - torch
    from securefl.training.sites import first_of, offered  # noqa: PLC0415 - with it

    own_parts_from(Path())
    name = party_id(party)
    made, arrays = offered(first_of(site, site_python, tuple(local or ())), name)
    head = getattr(made, "state_head", {})
    stays = head.get("local", {})
    if not all(fnmatch.filter(stays, one) for one in local or ()):
        raise ConfigError("--local", "goes with the model of an app", "a site keeps what it does not offer")
    digest = write_tensors(out, arrays, head)
    console.say(f"{out}: {len(arrays)} arrays, {sum(array.size for array in arrays.values()):,} parameters")
    if stays:
        console.say(f"{text.count(len(stays), 'array')} kept at the sites: {', '.join(stays)}")
        console.say(
            "the file has their values at this site, for all who receive it: no data of a party in them"
        )
    for line in ("[model]", 'type = "weights"', f'file = "{out}"', f'sha256 = "{digest}"'):
        console.say(line)
    if kept := getattr(made, "frozen_sha256", ""):
        console.say(f'frozen_sha256 = "{kept}"')


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

    A training of a minute at most is done twice, to tell whether a seed repeats it. All findings also go to
    SCENARIO.PARTY.check.json beside the scenario.

    Exit codes: 0 it does; 2 refused, or what it returned cannot be used.
    """
    from securefl.training.models import model_of, to_vector  # noqa: PLC0415 - torch
    from securefl.training.sites import (  # noqa: PLC0415 - with it
        Layout,
        Round,
        SiteLog,
        SiteTrainer,
        make_site,
        maker_of,
    )

    loaded = load_scenario(bundled(scenario), tuple(overrides or ()))
    feasibility.check(loaded)
    feasibility.check_site(loaded, given=True, apart=site_python is not None)
    maker = maker_of(site, loaded, site_python, site_memory)
    if loaded.model.by_columns:
        _check_columns(maker(party_id(party)), loaded.evaluation)
        return
    module = model_of(loaded, (), 0, 0)
    layout, name = Layout.of(module), party_id(party)
    # Of the generators while the site is made, which draws no secrets.
    seed = entropy.InsecureSeededEntropy(secrets.token_bytes(16))
    made = make_site(maker, name, layout, loaded.model, seed)
    console.say(f"{len(layout.shapes)} arrays, {layout.length:,} parameters: {_listed(layout)}")
    console.say(f"{name}: {made.samples:,} samples, training one round")
    if loaded.statistics != SiteStatistics():
        _check_columns(made, statistics_round(loaded).evaluation)
    told = Round(0, loaded.stop.rounds, secrets.randbits(63))

    def trained(one: Any) -> SiteFit:
        trainer = SiteTrainer(
            one, layout, loaded.stop.rounds, SiteLog(None), loaded.evaluation, loaded.training
        )
        return trainer.fit(to_vector(module), told, entropy.OsEntropy())

    began = time.monotonic()
    try:
        with process.LockProbe() as probe:
            found = trained(made)
    except Exception as error:  # whatever a user's code raises
        traceback.print_exception(error)
        raise ConfigError(f"--site {site}", f"{type(error).__name__}: {error}") from error
    seconds, again, alone = time.monotonic() - began, None, ""
    if seconds <= REPEAT_SECONDS and not loaded.training.dp_sgd:
        console.say("training it once more from the same seed, at a second site of the same name")
        try:
            again = trained(make_site(maker, name, layout, loaded.model, seed)).update
        except Exception as error:  # a run has one site of a name: this is no fault of the first one
            alone = f"{type(error).__name__}: {error}"
    trial = SiteTrial(made, found, seconds, probe.longest, again, alone)
    lines = list(trial_lines(loaded, trial))
    for line in lines:
        console.say(line)
    console.say(f"findings: {write_trial(scenario, site, name, trial, lines)}")


def _check_columns(site: object, asked: SiteEvaluation) -> None:
    """A line for each difference between the site's columns and what statistics are asked of.

    Raises:
        ConfigError: it has no columns, or some that cannot be counted.
    """
    from securefl.training.sites import ColumnSite, differences  # noqa: PLC0415 - with torch

    if hasattr(site, "columns"):
        for line, _ in differences(site.columns(), asked):
            console.say(f"columns: {line}")
    made = ColumnSite(site, asked)
    console.say(f"columns: {len(asked.metrics)} to count, {made.samples:,} samples")


def _listed(layout: Layout) -> str:
    shown = [f"{name} {shape}" for name, shape in layout.shapes.items()]
    more = f" and {len(shown) - MOST_ARRAYS} more" if len(shown) > MOST_ARRAYS else ""
    return ", ".join(shown[:MOST_ARRAYS]) + more
