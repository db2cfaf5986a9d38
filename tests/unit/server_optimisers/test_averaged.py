"""Coordinates that no optimiser acts on: the plain step, their ranges, and variances that stay above zero."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from securefl.methods.server_optimisers.averaged import NO_STATE, AveragedState, is_averaged, prepare_arrays
from securefl.methods.server_optimisers.parts.adam import Adam
from securefl.methods.server_optimisers.parts.sgd import Sgd
from securefl.methods.server_optimisers.stepping import first_moments, past_update, server_step
from securefl.scenario.local_method import ServerOptimiser

BUFFERS = ("*running_mean", "*running_var")
SIZES = [("0.weight", 3), ("1.running_mean", 2), ("1.running_var", 2), ("2.weight", 1), ("3.running_var", 2)]
STATE = AveragedState(((3, 7), (8, 10)), ((5, 7), (8, 10)))
D = 10
OPTIMISERS = [Sgd(momentum=0.9, learning_rate=0.5), Adam(learning_rate=0.3), Sgd()]
SIZED = st.lists(st.tuples(st.sampled_from(["a", "running_mean", "b.running_var"]), st.integers(1, 4)))


def test_ranges_follow_from_names_and_sizes() -> None:
    assert AveragedState.of(SIZES, BUFFERS) == STATE
    assert AveragedState.of(SIZES, ()) == AveragedState((), STATE.variances)
    assert AveragedState.of([("a", 3)], BUFFERS) == NO_STATE


def test_names_fit_patterns_as_they_are_written() -> None:
    assert is_averaged("running_var", BUFFERS)
    assert is_averaged("a.b.running_mean", BUFFERS)
    assert not is_averaged("Running_var", BUFFERS[:1])
    assert not is_averaged("a.RUNNING_MEAN", BUFFERS)


@given(SIZED)
def test_what_parties_sign_is_read_again(sizes: list[tuple[str, int]]) -> None:
    state = AveragedState.of(sizes, BUFFERS)
    assert AveragedState.read(state.flat()) == state


@pytest.mark.parametrize("flat", [[], [1], [1, 2], [2, 0, 1], [0, 1], ["a", 0, 1], [-1, 0, 1]])
def test_other_lists_are_read_as_none(flat: list[object]) -> None:
    assert AveragedState.read(flat) == NO_STATE


@given(SIZED, st.data())
def test_sampled_coordinates_keep_their_place(sizes: list[tuple[str, int]], data: st.DataObject) -> None:
    state, length = AveragedState.of(sizes, BUFFERS), sum(size for _, size in sizes)
    chosen = sorted(data.draw(st.sets(st.integers(0, max(0, length - 1)), max_size=length)))
    places = np.array(chosen if length else [], dtype=np.int64)
    np.testing.assert_array_equal(state.at(places).mask(len(places)), state.mask(length)[places])


@pytest.mark.parametrize("optimiser", OPTIMISERS, ids=["momentum", "adam", "plain"])
def test_averaged_coordinates_step_as_in_fedavg_and_others_as_alone(optimiser: ServerOptimiser) -> None:
    mask, rng = STATE.mask(D), np.random.default_rng(3)
    params, moments = rng.normal(size=D).astype(np.float32), first_moments(optimiser, D)
    alone, own = params[~mask], first_moments(optimiser, int((~mask).sum()))
    plain = params[mask]
    for round_ in range(5):
        update = rng.normal(size=D)
        params, moments = server_step(optimiser, params, moments, update, round_, mask)
        alone, own = server_step(optimiser, alone, own, update[~mask], round_)
        plain, _ = server_step(Sgd(), plain, np.zeros((1, plain.size)), update[mask], round_)
        np.testing.assert_array_equal(params[~mask], alone)
        np.testing.assert_array_equal(params[mask], plain)
        np.testing.assert_array_equal(moments[:, ~mask], own)
        past = past_update(optimiser, moments, mask)
        np.testing.assert_array_equal(past[mask], update[mask])
        np.testing.assert_array_equal(past[~mask], past_update(optimiser, own))


def test_models_are_prepared_one_behind_the_other() -> None:
    models = -np.ones(2 * D, dtype=np.float32)
    made = STATE.prepare(models, D)
    below = np.tile(np.isin(np.arange(D), [5, 6, 8, 9]), 2)
    np.testing.assert_array_equal(made, np.where(below, 0, -1))
    assert models.max() == -1
    assert made.dtype == np.float32
    assert STATE.prepare(made, D) is made


def test_a_destroyed_model_stays_one() -> None:
    models = np.full(D, np.nan, dtype=np.float32)
    assert np.isnan(STATE.prepare(models, D)).all()


def test_arrays_are_prepared_by_name() -> None:
    arrays = {name: np.array([-1.0, 2.0]) for name in ("running_var", "a.running_var", "my_running_var", "w")}
    made = prepare_arrays(arrays)
    assert [array.min() for array in made.values()] == [0, 0, -1, -1]
    assert arrays["running_var"].min() == -1
    assert made["w"] is arrays["w"]
