from __future__ import annotations

from dataclasses import replace

import pytest

from securefl.runtime.report.expect import MEANING, exit_code, in_words, judge
from securefl.runtime.report.outcome import Outcome
from securefl.scenario.scenario import Expect
from tests.looped import looped

GOOD = Outcome(
    accuracy=0.934,
    rounds=8,
    survivors=11,
    clusters_lost=0,
    opened_sums=32,
    refusals=2,
    aborted=False,
)
ABORTED = Outcome(
    accuracy=None, rounds=0, survivors=None, clusters_lost=0, opened_sums=0, refusals=4, aborted=True
)


@pytest.mark.parametrize(
    ("expect", "ok", "text"),
    [
        (Expect(metric="accuracy", at_least=0.9), True, "accuracy 0.934, expected at least 0.9"),
        (Expect(metric="accuracy", at_least=0.934), True, "accuracy 0.934, expected at least 0.934"),
        (Expect(metric="accuracy", at_most=0.5), False, "accuracy 0.934, expected at most 0.5"),
        (Expect(metric="survivors", at_least=11, at_most=11), True, "survivors 11, expected exactly 11"),
        (
            Expect(metric="rounds", at_least=9, at_most=12),
            False,
            "rounds 8, expected at least 9 and at most 12",
        ),
        (Expect(metric="clusters_lost", at_most=0), True, "clusters_lost 0, expected at most 0"),
        (Expect(metric="refusals", at_most=1), False, "refusals 2, expected at most 1"),
        (Expect(metric="opened_sums", at_least=32), True, "opened_sums 32, expected at least 32"),
        (Expect(metric="aborted", at_most=0), True, "aborted 0, expected at most 0"),
        (Expect(metric="epsilon", at_most=3), False, "epsilon none, expected at most 3"),
    ],
)
def test_judgements(expect: Expect, ok: bool, text: str) -> None:
    (judgement,) = judge([expect], GOOD)
    assert judgement.ok is ok
    assert judgement.text == text


def test_rounding_never_hides_why_it_failed() -> None:
    outcome = Outcome(
        accuracy=0.899999, rounds=1, survivors=1, clusters_lost=0, opened_sums=1, refusals=0, aborted=False
    )
    (judgement,) = judge([Expect(metric="accuracy", at_least=0.9)], outcome)
    assert not judgement.ok
    assert "0.899999" in judgement.text


@looped(
    "expects, outcome, code",
    [
        ([], GOOD, 0),
        ([Expect(metric="accuracy", at_least=0.9)], GOOD, 0),
        ([Expect(metric="accuracy", at_least=0.95)], GOOD, 1),
        ([Expect(metric="aborted", at_least=1)], GOOD, 1),
        ([], ABORTED, 3),
        ([Expect(metric="refusals", at_least=4)], ABORTED, 3),
        ([Expect(metric="aborted", at_most=0)], ABORTED, 3),
        ([Expect(metric="aborted", at_least=1)], ABORTED, 0),
        ([Expect(metric="aborted", at_most=1)], ABORTED, 0),
        ([Expect(metric="aborted", at_least=1), Expect(metric="refusals", at_least=5)], ABORTED, 1),
        ([], replace(ABORTED, interrupted=True, paused=True), 4),
        ([Expect(metric="aborted", at_least=1)], replace(ABORTED, interrupted=True, paused=True), 4),
        ([Expect(metric="aborted", at_least=1), Expect(metric="accuracy", at_most=1)], ABORTED, 1),
    ],
)
def test_exit_codes(expects: list[Expect], outcome: Outcome, code: int) -> None:
    assert exit_code(judge(expects, outcome), outcome) == code


@pytest.mark.parametrize(
    ("expects", "aborted", "code", "words"),
    [
        ([], False, 1, "the run ended, but no model came of its last 2 rounds"),
        (
            [Expect(metric="accuracy", at_least=0.9)],
            False,
            1,
            "the run ended, but no model came of its last 2 rounds",
        ),
        ([Expect(metric="accuracy", at_least=0.95)], False, 1, MEANING[1]),
        # Who states how many rounds give a model reckons with some that do not.
        ([Expect(metric="rounds", at_least=6)], False, 0, MEANING[0]),
        ([Expect(metric="rounds", at_least=9)], False, 1, MEANING[1]),
        ([Expect(metric="verified_rounds", at_least=4)], False, 0, MEANING[0]),
        ([Expect(metric="aborted", at_least=1)], True, 0, MEANING[0]),
        ([], True, 3, MEANING[3]),
    ],
)
def test_a_run_whose_last_rounds_made_no_model_does_not_pass(
    expects: list[Expect], aborted: bool, code: int, words: str
) -> None:
    outcome = replace(GOOD, rounds_without_update=2, aborted=aborted, verified_rounds=4)
    judgements = judge(expects, outcome)
    assert exit_code(judgements, outcome) == code
    assert in_words(code, judgements, outcome) == words
