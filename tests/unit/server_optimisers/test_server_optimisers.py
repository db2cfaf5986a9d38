"""Server optimisers against their papers' equations, Flower's results, and bits on other machines."""

from __future__ import annotations

import json
from fractions import Fraction
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from securefl.base.arrays import F64
from securefl.base.errors import ConfigError, RunAbortedError
from securefl.methods.feasibility.limits import check
from securefl.methods.server_optimisers.parts.adagrad import Adagrad
from securefl.methods.server_optimisers.parts.adam import Adam
from securefl.methods.server_optimisers.parts.sgd import Sgd
from securefl.methods.server_optimisers.parts.yogi import Yogi
from securefl.methods.server_optimisers.stepping import first_moments, past_update, server_step
from securefl.scenario.draws import drawn_digest
from securefl.scenario.load import parse_scenario
from securefl.scenario.local_method import ServerOptimiser
from securefl.scenario.parts import find, names
from securefl.scenario.resolved import to_toml
from tests.looped import looped

FLOWER = json.loads((Path(__file__).parents[2] / "vectors" / "flower_optimisers.json").read_text())
SMALL = 'name = "x"\nparties = 12\n'
UPDATES = arrays(np.float64, (5, 3), elements=st.floats(-8, 8, allow_subnormal=False))


def as_flower(name: str, given: dict[str, float]) -> ServerOptimiser:
    """Ours with Flower's settings, and its habits: v begins at 0, and Adam's correction is a round ahead."""
    if name == "FedAvgM":
        return Sgd(learning_rate=given["server_learning_rate"], momentum=given["server_momentum"])
    kinds: dict[str, type[Any]] = {"FedAdam": Adam, "FedYogi": Yogi, "FedAdagrad": Adagrad}
    more = {name: value for name, value in given.items() if name != "eta"}
    if name == "FedAdam":
        more["bias_correction"] = "flower"  # type: ignore[assignment]
    optimiser: ServerOptimiser = kinds[name](learning_rate=given["eta"], initial=0.0, **more)
    return optimiser


@looped("run", FLOWER["cases"])
def test_equal_to_flower_over_twenty_rounds(run: dict[str, Any]) -> None:
    optimiser = as_flower(run["strategy"], {k: v for k, v in run.items() if k not in {"strategy", "models"}})
    weights = np.array(FLOWER["samples"], dtype=np.float64)
    params, moments = np.array(FLOWER["first"], dtype=np.float32), optimiser.begin(len(FLOWER["first"]))
    assert len(run["models"]) == len(FLOWER["changes"]) == 20
    for round_, (changes, expected) in enumerate(zip(FLOWER["changes"], run["models"], strict=True)):
        update = weights @ np.array(changes) / weights.sum()
        params, moments = server_step(optimiser, params, moments, update, round_)
        np.testing.assert_allclose(params, expected, rtol=1e-6, atol=1e-6)


def by_the_paper(optimiser: Any, updates: F64) -> tuple[list[float], list[float]]:
    """Algorithm 2 of Reddi et al. with numbers one by one; the model begins at 0."""
    x, m = [0.0] * updates.shape[1], [0.0] * updates.shape[1]
    v = [optimiser.tau**2] * updates.shape[1]
    for update in updates.tolist():
        for i, u in enumerate(update):
            m[i] = optimiser.beta_1 * m[i] + (1 - optimiser.beta_1) * u
            if isinstance(optimiser, Adagrad):
                v[i] = v[i] + u**2
            elif isinstance(optimiser, Yogi):
                sign = (v[i] > u**2) - (v[i] < u**2)
                v[i] = v[i] - (1 - optimiser.beta_2) * u**2 * sign
            else:
                v[i] = optimiser.beta_2 * v[i] + (1 - optimiser.beta_2) * u**2
            x[i] += optimiser.learning_rate * m[i] / (v[i] ** 0.5 + optimiser.tau)
    return x, m


@given(UPDATES)
@pytest.mark.parametrize("optimiser", [Adagrad(tau=0.5), Adam(beta_2=0.75), Yogi(beta_1=0.5, beta_2=0.9)])
def test_the_paper_by_hand(optimiser: ServerOptimiser, updates: F64) -> None:
    params, moments = np.zeros(3, np.float32), optimiser.begin(3)
    for round_, update in enumerate(updates):
        before = moments.copy()
        params, made = server_step(optimiser, params, moments, update, round_)
        assert (moments == before).all()
        moments = made
    x, m = by_the_paper(optimiser, updates)
    np.testing.assert_allclose(params, x, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(past_update(optimiser, moments), m, rtol=1e-12, atol=1e-12)


def test_adams_correction_is_that_of_kingma_and_ba() -> None:
    """Bias-corrected moments, by hand: with v from 0 and eps = 0 each first step is as long as the rate."""
    adam = Adam(learning_rate=0.5, tau=1e-12, initial=0.0, bias_correction="adam")
    params, moments = np.zeros(2, np.float32), adam.begin(2)
    updates = np.array([[3.0, -0.01], [1.0, 0.02], [0.0, 0.5]])
    m = v = np.zeros(2)
    x = np.zeros(2)
    for t, update in enumerate(updates, start=1):
        params, moments = server_step(adam, params, moments, update, t - 1)
        m, v = 0.9 * m + 0.1 * update, 0.99 * v + 0.01 * update**2
        x = x + 0.5 * (m / (1 - 0.9**t)) / np.sqrt(v / (1 - 0.99**t))
        np.testing.assert_allclose(params, x, rtol=1e-6, atol=1e-7)
    first, _ = server_step(adam, np.zeros(2, np.float32), adam.begin(2), updates[0], 0)
    np.testing.assert_allclose(abs(first), 0.5, rtol=1e-6)


def test_bits_are_those_of_exact_numbers_rounded_once_an_operation() -> None:
    """What any machine of IEEE 754 makes of it: Adam in exact fractions, each operation rounded by itself."""
    adam = Adam(bias_correction="adam")
    moments, rng = adam.begin(1), np.random.default_rng(4)

    def op(value: Fraction) -> Fraction:
        return Fraction(float(value))

    m, v = Fraction(0), op(Fraction(adam.tau) * Fraction(adam.tau))
    one, b1, b2, tau = Fraction(1), Fraction(adam.beta_1), Fraction(adam.beta_2), Fraction(adam.tau)
    left_1 = left_2 = one
    for round_ in range(30):
        update = float(rng.standard_normal())
        u = Fraction(update)
        m = op(op(b1 * m) + op(op(one - b1) * u))
        v = op(op(b2 * v) + op(op(one - b2) * op(u * u)))
        left_1, left_2 = op(left_1 * b1), op(left_2 * b2)
        rate = op(op(Fraction(adam.learning_rate) * root(op(one - left_2))) / op(one - left_1))
        added, moments = adam.step(moments, np.array([update]), round_)
        assert moments[:, 0].tolist() == [float(m), float(v)]
        assert added[0] == float(op(op(rate * m) / op(root(v) + tau)))


def root(value: Fraction) -> Fraction:
    """The square root, rounded to the nearest double: from 140 binary digits of it."""
    shift = 280
    return Fraction(
        float(Fraction(isqrt((value.numerator << shift) // value.denominator), 1 << (shift // 2)))
    )


class TestSgd:
    def test_the_past_is_the_last_aggregate_or_with_momentum_a_mean_of_all(self) -> None:
        params, moments = np.zeros(1, np.float32), np.zeros((1, 1))
        plain, heavy = Sgd(), Sgd(momentum=0.5)
        assert past_update(plain, moments).tolist() == [0.0]
        for round_, update in enumerate((8.0, 4.0)):
            last = server_step(plain, params, np.array([[7.0]]), np.array([update]), round_)[1]
            moments = server_step(heavy, params, moments, np.array([update]), round_)[1]
        assert past_update(plain, last).tolist() == [4.0]
        assert past_update(heavy, moments).tolist() == [0.5 * 4 + 0.25 * 8]

    def test_fedavg_and_momentum_by_hand(self) -> None:
        params, moments = np.array([1, 2], np.float32), np.array([[0.5, -0.5]])
        update = np.array([1.0, 1.0])
        plain, _ = server_step(Sgd(), params, moments, update, 0)
        np.testing.assert_array_equal(plain, [2, 3])
        moved, kept = server_step(Sgd(learning_rate=2.0, momentum=0.5), params, moments, update, 0)
        np.testing.assert_array_equal(kept, [[1.25, 0.75]])
        np.testing.assert_array_equal(moved, [3.5, 3.5])

    def test_a_destroyed_model_is_infinite_and_does_not_raise(self) -> None:
        params, _ = server_step(Sgd(), np.zeros(1, np.float32), np.zeros((1, 1)), np.array([1e39]), 0)
        assert np.isinf(params).all()


class TestTable:
    def test_there_are_four(self) -> None:
        assert names(ServerOptimiser) == ("adagrad", "adam", "sgd", "yogi")
        assert all(find(ServerOptimiser, name)().name == name for name in names(ServerOptimiser))

    def test_without_a_type_it_is_sgd_and_draws_as_before_there_were_types(self) -> None:
        rate = parse_scenario(SMALL, ("server_optimiser.learning_rate=0.5", "server_optimiser.momentum=0.9"))
        assert rate.server_optimiser == Sgd(learning_rate=0.5, momentum=0.9)
        typed = parse_scenario(SMALL, ("server_optimiser.type=sgd", "server_optimiser.learning_rate=0.5"))
        untyped = parse_scenario(SMALL, ("server_optimiser.learning_rate=0.5",))
        assert typed == untyped
        assert parse_scenario(to_toml(typed)) == typed
        # As committed figures were drawn, when the table had no types.
        assert drawn_digest(typed).hex() == DRAWN_BEFORE
        assert drawn_digest(parse_scenario(SMALL, ("server_optimiser.type=yogi",))) != drawn_digest(typed)

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ("server_optimiser.type=adm", "did you mean adam?"),
            ("server_optimiser.beta_1=0.5", "is not a field"),
            ("server_optimiser={ type = 'adam', beta_1 = 1.0 }", "server_optimiser.beta_1: expected"),
            ("server_optimiser={ type = 'adam', tau = 0 }", "server_optimiser.tau: expected"),
            ("server_optimiser=3", "server_optimiser: expected table"),
        ],
    )
    def test_refusals(self, change: str, said: str) -> None:
        with pytest.raises(ConfigError, match=said.replace("?", r"\?")):
            parse_scenario(SMALL, (change,))

    def test_scaled_steps_are_needed_by_carried_momentum_and_transfer(self) -> None:
        private = (
            "training.dp_sgd={ momentum = 0.1, carry = 'global' }",
            "privacy={ unit = 'record', multiplier = 1.0, placement = 'local' }",
            "weighting.mode=ignore",
        )
        with pytest.raises(ConfigError, match=r"carry: steps of server_optimiser.type = adam"):
            check(parse_scenario(SMALL, (*private, "server_optimiser.type=adam")))
        transfer = (
            "privacy={ unit = 'party', multiplier = 1.0, transfer = { multiplier = 2.0 } }",
            "encoding.clip=1.0",
        )
        with pytest.raises(ConfigError, match=r"transfer: steps of server_optimiser.type = yogi"):
            check(parse_scenario(SMALL, (*transfer, "server_optimiser.type=yogi")))


DRAWN_BEFORE = "9ed786c2eb754e89eb3997f904cd96d6d0a519533d30900dd6d9bb6b1c117db3"


class Lion(ServerOptimiser, frozen=True, kw_only=True):
    """One of a user's own; ``odd`` makes it return what it may not, write, or raise."""

    odd: str = ""

    def step(self, moments: F64, update: F64, round_: int) -> tuple[F64, F64]:
        if self.odd == "raises":
            raise ZeroDivisionError("by hand")
        if self.odd == "moments":
            moments *= 0.9
        if self.odd == "update":
            update *= 0.1
        moved = 0.9 * moments + 0.1 * update
        if self.odd == "complex":
            return 1j * moved[0], moved
        return self.learning_rate * np.sign(moved[0]), moved[:, 1:] if self.odd else moved


class TestOwn:
    OWN = f"{__name__}:Lion"

    def test_it_steps(self) -> None:
        scenario = parse_scenario(SMALL, (f"server_optimiser.type={self.OWN}",))
        params, _ = server_step(
            scenario.server_optimiser, np.zeros(2, np.float32), np.zeros((1, 2)), np.array([3.0, -9.0]), 0
        )
        assert params.tolist() == [1.0, -1.0]

    @pytest.mark.parametrize(
        ("odd", "said"),
        [
            ("raises", "Lion raised ZeroDivisionError: by hand"),
            ("x", r"Lion: step returned float64 of shape \(1, 1\), expected float64 of shape \(1, 2\)"),
            ("complex", "Lion: step returned complex128 of shape"),
            ("moments", "Lion raised ValueError: .*read-only"),
            ("update", "Lion raised ValueError: .*read-only"),
        ],
    )
    def test_its_errors_name_it(self, odd: str, said: str) -> None:
        with pytest.raises(RunAbortedError, match=said):
            server_step(Lion(odd=odd), np.zeros(2, np.float32), np.zeros((1, 2)), np.array([3.0, -9.0]), 0)

    @pytest.mark.parametrize(
        ("begun", "said"),
        [
            (np.zeros(2), r"begin returned float64 of shape \(2,\), expected float64 of shape \(1, 2\)"),
            (None, "begin returned object"),
            (KeyError("by hand"), "raised KeyError: 'by hand'"),
        ],
    )
    def test_so_do_errors_before_the_first_round(
        self, begun: Any, said: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def begin(_self: Lion, _length: int) -> Any:
            if isinstance(begun, Exception):
                raise begun
            return begun

        monkeypatch.setattr(Lion, "begin", begin)
        with pytest.raises(RunAbortedError, match=f"Lion:? {said}"):
            first_moments(Lion(), 2)

    def test_so_does_a_past_that_is_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Lion, "past", lambda _self, moments: moments)
        with pytest.raises(RunAbortedError, match=r"Lion: past returned float64 of shape \(1, 2\)"):
            past_update(Lion(), np.zeros((1, 2)))

    def test_moments_of_32_bits_are_widened_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Lion, "begin", lambda _self, length: np.full((1, length), 0.1, np.float32))
        assert first_moments(Lion(), 2).dtype == np.float64
