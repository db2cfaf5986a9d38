"""``secure_sum.validate``: updates that are measured before they count (ADR 0024)."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from securefl.scenario import section

DEAL_BYTES = 480 * 1024
"""Largest box of triples: one member's deal has to fit into a frame, so that it can be relayed as signed."""


class Validate(section.Section, frozen=True, kw_only=True):
    """A bound on the L2 norm of what a party submits, checked under MPC before it is counted."""

    norm: section.PositiveReal
    """C, in the unit of the parameters: honest updates stay below 0.9 C, and 2 C or more are refused."""
    projections: Annotated[int, Meta(ge=8, le=256, multiple_of=8)] = 64
    failure: Annotated[float, Meta(gt=0, le=0.1)] = 1e-3
    """Bound on the probability of either error, for each update."""
