"""Secret draws of records for a step of DP-SGD, and of their slots.

The bound on epsilon assumes exactly the named distribution, so the draw compares integers from the party's
entropy. A torch generator has a seed of 64 bits, and a few hundred outputs reveal its state.
"""

from collections.abc import Iterator
from typing import Literal, assert_never

import numpy as np

from securefl.base.arrays import I64
from securefl.base.crypto import prg
from securefl.base.entropy import Entropy
from securefl.base.errors import UsageError

Sampler = Literal["poisson", "fixed-size"]

_WORD = 1 << 64
_WORDS_AT_ONCE = 64


def draw_batch(sampler: Sampler, records: int, batch: int, entropy: Entropy) -> I64:
    """Return the rows of the drawn records, i64 ``(k,)``, increasing.

    Poisson: each row with probability floor(2^64 batch / records) / 2^64, independently; k may be 0. That is
    at most the rate of the accounting and less than 2^-64 below it. Fixed-size: all subsets of k = ``batch``
    rows are exactly equally likely, by Floyd's algorithm with rejection of biased words. ``entropy`` gives
    32-byte keys of streams of 64-bit words.

    Raises:
        UsageError: ``batch`` outside [1, records].

    Source: Bentley and Floyd 1987, "A sample of brilliance", Communications of the ACM 30(9).
    """
    if not 1 <= batch <= records:
        raise UsageError(f"batch must be from 1 to {records}, the number of records; found {batch}")
    match sampler:
        case "poisson":
            return _by_coins(records, batch, entropy)
        case "fixed-size":
            return _subset(records, batch, entropy)
        case _:
            assert_never(sampler)


def draw_slots(slots: int, examples: int, entropy: Entropy) -> I64:
    """Return a distinct slot for each example of a batch, i64 ``(examples,)``, all choices equally likely.

    The distribution of the other examples' slots does not depend on any one example, if there are at most as
    many examples as slots. A larger batch uses a multiple of ``slots``
    (:func:`securefl.methods.privacy.batch_capacity`). The slots are as secret as the batch.
    """
    slots *= max(1, -(-examples // slots))
    words = _words(entropy)
    moved: dict[int, int] = {}
    chosen = []
    for first in range(examples):
        other = first + _below(slots - first, words)
        chosen.append(moved.get(other, other))
        moved[other] = moved.pop(first, first)
    return np.array(chosen, dtype=np.int64)


def _by_coins(records: int, batch: int, entropy: Entropy) -> I64:
    if batch == records:
        return np.arange(records)
    threshold = np.uint64(batch * _WORD // records)
    words = prg.expand(entropy.draw(prg.KEY_BYTES), records, np.uint64)
    return np.flatnonzero(words < threshold)


def _subset(records: int, batch: int, entropy: Entropy) -> I64:
    words = _words(entropy)
    chosen: set[int] = set()
    for last in range(records - batch, records):
        row = _below(last + 1, words)
        chosen.add(last if row in chosen else row)
    return np.array(sorted(chosen), dtype=np.int64)


def _below(limit: int, words: Iterator[int]) -> int:
    """Return a uniform integer in [0, limit)."""
    unbiased = _WORD - _WORD % limit
    word = next(words)
    while word >= unbiased:
        word = next(words)
    return word % limit


def _words(entropy: Entropy) -> Iterator[int]:
    while True:
        yield from prg.expand(entropy.draw(prg.KEY_BYTES), _WORDS_AT_ONCE, np.uint64).tolist()
