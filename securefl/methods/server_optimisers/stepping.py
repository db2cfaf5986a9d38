"""The server's step with any optimiser."""

import numpy as np

from securefl import scenario
from securefl.base.arrays import F32, F64, BoolArray
from securefl.base.errors import RunAbortedError


def server_step(
    optimiser: scenario.ServerOptimiser,
    params: F32,
    moments: F64,
    update: F64,
    round_: int,
    averaged: BoolArray | None = None,
) -> tuple[F32, F64]:
    """Return new parameters f32 ``(d,)`` and moments f64 ``(s, d)`` from the round's aggregated update.

    An update too large for float32 makes the parameters infinite; the evaluation then reports a broken model.

    Args:
        optimiser: the scenario's.
        params: f32 ``(d,)``.
        moments: f64 ``(s, d)``.
        update: f64 ``(d,)``.
        round_: its number, from 0.
        averaged: True for each coordinate that the optimiser does not act on, shape ``(d,)``: the update is
            added unchanged, and is the first moment there. None: the optimiser acts on all.

    Raises:
        RunAbortedError: a custom optimiser raises an exception, or returns other shapes.
    """
    if averaged is None or not averaged.any():
        added, made = _apply_step(optimiser, moments, update, round_)
    else:
        added, made, acts = update.copy(), moments.copy(), ~averaged
        added[acts], made[:, acts] = _apply_step(optimiser, moments[:, acts], update[acts], round_)
        made[:1, averaged] = update[averaged]
    with np.errstate(over="ignore"):
        stepped = (params.astype(np.float64) + added).astype(np.float32)
    return stepped, made


def _apply_step(
    optimiser: scenario.ServerOptimiser, moments: F64, update: F64, round_: int
) -> tuple[F64, F64]:
    """Return the optimiser's step, f64 ``(d,)``, and its new moments, f64 ``(s, d)``, checked."""
    with optimiser.blame_part(), np.errstate(over="ignore", invalid="ignore"):
        # Read-only, since verifiers get the previous moments after the step.
        added, made = optimiser.step(_read_only(moments), _read_only(update), round_)
    return (
        _check_result(optimiser, "step", added, update.shape),
        _check_result(optimiser, "step", made, moments.shape),
    )


def first_moments(optimiser: scenario.ServerOptimiser, length: int) -> F64:
    """Return the moments before the first round, f64 ``(s, length)``; raises as :func:`server_step` does."""
    with optimiser.blame_part():
        begun = optimiser.begin(length)
    return _check_result(optimiser, "begin", begun, (optimiser.moments, length))


def past_update(optimiser: scenario.ServerOptimiser, moments: F64, averaged: BoolArray | None = None) -> F64:
    """Return the optimiser's mean of past aggregates, f64 ``(d,)``: the reference of rules with a memory.

    ``moments`` are f64 ``(s, d)``. ``averaged`` coordinates have the last aggregate. Raises as
    :func:`server_step`.
    """
    if averaged is not None and averaged.any():
        whole, acts = np.zeros(moments.shape[1]), ~averaged
        whole[acts] = past_update(optimiser, moments[:, acts])
        whole[averaged] = moments[0, averaged] if len(moments) else 0.0
        return whole
    with optimiser.blame_part():
        past = optimiser.past(_read_only(moments))
    return _check_result(optimiser, "past", past, moments.shape[1:])


def _read_only(array: F64) -> F64:
    seen = array.view()
    seen.flags.writeable = False
    return seen


def _check_result(
    optimiser: scenario.ServerOptimiser, method: str, found: object, shape: tuple[int, ...]
) -> F64:
    """Return the result of a custom optimiser as float64."""
    made = np.asarray(found)
    if made.shape != shape or made.dtype.kind not in "fiu":
        text = f"{made.dtype} of shape {made.shape}, expected float64 of shape {shape}"
        raise RunAbortedError(f"{optimiser.name}: {method} returned {text}")
    return made.astype(np.float64, copy=False)
