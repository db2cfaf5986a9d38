"""The ``[secure_sum]``, ``[encoding]`` and ``[leakage]`` tables."""

from typing import Annotated, Literal

from msgspec import Meta

from securefl.scenario import section
from securefl.scenario.privacy import Validate


class SecureSum(section.Section, frozen=True, kw_only=True):
    """Parameters of the secure sums in clusters, with the letters of docs/protocol.md.

    >>> from securefl.sections import SecureSum
    >>> SecureSum(server="active").verification
    'committee'
    """

    kind: Literal["masking", "crypten", "plain"] = "masking"
    """``masking``: pairwise masks with double masking. ``crypten``: CrypTen's arithmetic secret sharing
    (docs/crypten.md); all members of a sum open it, so ``threshold`` equals ``min_survivors``, at least
    2. ``plain``: no protection, for simulations and tests only; ``run`` and all processes refuse it."""
    validate: Validate | Literal["none"] = "none"
    """``crypten`` only, clusters of 3 or more: members whose update is too long are left out before the
    sum opens (docs/crypten.md). Such a run has a dealer."""
    server: Literal["curious", "active"] = "curious"
    """``curious``: the server follows the protocol and inspects all that it receives. ``active``: it may
    deviate in any way, and each freeze needs a certificate of more than (N + q) / 2 signatures."""
    verify: Literal["off", "committee", "all"] | None = None
    """``active`` only: parties that repeat the server's step before any party trains on it
    (docs/verified-rounds.md). f + 1 members repeat the opening of their cluster; a committee, or all
    parties, repeat the step. Needs f >= 1 and a rule without server data. None: ``committee`` if the
    server is active, else ``off``."""
    threshold: section.Positive = 2
    """t, members needed to open a sum; derived by default. t > f, at most the smallest planned cluster.
    With an active server also 2t - m > f for the largest planned cluster. The default here is for
    tables made in Python."""
    min_survivors: section.Positive = 2
    """Fewest survivors of an opened sum; derived by default. At least max(t, f + k), at most the smallest
    planned cluster. A cluster of s members tolerates s - ``min_survivors`` dropouts."""
    colluders_per_cluster: section.NonNegative = 0
    """f, bound on members of one cluster that collude with the server, at most q; derived by default."""
    colluders: section.NonNegative = 0
    """q, bound on parties that collude with the server over the whole run, below N; derived by default."""
    k_anonymity: section.Positive = 2
    """k, fewest honest parties in any combination of sums. 1 only with ``leakage.mode = "report"``."""
    max_attempts: Annotated[int, Meta(ge=1, le=8)] = 2
    """Attempts per secure sum, including the first. Retries happen before the freeze only."""

    @property
    def verification(self) -> Literal["off", "committee", "all"]:
        """Value of ``verify``, or its default."""
        return self.verify or ("committee" if self.server == "active" else "off")

    @property
    def verified(self) -> bool:
        """True if openings and steps are verified."""
        return self.verification != "off"

    @property
    def validated(self) -> Validate | None:
        """Validation of updates, or None."""
        return None if self.validate == "none" else self.validate


class Encoding(section.Section, frozen=True, kw_only=True):
    """Clip and fixed point: a coordinate x becomes round(x * 2^scale_bits), with abs(x) at most ``range``.

    >>> from securefl.sections import Encoding
    >>> Encoding(clip=1.0).scale_bits
    16
    """

    clip: section.PositiveReal | Literal["none"] = "none"
    """L2 bound of the whole update before weighting; 1, in units of the clip, with ``privacy.clip``."""
    scale_bits: Annotated[int, Meta(ge=0, le=40)] = 16
    """Coordinates are rounded without bias to multiples of 2^-``scale_bits``. ``range`` x 2^``scale_bits``
    lies between 1 and 2^53 - 1."""
    range: section.PositiveReal = 256.0
    """Largest magnitude of one coordinate. An honest update beyond it is clamped, and ends ``simulate``
    and ``run`` after that round with exit code 1. With ``[privacy]`` or a clip only the party's own log
    reports it, except in ``simulate`` or with ``--lab``."""
    ring_bits: Literal["auto", 32, 64] = "auto"
    """Width of the ring of the sums. A sum must not wrap: largest cluster x floor(range x 2^scale_bits) <
    2^(bits - 1). ``auto``: 32 if that holds, else 64."""


Audit = Literal[
    "exposure",
    "views",
    "unmasking",
    "budget",
    "replay",
    "chain",
    "reconstruction",
    "inversion",
    "membership",
    "canary",
    "properties",
]
"""Audits (docs/audit.md)."""


class Leakage(section.Section, frozen=True, kw_only=True):
    """Limits on the information in all sums of one update together, besides ``secure_sum.k_anonymity``.

    >>> from securefl.sections import Leakage
    >>> Leakage(leverage=0.5).mode
    'veto'
    """

    mode: Literal["veto", "report"] = "veto"
    """``veto``: parties release nothing that crosses a limit of any party, alone or with other sums of the
    same updates (docs/leakage.md). ``report``: for experiments; every header states it."""
    colluders: section.NonNegative | None = None
    """Assumed colluders in any combination of sums, f to q: a combination holds at least ``colluders`` + k
    parties. None: f, or q if several sums hold the same update without atoms."""
    leverage: Annotated[float, Meta(ge=1e-6, le=1)] = 1.0
    """Largest leverage of a party (docs/privacy.md) with these colluders, at least 1 / (``min_survivors``
    - ``colluders``). 1 adds no limit."""
    allow: tuple[Audit, ...] = ()
    """Audits whose breaches the scenario intends: ``securefl audit`` reports them and exits with 0."""
