"""Limits of a model that sites train: rejection of settings that need samples or a test at the server."""

from collections.abc import Iterator

from securefl.base.errors import ConfigError
from securefl.methods import robust
from securefl.scenario import DataAttack, Scenario

TESTED = frozenset({"accuracy", "backdoor_success"})
"""Metrics of ``[[expect]]`` that need a test set at the server."""


def check_sites(scenario: Scenario) -> None:
    """Raise a ConfigError for settings that cannot apply to sites, whose data and code are private."""
    for field, reason, remedy in _conflicts(scenario):
        raise ConfigError(field, f'{reason}, and sites train a model of type "weights"', remedy)


def check_site(scenario: Scenario, *, given: bool, apart: bool = False) -> None:
    """Raise a ConfigError for a model that sites train without a site, and for a site with another model.

    ``given`` is True if the caller named a site, ``apart`` if it gets its own process.
    """
    if apart and scenario.training.dp_sgd is not None:
        reason = "cannot be combined with privacy.unit = record: another process would have the records"
        raise ConfigError("--site-python", reason, 'leave it out, or privacy.unit = "party"')
    name, by_sites = scenario.model.name, scenario.model.by_sites
    if by_sites and not given:
        remedy = "name it as module:name (docs/sites.md)"
        raise ConfigError(
            "--site", f'model.type = "{name}" is trained by a site of your own, and none is named', remedy
        )
    if given and not by_sites:
        raise ConfigError(
            "--site",
            f'model.type = "{name}" is trained by securefl on data',
            'leave it out, or set model.type = "weights"',
        )


def _conflicts(scenario: Scenario) -> Iterator[tuple[str, str, str]]:
    """Yield field, reason and remedy of each conflict."""
    if scenario.training.dp_sgd is not None and scenario.evaluation.metrics:
        # Noise of metrics is scaled to a whole site, and a record's share of it depends on the kind.
        yield (
            "evaluation.metrics",
            "metrics cannot be combined with privacy.unit = record",
            'privacy.unit = "party"',
        )
    if scenario.groups.count > 1:
        yield "groups.count", "groups cannot be combined with sites", "leave out [groups]"
    if robust.server_rule(scenario.aggregation.rule) is not None:
        name = scenario.aggregation.rule.name
        yield (
            "aggregation.rule.type",
            f"{name} needs gradients of the server itself",
            "choose another rule, such as median",
        )
    for index, behaviour in enumerate(scenario.behaviours):
        if isinstance(behaviour, DataAttack):
            yield (
                f"behaviours.{index}.kind",
                f"{behaviour.kind} changes samples, which sites hold",
                "choose an attack on updates",
            )
    exposed = scenario.leakage.mode == "report" or scenario.privacy.unit != "none"
    if scenario.clustering.new_work and not exposed:
        reason = "cannot be combined with sites that train twice"
        yield "clustering.new_work", reason, "false"
    yield from _untestable(scenario)


def _untestable(scenario: Scenario) -> Iterator[tuple[str, str, str]]:
    """Yield the conflicts of settings that need a test of the model at the server."""
    untested = "only the sites can test the model"
    remedy = "use stop.metric, a metric of [evaluation]"
    for name in ("target", "patience"):
        if getattr(scenario.stop, name) is not None and scenario.stop.metric is None:
            yield f"stop.{name}", untested, remedy
    for index, claim in enumerate(scenario.expect):
        if claim.metric in TESTED:
            yield f"expect.{index}.metric", untested, "expect another metric, such as rounds"
