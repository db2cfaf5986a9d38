"""Rounds of a simulation."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol, TypeAlias

from securefl import scenario
from securefl.base.arrays import F32, F64
from securefl.base.errors import SecureflError, UsageError
from securefl.base.ids import SERVER, PartyId
from securefl.methods import clustering, server_optimisers
from securefl.protocol import kernel
from securefl.protocol.round import (
    NO_ABSENCES,
    NO_CHOICE,
    NO_GRADIENTS,
    Absences,
    AnyReport,
    ClusterKey,
    ClusterSum,
    ConsultingFailed,
    Draw,
    InstanceLost,
    InstanceRetried,
    LastChoice,
    ModelFinal,
    ModelKept,
    OpenedRound,
    PartiesJoined,
    RoundDone,
    RoundSkipped,
    RoundStarted,
    ServerState,
    SlotsCounted,
    StepReached,
    SumOpened,
    SurvivorsFrozen,
    absences_at_start,
    add_round,
    add_skipped_round,
    agreed_statement,
    atoms_statement,
    choices_due,
    draw_round,
    drawn_report,
    has_carry,
    is_choosing,
    last_global_step,
    least_in_slot,
    model_count,
    model_digest,
    opened_slots,
    reason_none_drawn,
    shortage,
    simulated_atoms,
    slot_totals,
    spent_parties,
    update_absences,
    usable_samples,
    walk,
    withheld_report,
)
from securefl.protocol.round import count_reports as slots_counted
from securefl.runtime.simulation.attempts import Deviations
from securefl.runtime.simulation.federation import SimulatedFederation
from securefl.runtime.simulation.outcomes import RoundOutcomes
from securefl.runtime.simulation.party import SimulatedParty
from securefl.runtime.simulation.repeats import ModelHistory
from securefl.runtime.simulation.schedule import RoundFate, Schedule
from securefl.runtime.simulation.sums import sum_up
from securefl.training import sgd

Evaluate: TypeAlias = Callable[[F32], sgd.Evaluation | None]
Outcome: TypeAlias = kernel.Finished | kernel.Aborted


class Listener(Protocol):
    """Listener to the reports of the server of a run."""

    def on_report(self, now: float, report: AnyReport) -> None:
        """Handle a report of a round (``round.shared.reports``), at ``now`` seconds on a monotonic clock."""
        ...

    def on_reject(self, vantage: str, culprit: str, reason: str) -> None:
        """Handle a rejection."""
        ...


class SimulatedRounds:
    """Rounds of one federation.

    Args:
        federation: all parties, the model, the test set.
        listeners: receive all reports.
        after_round: receives state and killed parties after each round, for checkpoints.
        standing: initial state; None for a new simulation.
        dead: parties that were killed before ``standing``.
        on_choice: receives each round's models of task groups by party, which no process of a run knows.
        schedule: recorded absences, dropouts and void rounds to repeat.
    """

    def __init__(
        self,
        federation: SimulatedFederation,
        listeners: Sequence[Listener],
        after_round: Callable[[ServerState, Collection[PartyId]], None] = lambda _standing, _dead: None,
        standing: ServerState | None = None,
        dead: Collection[PartyId] = (),
        on_choice: Callable[[int, Mapping[PartyId, int]], None] = lambda _round, _groups: None,
        schedule: Schedule | None = None,
    ) -> None:
        self._schedule = schedule
        self._federation = federation
        self._plan = federation.plan
        self._listeners = tuple(listeners)
        self._after_round = after_round
        self._on_choice = on_choice
        begun = server_optimisers.first_moments(self._plan.optimiser, self._plan.total_parameters)
        self._standing = standing or ServerState(0, federation.initial, begun, values=self._plan.first_values)
        self._dead = set(dead)
        self._own: dict[PartyId, F64] = {}
        self._history = ModelHistory(self._plan)
        self._choices: dict[PartyId, LastChoice] = {}
        self._begun = False
        self._absent: Absences = NO_ABSENCES

    def run(self, evaluate: Evaluate) -> Outcome:
        """Simulate all remaining rounds; return the end of the run. See :meth:`step`."""
        while (outcome := self.step(evaluate)) is None:
            pass
        return outcome

    @property
    def round(self) -> int:
        """Number of the round that :meth:`step` simulates."""
        return self._standing.round

    def step(self, evaluate: Evaluate) -> Outcome | None:
        """Simulate the next round; return the end of the run, None while rounds are left.

        ``evaluate`` tests a round's model, and may store it; it returns None without test data.
        """
        if not self._begun:
            self._begun = True
            self._report_start()
        standing, done, stepped = self._round(self._standing)
        for report in stepped:
            self._report(report)
        evaluation = evaluate(standing.params)
        done = _with_test(done, evaluation)
        self._report(done)
        self._standing, outcome = walk.decide_end(self._plan, standing, done)
        if outcome is None:
            self._after_round(self._standing, frozenset(self._dead))
            return None
        self._report(ModelFinal(standing.round, standing.params))
        if standing.progress.best is not None:
            self._report(ModelKept(standing.progress.best.round, standing.progress.best.params))
        return outcome

    def _round(self, standing: ServerState) -> tuple[ServerState, RoundDone, tuple[AnyReport, ...]]:
        round_, model = standing.round, model_digest(standing.params, standing.values)
        spent = spent_parties(self._plan, standing.releases)
        present = {n: p for n, p in self._federation.parties.items() if n not in self._dead | spent}
        fated = None if self._schedule is None else self._schedule.of(round_)
        self._report(RoundStarted(round_, model))
        if fated is not None and fated.left_open is not None:
            return self._left_open(standing, fated.left_open)
        present = present if fated is None else fated.there(present)
        self._report(StepReached(round_, "hello"))
        groups, without_group = self._choose(round_, present, standing.params)
        self._on_choice(round_, {n: group for n, group in groups.items() if n not in without_group})
        reason = shortage(self._plan, present, standing.atom_seed)
        if reason is not None:
            self._report(RoundSkipped(round_, f"{len(present)} parties are there; {reason}"))
            standing = add_skipped_round(self._plan, standing)
            return walk.end_void_round(self._plan, standing, tuple(present), alone=True)
        standing = replace(standing, quorum=replace(standing.quorum, skipped_in_a_row=0, waited_seconds=0.0))
        self._report_joins(round_, present)
        self._report(StepReached(round_, "reveal"))
        samples = {name: party.samples for name, party in present.items()}
        if fated is not None and fated.drawn is not None:
            drawn = fated.drawn.of(self._plan, samples, groups)
        else:
            nonces = {name: party.nonce(round_, 0) for name, party in present.items()}
            atom_seed = standing.atom_seed or self._agreed_atoms(present)
            drawn = draw_round(self._plan, round_, 0, model, nonces, samples, atom_seed, groups)
        standing = replace(standing, atom_seed=drawn.atom_seed)
        if not drawn.assignment.participants:
            self._report(RoundSkipped(round_, reason_none_drawn(self._plan, present, drawn)))
            return walk.end_void_round(self._plan, standing, tuple(present))
        self._report(drawn_report(round_, drawn, samples))
        self._report(StepReached(round_, "training"))
        self._carry(standing)
        self._federation.trainings.samples = usable_samples(self._plan, drawn)
        deviations, mortal = _deviations(present, round_, fated)
        blocked = self._history.blocked_parties(round_, standing.params, drawn.assignment, present)
        deviations, mortal = deviations.without(blocked), mortal - blocked
        outcome, sums = sum_up(
            self._plan,
            present,
            self._federation.trainings,
            round_,
            standing.params,
            drawn,
            deviations,
            groups,
            without_group,
            partial(self._history.begin, standing.params, drawn.assignment),
            values=standing.values,
        )
        self._history.note(outcome.givers)
        self._dead |= mortal & outcome.silenced
        totals: Mapping[ClusterKey, int] | None = None
        if clustering.hides_groups(self._plan.scenario.groups):
            limits = (self._plan.published_limits for _ in outcome.survivors)
            counted = slots_counted(round_, sums, least_in_slot(self._plan, limits))
            outcome, sums, totals = _slots_only(outcome, sums, counted)
            for cluster in counted:
                self._report(cluster)
        sums = sums if fated is None else fated.opened_of(sums)
        self._tell(round_, drawn, outcome, sums)
        return self._step(standing, present, drawn, outcome, sums, totals)

    def _step(
        self,
        standing: ServerState,
        present: Mapping[PartyId, SimulatedParty],
        drawn: Draw,
        outcome: RoundOutcomes,
        sums: Sequence[ClusterSum],
        totals: Mapping[ClusterKey, int] | None,
    ) -> tuple[ServerState, RoundDone, tuple[AnyReport, ...]]:
        round_ = standing.round
        counted = outcome.survivors if outcome.certified else frozenset()
        if has_carry(self._plan, "own"):
            self._own |= {
                name: present[name].momentum_start(self._plan, drawn.weights[name]) for name in counted
            }
        opened = OpenedRound(drawn, counted, tuple(sums), totals)
        standing, opened, checked = walk.screen(self._plan, standing, opened)
        for item in checked:
            self._report(item)
        asked = walk.reclusterings_to_consult(self._plan, opened.sums, opened.excluded)
        gradients = self._consult(round_, standing.params, asked)
        return walk.step(self._plan, standing, opened, gradients)

    def _report_start(self) -> None:
        """Report the parties present: with a schedule, those of its first round."""
        missing = set(self._dead)
        fated = None if self._schedule is None else self._schedule.of(self._standing.round)
        if fated is not None and fated.left_open is None:
            missing |= self._federation.parties.keys() - fated.present
        present = tuple(name for name in self._federation.parties if name not in missing)
        self._absent = absences_at_start(missing)
        self._report(PartiesJoined(present, tuple(sorted(missing))))

    def _report_joins(self, round_: int, present: Collection[PartyId]) -> None:
        """Report the parties that were absent before; only a schedule lets parties return."""
        if self._schedule is None:
            return
        self._absent, ended = update_absences(self._absent, round_, present, self._federation.parties)
        for effect in ended:
            if isinstance(effect, kernel.Report):
                self._report(effect.item)

    def _agreed_atoms(self, present: Collection[PartyId]) -> bytes:
        atoms = simulated_atoms(self._plan)
        return agreed_statement(
            self._plan, {name: atoms_statement(self._plan, name, atoms) for name in present}
        )

    def _left_open(
        self, standing: ServerState, drawn: frozenset[PartyId]
    ) -> tuple[ServerState, RoundDone, tuple[AnyReport, ...]]:
        """End a round in which the server of the run was killed, as the next server did."""
        self._report(RoundSkipped(standing.round, "the run's server was killed in it"))
        releases = add_round(self._plan, standing.releases, drawn)
        standing = replace(standing, releases=releases, session=replace(standing.session, lost_broker=True))
        after, done, stepped = walk.end_void_round(self._plan, standing, tuple(sorted(drawn)))
        return replace(after, session=replace(after.session, lost_broker=False)), done, stepped

    def _choose(
        self, round_: int, present: Mapping[PartyId, SimulatedParty], params: F32
    ) -> tuple[Mapping[PartyId, int], frozenset[PartyId]]:
        """Return task groups by party, and the parties without a finite loss, which drew theirs."""
        plan, kept = self._plan, self._choices
        asked = [n for n in self._federation.choosers if n in present]
        asked = [n for n in asked if is_choosing(plan, round_, kept.get(n, NO_CHOICE))]
        some = params[: model_count(plan, round_) * plan.length]
        found = {n: _choose_group(self._federation.choosers[n], some) for n in asked}
        without_group = frozenset(name for name, group in found.items() if group is None)
        named = {name: present[name].answer(plan, round_, group) for name, group in found.items()}
        if plan.scenario.groups.choice_epsilon is not None:
            due = choices_due(plan.scenario.groups, round_)
            self._choices |= {name: LastChoice(due, group) for name, group in named.items()}
            named = {name: kept.get(name, NO_CHOICE).group for name in present}
        return dict.fromkeys(present, 0) | named, without_group

    def _carry(self, standing: ServerState) -> None:
        carried = self._own
        if standing.before is not None:
            step = last_global_step(self._plan, standing.before, standing.params)
            carried = {} if step is None else dict.fromkeys(self._federation.parties, step)
        self._federation.trainings.carries = carried

    def _consult(self, round_: int, params: F32, asked: tuple[int, ...]) -> Mapping[int, F64]:
        if not asked:
            return NO_GRADIENTS
        self._report(StepReached(round_, "consult"))
        if self._federation.consult is None:
            raise UsageError(
                "cannot apply the rule: the server of this federation has no data of its own; pass consult"
            )
        try:
            return dict(zip(asked, self._federation.consult(round_, params, asked), strict=True))
        except UsageError:
            raise
        except SecureflError as error:
            self._report(ConsultingFailed(round_, str(error)))
            return NO_GRADIENTS

    def _tell(self, round_: int, drawn: Draw, outcome: RoundOutcomes, sums: Sequence[ClusterSum]) -> None:
        for key, attempt in outcome.further:
            self._report(InstanceRetried(round_, *key, attempt.number, attempt.excluded))
        for key, reason in outcome.unready.items():
            self._report(InstanceLost(round_, *key, reason))
        dropped = tuple(p for p in drawn.assignment.participants if p not in outcome.eligible)
        self._report(SurvivorsFrozen(round_, tuple(sorted(outcome.eligible)), dropped))
        for item in withheld_report(round_, outcome.admission):
            self._report(item)
        if self._plan.limits.quorum is not None:
            self._report(StepReached(round_, "certify"))
        if outcome.certified:
            self._report(StepReached(round_, "release"))
        last = dict(outcome.further)
        for party, (r, j) in outcome.refused:
            number = last[r, j].number if (r, j) in last else 0
            setup = self._plan.setup(kernel.Place(round_, r, j, number), drawn.assignment.clusters[r][j], b"")
            wrong = "another seed than it advertised" if setup.everyone else "a wrong seed share"
            self._reject(party, f"released {wrong} in {setup.describe()}")
        for key, reason in outcome.unopened.items():
            self._report(InstanceLost(round_, *key, reason))
        for opened in sums:
            self._report(SumOpened(round_, opened))

    def _report(self, item: AnyReport) -> None:
        now = time.monotonic()
        for listener in self._listeners:
            listener.on_report(now, item)

    def _reject(self, culprit: PartyId, reason: str) -> None:
        for listener in self._listeners:
            listener.on_reject(SERVER, culprit, reason)


def _choose_group(chooser: sgd.Chooser, params: F32) -> int | None:
    try:
        return chooser.choose(params)
    except UsageError:
        raise
    except Exception:
        return None


def _slots_only(
    outcome: RoundOutcomes, sums: Sequence[ClusterSum], counted: Sequence[SlotsCounted]
) -> tuple[RoundOutcomes, list[ClusterSum], Mapping[ClusterKey, int]]:
    """Return the update part of a round of hidden groups: sums of slots that may be opened."""
    may = opened_slots(counted)
    unopened = {
        key: why for key, why in outcome.unopened.items() if key in may or key[0] == clustering.COUNTS
    }
    refused = tuple(one for one in outcome.refused if one[1] in may or one[1][0] == clustering.COUNTS)
    narrowed = replace(outcome, opened=outcome.opened & may, unopened=unopened, refused=refused)
    return narrowed, [one for one in sums if one.key in may], slot_totals(counted)


def _deviations(
    parties: Mapping[PartyId, SimulatedParty], round_: int, fated: RoundFate | None
) -> tuple[Deviations, set[PartyId]]:
    if fated is not None:
        return fated.deviations(parties), set()
    silent: dict[PartyId, scenario.Phase] = {}
    mortal: set[PartyId] = set()
    for name, party in parties.items():
        plan = party.silence(round_)
        if plan is not None:
            silent[name], kill = plan
            if kill:
                mortal.add(name)
    wrong = frozenset(name for name, party in parties.items() if party.spoils_shares(round_))
    return Deviations(silent, wrong_shares=wrong), mortal


def _with_test(done: RoundDone, found: sgd.Evaluation | None) -> RoundDone:
    if found is None:
        return replace(done, accuracy=None, loss=None)
    success = found.backdoor_success
    return replace(done, accuracy=found.accuracy, loss=found.loss, backdoor_success=success)
