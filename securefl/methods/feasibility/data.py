"""Limits between data, model and behaviours, by the kind of data."""

from collections import Counter

from securefl.base.errors import ConfigError
from securefl.scenario import Data, DataAttack, Scenario, check_columns

TEXTS = frozenset({"shakespeare"})
"""Data sets of text: tokens by speaking role, with a label per character instead of one per sample."""


def check_data(scenario: Scenario) -> None:
    """Raise a ConfigError for a partition, model, behaviour or server data set that does not fit the data."""
    _check_declared(scenario.data)
    _check_server_data(scenario.data)
    _check_shares(scenario)
    if scenario.data.set in TEXTS:
        _check_text(scenario)
    else:
        _check_numbers(scenario)


def _check_declared(data: Data) -> None:
    if isinstance(data.classes, tuple):
        name, times = Counter(data.classes).most_common(1)[0] if data.classes else ("", 1)
        if len(data.classes) < 2 or times > 1:
            reason = f"{name!r} is listed {times} times" if times > 1 else "has fewer than two classes"
            raise ConfigError("data.classes", reason, "give two names or more, each once")
    table = data.table
    if table is None:
        tables = [name for name in (data.set, data.server_set or "") if name.startswith(("csv:", "parquet:"))]
        if tables:
            remedy = "declare label and features (docs/data.md)"
            raise ConfigError("data.table", f"is missing, and {tables[0]} is a table file", remedy)
        return
    if data.classes is None:
        raise ConfigError(
            "data.classes",
            f"is missing: which are those of {table.label!r}?",
            'set classes = ["no", "yes"], or 2',
        )
    check_columns(table.features, "data.table.features")
    if table.label in {column.name for column in table.features}:
        reason = f"{table.label!r} is the label and a feature"
        raise ConfigError("data.table.label", reason, "remove it from data.table.features")
    if data.standardise is not None:
        remedy = "leave it out; each column has its own mean and deviation"
        raise ConfigError("data.standardise", "works on images only, not on the columns of a table", remedy)
    if data.shape is not None:
        raise ConfigError(
            "data.shape", "is given, but the columns of data.table determine it", "leave it out"
        )


def _check_server_data(data: Data) -> None:
    texts = [name for name in (data.set, data.server_set) if name in TEXTS]
    if data.server_fraction and data.server_per_class:
        raise ConfigError("data.server_per_class", "server_fraction is given too", "give one of them")
    if data.server_per_class and data.set in TEXTS:
        raise ConfigError(
            "data.server_per_class",
            f"needs one label per sample, and {data.set} has one per character",
            "use data.server_fraction",
        )
    if data.server_set is None:
        return
    if not data.server_holds_some:
        raise ConfigError(
            "data.server_set",
            "needs data.server_per_class: how many samples does the server get?",
            "set it, as in 2",
        )
    if data.server_set == data.set:
        raise ConfigError(
            "data.server_set",
            f"{data.set} is the data set of the parties already",
            "leave it out: the server's samples are then taken out of theirs",
        )
    if texts:
        raise ConfigError(
            "data.server_set",
            f"the server's samples must be of the parties' text: {texts[0]} has tokens of its own",
            "leave out both data.server_set and data.server_fraction",
        )


def _check_shares(scenario: Scenario) -> None:
    data = scenario.data
    if data.shares is None:
        return
    if data.shares > scenario.parties:
        raise ConfigError(
            "data.shares",
            f"{data.shares} shares are more than {scenario.parties} parties: some samples would be unused",
            f"at most {scenario.parties}, or leave it out",
        )
    if data.partition.by_role:
        raise ConfigError("data.shares", "cannot be combined with the partition by roles", "leave it out")


def _check_text(scenario: Scenario) -> None:
    name, split, model = scenario.data.set, scenario.data.partition, scenario.model
    if split.by_label:
        raise ConfigError(
            "data.partition.type",
            f"{split.name} needs one label per sample, and {name} has one per character",
            "use roles, iid or log-normal",
        )
    if model.reads == "numbers":
        raise ConfigError(
            "model.type",
            f"{model.name} needs one label per sample, and {name} has one per character",
            "use lstm, or custom with a model of your own",
        )
    for index, behaviour in enumerate(scenario.behaviours):
        if isinstance(behaviour, DataAttack) and behaviour.images_only:
            raise ConfigError(
                f"behaviours.{index}.kind",
                f"{behaviour.kind} works on images, and {name} is text",
                "choose another attack",
            )


def _check_numbers(scenario: Scenario) -> None:
    name = scenario.data.set
    if scenario.data.partition.by_role:
        raise ConfigError(
            "data.partition.type",
            f"roles needs a text with speakers, and {name} is not one",
            'data.set = "shakespeare", or another partition',
        )
    if scenario.model.reads == "text":
        raise ConfigError(
            "model.type",
            f"{scenario.model.name} reads text, and {name} is not text",
            "use softmax, mlp or cnn, or another data.set",
        )
