"""Additional bytes of a round's verifiers (ADR 0044)."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass

from securefl.base import crypto
from securefl.lab.planning import traffic
from securefl.lab.planning.frames import Cohort, Frames, Verifiers, body_of
from securefl.methods import clustering, feasibility
from securefl.protocol import messages, wire
from securefl.scenario import Scenario

_HASH = bytes(32)
_MOMENT = 8
"""Bytes of a parameter in SGD's one moment."""
_PARAMETER = 4
"""Bytes of a parameter in a model."""


@dataclass(frozen=True, slots=True)
class VerifierTraffic:
    """Bytes of frames beyond those of a party that verifies nothing."""

    opening: traffic.PlannedTraffic
    """Bytes of a party that repeats the opening of one cluster."""
    step: traffic.PlannedTraffic
    """Bytes of a member of the committee."""
    mean: traffic.PlannedTraffic
    """Mean over all parties."""
    server: int


@functools.lru_cache(maxsize=4096)
def verifier_traffic(cohort: Cohort) -> VerifierTraffic | None:
    """Return the bytes of a round without faults; None for unverified rounds."""
    verifiers = cohort.verifiers
    if verifiers is None:
        return None
    opening, step = (
        traffic.PlannedTraffic(
            sum(size for _, size in verifier_says(cohort)),
            sum(size for _, size in hears(cohort)),
        )
        for hears in (opener_hears, committee_hears)
    )
    openers = min(verifiers.asked, cohort.members) * cohort.reclusterings / cohort.members
    seats = min(verifiers.committee, cohort.parties) / cohort.parties
    mean = traffic.PlannedTraffic(
        round(openers * opening.sent + seats * step.sent),
        round(openers * opening.received + seats * step.received),
    )
    return VerifierTraffic(opening, step, mean, cohort.parties * mean.received)


def verifiers_of(scenario: Scenario, members: int) -> Verifiers | None:
    """Return the verifiers of a round with clusters of ``members``; None for unverified rounds."""
    if not scenario.secure_sum.verified:
        return None
    return Verifiers(
        asked=feasibility.openers_asked(scenario, members),
        needed=scenario.secure_sum.colluders_per_cluster + 1,
        committee=min(clustering.committee_size(scenario), clustering.participants_of(scenario)),
    )


def verifier_says(cohort: Cohort) -> Iterator[tuple[str, int]]:
    """Yield kind and bytes of the frames that a party sends for each repeated opening or step."""
    yield Frames(cohort).up(messages.Attest(root=_HASH))


def opener_hears(cohort: Cohort) -> Iterator[tuple[str, int]]:
    """Yield kind and bytes of the frames to a party that repeats the opening of its cluster."""
    frames, m = Frames(cohort, 0), cohort.members
    secrets = tuple((index, _HASH) for index in range(m))
    opened = messages.Opened(seeds=secrets, keys=(), noise=secrets if cohort.components else ())
    proof = messages.OpeningProof(
        signature=bytes(wire.SIGNATURE),
        claim=traffic.claim_of(cohort),
        adverts=(frames.signed_size(traffic.advert_of(cohort)),) * m,
        receipts=(frames.signed_size(traffic.receipt_of(cohort)),) * m,
        sealed=bytes(crypto.SEAL_OVERHEAD + body_of(opened)),
        vectors=b"",
    )
    yield frames.down(cohort.party, proof, m * cohort.parameters * cohort.word)


def committee_hears(cohort: Cohort) -> Iterator[tuple[str, int]]:
    """Yield kind and bytes of the frames to a member of the committee."""
    empty = messages.Step(moments=b"", totals=(), sums=b"", model=b"")
    moments = body_of(empty, _MOMENT * cohort.parameters)
    sums = body_of(empty, cohort.sums * cohort.parameters * cohort.word)
    model = body_of(empty, _PARAMETER * cohort.parameters)
    sealed = crypto.SEAL_OVERHEAD + moments + sums + model - 2 * body_of(empty)
    yield Frames(cohort).down(
        cohort.party,
        messages.StepProof(claim=traffic.claim_of(cohort), signature=bytes(wire.SIGNATURE), sealed=b""),
        sealed,
    )
