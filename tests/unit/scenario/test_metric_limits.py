"""What metrics of ``[evaluation]`` go with."""

from __future__ import annotations

import pytest

from securefl.base.errors import ConfigError
from securefl.methods.feasibility.limits import check
from securefl.scenario.load import parse_scenario

BASE = """
name = "metrics"
parties = 8
[model]
type = "weights"
[clustering]
size = 4
atoms = 2
[[evaluation.metrics]]
name = "scores"
kind = "histogram"
"""


def metrics(*each: str) -> str:
    return f"evaluation.metrics=[{','.join(each)}]"


def test_metrics_at_sites_are_feasible() -> None:
    check(parse_scenario(BASE))
    check(parse_scenario(BASE, ("stop.metric='scores.auc'", "stop.patience=2", "stop.target=0.99")))
    check(parse_scenario(BASE, ("expect=[{metric='evaluation',of='scores.auc',at_least=0.5}]",)))
    check(parse_scenario(BASE, ("secure_sum.kind='crypten'",)))
    check(parse_scenario(BASE, ("clustering.atoms=1", "evaluation.repeats='accept'")))
    noise = ("privacy={unit='party',epsilon=8}", "encoding.clip=1", "encoding.range=1", "clustering.atoms=1")
    check(parse_scenario(BASE, noise))


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (("stop.metric='auc'",), "stop.metric: auc is no number of [evaluation] (one of: scores.auc)"),
        (("stop.target=0.9",), "stop.target: it is a value of stop.metric, which is not given"),
        (("evaluation={}", "stop.metric='x'"), "stop.metric: x is no number of [evaluation] (one of: none"),
        (("expect=[{metric='evaluation',at_least=1}]",), "expect.0.of: None is no number of [evaluation]"),
        (("expect=[{metric='rounds',of='scores.auc',at_least=1}]",), "expect.0.of: it goes with metric"),
        (
            (metrics("{name='a',kind='mean',lower=1}"),),
            "evaluation.metrics.0.upper: 1 is not above lower = 1",
        ),
        ((metrics("{name='a',kind='histogram',classes=3}"),), "evaluation.metrics.0.classes: AUC is of 2"),
        (
            (metrics("{name='a',kind='confusion',classes=1}"),),
            "evaluation.metrics.0.classes: confusion counts",
        ),
        (
            (metrics("{name='a',kind='sum',root=true}"),),
            "evaluation.metrics.0.root: a is a sum, and roots are of means",
        ),
        (
            (metrics("{name='a',kind='mean',lower=-0.5,root=true}"),),
            "evaluation.metrics.0.root: a may be -0.5, which has no root (lower = 0, or no root)",
        ),
        ((metrics("{name='a',kind='mean'}", "{name='a',kind='sum'}"),), "evaluation.metrics: 2 are named a"),
        (("model={type='mlp'}",), "evaluation.metrics: parties with a mlp train on shards"),
        (
            ("clustering.atoms=1",),
            "evaluation.repeats: each round and each run sums counts of the same samples",
        ),
        (("clustering.atoms=1", "stop.rounds=1"), "evaluation.repeats: each round and each run sums counts"),
        (
            ("evaluation={}", "behaviours=[{kind='false-metrics',count=1}]"),
            "behaviours.0.kind: no metrics are declared",
        ),
        (
            (
                "secure_sum={kind='crypten',validate={norm=2.0}}",
                "encoding.clip=1.8",
                "weighting.mode='ignore'",
            ),
            "secure_sum.validate: the test of norms is of updates without metrics",
        ),
        (("evaluation.samples=9000000000000000000",), "evaluation.samples: "),
    ],
)
def test_what_means_nothing_or_tells_too_much_is_refused(overrides: tuple[str, ...], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        check(parse_scenario(BASE, overrides))
    assert str(refused.value).startswith(said)
