"""Bytes that a server sends to the verifiers of its rounds (ADR 0044)."""

import math
from dataclasses import dataclass

from securefl.base.errors import ConfigError
from securefl.methods import clustering
from securefl.scenario import Scenario

MAX_PROOF = 8 * 64 * 1024 * 1024
"""Largest number of bytes of vectors in one proof: the limit of a message field."""
_MEGABYTE = 1_000_000
_MOMENT = 8
"""Bytes of a parameter in one moment of the optimiser."""
_PARAMETER = 4
"""Bytes of a parameter in a model."""


@dataclass(frozen=True, slots=True)
class Proofs:
    """Upper bounds on the bytes of vectors in the proofs of one round; lists and headers are extra."""

    opening: int
    """One proof of an opening: all vectors of a cluster."""
    step: int
    """One proof of a step: all sums, the optimiser's moments, and the next model."""
    openings: int
    """All proofs of openings."""
    steps: int
    """All proofs of the step."""

    @property
    def total(self) -> int:
        """All proofs that the server sends to verifiers."""
        return self.openings + self.steps


def openers_asked(scenario: Scenario, members: int) -> int:
    """Return how many of a cluster's members are asked to repeat its opening: 2 f + 2, or all of fewer.

    An opening needs f + 1 attestations: f members may withhold theirs, and one may drop out.
    """
    return min(2 * scenario.secure_sum.colluders_per_cluster + 2, members)


def proofs_of(scenario: Scenario, ring_bits: int, length: int) -> Proofs:
    """Return the largest size of the proofs of one round, for any absences; all 0 without verification.

    ``ring_bits`` is 32 or 64, ``length`` the number of parameters of one model.
    """
    if not scenario.secure_sum.verified:
        return Proofs(0, 0, 0, 0)
    vector, largest = length * ring_bits // 8, clustering.max_cluster_size(scenario)
    hidden = clustering.hides_groups(scenario.groups)
    vectors = scenario.groups.count if hidden else scenario.clustering.reclusterings
    participants = clustering.participants_of(scenario)
    moments = _MOMENT * scenario.server_optimiser.moments * scenario.groups.count * length
    model = _PARAMETER * scenario.groups.count * length
    step = vectors * len(clustering.planned_sizes(scenario)) * vector + moments + model
    return Proofs(
        opening=largest * vector,
        step=step,
        # Absent parties make fewer and larger clusters, but not more members in total.
        openings=vectors * participants * openers_asked(scenario, largest) * vector,
        steps=min(clustering.committee_size(scenario), participants) * step,
    )


def most_parameters(scenario: Scenario, ring_bits: int) -> int:
    """Return the largest d for which each proof of a verified round fits into a message."""
    each = proofs_of(scenario, ring_bits, 1)
    return MAX_PROOF // max(each.opening, each.step)


def check_proofs(scenario: Scenario, ring_bits: int, length: int) -> None:
    """Raise a ConfigError for models whose proofs (:func:`proofs_of`) do not fit into a message."""
    proofs = proofs_of(scenario, ring_bits, length)
    for what, size in (("an opening", proofs.opening), ("a step", proofs.step)):
        if size > MAX_PROOF:
            raise ConfigError(
                "secure_sum.verify",
                f"the proof of {what} needs {_show_size(size)} MB with {length:,} parameters, the limit is "
                f"{_show_size(MAX_PROOF)} MB",
                "use a smaller model, fewer and smaller clusters, or secure_sum.verify = off",
            )


def _show_size(size: int) -> str:
    """Return megabytes, rounded up, so that a size above the limit never looks equal to it."""
    return f"{math.ceil(10 * size / _MEGABYTE) / 10:,.1f}"
