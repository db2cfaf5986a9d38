"""Comparison of a run with its expectations."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from securefl import scenario
from securefl.base.errors import (
    EXIT_ABORTED,
    EXIT_DECIDE,
    EXIT_EXPECTED,
    EXIT_PAUSED,
    EXIT_REFUSED,
    EXIT_UNEXPECTED,
)
from securefl.runtime.report.outcome import Outcome

MEANING: Final = {
    EXIT_EXPECTED: "the outcome is the expected one",
    EXIT_UNEXPECTED: "the outcome differs from what the scenario expects",
    EXIT_REFUSED: "the configuration was refused",
    EXIT_ABORTED: "the run aborted",
    EXIT_PAUSED: "the run is paused: the same command goes on with it",
    EXIT_DECIDE: "a person must decide: the same command would end like this again",
}
NOTHING_EXPECTED: Final = "the run ended, and the scenario expects nothing of it"


@dataclass(frozen=True, slots=True)
class Judgement:
    """One ``[[expect]]`` and its measurement. Both bounds are inclusive."""

    metric: str
    at_least: float | None
    at_most: float | None
    measured: float | None
    ok: bool
    deviation: float = 0.0
    """Standard deviation by noise, which the judgement ignores."""

    @property
    def claim(self) -> str:
        """Expectation in words."""
        if self.at_least is not None and self.at_least == self.at_most:
            return f"exactly {_number(self.at_least)}"
        low = "" if self.at_least is None else f"at least {_number(self.at_least)}"
        high = "" if self.at_most is None else f"at most {_number(self.at_most)}"
        return " and ".join(part for part in (low, high) if part)

    @property
    def found(self) -> str:
        """Measurement in words; with all digits if rounding would hide the failure."""
        if self.measured is None:
            return "none" if self.metric == "epsilon" else "nothing to measure"
        shown = _number(self.measured)
        bounds = {_number(bound) for bound in (self.at_least, self.at_most) if bound is not None}
        shown = repr(self.measured) if shown in bounds and not self.ok else shown
        return f"{shown} ± {_number(self.deviation)}" if self.deviation else shown

    @property
    def text(self) -> str:
        """One line: ``accuracy 0.9611, expected at least 0.9``."""
        return f"{self.metric} {self.found}, expected {self.claim}"


def judge(expects: Sequence[scenario.Expect], outcome: Outcome) -> tuple[Judgement, ...]:
    """Compare each claim with the outcome. A claim without a measurement fails."""
    return tuple(
        _judge(
            expect, outcome.measure(expect.metric, expect.of), outcome.deviations.get(expect.of or "", 0.0)
        )
        for expect in expects
    )


def exit_code(judgements: Sequence[Judgement], outcome: Outcome) -> int:
    """Return 0 as expected, 1 not as expected, 3 aborted, 4 paused, 5 if a person must decide.

    An abort counts as expected only if a claim on ``aborted`` holds, and never if the user caused it. A round
    in which every training failed, or an honest update was cut, is never expected. Last rounds without a
    model need an expected abort, or a claim on ``rounds`` or ``verified_rounds`` that holds.
    """
    if outcome.paused:
        return EXIT_PAUSED
    if outcome.decide:
        return EXIT_DECIDE
    if outcome.interrupted or (outcome.aborted and not _meets_expectation(judgements, "aborted")):
        return EXIT_ABORTED
    met = all(judgement.ok for judgement in judgements) and not (outcome.untrained or outcome.cut)
    return EXIT_EXPECTED if met and not _in_vain(judgements, outcome) else EXIT_UNEXPECTED


def in_words(code: int, judgements: Sequence[Judgement], outcome: Outcome) -> str:
    """Return the meaning of a run's exit code."""
    if code == EXIT_EXPECTED and not judgements:
        return NOTHING_EXPECTED
    if outcome.untrained:
        return "no party trained: every training of a round failed"
    if outcome.cut:
        return "updates were cut: an honest one had coordinates beyond encoding.range"
    if code == EXIT_UNEXPECTED and all(judgement.ok for judgement in judgements):
        last = "round" if outcome.rounds_without_update == 1 else f"{outcome.rounds_without_update} rounds"
        return f"the run ended, but no model came of its last {last}"
    return MEANING[code]


def _meets_expectation(judgements: Sequence[Judgement], metric: str) -> bool:
    stated = [judgement for judgement in judgements if judgement.metric == metric]
    return bool(stated) and all(judgement.ok for judgement in stated)


def _in_vain(judgements: Sequence[Judgement], outcome: Outcome) -> bool:
    stated = _meets_expectation(judgements, "rounds") or _meets_expectation(judgements, "verified_rounds")
    return outcome.rounds_without_update > 0 and not outcome.aborted and not stated


def _judge(expect: scenario.Expect, measured: float | None, deviation: float) -> Judgement:
    low, high = expect.at_least, expect.at_most
    ok = measured is not None and (low is None or measured >= low) and (high is None or measured <= high)
    return Judgement(expect.of or expect.metric, low, high, measured, ok, deviation)


def _number(value: float) -> str:
    return str(int(value)) if abs(value) < 1e15 and value == int(value) else f"{value:.4g}"
