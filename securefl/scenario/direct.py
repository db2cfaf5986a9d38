"""Rules and attacks on users' arrays and tensors: conversion to f64 rows and back.

Parts are ``Any`` since their bases import this module.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import index
from typing import Any

import numpy as np

from securefl.base.arrays import F64
from securefl.base.entropy import InsecureSeededEntropy, OsEntropy
from securefl.base.errors import ConfigError, UsageError
from securefl.base.stack import ClusterMeans

_LARGEST = 1e100
"""Bound on values with finite squares."""
Like = Callable[[F64], Any]
"""Function that gives f64 ``(d,)`` or ``(k, d)`` the shape, dtype and device of the input."""


def aggregate(rule: Any, x: Any, weights: Any, server_gradient: Any, reference: Any) -> Any:
    """Implement :meth:`Rule.__call__`."""
    rule.check(type(rule).__name__)
    rows, like = _read_rows(x)
    count, length = rows.shape
    _need(rows, rule.clusters_needed, "rows", rule.name)
    if rule.server_data != "none" and server_gradient is None:
        raise ConfigError("server_gradient", "missing", f"{rule.name} needs it")
    with _name_part(rule):
        stack = ClusterMeans(
            rows,
            np.ones(count) if weights is None else _read_vector(weights, "weights", count, "row"),
            np.ones(count, dtype=np.int64),
            reference=None if reference is None else _read_vector(reference, "reference", length),
            server_gradient=(
                None if server_gradient is None else _read_vector(server_gradient, "server_gradient", length)
            ),
        )
        return like(_finite(rule.aggregate(stack).vector, length))


def prepare(step: Any, x: Any, seed: int) -> Any:
    """Implement :meth:`PreAggregation.__call__`."""
    rows, like = _read_rows(x)
    with _name_part(step):
        stack = ClusterMeans(rows, np.ones(len(rows)), np.ones(len(rows), dtype=np.int64))
        return like(step.prepare(stack, _count(seed, "seed", 0).to_bytes(16, "big"))[0].means)


def craft(attack: Any, x: Any, before: Any, seed: int | None) -> Any:
    """Implement :meth:`UpdateAttack.__call__`."""
    rows, like = _read_rows([x])
    length = rows.shape[1]
    start = np.zeros(length) if before is None else _read_vector(before, "before", length)
    with _name_part(attack):
        return like(_finite(attack.craft(rows[0], start.astype(np.float32), _entropy(seed)), length))


def collude(attack: Any, x: Any, byzantine: int, seed: int | None) -> Any:
    """Implement :meth:`CoalitionAttack.__call__`."""
    rows, like = _read_rows(x)
    _need(rows, attack.rows_needed, "updates", attack.kind)
    attackers = _count(byzantine, "byzantine", 1)
    with _name_part(attack):
        settled = attack.settle(len(rows) + attackers, attackers)
        return like(_finite(settled.collude(rows, attackers, _entropy(seed)), rows.shape[1]))


def _read_rows(given: Any) -> tuple[F64, Like]:
    """Return k rows of one shape as f64 ``(k, d)``, and the function that converts back."""
    first = given[0] if isinstance(given, list | tuple) and given else given
    with _numbers("x"):
        stacked = np.stack([_array(one) for one in given]) if first is not given else _array(given)
        wide = stacked.astype(np.float64)
    if wide.ndim < 2 or 0 in wide.shape:
        shape = ", ".join(map(str, wide.shape))
        raise ConfigError("x", f"has shape ({shape})", "give rows, as in shape (10, 1000)")
    bad = [row for row in range(len(wide)) if not (np.abs(wide[row]) <= _LARGEST).all()]
    if bad:
        raise ConfigError(
            "x", f"row {bad[0]} has a value that is not finite or beyond {_LARGEST:g}", "remove the row"
        )
    inner = wide.shape[1:]

    def like(result: F64) -> Any:
        shaped = result.reshape(inner if result.ndim == 1 else (len(result), *inner))
        if hasattr(first, "new_tensor"):
            kind = (first if first.is_floating_point() else first.double()).dtype
            found = first.new_tensor(shaped, dtype=kind)
            held = bool(found.isfinite().all())
        else:
            kind = stacked.dtype if stacked.dtype.kind == "f" else shaped.dtype
            with np.errstate(over="ignore"):
                found = shaped.astype(kind)
            held = bool(np.isfinite(found).all())
        if not held:
            raise ConfigError(
                "x", f"the result has a value beyond the range of {kind}", "give double precision"
            )
        return found

    return np.ascontiguousarray(wide.reshape(len(wide), -1)), like


def _read_vector(given: Any, name: str, length: int, of: str = "column") -> F64:
    with _numbers(name):
        vector = _array(given).astype(np.float64).reshape(-1)
    if len(vector) != length:
        raise ConfigError(name, f"has {len(vector)} values, expected {length}", f"one for each {of} of x")
    if not (np.abs(vector) <= _LARGEST).all():
        raise ConfigError(name, f"has a value that is not finite or beyond {_LARGEST:g}")
    return vector


def _array(one: Any) -> np.ndarray[Any, np.dtype[Any]]:
    """Return an array; real tensors become f64, as numpy has no bfloat16."""
    if hasattr(one, "detach"):
        one = one.detach().cpu()
        one = (one if one.is_complex() else one.double()).numpy()
    found = np.asarray(one)
    if found.dtype.kind not in "fiub" or isinstance(one, np.ma.MaskedArray):
        raise TypeError(f"its dtype is {found.dtype}, expected real numbers without a mask")
    return found


@contextmanager
def _numbers(name: str) -> Iterator[None]:
    """Turn errors of numpy or torch about input that is not real numbers into a ConfigError."""
    try:
        yield
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(
            name, f"is not an array of numbers: {reason:.100}", "pass an array or tensor"
        ) from None


def _finite(result: Any, length: int) -> F64:
    """Return the result of a part if it is a finite vector."""
    if not (isinstance(result, np.ndarray) and result.shape == (length,) and np.isfinite(result).all()):
        raise UsageError(f"the result must be a vector of {length} finite values")
    return result


def _count(given: Any, name: str, least: int) -> int:
    try:
        found = index(given)
    except TypeError:
        raise ConfigError(name, f"is {given!r:.40}, expected a whole number") from None
    if not least <= found < 2**64:
        raise ConfigError(name, f"is {found}, expected {least} to 2^64 - 1")
    return found


def _need(rows: F64, needed: int, what: str, name: str) -> None:
    if len(rows) < needed:
        raise ConfigError("x", f"has {len(rows)} {what}", f"{name} needs {needed}")


def _entropy(seed: int | None) -> OsEntropy | InsecureSeededEntropy:
    return OsEntropy() if seed is None else InsecureSeededEntropy(_count(seed, "seed", 0))


@contextmanager
def _name_part(part: Any) -> Iterator[None]:
    try:
        yield
    except UsageError as error:
        raise ConfigError(type(part).__name__, str(error)) from None
