"""``securefl data check`` and ``securefl data export``: a party's own file before a run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from securefl.base.errors import ConfigError
from securefl.cli import console, options
from securefl.cli.options import DataDirOption
from securefl.methods import attacks, feasibility
from securefl.runtime.launch import find_bundled
from securefl.scenario import Scenario, load_scenario
from securefl.training.data import (
    SampleSource,
    Shard,
    load_data,
    own_source,
    samples_of,
    turns_of,
    write_shards,
)

LARGE = 5.0
"""Largest mean, deviation and inverse deviation of a standardised input without a warning."""
MOST_LINES = 20


def check(
    scenario: options.BundledArgument,
    data: Annotated[Path, typer.Argument(metavar="DATA", help="The data, as for securefl party --data.")],
    *,
    test: Annotated[
        bool, typer.Option("--test", help="Write the test half, in the form for the server.")
    ] = False,
    overrides: options.SetOption = None,
) -> None:
    """Read a party's data as securefl party does, alone: do they fit, and are they of one size?

    No data leave the terminal.

    Exit codes: 0 they fit; 2 refused.
    """
    loaded = _load_scenario(scenario, overrides)
    source = own_source(data, loaded.data)
    shard = samples_of(source, loaded.data, "test" if test else "train")
    for line in (*source.remarks, *_sizes(source, shard), *_facts(loaded, data, shard)):
        console.say(line)


def export(
    scenario: options.BundledArgument,
    *,
    out: Annotated[Path, typer.Option(help="A new folder for the files.")],
    data_dir: DataDirOption = None,
    overrides: options.SetOption = None,
    seed: options.SeedOption = 0,
) -> None:
    """Split a scenario's data set into a file for each party and one for the server, to try a deployment.

    The split is that of run and simulate with the same --seed. The files are standardised, for securefl party
    --data and securefl server --data.

    Exit codes: 0 done; 2 refused.
    """
    loaded = _load_scenario(scenario, overrides)
    names = attacks.party_names(loaded.parties)
    dataset = load_data(loaded.data, data_dir)
    try:
        out.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        raise ConfigError("--out", f"{out} exists already", "choose another name") from None
    except OSError as error:
        raise ConfigError(
            "--out", f"{out} cannot be created: {error.strerror}", "choose a folder that you may write"
        ) from error
    behind = attacks.behaviours_of(loaded, seed).keys()
    files = write_shards(dataset, loaded.data, names, seed, out, behind, turns_of(loaded.groups, names))
    fewest, most = min(files.counts.values()), max(files.counts.values())
    console.say(f"{out}: {len(names)} parties with {fewest:,} to {most:,} samples, and {files.test.name}")
    if files.server is not None:
        console.say(f"{files.server.name} has samples of the server's own, for --server-data")


def _load_scenario(scenario: Path, overrides: list[str] | None) -> Scenario:
    loaded = load_scenario(find_bundled(scenario), tuple(overrides or ()))
    feasibility.check(loaded)
    if loaded.model.by_sites:
        remedy = "securefl site check"
        raise ConfigError(
            "model.type", f"{loaded.model.name} is trained by sites, which have their own data", remedy
        )
    return loaded


def _sizes(source: SampleSource, shard: Shard) -> Iterator[str]:
    """Yield a line for each input whose scale is far from a standardised one."""
    if shard.tokens:
        return
    x = shard.x.reshape(len(shard.y), -1) if source.inputs else shard.x.reshape(-1, 1)
    means, deviations = x.mean(axis=0, dtype=np.float64), x.std(axis=0, dtype=np.float64)
    names = source.inputs or ("all values",)
    lines = []
    for name, mean, deviation in zip(names, means, deviations, strict=True):
        if deviation == 0:
            lines.append(f"{name}: the same in all samples")
        elif abs(mean) > LARGE or not 1 / LARGE < deviation < LARGE:
            remedy = "data.table: mean, deviation" if source.inputs else "data.standardise"
            lines.append(
                f"{name}: mean {mean:.4g} and deviation {deviation:.4g}, far from 0 and 1 ({remedy})"
            )
    yield from lines[:MOST_LINES]
    if len(lines) > MOST_LINES:
        yield f"and {len(lines) - MOST_LINES} more inputs"


def _facts(scenario: Scenario, data: Path, shard: Shard) -> Iterator[str]:
    from securefl.runtime.process import length_of  # noqa: PLC0415 - torch

    yield f"{data}: {len(shard.y):,} samples of shape {shard.input_shape} in {shard.classes} classes"
    names = scenario.data.class_names or tuple(map(str, range(shard.classes)))
    counts = np.bincount(shard.y.ravel(), minlength=shard.classes)
    shown = [f"{name} {count:,}" for name, count in zip(names, counts.tolist(), strict=True)]
    yield ", ".join(shown[:MOST_LINES]) + (", ..." if len(shown) > MOST_LINES else "")
    yield f"model {scenario.model.name}: {length_of(scenario, shard, 0):,} parameters"
