"""Limits between data, model and behaviours, by the kind of data."""

from collections import Counter

from securefl.base.errors import ConfigError
from securefl.scenario import Data, DataAttack, Scenario, check_columns

TEXTS = frozenset({"shakespeare"})
"""Data sets that are text: tokens by speaking role, with a label per character instead of one per sample."""


def check_data(scenario: Scenario) -> None:
    """Refuse a partition, a model, a behaviour or a set for the server that is not for such data.

    Raises:
        ConfigError: with the field to change, the reason and the remedy.
    """
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
            reason = f"{name!r} is there {times} times" if times > 1 else "there is one at most"
            raise ConfigError("data.classes", reason, "two names or more, each once")
    table = data.table
    if table is None:
        tables = [name for name in (data.set, data.server_set or "") if name.startswith(("csv:", "parquet:"))]
        if tables:
            remedy = "label and features, as in docs/data.md"
            raise ConfigError("data.table", f"is missing, and {tables[0]} is a table", remedy)
        return
    if data.classes is None:
        raise ConfigError(
            "data.classes", f"is missing: which are those of {table.label!r}?", 'such as ["no", "yes"], or 2'
        )
    check_columns(table.features, "data.table.features")
    if table.label in {column.name for column in table.features}:
        reason = f"{table.label!r} is a feature, too"
        raise ConfigError("data.table.label", reason, "nobody needs to learn that: leave it out there")
    if data.standardise is not None:
        remedy = "leave it out; each column has mean and deviation of its own"
        raise ConfigError("data.standardise", "one constant for all columns of a table", remedy)
    if data.shape is not None:
        raise ConfigError("data.shape", "follows from the columns of data.table", "leave it out")


def _check_server_data(data: Data) -> None:
    texts = [name for name in (data.set, data.server_set) if name in TEXTS]
    if data.server_fraction and data.server_per_class:
        raise ConfigError("data.server_per_class", "server_fraction is given too", "leave one of them out")
    if data.server_per_class and data.set in TEXTS:
        raise ConfigError(
            "data.server_per_class",
            f"goes by the label of a sample, and those of {data.set} have one per character",
            "data.server_fraction",
        )
    if data.server_set is None:
        return
    if not data.server_holds_some:
        raise ConfigError(
            "data.server_set",
            "does not say how many samples of it the server gets",
            "data.server_per_class, as in 2, too",
        )
    if data.server_set == data.set:
        raise ConfigError(
            "data.server_set",
            f"{data.set} is what the parties hold, and nobody holds a sample twice",
            "leave it out: the server's samples are then taken out of theirs",
        )
    if texts:
        raise ConfigError(
            "data.server_set",
            f"{texts[0]} is text, and no other set has its tokens",
            "leave it out, with data.server_fraction",
        )


def _check_shares(scenario: Scenario) -> None:
    data = scenario.data
    if data.shares is None:
        return
    if data.shares > scenario.parties:
        raise ConfigError(
            "data.shares",
            f"{data.shares} of them for {scenario.parties} parties would leave samples with nobody",
            f"at most {scenario.parties}, or leave it out",
        )
    if data.partition.by_role:
        raise ConfigError("data.shares", "by role, everybody is one speaker", "leave it out")


def _check_text(scenario: Scenario) -> None:
    name, split, model = scenario.data.set, scenario.data.partition, scenario.model
    if split.by_label:
        raise ConfigError(
            "data.partition.type",
            f"{split.name} goes by the label of a sample, and those of {name} have one per character",
            "roles, iid or log-normal",
        )
    if model.reads == "numbers":
        raise ConfigError(
            "model.type",
            f"{model.name} has one label per sample, and {name} is text with one per character",
            "lstm, or custom with a model of your own",
        )
    for index, behaviour in enumerate(scenario.behaviours):
        if isinstance(behaviour, DataAttack) and behaviour.images_only:
            raise ConfigError(
                f"behaviours.{index}.kind",
                f"{behaviour.kind} patches images, and {name} is text",
                "another attack",
            )


def _check_numbers(scenario: Scenario) -> None:
    name = scenario.data.set
    if scenario.data.partition.by_role:
        raise ConfigError(
            "data.partition.type",
            f"roles goes by who speaks in a text, and {name} is none",
            'data.set = "shakespeare", or another partition',
        )
    if scenario.model.reads == "text":
        raise ConfigError(
            "model.type",
            f"{scenario.model.name} reads text, and {name} is none",
            "softmax, mlp or cnn, or another data.set",
        )
