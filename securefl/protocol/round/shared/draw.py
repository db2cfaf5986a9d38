"""Draw from a round's nonces, equal for server and parties: seed, clusters, weights."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from securefl.base import sums
from securefl.base.ids import PartyId
from securefl.methods.clustering import (
    Assignment,
    atoms_per_cluster,
    certified_seed,
    draw_assignment,
    draw_unions,
    fixed_assignment,
    fixed_seed,
    form_atoms,
    hides_groups,
    is_founded,
    kept_in,
    participants_of,
    tells_groups,
    whole,
    without_atoms,
)
from securefl.methods.weighting import cap_of, public_weights
from securefl.protocol.round.shared.groups import NO_GROUPS, draw_inside_groups
from securefl.protocol.round.shared.plan import RunPlan
from securefl.protocol.round.shared.reports import ClustersDrawn


@dataclass(frozen=True, slots=True)
class Draw:
    """Draw of a round, fixed once all nonces are known."""

    seed: bytes
    """32 bytes; public once the clusters are drawn."""
    assignment: Assignment
    weights: Mapping[PartyId, float]
    """Participants' weights, in (0, 1]."""
    resting: tuple[PartyId, ...]
    """Parties present but not drawn, without a whole atom, or in too small a fixed cluster."""
    atom_seed: bytes = b""
    """Seed of the run's atoms and labels of kept ones, public; empty without."""
    number: int = 0
    """Void draws of the round before this one."""
    cap: int | None = None
    """U: declared count of weight 1; None if all weigh the same."""
    groups: Mapping[PartyId, int] = field(default_factory=lambda: NO_GROUPS)
    """Open task groups of all parties present."""


def shortage(plan: RunPlan, present: Collection[PartyId], atom_seed: bytes = b"") -> str | None:
    """Return what the present parties lack for a round; None if nothing as far as known.

    Before the atoms form, or with atoms of different sizes, the draw may still have no participants.
    """
    if len(present) < plan.majority:
        return f"{plan.majority} are needed: more than half of the roster"
    return _shortage_for_clusters(plan, present, atom_seed)


def _shortage_for_clusters(plan: RunPlan, present: Collection[PartyId], atom_seed: bytes) -> str | None:
    if plan.scenario.clustering.atoms > 1:
        formed = is_founded(atom_seed)
        counted = (
            sums.exact_sum(map(len, whole(_atoms(plan, atom_seed), present))) if formed else len(present)
        )
        if counted >= plan.min_participants:
            return None
        where = " of them are in whole atoms" if formed else " are there"
        return f"{counted}{where}, and {plan.min_participants} are needed"
    if not plan.scenario.clustering.fixed:
        if plan.participants_of(len(present)):
            return None
        most = plan.limits.max_cluster_size
        return f"{plan.min_participants} are needed, and clusters of {most} members at most"
    fewest = plan.scenario.secure_sum.min_survivors
    counted = len(_fixed_assignment(plan, present).participants)
    if counted >= (plan.limits.quorum or 1):
        return None
    needed = f", and {plan.limits.quorum} are needed" if plan.limits.quorum else ""
    return f"{counted} of them are in fixed clusters with {fewest} members or more{needed}"


def reason_none_drawn(plan: RunPlan, present: Collection[PartyId], drawn: Draw) -> str:
    """Return why no party was drawn."""
    lacking = shortage(plan, present, drawn.atom_seed)
    most = plan.limits.max_cluster_size
    return f"{len(present)} parties are there; {lacking or f'whole atoms fit no clusters of {most} or fewer'}"


def draw_round(
    plan: RunPlan,
    round_: int,
    draw: int,
    model: bytes,
    nonces: Mapping[PartyId, bytes],
    samples: Mapping[PartyId, int],
    atom_seed: bytes = b"",
    groups: Mapping[PartyId, int] = NO_GROUPS,
) -> Draw:
    """Return clusters and weights of the round, with no participants if too few atoms are whole.

    ``draw`` is the number of void draws before. Fixed clusters ignore the nonces; other draws from the seed
    do not. ``atom_seed`` is the statement of kept atoms if this draw forms them.

    Raises:
        PeerError: a sample count is outside its limits.
    """
    seed = certified_seed(nonces, plan.run, round_, draw, model, plan.draw_digest)
    if plan.scenario.clustering.atoms == 1:
        atom_seed = b""
    elif not is_founded(atom_seed):
        atom_seed = _form_atom_seed(plan, seed, atom_seed)
    groups_sent = groups if tells_groups(plan.scenario.groups) else NO_GROUPS
    assignment = clusters_of(plan, seed, nonces.keys(), atom_seed, groups_sent)
    return with_weights(plan, draw, seed, assignment, samples, atom_seed, groups_sent)


def with_weights(
    plan: RunPlan,
    draw: int,
    seed: bytes,
    assignment: Assignment,
    samples: Mapping[PartyId, int],
    atom_seed: bytes = b"",
    groups: Mapping[PartyId, int] = NO_GROUPS,
) -> Draw:
    """Return the draw of known clusters, with all weights, as :func:`draw_round`."""
    weighting, drawn = plan.scenario.weighting, assignment.participants
    resting = tuple(sorted(samples.keys() - set(drawn)))
    if not drawn:
        return Draw(seed, assignment, {}, resting, atom_seed, draw, groups=groups)
    weights, cap = public_weights(weighting, samples, drawn), cap_of(weighting, samples, drawn)
    return Draw(seed, assignment, weights, resting, atom_seed, draw, cap, groups)


def clusters_of(
    plan: RunPlan,
    seed: bytes,
    present: Collection[PartyId],
    atom_seed: bytes,
    groups: Mapping[PartyId, int] = NO_GROUPS,
) -> Assignment:
    """Return the clusters that follow from a round's certified seed, 32 bytes, for draws and audits.

    ``present`` are the parties with a hello.
    """
    clustering = plan.scenario.clustering
    if tells_groups(plan.scenario.groups):
        return draw_inside_groups(plan, seed, present, groups)
    if atom_seed:
        unions = _unions(plan, seed, atom_seed, present)
        # With hidden groups, counts and every slot use the same clusters.
        again = 1 + plan.models if hides_groups(plan.scenario.groups) else 1
        return replace(unions, clusters=unions.clusters * again)
    if clustering.fixed:
        return _fixed_assignment(plan, present)
    wanted = plan.participants_of(len(present))
    return draw_assignment(seed, present, wanted, clustering.size, clustering.reclusterings)


def _form_atom_seed(plan: RunPlan, seed: bytes, statement: bytes) -> bytes:
    """Return the seed of the atoms that a draw forms around a statement's kept ones.

    If no clusters of kept atoms fit, their members sit out.
    """
    parties = plan.roster.parties
    kept = kept_in(statement, parties)
    formed = seed + kept.labels(parties)
    if kept.bound and not _unions(plan, seed, formed, parties).participants:
        formed = seed + without_atoms(kept).labels(parties)
    return formed


def _atoms(plan: RunPlan, atom_seed: bytes) -> tuple[tuple[PartyId, ...], ...]:
    return form_atoms(atom_seed, plan.roster.parties, plan.scenario.clustering.atoms)


def _unions(plan: RunPlan, seed: bytes, atom_seed: bytes, present: Collection[PartyId]) -> Assignment:
    return draw_unions(
        seed,
        whole(_atoms(plan, atom_seed), present),
        atoms_per_cluster(plan.scenario.clustering),
        plan.scenario.clustering.reclusterings,
        fewest=plan.min_participants,
        wanted=participants_of(plan.scenario),
        largest=plan.limits.max_cluster_size,
    )


def usable_samples(plan: RunPlan, drawn: Draw) -> int | None:
    """Return the most samples that an honest party trains on; None for all."""
    return drawn.cap if plan.scenario.weighting.use == "truncated" else None


def drawn_report(round_: int, drawn: Draw, samples: Mapping[PartyId, int]) -> ClustersDrawn:
    """Return the report of a draw."""
    assignment = drawn.assignment
    counts = tuple(sorted(samples.items()))
    return ClustersDrawn(
        round_,
        assignment.digest(),
        assignment.clusters,
        drawn.resting,
        drawn.seed,
        counts,
        drawn.atom_seed,
        assignment.tasks,
        tuple(sorted(drawn.groups.items())),
        drawn.cap,
    )


def _fixed_assignment(plan: RunPlan, present: Collection[PartyId]) -> Assignment:
    seed = fixed_seed(plan.run, plan.draw_digest)
    size, fewest = plan.scenario.clustering.size, plan.scenario.secure_sum.min_survivors
    return fixed_assignment(seed, plan.roster.parties, present, size, fewest)
