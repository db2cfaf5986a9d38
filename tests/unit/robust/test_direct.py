"""Rules and attacks on arrays and tensors: public names, examples, forms of input and output, refusals."""

import re
from typing import Any

import numpy as np
import pytest
import torch

import securefl
from securefl import ConfigError, attacks, rules
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.stack import AggregationResult, ClusterMeans
from securefl.scenario import parts
from securefl.scenario.aggregation import PreAggregation, Rule
from securefl.scenario.behaviours import Behaviour, CoalitionAttack, Poisoning, UpdateAttack

X = np.array([[1.0, 2.0], [2.0, 3.0], [3.0, 4.0], [2.5, 2.5], [1.5, 3.5], [2.0, 4.0], [100.0, -50.0]])
GRADIENT = np.array([-1.0, -1.0])
MADE: dict[str, Any] = {
    "Bulyan": {"byzantine": 1},
    "CentredClipping": {"radius": 2.0},
    "InnerProduct": {"gamma": 0.5},
    "Krum": {"byzantine": 1},
    "MeanAroundMedian": {"byzantine": 1},
    "MinimumDiameter": {"byzantine": 1},
    "MultiKrum": {"byzantine": 1},
    "SignMajority": {"step": 0.1},
    "TrimmedMean": {"trim": 1},
}
"""Fields without a default, by rule."""
ATTACKS: Any = attacks
RULES = sorted(name for name in rules.__all__ if issubclass(getattr(rules, name), Rule))
UPDATE_ATTACKS = sorted(name for name in attacks.__all__ if issubclass(getattr(attacks, name), UpdateAttack))


class Wrong(Rule, frozen=True, kw_only=True):
    """A rule of one's own that gives another shape."""

    def aggregate(self, stack: ClusterMeans) -> Any:
        return AggregationResult(stack.means[0, :1], np.ones(stack.clusters, dtype=np.bool_))


def rule_of(name: str) -> Rule:
    made: Rule = getattr(rules, name)(**MADE.get(name, {}))
    return made


def given(rule: Rule) -> dict[str, Any]:
    return {} if rule.server_data == "none" else {"server_gradient": GRADIENT}


@pytest.mark.parametrize(("module", "kinds"), [(rules, (Rule, PreAggregation)), (attacks, (Behaviour,))])
def test_every_part_is_public(module: Any, kinds: tuple[type[parts.Part], ...]) -> None:
    found = {name for kind in kinds for name in parts.names(kind)}
    public = {getattr(module, name).__struct_config__.tag for name in module.__all__}
    if module is attacks:
        # Other behaviours are faults of a party; these two attacks act on the clip and beside the noise.
        found = {name for name in found if issubclass(parts.find(Behaviour, name), Poisoning)}
        found -= {"no-clip", "sparse-energy"}
    assert public == found


@pytest.mark.parametrize("name", RULES)
def test_a_rule_on_an_array_is_the_rule_on_a_stack(name: str) -> None:
    rule = rule_of(name)
    gradient = None if rule.server_data == "none" else GRADIENT
    stack = ClusterMeans(X, np.ones(7), np.ones(7, dtype=np.int64), server_gradient=gradient)
    assert rule(X, **given(rule)).tobytes() == rule.aggregate(stack).vector.tobytes()


@pytest.mark.parametrize("name", UPDATE_ATTACKS)
def test_an_attack_on_an_array_is_what_a_party_sends(name: str) -> None:
    attack = getattr(attacks, name)()
    if isinstance(attack, CoalitionAttack):
        settled = attack.settle(7 + 3, 3)
        sent = settled.collude(X, 3, InsecureSeededEntropy(5))
        assert attack(X, byzantine=3, seed=5).tobytes() == sent.tobytes()
    else:
        before = np.array([0.5, -0.5])
        sent = attack.craft(X[0], before.astype(np.float32), InsecureSeededEntropy(5))
        assert attack(X[0], before=before, seed=5).tobytes() == sent.tobytes()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_a_tensor_gives_a_tensor_of_its_dtype_and_shape(dtype: torch.dtype) -> None:
    rows = torch.tensor(X[:6], dtype=dtype, requires_grad=True).reshape(6, 2, 1)
    made = rules.TrimmedMean(trim=1)(rows)
    assert (made.dtype, tuple(made.shape), made.device) == (dtype, (2, 1), rows.device)
    sent = attacks.ALIE(z=1.0)([one.detach() for one in rows])
    assert (sent.dtype, tuple(sent.shape)) == (dtype, (2, 1))
    assert tuple(attacks.Scale(factor=-2.0)(rows[0].detach()).shape) == (2, 1)


def test_integers_give_real_numbers() -> None:
    assert rules.Mean()(np.array([[1, 2], [2, 2]])).dtype == np.float64
    made = rules.Mean()(torch.tensor([[1, 2], [2, 2]]))
    assert (made.dtype, made.tolist()) == (torch.float64, [1.5, 2.0])


def test_a_seed_of_numpy_is_the_seed_of_python() -> None:
    gaussian: Any = attacks.Gaussian()
    assert gaussian([1.0], seed=np.int64(3)).tobytes() == gaussian([1.0], seed=3).tobytes()


def test_an_input_is_not_written_to() -> None:
    for name in RULES:
        rows = X.copy()
        rule_of(name)(rows, **given(rule_of(name)))
        assert rows.tobytes() == X.tobytes()


def test_pre_aggregation_gives_rows() -> None:
    rows = rules.Bucketing(size=2)(torch.tensor(X, dtype=torch.float32), seed=3)
    assert (tuple(rows.shape), rows.dtype) == ((4, 2), torch.float32)
    again = rules.Bucketing(size=2)(X, seed=4)
    assert not np.allclose(rows.numpy(), again)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rules.Krum(byzantine=2)(X[:4]), "x: has 4 rows (krum needs 5)"),
        (lambda: rules.Mean()([]), "x: has shape (0) (give rows, as in shape (10, 1000))"),
        (lambda: rules.Mean()([1.0, 2.0]), "x: has shape (2) (give rows, as in shape (10, 1000))"),
        (lambda: rules.Mean()([[1.0], [2.0, 3.0]]), "x: is not an array of numbers"),
        (lambda: rules.Mean()("rows"), "x: is not an array of numbers"),
        (
            lambda: rules.Mean()(np.array([[1.0], [np.nan]])),
            "x: row 1 has a value that is not finite or beyond 1e+100",
        ),
        (lambda: rules.Mean()(X, weights=[1.0, 2.0]), "weights: has 2 values, expected 7"),
        (lambda: rules.Mean()(X, weights=np.zeros(7)), "Mean: weights must be finite and positive"),
        (lambda: rules.Mean()(X, weights=["a"] * 7), "weights: is not an array of numbers"),
        (lambda: rules.Mean()(X, weights=np.full(7, np.nan)), "weights: has a value that is not finite"),
        (lambda: rules.Mean()(X * 1j), "x: is not an array of numbers: its dtype is complex128"),
        (
            lambda: rules.Mean()(torch.tensor(X) * 1j),
            "x: is not an array of numbers: its dtype is complex128",
        ),
        (
            lambda: rules.Mean()(np.ma.array(X, mask=X > 3)),
            "x: is not an array of numbers: its dtype is float64",
        ),
        (lambda: rules.Mean()(X * 5e98), "x: row 6 has a value that is not finite or beyond 1e+100"),
        (lambda: rules.Bucketing(size=2)(X, seed=-1), "seed: is -1, expected 0 to 2^64 - 1"),
        (lambda: ATTACKS.Gaussian()([1.0], seed=1.5), "seed: is 1.5, expected a whole number"),
        (lambda: attacks.Mimic()(X, byzantine=0), "byzantine: is 0, expected 1 to 2^64 - 1"),
        (lambda: attacks.LocalModelPoisoning(against="krum")(X * 1e160), "x: row 0 has a value"),
        (lambda: Wrong()(X), "Wrong: the result must be a vector of 2 finite values"),
        (lambda: rules.FlTrust()(X), "server_gradient: missing (fltrust needs it)"),
        (lambda: rules.TrimmedMean(trim=1, beta=0.1)(X), "TrimmedMean.beta: trim = 1 is a number"),
        (lambda: attacks.ALIE()(X, byzantine=1), "ALIE: no z > 0 hides 1 Byzantine among 8 parties"),
        (lambda: attacks.MinMax()(X[:1]), "x: has 1 updates (min-max needs 2)"),
        (lambda: attacks.Scale()([np.inf]), "x: row 0 has a value that is not finite"),
        (lambda: attacks.ModelNegation()([1.0, 2.0], before=[1.0]), "before: has 1 values, expected 2"),
    ],
)
def test_refusals_are_one_line(call: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}") as caught:
        call()
    assert "\n" not in str(caught.value)


def test_names_are_reached_from_the_package() -> None:
    assert securefl.rules.Median is rules.Median
    assert securefl.attacks.Mimic is attacks.Mimic


def test_a_result_beyond_the_range_of_its_dtype_is_refused() -> None:
    large = np.array([6e4], dtype=np.float16)
    assert rules.Mean()(np.stack([large, large])).dtype == np.float16
    for one in (large, torch.tensor(large)):
        with pytest.raises(ConfigError, match=r"^x: the result has a value beyond the range of .*float16"):
            attacks.Scale(factor=10.0)(one)
