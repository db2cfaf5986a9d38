"""A little is enough: a small common shift that hides in the spread of honest updates."""

from __future__ import annotations

from securefl.base.arrays import F64


def alie(known: F64, z: float) -> F64:
    """The mean minus ``z`` standard deviations of the known updates; every attacker sends it.

    Coordinate by coordinate; the deviation is that of the known rows as a population (divided by k).
    Where they agree, nothing moves.

    How large ``z`` may be: :func:`securefl.methods.attacks.needs.alie_z`.

    Knows: in the source, and here by default, only its own coalition's honest updates, as an estimate of
    everybody's.
    Source: Baruch, Baruch and Goldberg 2019 (arXiv 1902.06156), algorithm 3.
    """
    sent: F64 = known.mean(axis=0) - z * known.std(axis=0)
    return sent
