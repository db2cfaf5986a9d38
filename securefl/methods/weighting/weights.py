"""Public weights from declared sample counts (step 3 of the data flow).

Every party computes them from the signed counts, with the same bits; no message announces them. Truncation
bounds the gain of a false count (:mod:`securefl.methods.weighting.truncation`).
"""

from collections.abc import Collection, Mapping
from typing import assert_never

from securefl import scenario
from securefl.base.errors import PeerError, UsageError
from securefl.base.ids import PartyId
from securefl.methods.weighting import truncation

MAX_COUNT = 2**31
"""Largest sample count that a party may declare."""

Counts = Mapping[PartyId, int]


def public_weights(
    weighting: scenario.Weighting, counts: Counts, drawn: Collection[PartyId] | None = None
) -> Mapping[PartyId, float]:
    """Return the weight of each party, in (0, 1]: w_i = min(n_i, U) / U with U of :func:`cap_of`, or 1.

    Each is one correctly rounded division of two integers below 2^53.

    ``counts`` are those of all parties that sent a hello: the N of Equation 4. ``drawn`` are the
    participants; None for all.

    Returns:
        Weights of the participants, in the order of their names, so that sums over them have the same bits.

    Raises:
        PeerError: as :func:`cap_of`.
        UsageError: the same.
    """
    cap = cap_of(weighting, counts, drawn)
    names = sorted(counts if drawn is None else drawn)
    return {name: 1.0 if cap is None else min(counts[name], cap) / cap for name in names}


def cap_of(
    weighting: scenario.Weighting, counts: Counts, drawn: Collection[PartyId] | None = None
) -> int | None:
    """Return the count U that has weight 1; None if all parties weigh the same.

    With ``ignore`` it is None. With ``passthrough`` it is the largest count of the participants, so no party
    is truncated (FedAvg: a false count lowers all other weights). With ``truncate`` it is ``weighting.cap``,
    or the largest integer that keeps two bounds: a share alpha of the present parties weighs at most alpha*
    of all, and a share alpha of the participants at most alpha* of these. (With ten drawn of a hundred, a cap
    for the hundred alone would let one party outweigh the other nine.) If a group is so small that no weights
    keep the bound, its smallest count is used. Loading rejects a scenario for which all its parties are such
    a group.

    Arguments as for :func:`public_weights`.

    Raises:
        PeerError: a party declared a count that is not an integer in [1, 2^31]. The counts are checked in
            every mode, in the order of the names, so that all parties name the same culprit.
        UsageError: no participants, or neither a cap nor alpha.
    """
    _check(counts)
    names = counts.keys() if drawn is None else drawn
    if not names:
        raise UsageError("cannot compute weights: no party was given; pass the counts of at least 1 party")
    match weighting.mode:
        case "ignore":
            return None
        case "passthrough":
            return max(counts[name] for name in names)
        case "truncate":
            if weighting.cap is not None:
                return weighting.cap
            if weighting.alpha is None:
                raise UsageError('weighting with mode "truncate" must set cap or alpha, found neither')
            taking_part = [counts[name] for name in names]
            return min(
                _largest(weighting, weighting.alpha, group) for group in (counts.values(), taking_part)
            )
        case _:
            assert_never(weighting.mode)


def _largest(weighting: scenario.Weighting, alpha: float, counts: Collection[int]) -> int:
    if not truncation.feasible(len(counts), alpha, weighting.alpha_star):
        return min(counts)
    return int(truncation.largest_cap(list(counts), alpha, weighting.alpha_star))


def _check(counts: Counts) -> None:
    for party in sorted(counts):
        count: object = counts[party]
        # A bool is an int for Python.
        if not isinstance(count, int) or isinstance(count, bool):
            raise PeerError(party, f"declared a sample count that is not an integer: {count!r}")
        if not 1 <= count <= MAX_COUNT:
            raise PeerError(party, f"declared {count} samples, outside [1, {MAX_COUNT}]")
