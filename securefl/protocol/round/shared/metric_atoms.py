"""Metrics without noise, opened over atoms that parties keep in all runs (ADR 0060).

A party whose atom is not completely in the run sends zeros as metrics.
"""

from collections.abc import Collection, Mapping

from securefl.base import crypto
from securefl.base.arrays import F64
from securefl.base.ids import PartyId
from securefl.methods import clustering
from securefl.protocol.round.shared.plan import RunPlan

CONFLICT = (
    "its key has given metrics in another atom, which the parties that formed this run's atoms did not know;"
    " it takes part in runs whose metrics have noise, and in runs without metrics"
)


def keeps_atoms(plan: RunPlan) -> bool:
    """Return True if the run's metrics have no noise and open over kept atoms."""
    scenario = plan.scenario
    evaluation = scenario.evaluation
    return (
        bool(evaluation.metrics)
        and scenario.privacy.unit == "none"
        and scenario.clustering.atoms > 1
        and evaluation.repeats == "refuse"
    )


def fewest_counted(plan: RunPlan) -> int:
    """Return the members of an atom that hide one of them, f + k."""
    sums = plan.scenario.secure_sum
    return sums.colluders_per_cluster + sums.k_anonymity


def atoms_statement(plan: RunPlan, me: PartyId, atoms: Collection[clustering.Atom]) -> bytes:
    """Return a party's statement of its known atoms, or empty."""
    if not atoms or not keeps_atoms(plan):
        return b""
    return clustering.statement_of(clustering.kept_by(me, atoms, plan.roster.parties), plan.roster.parties)


def agreed_statement(plan: RunPlan, stated: Mapping[PartyId, bytes]) -> bytes:
    """Return the statement of atoms on which hellos agree; empty for none."""
    if not any(stated.values()) or not keeps_atoms(plan):
        return b""
    fewest, size = fewest_counted(plan), plan.scenario.clustering.atoms
    parties = plan.roster.parties
    agreed = clustering.agreed_atoms(
        stated, parties, plan.scenario.secure_sum.colluders, range(max(fewest, size), 2 * size)
    )
    return clustering.statement_of(agreed, parties)


def metric_atoms(plan: RunPlan, atom_seed: bytes) -> tuple[clustering.Atom, ...] | None:
    """Return the parties that send metrics, in the run's atoms; None if metrics ignore atoms."""
    if not keeps_atoms(plan):
        return None
    parties = plan.roster.parties
    atoms = clustering.form_atoms(atom_seed, parties, plan.scenario.clustering.atoms)
    return clustering.counting_atoms(atoms, clustering.kept_in(atom_seed, parties), fewest_counted(plan))


def own_atom(atoms: Collection[clustering.Atom], me: PartyId) -> clustering.Atom:
    """Return the atom of a party; empty for none."""
    return next((atom for atom in atoms if me in atom), ())


def is_in_conflict(
    atoms: Collection[clustering.Atom] | None, kept: Collection[clustering.Atom], me: PartyId
) -> bool:
    """Return True if others expect metrics that the party may send in another atom only."""
    own = own_atom(kept, me)
    return atoms is not None and bool(own) and own_atom(atoms, me) not in {(), own}


def with_allowed_metrics(
    plan: RunPlan, atoms: Collection[clustering.Atom] | None, me: PartyId, update: F64
) -> F64:
    """Return an update, f64 ``(d + w,)``, without metrics that must not be sent."""
    if atoms is None or own_atom(atoms, me):
        return update
    counted = update.copy()
    counted[plan.length :] = 0.0
    return counted


def simulated_atoms(plan: RunPlan) -> tuple[clustering.Atom, ...]:
    """Return the atoms of simulated parties, equal in all runs of one roster."""
    parties, size = sorted(plan.roster.parties), plan.scenario.clustering.atoms
    if not keeps_atoms(plan) or len(parties) < size:
        return ()
    return clustering.form_atoms(crypto.digest("atoms of names", size, *parties), parties, size)
