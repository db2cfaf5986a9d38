"""Lemma 2 of SHARE: Byzantine parties move a round's aggregate only as far as the rule lets so many clusters.

Through the real path: encode, add up in the ring, decode, aggregate over R reclusterings. What holds, with k
the number of clusters that the rule withstands (:func:`securefl.methods.robust.tolerance.withstood`):

- up to k Byzantine parties, wherever they are and whatever ring words they add, leave the aggregate within
  bounds that the clean cluster means (and the server's own data) determine;
- k + 1 of them, each in a cluster of its own, do not, for rules whose breakdown point is exactly k; the same
  parties in one cluster do nothing;
- one such reclustering in R is enough.

The lemma has q0 / m for k; docs/results/what-we-found.md says where that is something else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from operator import add

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefl.base.arrays import F32, F64, I64
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.ids import PartyId
from securefl.methods.clustering.assignment import draw_assignment
from securefl.methods.robust.pre_aggregation.bucketing import Bucketing
from securefl.methods.robust.rules.bulyan import Bulyan
from securefl.methods.robust.rules.centred_clipping import CentredClipping
from securefl.methods.robust.rules.fltrust import FlTrust
from securefl.methods.robust.rules.geometric_median import GeometricMedian
from securefl.methods.robust.rules.krum import Krum
from securefl.methods.robust.rules.mean import Mean
from securefl.methods.robust.rules.mean_around_median import MeanAroundMedian
from securefl.methods.robust.rules.median import Median
from securefl.methods.robust.rules.minimum_diameter import MinimumDiameter
from securefl.methods.robust.rules.multi_krum import MultiKrum
from securefl.methods.robust.rules.sign_majority import SignMajority
from securefl.methods.robust.rules.trimmed_mean import TrimmedMean
from securefl.methods.robust.rules.zeno_plus_plus import ZenoPlusPlus
from securefl.methods.robust.tolerance import clusters_needed_by, withstood
from securefl.protocol.round.party.upload import HONEST, Seams, UpdateId, make_upload
from securefl.protocol.round.server.stacking import ClusterSum, RoundAggregate, aggregate_round, stack_sums
from securefl.protocol.round.shared.plan import RunPlan
from securefl.protocol.round.shared.reports import ModelFinal, SumOpened
from securefl.scenario.aggregation import PreAggregation, Rule
from tests.contracts.test_rules import assert_bounded
from tests.simulation.world import World, scenario
from tests.tiers import examples
from tests.unit.round.samples import plan_of

LENGTH = 16
SEED = bytes(range(32))
Clusters = tuple[tuple[tuple[PartyId, ...], ...], ...]


@dataclass(frozen=True)
class Case:
    """A rule with what stands in front of it."""

    rule: Rule
    before: tuple[PreAggregation, ...] = ()
    exact: bool = False
    """Whether one Byzantine cluster more than it withstands moves the result anywhere."""

    def __str__(self) -> str:
        return "+".join(str(part).replace(" ", "") for part in (*self.before, self.rule))


CASES = [
    Case(Mean(), exact=True),
    Case(Median(), exact=True),
    Case(Median(), (Bucketing(size=2),)),
    Case(TrimmedMean(trim=1), exact=True),
    Case(TrimmedMean(trim=2), exact=True),
    Case(MeanAroundMedian(byzantine=2), exact=True),
    Case(Krum(byzantine=1)),
    Case(Krum(byzantine=2)),
    Case(MultiKrum(byzantine=2)),
    Case(Bulyan(byzantine=1)),
    Case(GeometricMedian(), exact=True),
    Case(CentredClipping(radius=2.0, iterations=2)),
    Case(SignMajority(step=2.0)),
    Case(MinimumDiameter(byzantine=2), exact=True),
    Case(FlTrust()),
    Case(ZenoPlusPlus(scale="mean", rho=0.01, eps=0.2)),
]
EVERY = pytest.mark.parametrize("case", CASES, ids=str)
EXACT = pytest.mark.parametrize("case", [case for case in CASES if case.exact], ids=str)


@cache
def plan_for(case: Case, clusters: int, parties: int, reclusterings: int) -> RunPlan:
    """A plan in which ``parties`` make so many clusters."""
    size = parties // clusters
    sets = {"aggregation__rule": inline(case.rule), "leakage__mode": "report"}
    if case.before:
        sets["aggregation__pre_aggregation"] = f"[{', '.join(map(inline, case.before))}]"
    if case.rule in {FlTrust(), CASES[-1].rule}:
        sets["data__server_fraction"] = "0.05"
    made = scenario(parties, size=str(size), reclusterings=str(reclusterings), **sets)
    return plan_of(made, LENGTH)


def inline(section: Rule | PreAggregation) -> str:
    """As a TOML inline table."""
    fields = msgspec.to_builtins(section)
    pairs = (
        f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {value!r}"
        for key, value in fields.items()
        if value is not None
    )
    return f"{{ {', '.join(pairs)} }}"


@dataclass(frozen=True, eq=False)
class Round:
    """One round of a plan: who is where, what all send, and what is opened."""

    plan: RunPlan
    clusters: Clusters
    updates: Mapping[PartyId, F64]
    weights: Mapping[PartyId, float]
    lies: Mapping[PartyId, I64]
    """By Byzantine party the ring words that it adds instead of its encoded update."""
    gradient: F64

    def sums(self, seed: int = 5) -> list[ClusterSum]:
        before = np.zeros(LENGTH, dtype=np.float32)
        rings = {}
        for party, update in self.updates.items():
            lie = self.lies.get(party)
            seams = HONEST if lie is None else Seams(encoded=lambda _values, _occasion, lie=lie: lie)  # type: ignore[misc]
            entropy = InsecureSeededEntropy(seed).child("update", party)
            occasion = UpdateId(0, 0, before, self.clusters)
            rings[party] = make_upload(self.plan, occasion, update, self.weights[party], entropy, seams).ring
        return [
            ClusterSum(r, j, members, members, reduce(add, (rings[p] for p in members)))
            for r, row in enumerate(self.clusters)
            for j, members in enumerate(row)
        ]

    def aggregate(self, sums: Sequence[ClusterSum]) -> RoundAggregate:
        gradients = dict.fromkeys(range(len(self.clusters)), self.gradient)
        return aggregate_round(self.plan, sums, self.weights, SEED, None, gradients)


def draw_clusters(plan: RunPlan, seed: bytes) -> Clusters:
    parties = [PartyId(f"p{i:02d}") for i in range(plan.scenario.parties)]
    shape = plan.scenario.clustering
    return draw_assignment(seed, parties, len(parties), shape.size, shape.reclusterings).clusters


@st.composite
def lies_about(
    draw: st.DrawFn, updates: Mapping[PartyId, F64], liars: Sequence[PartyId]
) -> dict[PartyId, I64]:
    """Ring words of any size: one point for all, opposite points, a scaled truth, or anything."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    size = draw(st.sampled_from([0, 1, 2**16, 2**20, 2**28, 2**31 - 1, -(2**31)]))
    kind = draw(st.sampled_from(["same", "opposite", "scaled", "anything"]))
    direction = generator.choice([-1, 1], LENGTH)
    lies = {}
    for index, party in enumerate(liars):
        match kind:
            case "same":
                words = size * direction
            case "opposite":
                words = (-1) ** index * size * direction
            case "scaled":
                factor = draw(st.sampled_from([-1.0, -10.0, 1000.0]))
                words = np.rint(factor * updates[party] * 2**16).astype(np.int64)
            case _:
                words = generator.integers(-(2**31), 2**31, LENGTH)
        lies[party] = words.astype(np.int64)
    return lies


@st.composite
def rounds(draw: st.DrawFn, case: Case) -> Round:
    """Up to as many Byzantine parties as the rule withstands clusters, in clusters of 2 to 4 members."""
    probe = plan_for(case, 12, 24, 1).scenario.aggregation
    clusters = clusters_needed_by(probe) + draw(st.integers(0, 3))
    size = draw(st.integers(2, 3))
    parties = clusters * size + draw(st.integers(0, size - 1))
    plan = plan_for(case, clusters, parties, draw(st.integers(1, 2)))
    assigned = draw_clusters(plan, draw(st.binary(min_size=32, max_size=32)))
    assert all(len(row) == clusters for row in assigned)
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    everybody = sorted(party for members in assigned[0] for party in members)
    updates = {party: generator.normal(0.3, 1.0, LENGTH) for party in everybody}
    weights = dict.fromkeys(everybody, 1.0)
    if draw(st.booleans()):
        weights = {party: float(generator.uniform(0.1, 1.0)) for party in everybody}
    most = withstood(plan.scenario.aggregation, clusters)
    # A rule that withstands all clusters withstands everybody.
    most = parties if most == clusters else most
    if draw(st.booleans()):
        # The worst case: each in a cluster of its own, at least in the first reclustering.
        hit = draw(st.permutations(range(clusters)))[:most]
        liars = [members[-1] for j, members in enumerate(assigned[0]) if j in hit]
    else:
        liars = draw(st.permutations(everybody))[: draw(st.integers(0, most))]
    gradient = generator.normal(0.0, 1.0, LENGTH)
    return Round(plan, assigned, updates, weights, draw(lies_about(updates, liars)), gradient)


@EVERY
@settings(max_examples=examples(15), deadline=None)
@given(data=st.data())
def test_up_to_as_many_as_withstood_nobody_moves_it_beyond_the_clean(case: Case, data: st.DataObject) -> None:
    played = data.draw(rounds(case))
    sums = played.sums()
    results = []
    for r in range(len(played.clusters)):
        rows = [opened for opened in sums if opened.reclustering == r]
        result = played.aggregate(rows).update
        assert result is not None
        assert_bounded_by_the_clean(case, played, rows, result)
        results.append(result)
    whole = played.aggregate(sums).update
    assert whole is not None
    np.testing.assert_array_equal(whole, np.mean(results, axis=0))


def assert_bounded_by_the_clean(case: Case, played: Round, rows: Sequence[ClusterSum], result: F64) -> None:
    stack = stack_sums(played.plan, rows, played.weights)
    clean = np.array([played.lies.keys().isdisjoint(opened.survivors) for opened in rows])
    truth = stack.means[clean]
    for opened, mean in zip(np.array(rows, dtype=object)[clean], truth, strict=True):
        # A clean row is what its members sent, up to the rounding of each.
        members = opened.survivors
        exact = sum(played.weights[p] * played.updates[p] for p in members) / sum(
            played.weights[p] for p in members
        )
        assert np.abs(mean - exact).max() <= 1e-3
    heard = float(stack.weights[clean].sum())
    whole = float(stack.weights.sum())
    slope = float(np.linalg.norm(played.gradient))
    match case.rule:
        case Median() | GeometricMedian() | CentredClipping() | SignMajority() if 2 * heard <= whole * (
            1 + 1e-9
        ):
            return  # these go by weight: the liars have half of it
        case GeometricMedian():
            centre = truth.mean(axis=0)
            spread = max(math.dist(centre, row) for row in truth)
            assert math.dist(result, centre) <= 2 * heard / (2 * heard - whole) * spread + 1e-3
        case FlTrust():
            assert np.linalg.norm(result) <= slope * (1 + 1e-12)
        case ZenoPlusPlus(rho=rho, eps=eps, eta=eta):
            longest = (slope + math.sqrt(slope**2 + 4 * rho * eps / eta)) * eta / (2 * rho)
            assert np.linalg.norm(result) <= longest * (1 + 1e-12)
        case _:
            assert_bounded(case.rule, result, truth, len(rows))


def spread_out(clusters: int, size: int, liars: int) -> tuple[tuple[PartyId, ...], ...]:
    """Consecutive members, with p00, p01, ... in a cluster of their own each."""
    names = [PartyId(f"p{i:02d}") for i in range(clusters * size)]
    others = iter(names[liars:])
    return tuple(
        tuple(sorted(([names[j]] if j < liars else []) + [next(others) for _ in range(size - (j < liars))]))
        for j in range(clusters)
    )


def crowded(clusters: int, size: int) -> tuple[tuple[PartyId, ...], ...]:
    """Consecutive members: p00, p01, ... fill as few clusters as they can."""
    return spread_out(clusters, size, 0)


def worst(case: Case, clusters: int, reclusterings: int, arrangement: Clusters, liars: int) -> float:
    """Largest coordinate of the aggregate when ``liars`` parties add 2^28 steps, which are 4096, to each."""
    size = sum(map(len, arrangement[0])) // clusters
    plan = plan_for(case, clusters, clusters * size, reclusterings)
    names = sorted(party for members in arrangement[0] for party in members)
    generator = np.random.default_rng(7)
    updates = {party: generator.normal(0.3, 1.0, LENGTH) for party in names}
    lies = {party: np.full(LENGTH, 2**28, dtype=np.int64) for party in names[:liars]}
    played = Round(plan, arrangement, updates, dict.fromkeys(names, 1.0), lies, np.zeros(LENGTH))
    result = played.aggregate(played.sums()).update
    assert result is not None
    return float(np.abs(result).max())


@EXACT
@pytest.mark.parametrize("further", [0, 1, 4])
@pytest.mark.parametrize("size", [2, 3])
def test_one_more_in_clusters_of_their_own_moves_it_anywhere(case: Case, further: int, size: int) -> None:
    aggregation = plan_for(case, 12, 24, 1).scenario.aggregation
    clusters = clusters_needed_by(aggregation) + further + 2
    most = withstood(aggregation, clusters)
    far = 2.0**12 / (10 * clusters * size)
    assert worst(case, clusters, 1, (spread_out(clusters, size, most),), most) < 5.0 < far
    assert worst(case, clusters, 1, (spread_out(clusters, size, most + 1),), most + 1) > far
    if most and most + 1 <= most * size:
        # The same parties where they share clusters are too few.
        assert worst(case, clusters, 1, (crowded(clusters, size),), most + 1) < 5.0


@EXACT
@pytest.mark.parametrize("reclusterings", [2, 5])
def test_more_reclusterings_withstand_no_more(case: Case, reclusterings: int) -> None:
    """Their results are averaged: one in which k + 1 clusters are hit is enough."""
    aggregation = plan_for(case, 12, 24, 1).scenario.aggregation
    clusters, size = clusters_needed_by(aggregation) + 2, 3
    most = withstood(aggregation, clusters)
    rows = (crowded(clusters, size),) * (reclusterings - 1) + (spread_out(clusters, size, most + 1),)
    assert worst(case, clusters, reclusterings, rows, most + 1) > 2.0**12 / (
        10 * clusters * size * reclusterings
    )


@pytest.mark.parametrize("case", [CASES[1], CASES[3], CASES[6]], ids=str)
def test_through_the_protocol(case: Case) -> None:
    """With messages and masks: the model stays within the range of the clean sums of each reclustering."""
    made = scenario(15, size="3", reclusterings="2", aggregation__rule=inline(case.rule))
    liar = PartyId("p04")
    garbage = Seams(encoded=lambda values, _occasion: np.full_like(values, 2**30))
    generator = np.random.default_rng(3)
    updates = {PartyId(f"p{i:02d}"): generator.normal(0.3, 1.0, 8).astype(np.float32) for i in range(15)}

    def train(party: PartyId, _round: int, params: F32) -> F32:
        return params + updates[party]

    world = World(made, length=8, train=train, seams={liar: garbage}).run()
    (final,) = world.reports(ModelFinal)
    low, high = np.zeros(8), np.zeros(8)
    for r in range(2):
        rows = [o for o in (report.opened for report in world.reports(SumOpened)) if o.reclustering == r]
        clean = np.array([liar not in opened.survivors for opened in rows])
        assert (~clean).sum() == 1
        truth = stack_sums(world.plan, rows, dict.fromkeys(updates, 1.0)).means[clean]
        low += truth.min(axis=0) / 2
        high += truth.max(axis=0) / 2
    assert (final.params >= low - 1e-5).all()
    assert (final.params <= high + 1e-5).all()
