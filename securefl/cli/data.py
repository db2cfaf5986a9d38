"""``securefl data``: the split of a scenario's data."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import typer

from securefl.base.arrays import I64
from securefl.base.errors import ConfigError
from securefl.cli import console, data_files, options
from securefl.cli.options import DataDirOption
from securefl.cli.program import Program
from securefl.lab import plots
from securefl.methods import attacks, feasibility
from securefl.runtime.launch import find_bundled
from securefl.scenario import Scenario, load_scenario
from securefl.training.data import SERVER_SET, Dataset, load_data, split

MOST_PANELS = 60
"""Most parties in a picture; the JSON file has all."""

app = Program(add_completion=False, no_args_is_help=True)


app.command("check")(data_files.check)
app.command()(data_files.export)


@app.callback()
def _data() -> None:
    """Prepare a party's own data, or plot the label distribution of a data set."""


@app.command()
def histogram(
    scenario: options.BundledArgument,
    *,
    out: Annotated[
        Path | None, typer.Option(help="The picture, FILE.png. Default: runs/labels-<scenario>.png.")
    ] = None,
    data_dir: DataDirOption = None,
    overrides: options.SetOption = None,
    seed: options.SeedOption = 0,
) -> None:
    """Plot the samples of each class at each party to FILE.png, with the counts in FILE.json.

    The split is that of run and simulate with the same --seed. For a text, labels are characters.

    Exit codes: 0 done; 2 refused; 3 aborted.
    """
    loaded = load_scenario(find_bundled(scenario), tuple(overrides or ()))
    feasibility.check(loaded)
    path = out or Path("runs") / f"labels-{loaded.name}.png"
    if path.suffix != ".png":
        raise ConfigError(
            "--out", f"{path.name} does not end in .png", "name it FILE.png; FILE.json is written beside it"
        )
    plots.need_matplotlib()
    record = label_counts(loaded, data_dir, seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(plots.draw_histograms(_picture(record)))
    path.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    console.say(f"{record['title']}, {_partition(record)}, seed {seed}: {_summary(record)}")
    console.say(f"{path} and .json")


def label_counts(scenario: Scenario, data_dir: Path | None, seed: int) -> dict[str, Any]:
    """Return label counts of each party, as values for JSON.

    ``parties`` and ``server`` (or None) are counts by class. ``samples`` counts samples; a sample of text has
    many labels. ``distance`` is each party's total variation from the labels of all parties, 0 (alike) to 1
    (disjoint).

    Raises:
        ConfigError: the data set is missing or cannot be split.
    """
    dataset = load_data(scenario.data, data_dir)
    misbehaving = attacks.behaviours_of(scenario, seed).keys()
    whole = split(dataset, scenario.data, attacks.party_names(scenario.parties), seed, misbehaving)

    def counts(rows: I64, source: Dataset = dataset) -> I64:
        return np.bincount(source.y_train[rows].ravel(), minlength=source.classes)

    own = {name: counts(rows) for name, rows in whole.parties.items()}
    all_labels = np.sum(list(own.values()), axis=0)
    overall = all_labels / all_labels.sum()
    return {
        "scenario": scenario.name,
        "title": dataset.title or dataset.name,
        "partition": msgspec.to_builtins(scenario.data.partition),
        "seed": seed,
        "classes": dataset.classes,
        "parties": {name: count.tolist() for name, count in own.items()},
        "samples": {name: len(rows) for name, rows in whole.parties.items()},
        "server": counts(whole.server, dataset.servers or dataset).tolist() if len(whole.server) else None,
        "distance": {
            name: float(np.abs(count / count.sum() - overall).sum() / 2) for name, count in own.items()
        },
    }


def _picture(record: dict[str, Any]) -> plots.Histograms:
    named = dict(list(record["parties"].items())[:MOST_PANELS])
    notes = [
        "Bars: the share of each class in a party's labels. Line: its share in the labels of all parties.",
        _summary(record),
    ]
    if len(record["parties"]) > MOST_PANELS:
        notes.append(f"The first {MOST_PANELS} of {len(record['parties'])} parties.")
    if record["server"] is not None:
        named[SERVER_SET] = record["server"]
    all_labels = [sum(column) for column in zip(*record["parties"].values(), strict=True)]
    return plots.Histograms(
        title=f"{record['title']}: labels by party, {_partition(record)}, seed {record['seed']}",
        notes=tuple(notes),
        names=tuple(named),
        shares=tuple(_shares(counts) for counts in named.values()),
        overall=_shares(all_labels),
    )


def _shares(counts: list[int]) -> tuple[float, ...]:
    return tuple(count / sum(counts) for count in counts)


def _partition(record: dict[str, Any]) -> str:
    kind, *rest = (f"{key} {value}" if key != "type" else value for key, value in record["partition"].items())
    return f"{kind} ({', '.join(rest)})" if rest else str(kind)


def _summary(record: dict[str, Any]) -> str:
    sizes, distances = record["samples"].values(), record["distance"].values()
    mean = math.fsum(distances) / len(distances)
    return (
        f"{len(sizes)} parties with {min(sizes):,} to {max(sizes):,} samples; total variation between"
        f" a party's labels and all labels: mean {mean:.3f}, largest {max(distances):.3f}"
    )
