"""Limits between data, model and behaviours: what of them does not fit the kind of data."""

from __future__ import annotations

from securefl.config.behaviours import Backdoor
from securefl.config.data import ByLabel, ByRole
from securefl.config.model import CustomModel, Lstm
from securefl.config.scenario import Scenario
from securefl.errors import ConfigError

TEXTS = frozenset({"shakespeare"})
"""Data sets that are text: tokens by speaking role, with a label per character instead of one per sample."""


def check_data(scenario: Scenario) -> None:
    """Refuse a partition, a model or a behaviour that is not for such data.

    Raises:
        ConfigError: with the field to change, the reason and the remedy.
    """
    if scenario.data.set in TEXTS:
        _check_text(scenario)
    else:
        _check_numbers(scenario)


def _check_text(scenario: Scenario) -> None:
    name, split, model = scenario.data.set, scenario.data.partition, scenario.model
    if isinstance(split, ByLabel):
        raise ConfigError(
            "data.partition.type",
            f"{split.__struct_config__.tag} goes by the label of a sample,"
            f" and those of {name} have one per character",
            "roles, iid or log-normal",
        )
    if not isinstance(model, Lstm | CustomModel):
        raise ConfigError(
            "model.type",
            f"{model.__struct_config__.tag} has one label per sample,"
            f" and {name} is text with one per character",
            "lstm, or custom with a model of your own",
        )
    for index, behaviour in enumerate(scenario.behaviours):
        if isinstance(behaviour, Backdoor):
            raise ConfigError(
                f"behaviours.{index}.kind", f"backdoor patches images, and {name} is text", "another attack"
            )


def _check_numbers(scenario: Scenario) -> None:
    name = scenario.data.set
    if isinstance(scenario.data.partition, ByRole):
        raise ConfigError(
            "data.partition.type",
            f"roles goes by who speaks in a text, and {name} is none",
            'data.set = "shakespeare", or another partition',
        )
    if isinstance(scenario.model, Lstm):
        raise ConfigError(
            "model.type", f"lstm reads text, and {name} is none", "softmax, mlp or cnn, or another data.set"
        )
