"""Checks of opened sums: exclusions and power."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from securefl.base import header
from securefl.base.ids import SERVER, PartyId
from securefl.methods import feasibility, privacy
from securefl.protocol.round import RunPlan, Suspect, agreed_terms, naming_threshold
from securefl.runtime import transcript
from securefl.runtime.report.records import RoundRecord, listed_evidence
from securefl.runtime.report.text import count_of, list_of, percent
from securefl.scenario import Behaviour, NoNoise, Scenario


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """Verdict of all rounds on parties, or on fixed clusters."""

    suspects: tuple[Suspect, ...]
    needed: float
    """Decimal digits of evidence that name a suspect."""
    alpha: float
    """Maximum probability that an honest party (in fixed clusters: with honest mates) is ever named, given
    the bound.
    """
    byzantine: int | None
    """None if no evidence depends on it."""

    @property
    def named(self) -> tuple[Suspect, ...]:
        """Suspects whose evidence sufficed at the end of some round."""
        return tuple(one for one in self.suspects if one.highest >= self.needed)

    def to_json(self) -> dict[str, transcript.JsonValue]:
        """Return the content for ``summary.json``."""
        return {
            "named": [list(one.parties) for one in self.named],
            "needed": round(self.needed, 4),
            "false_alarm_rate": self.alpha,
            "at_most_byzantine": self.byzantine,
            "of": listed_evidence(self.suspects),
        }

    @property
    def text(self) -> str:
        """One line."""
        limit = "" if self.byzantine is None else f", given at most {self.byzantine} Byzantine"
        rate = f"wrongly with probability at most {100 * self.alpha:g} % in the whole run{limit}"
        if self.named:
            return f"evidence over rounds names {list_of('+'.join(s.parties) for s in self.named)}; {rate}"
        most = max((one.highest for one in self.suspects), default=0.0)
        return f"evidence over rounds names nobody: at most 10^{most:.1f} of 10^{self.needed:.1f}; {rate}"


def verdict_of(plan: RunPlan, records: Sequence[RoundRecord]) -> RunVerdict | None:
    """Return the verdict on the rounds' evidence, if any is collected."""
    kind = feasibility.evidence_of(plan.scenario)
    if kind == "none":
        return None
    bound = plan.scenario.aggregation.byzantine if kind == "presence" else None
    found = records[-1].suspects if records else ()
    return RunVerdict(found, naming_threshold(plan), plan.scenario.checks.alpha, bound)


STATED: Final = 0.9


@dataclass(frozen=True, slots=True)
class Tally:
    """Opened sums of one size and number of parties without noise."""

    survivors: int
    silent: int
    sums: int
    failed: int
    power: float | None
    """Probability that the noise floor excludes such a sum if its signals cancel; None with the published
    pair, or if all add noise.
    """


@dataclass(frozen=True, slots=True)
class Checked:
    """Results of a run's checks, compared with behaviours."""

    tallies: tuple[Tally, ...]
    false_alarms: int
    verdict: RunVerdict | None = None

    @property
    def sums(self) -> int:
        """Number of opened sums."""
        return sum(one.sums for one in self.tallies)

    @property
    def failed(self) -> int:
        """Number of excluded sums."""
        return sum(one.failed for one in self.tallies)

    @property
    def silent_failed(self) -> float | None:
        """Excluded share of the sums with a party without noise; None if there are none."""
        sums = sum(one.sums for one in self.tallies if one.silent)
        return sum(one.failed for one in self.tallies if one.silent) / sums if sums else None

    def to_json(self) -> dict[str, transcript.JsonValue]:
        """Return the content for ``summary.json``."""
        return {
            "sums": self.sums,
            "failed": self.failed,
            "false_alarms": self.false_alarms,
            **({} if self.verdict is None else {"evidence": self.verdict.to_json()}),
            "by_members": [
                {
                    "survivors": one.survivors,
                    "without_noise": one.silent,
                    "sums": one.sums,
                    "failed": one.failed,
                    "power_without_signal": one.power,
                }
                for one in self.tallies
            ],
        }


class CheckWatch:
    """Comparison of excluded sums with the deviating parties."""

    def __init__(self, plan: RunPlan, behaviours: Mapping[PartyId, Sequence[Behaviour]]) -> None:
        self._plan = plan
        self._cast = {party: tuple(shown) for party, shown in behaviours.items() if party != SERVER}

    def check_results(self, records: Sequence[RoundRecord]) -> Checked:
        """Return the results of the checks in these rounds."""
        sums: Counter[tuple[int, int]] = Counter()
        failed: Counter[tuple[int, int]] = Counter()
        alarms = 0
        for record in records:
            shown = {
                party: tuple(b for b in own if not b.rounds or record.round in b.rounds)
                for party, own in self._cast.items()
            }
            silent = {party for party, own in shown.items() if any(isinstance(b, NoNoise) for b in own)}
            deviating = {party for party, own in shown.items() if any(map(privacy.forgoes_privacy, own))}
            for seen in record.sums:
                kind = len(seen.counted), len(silent.intersection(seen.counted))
                sums[kind] += 1
                if (seen.reclustering, seen.cluster) in record.failed:
                    failed[kind] += 1
                    alarms += deviating.isdisjoint(seen.counted)
        plan = self._plan
        tallies = (
            Tally(*kind, count, failed[kind], _power(plan.scenario, plan.limits, plan.mechanism, *kind))
            for kind, count in sorted(sums.items())
        )
        return Checked(tuple(tallies), alarms, verdict_of(plan, records))


def on_power(
    scenario: Scenario, limits: feasibility.DerivedLimits, mechanism: privacy.Mechanism
) -> Iterator[header.Sentence]:
    """Yield the power of the noise floor for the largest and the smallest sum that may open."""
    if scenario.checks.kind != "corrected":
        return
    plan, dim = agreed_terms(scenario, mechanism), mechanism.rounding.dim
    alpha, unit = _level(scenario, limits), 2.0**-scenario.encoding.scale_bits
    sizes = {max(limits.cluster_sizes), scenario.secure_sum.min_survivors}
    for survivors, silent in product(sorted(sizes, reverse=True), (1, 2)):
        if silent > survivors:
            continue
        null, missing = plan.null(survivors), silent * mechanism.shares.share_std**2
        power, hiding = (
            privacy.floor_power(null, dim, alpha, missing),
            privacy.hidden_by(null, dim, alpha, missing, STATED),
        )
        at = "" if hiding is None else f", {percent(STATED)} if their sum has norm {hiding * unit:.3g}"
        yield header.tolerance(
            more=f"noise floor: a sum of {survivors} of whom {_silent(silent)} no noise is left out with"
            f" probability {_sure(power)} if signals cancel{at} ({null.allowance * unit:.3g} is allowed)"
        )


def check_lines(found: Checked) -> Iterator[str]:
    """Yield lines of the summary."""
    yield (
        f"{found.failed} of {count_of(found.sums, 'sum')} left out; of those {found.false_alarms} where all"
        " keep to what was agreed"
    )
    if found.verdict is not None:
        yield found.verdict.text
    for one in found.tallies:
        if one.silent:
            stated = "" if one.power is None else f"; without signals {_sure(one.power)} are to be expected"
            yield (
                f"sums of {one.survivors} of whom {_silent(one.silent)} no noise: {one.failed} of {one.sums}"
                f" left out{stated}"
            )


def _power(
    scenario: Scenario,
    limits: feasibility.DerivedLimits,
    mechanism: privacy.Mechanism | None,
    survivors: int,
    silent: int,
) -> float | None:
    if mechanism is None or scenario.checks.kind != "corrected" or not silent:
        return None
    null = agreed_terms(scenario, mechanism).null(survivors)
    missing = silent * mechanism.shares.share_std**2
    return privacy.floor_power(null, mechanism.rounding.dim, _level(scenario, limits), missing)


def _silent(count: int) -> str:
    return "1 adds" if count == 1 else f"{count} add"


def _sure(probability: float) -> str:
    return "more than 99.9 %" if probability > 0.999 else percent(probability)


def _level(scenario: Scenario, limits: feasibility.DerivedLimits) -> float:
    """Return the minimum level of each check on each sum (Bonferroni).

    As in :func:`securefl.methods.privacy.checks.family.check_sums`.
    """
    sums = limits.clusters * scenario.clustering.reclusterings
    return scenario.checks.alpha / (sums * len(privacy.CHECKS))
