"""Reports on differential privacy."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from securefl.base import header
from securefl.base.ids import SERVER, PartyId
from securefl.methods import attacks, facts, feasibility
from securefl.methods.privacy import (
    NO_GUARANTEE,
    Guarantee,
    Mechanism,
    Spending,
    describe_epsilon,
    forgoes_privacy,
    ledger_of,
    planned_releases,
)
from securefl.protocol.round import NO_RELEASES, Releases, RunPlan, add_round
from securefl.runtime import transcript
from securefl.runtime.report.checks import on_power
from securefl.runtime.report.records import finite
from securefl.runtime.report.text import count_of
from securefl.scenario import Behaviour, Scenario

SEEDED = "none: noise, rounding and batches follow from --seed, which removes them"
OMNISCIENT = "none: omniscient attackers reveal honest updates without noise"
TOO_LITTLE = "none: no finite epsilon bounds so little noise; set privacy.epsilon"
WITHOUT = "none"


def forgoing(scenario: Scenario, seed: int) -> frozenset[PartyId]:
    """Return the parties that break assumptions of their guarantee."""
    return frozenset(
        party
        for party, shown in attacks.behaviours_of(scenario, seed).items()
        if party != SERVER and any(map(forgoes_privacy, shown))
    )


def why_none(behaviours: tuple[Behaviour, ...], *, seeded: bool) -> str | None:
    """Return why noise guarantees nothing: seeded secrets or omniscient attackers; None otherwise."""
    if seeded:
        return SEEDED
    return OMNISCIENT if any(map(attacks.is_omniscient, behaviours)) else None


@dataclass(frozen=True, slots=True)
class Account:
    """Privacy account of one run: epsilon spent, and its assumptions."""

    guarantee: Guarantee | None
    """Guarantee of the honest party with most releases."""
    text: str
    kind: str
    releases: Mapping[PartyId, int]
    forgoing: frozenset[PartyId]

    @property
    def epsilon(self) -> float | None:
        """Privacy spent, by privacy loss distributions; None without a guarantee."""
        return None if self.guarantee is None else self.guarantee.epsilon

    def to_json(self) -> dict[str, transcript.JsonValue]:
        """Return the content for ``summary.json``."""
        found = self.guarantee
        fields: dict[str, transcript.JsonValue] = {"guarantee": self.text}
        if found is not None:
            fields |= {
                "epsilon": finite(found.epsilon),
                "epsilon_rdp": finite(found.epsilon_rdp),
                "delta": found.delta,
                "unit": found.unit,
                "relation": found.relation,
                "sampling": list(found.samplers),
                "colluding_mates": found.colluders,
                "premise_fails_with_probability": found.failure,
            }
        fields["releases"] = dict(sorted(self.releases.items()))
        fields["without_guarantee"] = sorted(self.forgoing)
        return fields


class Accounts:
    """Counter of releases from the server's reports.

    A party releases in every round in whose clusters it is, whatever is opened, as it counts itself
    (:mod:`securefl.protocol.round.shared.budget`). ``void`` is the reason why nothing is guaranteed
    (:func:`why_none`); ``without`` are parties without a guarantee (:func:`forgoing`).

    Raises:
        ConfigError: dp_accounting is missing for an epsilon.
    """

    def __init__(
        self, plan: RunPlan, mechanism: Mechanism, *, void: str | None, without: Collection[PartyId] = ()
    ) -> None:
        self._plan = plan
        self._mechanism = mechanism
        self._forgoing = frozenset(without)
        self._void = void
        self._spending = None if void else Spending(mechanism, planned_releases(plan.scenario))
        self._releases: Releases = NO_RELEASES

    def count(self, participants: Collection[PartyId]) -> None:
        """Count one more round."""
        self._releases = add_round(self._plan, self._releases, participants)

    def epsilons(self) -> Mapping[PartyId, float | None]:
        """Return an upper bound of each party's epsilon so far; None without a guarantee."""
        spending = self._spending
        return {
            party: None
            if spending is None or party in self._forgoing
            else spending.after(self._releases.get(party, 0))
            for party in sorted(self._plan.roster.parties)
        }

    def total(self) -> Account:
        """Return the exact account."""
        kept = {party: made for party, made in self._releases.items() if party not in self._forgoing}
        if self._void is not None:
            return Account(None, self._void, WITHOUT, self._releases, self._forgoing)
        shared = self._plan.scenario.privacy.shared
        found = ledger_of(self._mechanism, max(kept.values(), default=0)).guarantee(
            colluders=self._plan.scenario.secure_sum.colluders_per_cluster if shared else None,
            failure=self._plan.limits.p_shares_fail if shared else 0.0,
        )
        text = str(found)
        if text == NO_GUARANTEE:
            return Account(None, TOO_LITTLE, WITHOUT, self._releases, self._forgoing)
        return Account(found, text, found.kind, self._releases, self._forgoing)


def on_mechanism(
    scenario: Scenario, limits: feasibility.DerivedLimits, mechanism: Mechanism | None, *, void: str | None
) -> Iterator[header.Sentence]:
    """Yield the sentences on privacy that need the size of the model.

    Raises:
        ConfigError: dp_accounting is missing for an epsilon.
    """
    if mechanism is None:
        return
    shared, planned = scenario.privacy.shared, planned_releases(scenario)
    most = planned if mechanism.allowed is None else min(planned, mechanism.allowed)
    yield from _on_noise(scenario, mechanism)
    yield from on_power(scenario, limits, mechanism)
    yield _on_budget(scenario, mechanism, most, planned, void=void)
    if void is not None:
        yield header.privacy(void)
        return
    yield from facts.on_delta(mechanism.delta, mechanism.event.unit)
    found = ledger_of(mechanism, most).guarantee(
        colluders=scenario.secure_sum.colluders_per_cluster if shared else None,
        failure=limits.p_shares_fail if shared else 0.0,
    )
    if str(found) == NO_GUARANTEE:
        yield header.privacy(TOO_LITTLE)
        return
    of = f"{found.relation}, {mechanism.event.sampling().partition(',')[0]}"
    stated = f"epsilon {found.epsilon:.4g}, delta {found.delta:.3g} for each {found.unit} ({of})"
    yield header.privacy(stated, f"at most {found}")


def _on_noise(scenario: Scenario, mechanism: Mechanism) -> Iterator[header.Sentence]:
    privacy, rounding, bits = scenario.privacy, mechanism.rounding, scenario.encoding.scale_bits
    sensitivity = f"{rounding.sensitivity:.4g} steps of 2^-{bits} ({rounding.norm:.4g} before rounding)"
    added = f"each party adds {mechanism.table.std:.4g} steps (h = {mechanism.shares.honest})"
    yield header.privacy(
        more=f"multiplier {privacy.multiplier:.4g} on a sensitivity of {sensitivity}; {added}"
    )
    times = rounding.sensitivity / rounding.norm
    if times > 1.5:
        remedy = "a finer encoding.scale_bits costs less noise"
        yield header.privacy(more=f"rounding multiplies the sensitivity by {times:.3g}; {remedy}")
    if privacy.transfer is not None and privacy.multiplier is not None:
        rate, base = scenario.server_optimiser.learning_rate, privacy.transfer.multiplier
        product = f"{rate:g} x {base:g} / {privacy.multiplier:.4g} = {rate * base / privacy.multiplier:.4g}"
        yield header.end(more=f"server learning rate: {product}")


def _on_budget(
    scenario: Scenario, mechanism: Mechanism, most: int, planned: int, *, void: str | None
) -> header.Sentence:
    privacy = scenario.privacy
    if privacy.budget is None or mechanism.allowed is None:
        return header.end("no privacy budget", count_of(planned, "planned release"))
    lasts = (
        f"{most} of {planned} releases, then the party leaves"
        if most < planned
        else f"all {planned} releases"
    )
    # Without a guarantee the budget is only a number of releases.
    spent = "" if void else describe_epsilon(privacy.budget, mechanism.event, mechanism.delta)
    return header.end(f"privacy budget: {lasts}", spent)
