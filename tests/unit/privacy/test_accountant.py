"""Known answers, an oracle by quadrature, and what must hold of any accountant."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefl.base.errors import ConfigError, UsageError
from securefl.methods.privacy.accountant import epsilon
from securefl.methods.privacy.composition import Accountant
from securefl.methods.privacy.release import Relation, ReleaseEvent, Sampler
from tests.tiers import examples
from tests.unit.privacy.pairs import Mixture, classical_epsilon, least_delta, plane_delta, renyi

DELTA = 3000**-1.1
"""Of the setting on Fashion-MNIST in Xiang et al. 2023: 3,000 records, batch 16, 8 epochs."""
FASHION = ReleaseEvent(
    noise_multiplier=1.0, steps=1500, sampler="poisson", records=3000, batch=16, denominator=16
)
ONE = ReleaseEvent(noise_multiplier=1.0, steps=1, sampler="poisson", records=10, batch=2)


def noisy(sigma: float, event: ReleaseEvent = FASHION) -> ReleaseEvent:
    return replace(event, noise_multiplier=sigma)


@pytest.mark.parametrize(
    ("accountant", "target", "sigma"),
    [
        ("rdp", 2.0, 0.792),
        ("rdp", 1.0, 1.034),
        ("rdp", 0.5, 1.518),
        ("rdp", 0.25, 2.571),
        ("rdp", 0.125, 4.611),
        ("pld", 2.0, 0.729),
        ("pld", 1.0, 0.943),
        ("pld", 0.5, 1.389),
        ("pld", 0.25, 2.304),
        ("pld", 0.125, 4.063),
    ],
)
def test_noise_of_the_papers_setting(accountant: Accountant, target: float, sigma: float) -> None:
    assert epsilon([noisy(sigma)], DELTA, accountant) == pytest.approx(target, rel=0.003)


@pytest.mark.parametrize(
    ("sigma", "known"), [(0.792, 20.9), (1.034, 8.1), (1.518, 2.3), (2.571, 0.65), (4.611, 0.29)]
)
def test_the_same_noise_under_replace_one(sigma: float, known: float) -> None:
    replaced = replace(noisy(sigma), relation="replace-one")
    found = epsilon([replaced], DELTA, "rdp")
    assert found == pytest.approx(known, abs=0.05 if known > 1 else 0.005)


def test_the_exact_pair_of_a_replaced_record_is_far_below_that() -> None:
    replaced = replace(noisy(0.792), relation="replace-one")
    assert epsilon([replaced], DELTA) == pytest.approx(2.186, abs=0.005)


PER_BATCH: tuple[tuple[Accountant, float, float], ...] = (("pld", 11.17, 2.12), ("rdp", 13.49, 2.37))


def test_openings_of_one_batch_are_one_release_before_amplification() -> None:
    opened = replace(FASHION, survivors=(1,) * 5)
    assert opened.multiplier == pytest.approx(1 / math.sqrt(5))
    wrong = replace(FASHION, steps=5 * FASHION.steps)
    for accountant, right_epsilon, wrong_epsilon in PER_BATCH:
        assert epsilon([opened], DELTA, accountant) == pytest.approx(right_epsilon, rel=0.002)
        assert epsilon([wrong], DELTA, accountant) == pytest.approx(wrong_epsilon, rel=0.002)


def test_the_same_two_figures_by_the_classical_conversion() -> None:
    """15.1, not 2.86: looser than both of ours, and with the same gap between right and wrong."""
    rate = FASHION.batch / FASHION.records
    assert classical_epsilon(1500, rate, 1 / math.sqrt(5), DELTA) == pytest.approx(15.1, abs=0.05)
    assert classical_epsilon(7500, rate, 1.0, DELTA) == pytest.approx(2.86, abs=0.005)


RATE = ONE.batch / ONE.records
WITHOUT: Mixture = ((1.0, 0.0),)


def drawn(*means: float) -> Mixture:
    """The record's batch: left out with 1 - q."""
    return ((1 - RATE, 0.0), *((RATE / len(means), mean) for mean in means))


@pytest.mark.parametrize(
    ("sampler", "relation", "one", "other"),
    [
        ("none", "add-remove", ((1.0, 1.0),), WITHOUT),
        ("none", "replace-one", ((1.0, 1.0),), ((1.0, -1.0),)),
        ("shuffle", "replace-one", ((1.0, 1.0),), ((1.0, -1.0),)),
        ("poisson", "add-remove", drawn(1.0), WITHOUT),
        ("poisson", "replace-one", drawn(1.0), drawn(-1.0)),
        ("fixed-size", "add-remove", drawn(2.0), WITHOUT),
        ("fixed-size", "replace-one", drawn(2.0), drawn(-2.0)),
    ],
)
def test_one_step_against_quadrature(
    sampler: Sampler, relation: Relation, one: Mixture, other: Mixture
) -> None:
    records, batch = (1, 1) if sampler == "none" else (ONE.records, ONE.batch)
    event = noisy(0.5, replace(ONE, sampler=sampler, relation=relation, records=records, batch=batch))
    found = epsilon([event], 1e-3)
    assert least_delta(found, 0.5, one, other) <= 1e-3 * (1 + 1e-6)
    assert least_delta(found * 0.997, 0.5, one, other) > 1e-3


@pytest.mark.parametrize("sigma", [0.6, 3.0])
@pytest.mark.parametrize("rate", [0.005, 0.5])
def test_half_the_multiplier_bounds_the_divergence_of_a_replaced_record(sigma: float, rate: float) -> None:
    replaced = ((1 - rate, 0.0), (rate, 1.0)), ((1 - rate, 0.0), (rate, -1.0))
    bound = ((1 - rate, 0.0), (rate, 2.0)), WITHOUT
    for order in (1.1, 2.0, 5.6, 16.0):
        assert renyi(order, sigma, *replaced) <= renyi(order, sigma, *bound)


@pytest.mark.parametrize("level", [0.0, 0.3, 1.5])
def test_no_records_are_worse_than_opposite_ones(level: float) -> None:
    """Poisson: two records that replace each other. Fixed size: besides, one that they displace."""
    rng = np.random.default_rng(5)
    far, near = np.array([2.0, 0.0]), np.array([1.0, 0.0])
    for rate, std in ((0.1, 0.8), (0.5, 1.5)):
        poisson, fixed = (plane_delta(level, std, rate, v, -v) for v in (near, far))
        for _ in range(4):
            directions = rng.normal(size=(3, 2))
            records = directions / np.linalg.norm(directions, axis=1, keepdims=True)
            assert plane_delta(level, std, rate, records[0], records[1]) <= poisson + 1e-9
            displacing = records[:2] - records[2]
            assert plane_delta(level, std, rate, displacing[0], displacing[1]) <= fixed + 1e-9


def test_fixed_size_batches_cost_more_than_poisson() -> None:
    poisson = replace(ONE, steps=100, relation="replace-one")
    fixed = replace(poisson, sampler="fixed-size", denominator="drawn")
    coarse = epsilon([poisson], 1e-3, "rdp")
    assert epsilon([poisson], 1e-3) < epsilon([fixed], 1e-3) < epsilon([fixed], 1e-3, "rdp")
    assert coarse < epsilon([fixed], 1e-3, "rdp") < epsilon([fixed, poisson], 1e-3, "rdp")


def test_a_shuffled_record_is_in_one_batch_an_epoch() -> None:
    shuffled = replace(noisy(4.0), sampler="shuffle", relation="replace-one")
    plain = ReleaseEvent(noise_multiplier=4.0, steps=9, relation="replace-one")
    # 187 whole batches an epoch, so 1,500 steps are 8 epochs and a beginning.
    assert epsilon([shuffled], DELTA) == epsilon([plain], DELTA)


def small_events() -> st.SearchStrategy[ReleaseEvent]:
    # Few values, so that compositions and divergences are found in the caches.
    return st.builds(
        ReleaseEvent,
        noise_multiplier=st.sampled_from([1.0, 2.0]),
        steps=st.sampled_from([1, 40, 200]),
        relation=st.just("replace-one"),
        sampler=st.sampled_from(["poisson", "shuffle"]),
        records=st.just(100),
        batch=st.just(5),
        survivors=st.sampled_from([(1,), (2, 2), (4,)]),
    )


@settings(max_examples=examples(2), deadline=None)
@given(event=small_events(), more=st.sampled_from([1, 40, 160]), factor=st.sampled_from([1.1, 2.0]))
def test_more_steps_or_less_noise_cost_more(event: ReleaseEvent, more: int, factor: float) -> None:
    spent = epsilon([event], 1e-5)
    longer = replace(event, steps=event.steps + more)
    fainter = noisy(event.noise_multiplier / factor, event)
    # Grids may differ: each is exact to 0.2 %.
    assert epsilon([longer], 1e-5) >= spent * 0.998
    assert epsilon([fainter], 1e-5) >= spent * 0.998
    assert spent <= epsilon([event], 1e-5, "rdp") * 1.002 + 1e-3


@settings(max_examples=examples(2), deadline=None)
@given(events=st.lists(small_events(), min_size=2, max_size=3), data=st.data())
def test_the_order_of_composition_does_not_matter(events: list[ReleaseEvent], data: st.DataObject) -> None:
    turned = data.draw(st.permutations(events))
    assert epsilon(events, 1e-5) == epsilon(turned, 1e-5)
    assert epsilon(events, 1e-5, "rdp") == epsilon(turned, 1e-5, "rdp")
    assert epsilon(events, 1e-5) >= max(epsilon([one], 1e-5) for one in events) * 0.998


def test_equal_events_add_up_their_steps() -> None:
    halves = [replace(ONE, steps=7), replace(ONE, steps=8)]
    assert epsilon(halves, DELTA) == epsilon([replace(ONE, steps=15)], DELTA)
    assert epsilon([], DELTA) == 0.0


def test_slack_in_delta_is_paid_from_delta() -> None:
    plain = ReleaseEvent(noise_multiplier=2.0, steps=3)
    exact = epsilon([plain], DELTA)
    slack = DELTA / 100
    loose = replace(plain, delta_slack=slack)
    found = epsilon([loose], DELTA)
    assert exact < found
    assert epsilon([plain], DELTA - (1 + math.exp(found)) * slack) <= found
    assert epsilon([plain], DELTA - (1.2 + math.exp(found)) * slack) > found * 0.999
    # Slacks of all events count, and what eats up delta leaves nothing.
    assert epsilon([loose, replace(loose, steps=1)], DELTA) > found
    assert epsilon([replace(plain, delta_slack=DELTA)], DELTA) == math.inf


def test_what_is_lost_comes_off_delta_as_it_is() -> None:
    lossy = replace(ONE, delta_lost=4e-6)
    expected = pytest.approx(epsilon([ONE, ONE], 2e-6, "rdp"), rel=1e-9)
    assert epsilon([lossy, lossy], 1e-5, "rdp") == expected
    assert epsilon([lossy.times(2)], 1e-5, "rdp") == expected
    assert epsilon([lossy.times(3)], 1e-5, "rdp") == math.inf
    assert epsilon([lossy.times(3)], 1e-5) == math.inf


def test_an_exposed_update_has_no_epsilon() -> None:
    exposed = replace(FASHION, leverage=math.inf)
    assert epsilon([exposed], DELTA) == math.inf
    assert epsilon([exposed], DELTA, "rdp") == math.inf


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (replace(FASHION, denominator="drawn"), "is private"),
        (ReleaseEvent(noise_multiplier=1.0, steps=1, denominator="drawn"), "is private"),
        (replace(FASHION, sampler="shuffle"), 'replace-one"'),
    ],
)
def test_what_has_no_accounting_is_refused(event: ReleaseEvent, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        epsilon([event], DELTA)


def test_what_does_not_add_up_is_refused() -> None:
    for other in (replace(FASHION, relation="replace-one"), replace(FASHION, unit="party")):
        with pytest.raises(UsageError, match="one privacy unit and one relation"):
            epsilon([FASHION, other], DELTA)
    for delta in (0.0, 1.0, 1e-13, math.nan):
        with pytest.raises(UsageError, match="delta"):
            epsilon([FASHION], delta)


def test_without_the_library_there_is_an_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"pip install 'securefl\[dp\]'"):
        epsilon([noisy(1.2345)], DELTA)
