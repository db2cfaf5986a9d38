"""Round that pools statistics of the sites' data."""

from msgspec.structs import replace

from securefl.base.errors import ConfigError
from securefl.scenario.evaluation import Metric, SiteEvaluation, SiteStatistics
from securefl.scenario.model import Model
from securefl.scenario.parts import default_of
from securefl.scenario.scenario import Clustering, Expect, Groups, Scenario, Stop, Training
from securefl.scenario.secure_sum import Encoding

SHARE = 10.0
"""Noise on the round's update (zeros) in multiples of that on its statistics, so that it takes a hundredth of
the epsilon.
"""
MOST_SAMPLES = 1 << 20
"""Most samples of one site without noise."""


def statistics_round(scenario: Scenario) -> Scenario:
    """Return the scenario of one round that pools the ``[statistics]`` of a training's scenario as metrics.

    Raises:
        ConfigError: no columns, or no budget for a federation with noise; it names the field.
    """
    wanted = scenario.statistics
    metrics = [
        Metric(name=one.name, kind="column", lower=one.lower, upper=one.upper, bins=wanted.bins)
        for one in wanted.features
    ]
    if wanted.labels is not None:
        metrics.append(Metric(name=wanted.labels.name, kind="classes", classes=wanted.labels.classes))
    if not metrics:
        remedy = 'declare features = [{ name = "age", lower = 0, upper = 120 }], as in docs/statistics.md'
        raise ConfigError("statistics.features", "is missing", remedy)
    privacy, noise = scenario.privacy, wanted.epsilon is not None or wanted.multiplier is not None
    if privacy.unit == "none" and noise:
        raise ConfigError(
            "statistics.epsilon",
            "works with privacy noise only",
            'set privacy.unit = "party", or leave it out',
        )
    if privacy.unit != "none":
        if (wanted.epsilon is None) == (wanted.multiplier is None):
            field, reason = "statistics.epsilon", "is missing: statistics need a privacy budget of their own"
            raise ConfigError(field, reason, "set epsilon or multiplier")
        if wanted.samples is None:
            reason = "is missing: the noise must hide the largest site"
            raise ConfigError("statistics.samples", reason, "set the most samples of one site that count")
        multiplier = None if wanted.multiplier is None else wanted.multiplier * SHARE
        privacy = replace(privacy, epsilon=wanted.epsilon, multiplier=multiplier, budget=None, releases=None)
    evaluation = SiteEvaluation(
        metrics=tuple(metrics),
        samples=wanted.samples or MOST_SAMPLES,
        noise=1 / SHARE,
        repeats=scenario.evaluation.repeats,
        report=wanted.report,
    )
    return replace(
        scenario,
        description="Statistics of the sites' data.",
        model=default_of(Model, "statistics"),
        training=Training(),
        clustering=_over_atoms(scenario),
        groups=Groups(),
        privacy=privacy,
        encoding=Encoding(clip=1.0, range=1.0, scale_bits=4, ring_bits=64),
        stop=Stop(rounds=1),
        evaluation=evaluation,
        statistics=SiteStatistics(),
        behaviours=(),
        expect=(Expect(metric="rounds", at_least=1),),
    )


def _over_atoms(scenario: Scenario) -> Clustering:
    """Return the clusters of a statistics round.

    Without noise or accepted repeats, statistics open over atoms only: each cluster becomes one, unless the
    federation has atoms.
    """
    clustering = replace(scenario.clustering, reclusterings=1, new_work=False)
    needed = scenario.privacy.unit == "none" and scenario.evaluation.repeats == "refuse"
    if not needed or clustering.atoms > 1 or clustering.fixed:
        return clustering
    return replace(clustering, atoms=clustering.size)
