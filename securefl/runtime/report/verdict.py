"""Whom the evidence of all rounds names, and how often that is wrong (docs/checks.md, Over rounds)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from securefl.methods.feasibility import evidence_of
from securefl.protocol.round import RunPlan, Suspect, needed
from securefl.runtime.report.records import RoundRecord, listed_evidence
from securefl.runtime.report.text import listed
from securefl.runtime.transcript import JsonValue


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """What all rounds together say of parties, or of fixed clusters."""

    suspects: tuple[Suspect, ...]
    """Whom there is evidence of, at the end of the run."""
    needed: float
    """Decimal digits that name a suspect."""
    alpha: float
    """The probability that anybody is ever named who keeps to what was agreed (in fixed clusters: and whose
    cluster mates do), if the bound on the number of Byzantine parties holds."""
    byzantine: int | None
    """That bound; None where nothing rests on one."""

    @property
    def named(self) -> tuple[Suspect, ...]:
        """Those whose evidence was enough at the end of some round."""
        return tuple(one for one in self.suspects if one.highest >= self.needed)

    def to_json(self) -> dict[str, JsonValue]:
        """For ``summary.json``."""
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
            return f"evidence over rounds names {listed('+'.join(s.parties) for s in self.named)}; {rate}"
        most = max((one.highest for one in self.suspects), default=0.0)
        return f"evidence over rounds names nobody: at most 10^{most:.1f} of 10^{self.needed:.1f}; {rate}"


def verdict_of(plan: RunPlan, records: Sequence[RoundRecord]) -> RunVerdict | None:
    """What became of the evidence in these rounds; None where it is of nobody."""
    kind = evidence_of(plan.scenario)
    if kind == "none":
        return None
    bound = plan.scenario.aggregation.byzantine if kind == "presence" else None
    found = records[-1].suspects if records else ()
    return RunVerdict(found, needed(plan), plan.scenario.checks.alpha, bound)
