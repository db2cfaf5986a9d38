"""Declared sample counts -> public weights (step 3 of the data's way).

Every party recomputes the weights of all parties from the signed counts and refuses a server that announces
others, so they are a function of the counts alone, with the same bits on every machine.

A count is a claim, and truncation bounds what a lie buys: with ``cap`` U no party weighs more than 1, so a
liar of n samples gains at most the factor U / n (Portnoy, Tirosh and Hendler, "Towards federated learning
with Byzantine-robust client weighting", Applied Sciences 12, 2022, doi 10.3390/app12178847).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, assert_never

from securefl.errors import PeerError, UsageError
from securefl.ids import PartyId

Mode = Literal["equal", "samples", "truncate"]

MAX_COUNT = 2**31
"""Largest sample count that a party may declare."""


def public_weights(counts: Mapping[PartyId, int], mode: Mode, cap: int | None) -> Mapping[PartyId, float]:
    """The weight of each party, in (0, 1]: w_i = min(n_i, U) / U.

    One correctly rounded division of two integers below 2^53 for each party, hence bit-identical everywhere.

    Args:
        counts: declared sample counts n_i, each in [1, 2^31].
        mode: ``equal`` gives every party 1.0; ``samples`` takes U = the largest declared count (FedAvg's
            weights up to a common factor: a liar then lowers everybody else's weight); ``truncate`` takes
            U = ``cap``.
        cap: U, at least 1, with ``truncate``; ``None`` otherwise.

    Returns:
        Weights by party, in the order of the party names whatever the order of ``counts``, so that sums over
        them have the same bits at every party.

    Raises:
        PeerError: a party declared a count that is no integer in [1, 2^31]. The counts are checked in every
            mode, in the order of the names, so that all parties name the same culprit.
        UsageError: no party, or a cap that does not go with the mode.
    """
    if not counts:
        raise UsageError("weights of no party")
    if cap is not None and (mode != "truncate" or cap < 1):
        raise UsageError(f"mode {mode!r} does not go with cap {cap}")
    parties = sorted(counts)
    for party in parties:
        _check(party, counts[party])
    match mode:
        case "equal":
            return dict.fromkeys(parties, 1.0)
        case "samples":
            top = max(counts.values())
        case "truncate":
            if cap is None:
                raise UsageError("mode 'truncate' needs a cap")
            top = cap
        case _:
            assert_never(mode)
    return {party: min(counts[party], top) / top for party in parties}


def _check(party: PartyId, count: object) -> None:
    """Refuse a count that is no integer in range; True is an integer to Python, not to us."""
    if not isinstance(count, int) or isinstance(count, bool):
        raise PeerError(party, f"declared a sample count that is no integer: {count!r}")
    if not 1 <= count <= MAX_COUNT:
        raise PeerError(party, f"declared {count} samples, outside [1, {MAX_COUNT}]")
