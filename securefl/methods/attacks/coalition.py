"""Attacks that send one common vector made of the known updates: their scaled mean, or one of them."""

from __future__ import annotations

import numpy as np

from securefl.base.arrays import F64


def fall_of_empires(known: F64, factor: float) -> F64:
    """``factor`` times the mean of the coalition's own updates; every member sends it.

    Knows: what its mates trained. With one attacker it is :func:`securefl.methods.attacks.own.scaled`.
    Source: SHARE (Velicheti et al. 2021), appendix D.1.1, with ``factor`` beta = -1 and -10: a modification
    of Xie et al. 2020, which takes the mean of the honest updates.
    """
    sent: F64 = known.mean(axis=0) * factor
    return sent


def inner_product_manipulation(known: F64, epsilon: float) -> F64:
    """-``epsilon`` times the mean of the known updates, ``epsilon`` > 0; every attacker sends it.

    The product of the mean of all with the honest direction turns negative for ``epsilon`` > (n - q) / q.
    Smaller ones stay close to the honest updates, which distance rules mistake for honesty.

    Knows: all honest updates in the source; in the coalition's form, those of its members as an estimate.
    Source: Xie, Koyejo and Gupta 2020 (arXiv 1903.03936), "Fall of empires".
    """
    sent: F64 = known.mean(axis=0) * -epsilon
    return sent


def mimic(known: F64) -> F64:
    """One of the known updates: that party's data counts once for each attacker.

    Of all rows x_i it is the one with the largest |z . x_i|, for z the direction in which the known updates
    vary most (the first eigenvector of their covariance). Of equal ones it is the first.

    Knows: all honest updates in the source; in the coalition's form those of its members.
    Source: Karimireddy, He and Jaggi 2022 (arXiv 2006.09365), "mimic". They estimate z over
    many rounds and then copy the same party for good; here z is exact for one round, and the choice may
    change from round to round. Where parties differ more than rounds do, it is the same party anyway.
    """
    centred = known - known.mean(axis=0)
    # The covariance's eigenvectors are combinations of the rows: k x k instead of d x d.
    _, vectors = np.linalg.eigh(centred @ centred.T)
    direction = vectors[:, -1] @ centred
    chosen: F64 = known[int(np.argmax(np.abs(known @ direction)))].copy()
    return chosen
