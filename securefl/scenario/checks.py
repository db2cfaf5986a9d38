"""The ``[checks]`` table: the server's checks of opened sums (step 12 of the data flow)."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from securefl.scenario.section import Section


class Checks(Section, frozen=True, kw_only=True):
    """Checks of opened sums against the noise that was agreed; a sum that fails is left out."""

    kind: Literal["none", "published", "corrected"] = "none"
    """``corrected``: all of :mod:`securefl.methods.privacy.checks`, whose rate of false alarms is known.
    ``published``: the norm and KS tests of Xiang et al. 2023, algorithm 2, for clusters of one."""
    alpha: Annotated[float, Meta(ge=1e-6, le=0.5)] = 0.01
    """``corrected``: probability that a round leaves out any sum of honest parties."""
