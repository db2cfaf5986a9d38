"""Limits of local methods: what they do to a gradient takes epochs of SGD."""

from collections.abc import Iterator

from securefl.base.errors import ConfigError
from securefl.methods import robust
from securefl.scenario import Scenario


def check_local_method(scenario: Scenario) -> None:
    """Refuse what a local method cannot be combined with.

    Raises:
        ConfigError: with the field to change, the reason and the remedy.
    """
    method = scenario.training.method
    if method.plain:
        return
    for field, reason, remedy in _conflicts(scenario):
        raise ConfigError(field, f"{reason}, and training.method.type is {method.name}", remedy)


def _conflicts(scenario: Scenario) -> Iterator[tuple[str, str, str]]:
    """Field, reason and remedy of each conflict."""
    if scenario.model.by_sites:
        yield "training.method", "sites train as they like", "leave it out; securefl.TorchSite has method="
    if scenario.training.dp_sgd is not None:
        yield "training.dp_sgd", "it makes one step of bounded gradients", 'training.method.type = "sgd"'
    if not scenario.training.method.controls:
        return
    if scenario.groups.count > 1:
        yield "groups.count", "a control variate belongs to one model", "1"
    if scenario.clustering.new_work:
        yield "clustering.new_work", "a second training would begin from the first one's variates", "false"
    if robust.server_rule(scenario.aggregation.rule) is not None:
        rule = scenario.aggregation.rule.name
        yield "aggregation.rule.type", f"{rule} compares with gradients of the server's own", "median, as one"
