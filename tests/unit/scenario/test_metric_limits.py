"""What metrics of ``[evaluation]`` go with."""

from __future__ import annotations

import pytest

from securefl.base.errors import ConfigError
from securefl.methods.feasibility.limits import check
from securefl.scenario import statistics_round
from securefl.scenario.load import parse_scenario
from tests.looped import looped

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

NOISE = ("privacy={unit='party',epsilon=8}", "encoding.clip=1", "encoding.range=1", "clustering.atoms=1")


def metrics(*each: str) -> str:
    return f"evaluation.metrics=[{','.join(each)}]"


def test_metrics_at_sites_are_feasible() -> None:
    check(parse_scenario(BASE))
    check(parse_scenario(BASE, ("stop.metric='scores.auc'", "stop.patience=2", "stop.target=0.99")))
    check(parse_scenario(BASE, ("expect=[{metric='evaluation',of='scores.auc',at_least=0.5}]",)))
    check(parse_scenario(BASE, ("secure_sum.kind='crypten'",)))
    check(parse_scenario(BASE, ("clustering.atoms=1", "evaluation.repeats='accept'")))
    check(parse_scenario(BASE, NOISE))
    check(parse_scenario(BASE, (*NOISE, "stop.metric='scores.auc'", "stop.min_gain=0.02")))


@looped(
    "overrides, said",
    [
        (("stop.metric='auc'",), "stop.metric: auc is not a metric of [evaluation] (one of: scores.auc)"),
        (("stop.target=0.9",), "stop.target: only the sites can test the model"),
        (("evaluation={}", "stop.metric='x'"), "stop.metric: x is not a metric of [evaluation] (one of:"),
        (("expect=[{metric='evaluation',at_least=1}]",), "expect.0.of: None is not a metric of [evaluation]"),
        (("expect=[{metric='rounds',of='scores.auc',at_least=1}]",), "expect.0.of: is for metric"),
        (
            (metrics("{name='a',kind='mean',lower=1}"),),
            "evaluation.metrics.0.upper: 1 is not above lower = 1",
        ),
        ((metrics("{name='a',kind='histogram',classes=3}"),), "evaluation.metrics.0.classes: AUC needs 2"),
        (
            (metrics("{name='a',kind='confusion',classes=1}"),),
            "evaluation.metrics.0.classes: confusion needs",
        ),
        (
            (metrics("{name='a',kind='sum',root=true}"),),
            "evaluation.metrics.0.root: a is a sum, and roots work with means",
        ),
        (
            (metrics("{name='a',kind='mean',lower=-0.5,root=true}"),),
            "evaluation.metrics.0.root: a may be -0.5, which has no root (lower = 0, or no root)",
        ),
        ((metrics("{name='a',kind='mean'}", "{name='a',kind='sum'}"),), "evaluation.metrics: 2 are named a"),
        (("model={type='mlp'}",), "evaluation.metrics: parties with a mlp are not tested"),
        (
            ("clustering.atoms=1",),
            "evaluation.repeats: metrics of the same samples",
        ),
        (("clustering.atoms=1", "stop.rounds=1"), "evaluation.repeats: metrics"),
        (
            ("evaluation={}", "behaviours=[{kind='false-metrics',count=1}]"),
            "behaviours.0.kind: needs metrics, and none are declared",
        ),
        (
            (
                "secure_sum={kind='crypten',validate={norm=2.0}}",
                "encoding.clip=1.8",
                "weighting.mode='ignore'",
            ),
            "secure_sum.validate: cannot be combined with metrics",
        ),
        (("evaluation.samples=9000000000000000000",), "evaluation.samples: "),
        (("stop.min_gain=0.1",), "stop.min_gain: has no effect (set stop.metric or"),
        (
            (*NOISE, "stop.metric='scores.auc'", "stop.min_gain=0"),
            "stop.min_gain: no scores.auc has noise of 0, so none would be used (leave it out, or",
        ),
        (
            (metrics("{name='a',kind='mean',lower=-1e308,upper=1e308}"),),
            "evaluation.metrics.0.upper: -1e+308 to 1e+308 of a is beyond 1e+300 (use a larger unit for the",
        ),
        (
            (metrics("{name='a',kind='histogram',upper=1e-310}"),),
            "evaluation.metrics.0.upper: 0 to 1e-310 of a is under 1e-300 wide (use a smaller unit)",
        ),
        (
            (metrics("{name='a',kind='histogram',lower=1e16,upper=10000000000000002}"),),
            "evaluation.metrics.0.upper: 1e+16 to 1.0000000000000002e+16 of a has fewer than 2^20 numbers of",
        ),
    ],
)
def test_what_means_nothing_or_tells_too_much_is_refused(overrides: tuple[str, ...], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        check(parse_scenario(BASE, overrides))
    assert str(refused.value).startswith(said)


@pytest.mark.parametrize(("lower", "upper"), [(-1e308, 1e308), (0.0, 1.7e308), (1e15, 1e15 + 2)])
def test_a_range_of_statistics_that_doubles_do_not_divide_is_refused(lower: float, upper: float) -> None:
    """The width of the first is infinite: means became NaN, in a file for all sites."""
    text = 'name = "s"\nparties = 8\n[model]\ntype = "weights"\n[clustering]\nsize = 4\n[statistics]\n'
    wide = f"{{ name = 'a', lower = {lower!r}, upper = {upper!r} }}"
    declared = f"features = [{{ name = 'ok', lower = 0, upper = 1 }}, {wide}]"
    with pytest.raises(ConfigError) as refused:
        check(statistics_round(parse_scenario(text + declared)))
    assert str(refused.value).startswith("statistics.features.1.upper: ")
    assert "\n" not in str(refused.value)
