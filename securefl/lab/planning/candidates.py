"""Designs that meet the demands by formulas."""

from collections.abc import Iterator

from securefl.lab.planning import design, resilience
from securefl.lab.planning.demand import PlanRequest
from securefl.lab.planning.noise import p_round_loses
from securefl.methods import privacy

_SHARED: tuple[privacy.Placement, ...] = ("threshold", "dropout-exact")


def designs(demand: PlanRequest) -> Iterator[design.Design]:
    """Yield all designs that meet the demands, except limits that only the ledger detects."""
    for shape in design.shapes(demand):
        sizes = shape.sizes(demand.parties)
        spoiled = resilience.spoiled_clusters(demand, shape)
        for noise in _placements(demand, shape):
            # Verifiers of a sum know it, so f = 0 is refused.
            f = max(
                resilience.colluders_per_cluster(demand, shape, shared=noise in _SHARED), int(demand.verified)
            )
            for min_survivors in survivors(demand, shape, f):
                threshold = design.threshold_of(sizes, f, min_survivors, demand.server)
                if threshold is None:
                    continue
                for rule in design.rules(demand.liars, len(sizes), spoiled):
                    yield design.Design(
                        shape=shape,
                        colluders=f,
                        threshold=threshold,
                        min_survivors=min_survivors,
                        rule=rule,
                        noise=noise,
                    )


def fewest_survivors(demand: PlanRequest, shape: design.Shape, f: int) -> int:
    """Return the fewest survivors: f + k (or q + k), and the threshold against an active server."""
    most = max(shape.sizes(demand.parties))
    least = max(
        resilience.colluders_together(demand, shape, f) + demand.k,
        (most + f) // 2 + 1 if demand.server == "active" else 0,
    )
    return -(-least // shape.atoms) * shape.atoms


def survivors(demand: PlanRequest, shape: design.Shape, f: int) -> Iterator[int]:
    """Yield the fewest required survivors, and to share noise the most that rarely lose a cluster."""
    fewest = fewest_survivors(demand, shape, f)

    def keeps_sum(number: int) -> bool:
        return p_round_loses(demand, shape, number) <= demand.lost

    # An atom's sum may be determined: the atom itself must hold f + k parties.
    if fewest > shape.size or not keeps_sum(fewest) or (shape.atoms > 1 and shape.atoms < f + demand.k):
        return
    yield fewest
    most = fewest
    while demand.epsilon is not None and most < shape.size and keeps_sum(most + shape.atoms):
        most += shape.atoms
    if most > fewest:
        yield most


def _placements(demand: PlanRequest, shape: design.Shape) -> tuple[privacy.Placement | None, ...]:
    if demand.epsilon is None:
        return (None,)
    # The loader refuses both: shares of noise opened several times would be its only protection, and a party
    # that knows the atoms can choose which colluders are present.
    return ("local",) if shape.openings > 1 or shape.atoms > 1 else ("local", "threshold", "dropout-exact")
