"""Cluster sums of one round, without masks."""

from collections.abc import Collection, Mapping
from itertools import product

import numpy as np

from securefl.base.arrays import F32, Ring
from securefl.base.ids import PartyId
from securefl.methods import clustering
from securefl.protocol import kernel
from securefl.protocol.round import (
    NO_GROUPS,
    NO_VALUES,
    ClusterKey,
    ClusterSum,
    Draw,
    RunPlan,
    StartValues,
    UpdateId,
    metric_atoms,
    model_of,
    with_allowed_metrics,
)
from securefl.runtime.simulation import attempts, outcomes
from securefl.runtime.simulation.party import SimulatedParty
from securefl.runtime.simulation.trainers import Trainings


def sum_up(
    plan: RunPlan,
    parties: Mapping[PartyId, SimulatedParty],
    trainings: Trainings,
    round_: int,
    params: F32,
    drawn: Draw,
    deviations: attempts.Deviations,
    groups: Mapping[PartyId, int] = NO_GROUPS,
    without_group: Collection[PartyId] = (),
    vetoes: outcomes.Vetoes = outcomes.nobody_vetoes,
    *,
    values: StartValues = NO_VALUES,
) -> tuple[outcomes.RoundOutcomes, list[ClusterSum]]:
    """Train all counted parties and add up their uploads; zeros for failed trainings.

    Updates are dropped once added: memory grows with the clusters, not with the parties. ``params`` has shape
    (k d,). Parties of ``without_group``, which could not choose a task group, send zeros.

    Returns:
        Outcomes of the round, and the opened sums in the order of (reclustering, cluster).
    """
    clusters = drawn.assignment.clusters
    works = product(range(clustering.works_of(plan.scenario.clustering)), range(plan.models))
    occasions = [
        (g, UpdateId(round_, work, model_of(plan, params, g), clusters, values)) for work, g in works
    ]
    outcome = outcomes.fates(plan, round_, drawn.assignment, deviations, vetoes)
    totals, counting = _Totals(plan, drawn.assignment), metric_atoms(plan, drawn.atom_seed)
    nothing = np.zeros(plan.upload_length, dtype=np.float64)
    for group, occasion in occasions:
        names = sorted(name for name in outcome.survivors if groups.get(name, 0) == group)
        for name, update in trainings.of(occasion, names):
            sent = nothing if update is None or name in without_group else update
            sent = with_allowed_metrics(plan, counting, name, sent)
            upload = parties[name].encode(plan, occasion, sent, drawn.weights[name])
            made = parties[name].uploads(plan, round_, upload, group)
            for number, one in enumerate(made, occasion.work):
                totals.add(name, number, one.ring)
    last = dict(outcome.further)
    sums = [totals.open_sum(key, last.get(key)) for key in sorted(outcome.opened)]
    for opened in sums if plan.removable_noise(plan.length) is not None else ():
        _keep_noise(plan, parties, round_, opened, last[opened.key].number if opened.key in last else 0)
    return outcome, sums


def _keep_noise(
    plan: RunPlan,
    parties: Mapping[PartyId, SimulatedParty],
    round_: int,
    opened: ClusterSum,
    attempt: int,
) -> None:
    setup = plan.setup(kernel.Place(round_, *opened.key, attempt), opened.members, b"")
    for name in opened.survivors:
        for component in parties[name].kept_noise(setup, len(opened.survivors)):
            np.add(opened.ring, component, out=opened.ring)


class _Totals:
    def __init__(self, plan: RunPlan, assignment: clustering.Assignment) -> None:
        self._plan = plan
        self.members = {(r, j): m for r, row in enumerate(assignment.clusters) for j, m in enumerate(row)}
        self._keys: dict[tuple[PartyId, int], list[ClusterKey]] = {}
        for key, members in self.members.items():
            for party in members:
                self._keys.setdefault((party, clustering.upload_of(plan.scenario, key[0])), []).append(key)
        self._sums: dict[ClusterKey, Ring] = {}
        self._added: dict[ClusterKey, set[PartyId]] = {}

    def add(self, party: PartyId, work: int, ring: Ring) -> None:
        for key in self._keys[party, work]:
            words = ring[: self._plan.sum_length(key[0])]
            if key not in self._sums:
                self._sums[key] = np.zeros_like(words)
            np.add(self._sums[key], words, out=self._sums[key])
            self._added.setdefault(key, set()).add(party)

    def open_sum(self, key: ClusterKey, attempt: attempts.Attempt | None) -> ClusterSum:
        """Return the sum of one cluster; ``attempt`` is the one that opened, None for the first."""
        members, added = self.members[key] if attempt is None else attempt.members, self._added[key]
        return ClusterSum(*key, members, tuple(p for p in members if p in added), self._sums[key])
