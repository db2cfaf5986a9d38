"""Leakage decision (protocol.md, step 8): sums that may be opened."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from securefl.base import crypto, header
from securefl.base.arrays import F32
from securefl.base.errors import ConfigError
from securefl.base.ids import PartyId
from securefl.methods import attacks, leakage
from securefl.methods.clustering import Assignment, draw_assignment, participants_of, works_of
from securefl.protocol import messages
from securefl.protocol.round.shared import reports
from securefl.protocol.round.shared.groups import model_of
from securefl.protocol.round.shared.plan import RunPlan, published_limits
from securefl.protocol.round.shared.statement import model_digest
from securefl.scenario import Scenario

TRIED_DRAWS = 3


def leakage_limits(limits: Mapping[PartyId, messages.Limits]) -> dict[PartyId, leakage.LeakageLimits]:
    """Return the parties' limits; none for parties that only report."""
    return {
        party: leakage.LeakageLimits(
            own_limits.k_anonymity, own_limits.colluders, own_limits.leverage / messages.MILLION
        )
        for party, own_limits in limits.items()
        if own_limits.leakage == "veto"
    }


def repeat_limits(plan: RunPlan) -> leakage.LeakageLimits | None:
    """Return a party's limits for sums on a repeated model; None if it only reports.

    None with privacy noise, which is fresh each round: epsilon accounts for any combination of sums, and
    limits would end runs whose checks exclude all sums of a round. None in statistics rounds, whose updates
    are zeros.
    """
    me = PartyId("own")
    return (
        None
        if plan.mechanism is not None or plan.scenario.model.by_columns
        else leakage_limits({me: plan.published_limits}).get(me)
    )


@dataclass(frozen=True, slots=True)
class LedgerQuestion:
    """Question to the ledger, from public signed data: which sums may be opened?"""

    round: int
    assignment: Assignment
    survivors: frozenset[PartyId]
    limits: Mapping[PartyId, messages.Limits]
    new_work: bool
    """True if each reclustering sums its own update."""

    def answer(self, seed: bytes | None = None) -> leakage.Admission:
        """Decide which reclusterings may be opened; ``seed`` gives the primes."""
        own = crypto.digest("ledger prime", self.round, self.assignment.digest(), *sorted(self.survivors))
        return leakage.admit(
            self.assignment,
            self.survivors,
            leakage_limits(self.limits),
            round_=self.round,
            seed=own if seed is None else seed,
            new_work=self.new_work,
        )


def opened_keys(
    assignment: Assignment, survivors: Collection[PartyId], admitted: Collection[int]
) -> tuple[reports.ClusterKey, ...]:
    """Return the instances with survivors in admitted reclusterings."""
    alive = frozenset(survivors)
    return tuple(
        (r, j)
        for r in sorted(admitted)
        for j, members in enumerate(assignment.clusters[r])
        if alive.intersection(members)
    )


def sums_by_model(
    plan: RunPlan,
    params: F32,
    assignment: Assignment,
    survivors: Collection[PartyId],
    admitted: Collection[int],
) -> leakage.Given:
    """Return the sums of a round that count as opened, by digest of their updates' model.

    ``params`` are all models, f32 ``(k d,)``.
    """
    tasks, alive = assignment.tasks, frozenset(survivors)
    models = {
        group: model_digest(model_of(plan, params, group) if tasks else params) for group in {*tasks, 0}
    }
    given: dict[bytes, list[tuple[PartyId, ...]]] = {}
    for r, j in opened_keys(assignment, survivors, admitted):
        row = tuple(sorted(alive.intersection(assignment.clusters[r][j])))
        given.setdefault(models[tasks[j] if tasks else 0], []).append(row)
    return {model: tuple(dict.fromkeys(rows)) for model, rows in given.items()}


def certified_prime_seed(statement: bytes, endorsements: Iterable[bytes]) -> bytes:
    """Return the seed of the primes once the survivors are certified, 32 bytes.

    No party that influenced the survivors knew it: it takes honest signatures of that set.
    """
    return crypto.digest("certified ledger prime", statement, *sorted(endorsements))


def withheld_report(round_: int, decided: leakage.Admission) -> tuple[reports.SumsWithheld, ...]:
    """Return the report of withheld reclusterings, if any."""
    if not decided.withheld:
        return ()
    crossed = {r: tuple(dict.fromkeys(one.party for one in found)) for r, found in decided.withheld.items()}
    return (reports.SumsWithheld(round_, tuple(crossed), tuple(crossed.values()), first_crossing(decided)),)


def first_crossing(decided: leakage.Admission) -> str:
    """Return the first crossed limit and its party, or empty."""
    for found in decided.withheld.values():
        others = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        return f"{found[0].party}, {found[0].reason}{others}"
    return ""


def try_draws(scenario: Scenario) -> tuple[int, ...]:
    """Return the reclusterings that a few trial draws without dropouts allow, fewest first.

    The draws are the same in all processes, unrelated to a run's. None are tried with one reclustering, new
    work for each, atoms, or leakage that is only reported.

    Raises:
        ConfigError: no draw allows all reclusterings of the scenario.
    """
    return tuple(sorted(len(decided.admitted) for decided in _try_draws(scenario)))


def _try_draws(scenario: Scenario) -> tuple[leakage.Admission, ...]:
    clustering = scenario.clustering
    planned = clustering.reclusterings
    sheltered = works_of(scenario.clustering) > 1 or clustering.atoms > 1
    if planned == 1 or sheltered or scenario.leakage.mode == "report":
        return ()
    parties = attacks.party_names(scenario.parties)
    limits = dict.fromkeys(parties, published_limits(scenario))
    allowed = []
    for number in range(TRIED_DRAWS):
        seed = crypto.digest("tried draw", number)
        drawn = draw_assignment(seed, parties, participants_of(scenario), clustering.size, planned)
        question = LedgerQuestion(0, drawn, frozenset(drawn.participants), limits, new_work=False)
        allowed.append(question.answer())
    most = max(len(decided.admitted) for decided in allowed)
    if most < planned:
        raise ConfigError(
            "clustering.reclusterings",
            f"{planned}, but {TRIED_DRAWS} trial draws allow at most {most} within the leakage limits",
            f'{most}, new_work = true, lower limits, or leakage.mode = "report" for experiments',
        )
    return tuple(allowed)


def trial_sentences(scenario: Scenario) -> Iterator[header.Sentence]:
    """Yield the sentences on trial draws and on updates that q colluders find.

    Raises:
        ConfigError: as :func:`try_draws`.
    """
    tried = _try_draws(scenario)
    if tried:
        allowed = sorted(len(decided.admitted) for decided in tried)
        shown = f"{allowed[0]}" if allowed[0] == allowed[-1] else f"{allowed[0]} to {allowed[-1]}"
        may = f"{shown} of {scenario.clustering.reclusterings} reclusterings may be opened"
        yield header.server(more=f"leakage ledger: {may} in {len(allowed)} tried draws without dropouts")
        yield from _on_colluders(scenario, tried)


def _on_colluders(scenario: Scenario, tried: tuple[leakage.Admission, ...]) -> Iterator[header.Sentence]:
    colluders = scenario.secure_sum.colluders
    if not colluders:
        return
    found = []
    for decided in tried:
        columns = {party for sums in decided.openings.values() for row in sums for party in row}
        ledger = leakage.LeakageLedger.begin(
            leakage.UpdateVersion(0), columns, leakage.prime_from(decided.head())
        )
        for row in (row for sums in decided.openings.values() for row in sums):
            ledger = ledger.open(row)
        known = columns.intersection(attacks.party_names(scenario.parties)[:colluders])
        found.append(len(ledger.without(known).exposed) if known else 0)
    shown = f"{min(found)}" if min(found) == max(found) else f"{min(found)} to {max(found)}"
    yield header.server(
        more=f"leakage ledger: the server and q = {colluders} random colluders find {shown} updates of others"
    )
