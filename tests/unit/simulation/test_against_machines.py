"""Simulated rounds against the real machines under a virtual clock: same reports, sums and model bits."""

from __future__ import annotations

import dataclasses
import gc
import tracemalloc
from collections import Counter
from collections.abc import Mapping
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from securefl.base.arrays import F32, F64, digest_of
from securefl.base.entropy import Entropy, InsecureSeededEntropy
from securefl.base.ids import PartyId
from securefl.methods.attacks.assignment import party_names
from securefl.methods.attacks.parts.scale import Scale
from securefl.methods.clustering.sizes import works_of
from securefl.protocol.kernel.effects import Aborted
from securefl.protocol.round.shared.randomness import party_entropy, training_entropy
from securefl.protocol.round.shared.reports import (
    ClustersDrawn,
    ConsultingFailed,
    InstanceLost,
    InstanceRetried,
    ModelFinal,
    ModelSent,
    ModelStepped,
    PartiesJoined,
    QuorumAwaited,
    RoundDone,
    RoundSkipped,
    RoundStarted,
    SatOut,
    SlotsCounted,
    StepReached,
    SumChecked,
    SumOpened,
    SumsWithheld,
    SurvivorsFrozen,
)
from securefl.runtime.misbehaviour.assignment import party_behaviour
from securefl.runtime.simulation.federation import SimulatedFederation
from securefl.runtime.simulation.party import SimulatedParty
from securefl.runtime.simulation.rounds import SimulatedRounds
from securefl.runtime.simulation.trainers import Trainings, one_by_one
from securefl.scenario.behaviours import Behaviour, Drop, Kill, NoClip, NoNoise, Phase, WrongShare
from securefl.scenario.scenario import Scenario
from securefl.training.rounds import Trainer
from securefl.training.sgd.outcomes import Evaluation, GradientNotFiniteError, TrainingDivergedError
from tests.simulation.world import of_work, scenario
from tests.tiers import covering, examples
from tests.unit.misbehaviour.lab import Lab

PHASES: tuple[Phase, ...] = get_args(Phase)
Cast = Mapping[str, tuple[Behaviour, ...]]
Failing = frozenset[tuple[str, int]]
"""(party, round): training diverges."""


class Recorder:
    """Reports and refusals as comparable values; arrays by digest."""

    def __init__(self) -> None:
        self.reports: list[object] = []
        self.refusals: list[tuple[str, str]] = []

    def on_report(self, _now: float, report: object) -> None:
        self.reports.append(comparable(report))

    def on_reject(self, vantage: str, culprit: str, reason: str) -> None:
        assert vantage == "server"
        self.refusals.append((culprit, reason))


OF_TIME = ModelSent | QuorumAwaited
"""What only machines report, since nothing takes time in a simulation."""


def comparable(report: object) -> object:
    match report:
        case SumOpened(round=round_, opened=o):
            return ("sum", round_, o.reclustering, o.cluster, o.members, o.survivors, digest_of(o.ring))
        case ModelFinal(round=round_, params=params):
            return ("model", round_, digest_of(params))
        case (
            PartiesJoined()
            | RoundStarted()
            | StepReached()
            | ClustersDrawn()
            | ConsultingFailed()
            | InstanceLost()
            | InstanceRetried()
            | SurvivorsFrozen()
            | SumChecked()
            | SumsWithheld()
            | SlotsCounted()
            | ModelStepped()
            | RoundDone()
            | RoundSkipped()
            | SumChecked()
        ):
            return report
    raise AssertionError(report)


def federation_of(
    plan_of: Lab, cast: Cast, failing: Failing = frozenset(), fails_in: int = 0
) -> SimulatedFederation:
    """The simulated twin of what a lab runs with messages; ``failing`` is about their work ``fails_in``."""
    root = InsecureSeededEntropy(1)

    def training(name: PartyId) -> Trainer:
        own = party_entropy(root, name)

        def train(
            round_: int, params: F32, _carry: F64 | None, entropy: Entropy, _samples: int | None
        ) -> F64:
            drawn = entropy.draw(8)
            draws = [
                training_entropy(own, round_, w).draw(8) for w in range(works_of(plan_of.scenario.clustering))
            ]
            work = draws.index(drawn)
            if (name, round_) in failing and work == fails_in:
                raise TrainingDivergedError("diverged")
            after = of_work(work, params, params + np.float32(plan_of.worth[name]))
            update: F64 = after.astype(np.float64) - params
            return update

        return train

    parties = {
        name: SimulatedParty(name, party_behaviour(cast.get(name, ()), name), 10, root)
        for name in plan_of.parties
    }
    trainings = Trainings(one_by_one([{name: training(name) for name in parties}], root))
    initial = np.zeros(plan_of.plan.total_parameters, dtype=np.float32)
    unused: torch.nn.Module = torch.nn.Identity()
    return SimulatedFederation(plan_of.plan, parties, trainings, unused, None, initial, consult)  # type: ignore[arg-type]


def consult(round_: int, params: F32, asked: tuple[int, ...]) -> tuple[F64, ...]:
    """Gradients that differ by round and reclustering, and fail in round 1."""
    if round_ == 1:
        raise GradientNotFiniteError("no gradient")
    return tuple(np.arange(len(params)) / 8 + round_ / 16 - r - 1.0 for r in asked)


def evaluate(params: F32) -> Evaluation:
    """As the world does."""
    return Evaluation(accuracy=float(params[0]), loss=0.0)


def assert_same(
    config: Scenario, cast: Cast, failing: Failing = frozenset(), fails_in: int = 0, length: int = 4
) -> Lab:
    lab = Lab(config, cast, length=length)
    honest = lab.train
    begun: Counter[tuple[PartyId, int]] = Counter()

    def train(party: PartyId, round_: int, params: F32) -> F32 | None:
        work = begun[party, round_]
        begun[party, round_] += 1
        failed = (party, round_) in failing and work == fails_in
        return None if failed else honest(party, round_, params)

    lab.train = train
    lab.consult = lambda round_, *asked: None if round_ == 1 else consult(round_, *asked)
    lab.run()
    assert_ends_alike(lab, federation_of(lab, cast, failing, fails_in))
    return lab


def assert_ends_alike(lab: Lab, twin: SimulatedFederation) -> None:
    """Simulate the twin of a lab that has run: the same reports, refusals and end.

    A lost instance is known at once or after a deadline, so that it may be reported at another time.
    """
    recorder = Recorder()
    outcome = SimulatedRounds(twin, [recorder]).run(evaluate)
    real = [comparable(report) for report in lab.server.reports if not isinstance(report, OF_TIME)]
    assert sorted(map(repr, recorder.reports)) == sorted(map(repr, real))
    kept = [r for r in recorder.reports if not isinstance(r, InstanceLost)]
    assert kept == [r for r in real if not isinstance(r, InstanceLost)]
    assert sorted(recorder.refusals) == sorted((r.culprit, r.reason) for r in lab.server.rejects)
    assert outcome == lab.server.outcome


def silent(kind: str, phase: Phase, *rounds: int, announced: bool = True) -> Drop | Kill:
    if kind == "kill":
        return Kill(phase=phase, rounds=rounds)
    return Drop(phase=phase, rounds=rounds, announced=announced)


@st.composite
def casts(draw: st.DrawFn, parties: int, rounds: int, phases: tuple[Phase, ...] = PHASES) -> Cast:
    cast: dict[str, tuple[Behaviour, ...]] = {}
    # In order: how a set of names is iterated over differs from process to process.
    for name in sorted(draw(st.sets(st.sampled_from(party_names(parties)), max_size=parties))):
        shown: list[Behaviour] = []
        for round_ in sorted(draw(st.sets(st.integers(0, rounds - 1), max_size=rounds))):
            kind = draw(st.sampled_from(["drop", "drop", "kill"]))
            hinted = kind == "kill" or draw(st.booleans())
            shown.append(silent(kind, draw(st.sampled_from(phases)), round_, announced=hinted))
        if draw(st.integers(0, 5)) == 0:
            shown.append(WrongShare(rounds=(draw(st.integers(0, rounds - 1)),)))
        if draw(st.integers(0, 5)) == 0:
            shown.append(Scale(factor=-3.0))
        if shown:
            cast[name] = tuple(shown)
    return cast


failures = st.frozensets(
    st.tuples(st.sampled_from([str(n) for n in party_names(9)]), st.integers(0, 2)), max_size=4
)


@settings(max_examples=examples(8), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cast=casts(9, 3), failing=failures, reclusterings=st.sampled_from(["1", "2", "3"]))
@example(cast={"p00": (silent("kill", "after-shares", 0),)}, failing=frozenset(), reclusterings="2")
# A repeated model, and a party whose shares never left the round before: its account has them.
@example(
    cast={
        "p01": (silent("drop", "after-freeze", 1),),
        "p02": (silent("drop", "after-shares", 1),),
        "p03": (silent("drop", "before-keys", 1),),
        "p08": (silent("drop", "before-keys", 0),),
    },
    failing=frozenset(),
    reclusterings="3",
)
def test_a_curious_servers_run_is_the_same(cast: Cast, failing: Failing, reclusterings: str) -> None:
    assert_same(scenario(9, rounds="3", reclusterings=reclusterings), cast, failing)


@settings(max_examples=examples(5), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    cast=casts(9, 2, tuple(phase for phase in PHASES if phase != "after-shares")),
    failing=failures,
    reclusterings=st.sampled_from(["1", "2"]),
    attempts=st.sampled_from(["1", "2", "3"]),
    server=st.sampled_from(["curious", "active"]),
)
# A training that fails in a sum that is lost anyway.
@example(
    cast={"p02": (silent("kill", "after-keys", 0),)},
    failing=frozenset({("p00", 0)}),
    reclusterings="1",
    attempts="1",
    server="curious",
)
# Who submits and falls silent is missing in the attempt that another one's silence makes necessary.
@example(
    cast={"p00": (silent("drop", "after-masked-input", 0),), "p01": (silent("kill", "after-keys", 0),)},
    failing=frozenset(),
    reclusterings="2",
    attempts="3",
    server="curious",
)
def test_crypten_runs_are_the_same(
    cast: Cast, failing: Failing, reclusterings: str, attempts: str, server: str
) -> None:
    config = scenario(
        9,
        rounds="2",
        reclusterings=reclusterings,
        size="4",
        threshold="3",
        min_survivors="3",
        server=server,
        secure_sum__kind="crypten",
        secure_sum__max_attempts=attempts,
    )
    assert_same(config, cast, failing)


@settings(max_examples=examples(5), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    cast=casts(9, 2),
    failing=failures,
    fails_in=st.integers(0, 2),
    server=st.sampled_from(["curious", "active"]),
)
@example(cast={}, failing=frozenset({("p02", 0)}), fails_in=1, server="curious")
def test_new_work_is_the_same(cast: Cast, failing: Failing, fails_in: int, server: str) -> None:
    config = scenario(
        9,
        rounds="2",
        reclusterings="3",
        clustering__new_work="true",
        server=server,
        threshold="3",
        min_survivors="3",
        size="4",
    )
    assert_same(config, cast, failing, fails_in)


@pytest.mark.parametrize("server", ["curious", "active"])
def test_parties_that_sit_out_since_a_model_repeats_are_the_same(server: str) -> None:
    """Wrong shares keep every sum closed, so that the model stays; what might be open counts as open."""
    config = scenario(9, rounds="3", size="3", server=server, min_survivors="2", clustering__atoms="1")
    wrong: Cast = {p: (WrongShare(rounds=(0, 1, 2)),) for p in party_names(9)[1:]}
    lab = assert_same(config, wrong)
    reasons = {out.reason for name in lab.parties for out in lab.reports(SatOut, name)}
    assert any("with sums of earlier rounds or runs on the same model" in reason for reason in reasons)
    assert len({report.model_digest for report in lab.reports(RoundStarted)}) == 1


FIXED = {"clustering__fixed": "true", "leakage__mode": "report"}


@settings(max_examples=examples(4), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cast=casts(9, 3), failing=failures, server=st.sampled_from(["curious", "active"]))
@example(
    cast={p: (silent("kill", "after-keys", 0),) for p in ("p00", "p01", "p02", "p03")},
    failing=frozenset(),
    server="curious",
)
def test_fixed_clusters_are_the_same(cast: Cast, failing: Failing, server: str) -> None:
    lab = assert_same(scenario(9, rounds="3", server=server, **FIXED), cast, failing)
    whole = {frozenset(members) for members in lab.reports(ClustersDrawn)[0].clusters[0]}
    assert len(whole) == 3
    for drawn in lab.reports(ClustersDrawn):
        (row,) = drawn.clusters
        assert all(any(set(members) <= mates for mates in whole) for members in row)
        assert all(len(members) >= 2 for members in row)


class _Torn:
    """A chooser of a party that has a group by its number, or no finite loss."""

    def __init__(self, group: int | None) -> None:
        self._group = group

    def choose(self, _params: F32) -> int | None:
        if self._group is None:
            raise FloatingPointError("whatever a model raises")
        return self._group


@pytest.mark.parametrize("placement", ["local", "threshold", "dropout-exact"])
def test_noise_of_failing_parties_is_the_same(placement: str) -> None:
    config = scenario(
        9,
        rounds="2",
        size="4",
        threshold="3",
        min_survivors="3",
        privacy__unit="party",
        privacy__placement=placement,
        privacy__multiplier="0.9",
        privacy__delta="0.05",
        encoding__clip="1.0",
        encoding__scale_bits="9",
    )
    cast: Cast = {"p05": (silent("drop", "after-shares", 1),), "p06": (Scale(factor=-3.0),)}
    lab = assert_same(config, cast, frozenset({("p01", 0), ("p04", 1), ("p06", 1)}))
    assert [len(done.survivors) for done in lab.rounds_done()] == [9, 8]


@pytest.mark.parametrize(("server", "epsilon"), covering(["curious", "active"], ["0.5", "3.0"]))
def test_task_groups_that_are_named_by_chance_and_kept_are_the_same(server: str, epsilon: str) -> None:
    """Three models, one after the other: parties choose anew as each begins, and once more."""
    config = scenario(
        18,
        rounds="7",
        size="3",
        threshold="3",
        min_survivors="3",
        server=server,
        groups__count="3",
        groups__warmup="1",
        groups__choices="2",
        groups__choice_epsilon=epsilon,
        weighting__mode="ignore",
    )
    groups = {name: None if name == "p04" else int(name[1:]) % 2 for name in party_names(18)}
    lab = Lab(config, {}, length=4)
    lab.choose = lambda party, _round: groups[party]
    lab.run()
    choosers = {name: _Torn(group) for name, group in groups.items()}
    assert_ends_alike(lab, dataclasses.replace(federation_of(lab, {}), choosers=choosers))  # type: ignore[arg-type]
    named = [report.groups for report in lab.reports(ClustersDrawn)]
    assert named[1] == named[2] != named[3], "kept for two rounds, and chosen anew among three models"
    assert named[4] == named[5] == named[6]


@pytest.mark.parametrize("mode", ["open", "hidden"])
def test_parties_that_can_neither_choose_nor_train_are_the_same(mode: str) -> None:
    hidden = {"threshold": "4", "min_survivors": "4", "size": "4", "clustering__atoms": "4"}
    config = scenario(
        12,
        rounds="3",
        groups__count="2",
        groups__mode=mode,
        weighting__mode="ignore",
        **(hidden if mode == "hidden" else {"size": "2"}),
    )
    failing = frozenset({("p01", 0), ("p04", 1), ("p05", 1)})
    groupless = {"p02", "p05", "p07"}
    groups = {name: None if name in groupless else int(name[1:]) % 2 for name in party_names(12)}
    lab = Lab(config, {}, length=4)
    honest = lab.train
    lab.train = lambda party, r, params: None if (party, r) in failing else honest(party, r, params)
    lab.choose = lambda party, _round: groups[party]
    lab.run()
    choosers = {name: _Torn(group) for name, group in groups.items()}
    twin = dataclasses.replace(federation_of(lab, {}, failing), choosers=choosers)  # type: ignore[arg-type]
    recorder = Recorder()
    assert SimulatedRounds(twin, [recorder]).run(evaluate) == lab.server.outcome
    # A run with hidden groups freezes its counts and then its slots, and says so twice.
    kinds = (tuple, RoundDone, SlotsCounted, ModelStepped)
    real = [comparable(report) for report in lab.server.reports if not isinstance(report, OF_TIME)]
    assert [r for r in recorder.reports if isinstance(r, kinds)] == [r for r in real if isinstance(r, kinds)]
    (first, *_) = lab.reports(RoundDone)
    assert set(first.participants) & groupless


@settings(max_examples=examples(4), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cast=casts(9, 3), failing=failures, server=st.sampled_from(["curious", "active"]))
@example(
    cast={p: (silent("kill", "after-keys", 0),) for p in ("p00", "p01", "p02", "p03", "p04", "p05")},
    failing=frozenset({("p08", 1)}),
    server="curious",
)
def test_atoms_are_the_same(cast: Cast, failing: Failing, server: str) -> None:
    """Kills leave fewer whole atoms from round to round, down to none that make a cluster."""
    config = scenario(
        9,
        rounds="3",
        reclusterings="2",
        server=server,
        size="4",
        clustering__atoms="2",
        threshold="3",
        min_survivors="3",
    )
    lab = assert_same(config, cast, failing)
    sums = [opened.opened.survivors for opened in lab.reports(SumOpened)]
    together = {p: frozenset.intersection(*(frozenset(s) for s in sums if p in s)) for s in sums for p in s}
    assert all(len(mates) >= 2 for mates in together.values())


@settings(max_examples=examples(6), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cast=casts(5, 2), reclusterings=st.sampled_from(["1", "2"]))
def test_clusters_of_one_are_the_same(cast: Cast, reclusterings: str) -> None:
    config = scenario(
        5,
        rounds="2",
        reclusterings=reclusterings,
        size="1",
        threshold="1",
        min_survivors="1",
        secure_sum__k_anonymity="1",
        leakage__mode="report",
    )
    lab = assert_same(config, cast)
    for round_ in {r.round for r in lab.reports(SumOpened)}:
        assert all(len(survivors) == 1 for survivors in lab.sums(round_))


@settings(max_examples=examples(8), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cast=casts(9, 3), failing=failures, reclusterings=st.sampled_from(["1", "2"]))
def test_an_active_servers_run_is_the_same(cast: Cast, failing: Failing, reclusterings: str) -> None:
    config = scenario(
        9,
        rounds="3",
        reclusterings=reclusterings,
        server="active",
        threshold="3",
        min_survivors="3",
        size="4",
    )
    assert_same(config, cast, failing)


@pytest.mark.parametrize("server", ["curious", "active"])
def test_what_the_ledger_keeps_closed_is_the_same(server: str) -> None:
    """With three reclusterings and a dropout most draws have a difference that is one party's update."""
    config = scenario(9, rounds="5", reclusterings="3", server=server)
    lab = assert_same(config, {"p04": (silent("drop", "after-shares"),)})
    assert len(lab.reports(SumsWithheld)) >= 2
    assert all(done.opened for done in lab.rounds_done())


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("kind", ["drop", "kill"])
def test_silence_at_each_phase(kind: str, phase: Phase) -> None:
    cast = {"p01": (silent(kind, phase, 0),), "p05": (silent(kind, phase, 0),)}
    lab = assert_same(scenario(9, rounds="2", reclusterings="2"), cast)
    back = {p for done in lab.rounds_done() if done.round == 1 for p in done.participants}
    assert ("p01" in back) == (kind == "drop")


@pytest.mark.parametrize(
    "rule", ['{ type = "krum", byzantine = 0 }', '{ type = "trimmed-mean", trim = 1 }', '{ type = "median" }']
)
@pytest.mark.parametrize("mode", ["ignore", "passthrough"])
def test_rules_and_weights(rule: str, mode: str) -> None:
    config = scenario(
        9,
        rounds="2",
        reclusterings="2",
        aggregation__rule=rule,
        weighting__mode=mode,
        encoding__clip="0.75",
        server_optimiser__momentum="0.5",
    )
    assert_same(config, {"p03": (Scale(factor=-10.0), NoClip())})


@pytest.mark.parametrize(
    "rule",
    [
        "'zeno++'",
        "'fltrust'",
        "'inner-product', gamma = 0.5, momentum = 0.5, credit = 'all-scores'",
        "'inner-product', gamma = 0.5, half_life = 0.7",
    ],
)
def test_rules_with_data_of_the_servers(rule: str) -> None:
    """In round 1 there is no gradient; in round 2 one sum cannot be opened."""
    config = scenario(
        9,
        rounds="3",
        reclusterings="2",
        aggregation__rule=f"{{ type = {rule} }}",
        data__server_fraction="0.1",
        # The model stays after round 1, and with its limits parties would sit round 2 out.
        leakage__mode="report",
    )
    # Five of nine leave some cluster of three without the two that open it, and some with them.
    cast: Cast = dict.fromkeys(
        ("p01", "p02", "p05", "p07", "p08"), (Drop(phase="after-freeze", rounds=(2,)),)
    ) | {"p03": (Scale(factor=-100.0, rounds=(0,)),)}
    lab = assert_same(config, cast)
    steps = [r.step for r in lab.reports(StepReached)]
    assert steps.count("consult") == 3
    assert lab.reports(ConsultingFailed) == [ConsultingFailed(1, "no gradient")]
    done = lab.rounds_done()
    assert done[0].rejected
    assert done[1].kept == done[1].rejected == ()
    assert done[2].lost
    assert done[2].kept


def test_a_draw_of_participants() -> None:
    config = scenario(9, rounds="4", participation__count="6")
    assert_same(config, {"p02": (silent("kill", "after-keys"),), "p04": (silent("drop", "after-shares"),)})


@pytest.mark.parametrize("fixed", ["true", "false"])
def test_noise_checks_and_their_evidence_over_rounds(fixed: str) -> None:
    config = scenario(
        9,
        rounds="3" if fixed == "true" else "6",
        privacy__unit="party",
        privacy__multiplier="0.5",
        privacy__delta="0.05",
        encoding__clip="1.0",
        encoding__scale_bits="7",
        checks__kind="corrected",
        aggregation__claim="none",
        aggregation__byzantine="1",
        leakage__mode="report",
        clustering__fixed=fixed,
    )
    cast = {"p02": (NoNoise(parties=("p02",)),), "p04": (silent("drop", "after-shares", 1),)}
    lab = assert_same(config, cast, length=256)
    done = lab.rounds_done()
    assert any(report.failed for report in done)
    most = [max(one.highest for one in report.suspects) for report in done]
    assert most == sorted(most)
    assert most[-1] > 0


def test_a_target_ends_it_early() -> None:
    lab = assert_same(scenario(9, rounds="9", stop__target="0.9"), {})
    assert len(lab.rounds_done()) < 9


def test_everybody_dies() -> None:
    cast = {str(name): (silent("kill", "before-keys", 1),) for name in party_names(9)}
    lab = assert_same(scenario(9, rounds="9"), cast)
    assert isinstance(lab.server.outcome, Aborted)


class Meter:
    """Memory in use at the start of every fifth round."""

    def __init__(self) -> None:
        self.bytes: list[int] = []

    def on_report(self, _now: float, report: object) -> None:
        if isinstance(report, RoundStarted) and report.round % 5 == 0:
            gc.collect()
            self.bytes.append(tracemalloc.get_traced_memory()[0])

    def on_reject(self, *_refusal: str) -> None: ...


LONG = 700


def test_memory_does_not_grow_with_the_rounds() -> None:
    # Long enough for a vector to be more than what the interpreter's own caches come to in a busy process.
    length = 20 * LONG
    lab = Lab(scenario(9, rounds="30", reclusterings="2"), {}, unit=2.0**-12, length=length)
    meter = Meter()
    course = SimulatedRounds(federation_of(lab, {"p01": (silent("drop", "after-shares"),)}), [meter])
    tracemalloc.start()
    try:
        course.run(evaluate)
    finally:
        tracemalloc.stop()
    assert len(meter.bytes) == 6
    assert meter.bytes[-1] < meter.bytes[1] + 8 * length, "20 rounds later less than one vector more"
