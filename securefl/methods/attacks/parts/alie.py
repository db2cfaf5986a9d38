"""A little is enough."""

from __future__ import annotations

from fractions import Fraction
from statistics import NormalDist

from msgspec.structs import replace

from securefl import scenario
from securefl.base.arrays import F64
from securefl.base.entropy import Entropy
from securefl.base.errors import ConfigError, UsageError


class ALIE(scenario.InformedAttack, tag="alie", frozen=True, kw_only=True):
    """Coordinate-wise mean(x) - ``z`` std(x) of the known updates x (a little is enough).

    Example:
        >>> ALIE(z=1.5)([[1.0, 2.0], [2.0, 3.0], [3.0, 4.0]]).round(6)
        array([0.775255, 1.775255])
    """

    z: scenario.PositiveReal | None = None
    """Number of standard deviations. None: the normal quantile at p = (n - q - s) / (n - q) with s =
    floor(n / 2) + 1 - q. It needs p above 1/2 (enough attackers) and below 1 (no majority)."""

    def settle(self, parties: int, attackers: int) -> ALIE:
        return self if self.z is not None else replace(self, z=alie_z(parties, attackers))

    def collude(self, known: F64, actors: int, entropy: Entropy) -> F64:
        if self.z is None:
            raise UsageError(
                "cannot attack with alie: z is not set; settle the attack for its coalition first"
            )
        return alie(known, self.z)

    def check(self, path: str, parties: int) -> None:
        super().check(path, parties)
        if self.z is None:
            _check_z(f"{path}.z", parties, self.members)


def alie(known: F64, z: float) -> F64:
    """Return the mean minus ``z`` standard deviations of the known updates, by coordinate.

    Every attacker sends it. The deviation is that of the known rows as a population (divided by k).
    :func:`alie_z` is the largest useful ``z``.

    Knows: only its own coalition's honest updates, as an estimate of all.
    Source: Baruch, Baruch and Goldberg 2019 (arXiv 1902.06156), algorithm 3.
    """
    sent: F64 = known.mean(axis=0) - z * known.std(axis=0)
    return sent


def alie_quantile(parties: int, attackers: int) -> Fraction:
    """Return the level of ALIE's z in the normal law: (n - q - s) / (n - q), s = floor(n/2) + 1 - q.

    ``parties`` n includes the ``attackers`` q.

    At most 1/2: too few attackers, so no z > 0 hides. At least 1: a majority of attackers, so any z works.

    Source: Baruch, Baruch and Goldberg 2019 (arXiv 1902.06156), algorithm 3.
    """
    honest, supporters = parties - attackers, parties // 2 + 1 - attackers
    return Fraction(honest - supporters, honest) if honest else Fraction(1)


def alie_z(parties: int, attackers: int) -> float:
    """Return the largest z with which mean - z std still has a majority on its side, on average.

    s = floor(n / 2) + 1 - q honest parties must lie further out than the attackers, so z is the normal
    quantile at :func:`alie_quantile`. For n = 50 and q = 24: s = 2, z = 1.43. It is for a server that sees
    every update, not for clusters.

    Raises:
        UsageError: there is no such z > 0; loading rejects the scenario first.
    """
    quantile = alie_quantile(parties, attackers)
    if not Fraction(1, 2) < quantile < 1:
        raise UsageError(f"no z > 0 hides {attackers} Byzantine among {parties} parties; use fewer of them")
    return NormalDist().inv_cdf(float(quantile))


def _check_z(path: str, parties: int, attackers: int) -> None:
    quantile = alie_quantile(parties, attackers)
    needed = parties // 2 + 1 - attackers
    if quantile >= 1:
        reason = f"{attackers} of {parties} parties are a majority, so z cannot be computed"
        raise ConfigError(path, reason, "set z, as in z = 1.5")
    if quantile <= Fraction(1, 2):
        raise ConfigError(
            path,
            f"{attackers} of {parties} parties are too few: {needed} of the {parties - attackers} honest ones"
            " would have to lie further out, which is not the smaller half",
            "add attackers, or set z, as in z = 0.3",
        )
