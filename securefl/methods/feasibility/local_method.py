"""Limits of local methods, which change the gradients of epochs of SGD."""

from collections.abc import Iterator

from securefl.base.errors import ConfigError
from securefl.methods import robust
from securefl.scenario import Scenario


def check_local_method(scenario: Scenario) -> None:
    """Raise a ConfigError for fields that a local method cannot be combined with."""
    method = scenario.training.method
    if method.plain:
        return
    for field, reason, remedy in _conflicts(scenario):
        raise ConfigError(field, f"{reason}, and training.method.type is {method.name}", remedy)


def _conflicts(scenario: Scenario) -> Iterator[tuple[str, str, str]]:
    """Yield field, reason and remedy of each conflict."""
    if scenario.model.by_sites:
        yield (
            "training.method",
            "is given, but sites have their own training",
            "leave it out; securefl.TorchSite has method=",
        )
    if scenario.training.dp_sgd is not None:
        yield "training.dp_sgd", "cannot be combined with a local method", 'set training.method.type = "sgd"'
    if not scenario.training.method.controls:
        return
    if scenario.groups.count > 1:
        yield (
            "groups.count",
            "cannot be combined with a local method that corrects one model",
            "leave out [groups]",
        )
    if scenario.clustering.new_work:
        yield "clustering.new_work", "cannot be combined with this local method", "set it to false"
    if robust.server_rule(scenario.aggregation.rule) is not None:
        rule = scenario.aggregation.rule.name
        yield (
            "aggregation.rule.type",
            f"{rule} needs gradients of the server itself",
            "choose another rule, such as median",
        )
