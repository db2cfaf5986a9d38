"""What a model that sites train goes with."""

from __future__ import annotations

import pytest

from securefl.base.errors import ConfigError
from securefl.methods.feasibility.limits import check
from securefl.methods.feasibility.sites import check_site
from securefl.scenario.load import parse_scenario

BASE = 'name = "sites"\nparties = 6\n[model]\ntype = "weights"\n'


def test_without_data_a_federation_is_feasible() -> None:
    check(parse_scenario(BASE))
    check(parse_scenario(BASE, ("privacy={unit='party',epsilon=8}", "encoding.clip=1", "encoding.range=1")))
    check(parse_scenario(BASE, ("data.set='shakespeare'",)))


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (
            (
                "training.dp_sgd={}",
                "evaluation={samples=9, metrics=[{name='loss',kind='mean',upper=8}]}",
            ),
            "evaluation.metrics: metrics cannot be combined with privacy.unit = record",
        ),
        (("groups.count=2",), "groups.count: groups cannot be combined with sites"),
        (
            ("aggregation.rule={type='fltrust'}", "data.server_fraction=0.1"),
            "aggregation.rule.type: fltrust needs gradients",
        ),
        (
            ("behaviours=[{kind='label-shift',parties=['p01']}]",),
            "behaviours.0.kind: label-shift changes samples",
        ),
        (
            ("clustering.reclusterings=2", "clustering.new_work=true", "clustering.size=3"),
            "clustering.new_work: cannot be combined with sites that train twice",
        ),
        (("stop.target=0.9",), "stop.target: only the sites can test the model"),
        (("stop.patience=3",), "stop.patience: only the sites can test the model"),
        (
            ("expect=[{metric='accuracy',at_least=0.5}]",),
            "expect.0.metric: only the sites can test the model",
        ),
    ],
)
def test_what_needs_samples_or_a_test_is_refused(overrides: tuple[str, ...], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        check(parse_scenario(BASE, overrides))
    assert str(refused.value).startswith(said)
    assert 'sites train a model of type "weights"' in str(refused.value)


def test_a_site_and_a_model_of_arrays_come_together_or_not_at_all() -> None:
    arrays, scores = parse_scenario(BASE), parse_scenario('name = "data"\nparties = 6\n')
    check_site(arrays, given=True)
    check_site(scores, given=False)
    with pytest.raises(
        ConfigError, match=r'--site: model.type = "weights" is trained by a site of your own, and none'
    ):
        check_site(arrays, given=False)
    hidden = parse_scenario(BASE, ("training.dp_sgd={}",))
    check_site(hidden, given=True)
    with pytest.raises(
        ConfigError,
        match=r"--site-python: cannot be combined with privacy\.unit = record: another process would",
    ):
        check_site(hidden, given=True, apart=True)
    with pytest.raises(
        ConfigError,
        match=r'model\.type = "mlp" is trained by securefl on data',
    ):
        check_site(scores, given=True)
