"""No epsilon is shown without unit, relation, sampler and delta; with seeded entropy the word is none."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from securefl.base.errors import ConfigError
from securefl.methods.privacy.settling import check_budget
from securefl.runtime.report.expect import judge
from securefl.runtime.report.privacy import SEEDED
from securefl.runtime.report.summary import Summary, summarise
from securefl.scenario.scenario import Expect
from tests.unit.cli.programs import call
from tests.unit.report.test_privacy import LENGTH, metrics, plan, played, printed_summary, sentences

CALIBRATE = ("dp", "calibrate", "--epsilon", "3", "--records", "200", "--batch", "200", "--epochs", "1")

NUMBER = re.compile(r"epsilon(?: nothing)?(?: =|,| of| at most)? *[0-9]", re.IGNORECASE)
PARTS = (
    re.compile(r"record level|party level|\((record|party),"),
    re.compile(r"add-remove|replace-one"),
    re.compile(r"sampling|shuffle|fixed-size"),
    re.compile(r"delta [0-9]"),
)


def unnamed(text: str) -> list[str]:
    """Lines that show an epsilon without saying of what."""
    shown = [line for line in text.splitlines() if NUMBER.search(line)]
    return [line for line in shown if not all(part.search(line) for part in PARTS)]


def claimed(*, seeded: bool) -> Summary:
    """Of a run that expects something of its epsilon."""
    found, _ = metrics(seeded=seeded)
    scenario = replace(played()[0], expect=(Expect(metric="epsilon", at_most=50.0),))
    return summarise(run="r", scenario=scenario, metrics=found, insecure=seeded, seconds=1.0, files={})


def headers(void: str | None) -> Iterator[str]:
    for of in (plan(), plan(privacy__budget="3"), plan(privacy__placement="dropout-exact")):
        yield from sentences(of.scenario, of.limits, of.mechanism, void=void)


def test_the_search_finds_what_lacks_a_part() -> None:
    whole = "epsilon 2 (PLD; RDP 2.5) at delta 0.005: record level, add-remove, Poisson sampling, q = 16/120"
    assert unnamed(f"accuracy 3\n{whole}") == []
    for part in ("at delta 0.005", "record level", "add-remove", "Poisson sampling"):
        assert unnamed(whole.replace(part, "")) != []
    assert unnamed("one release spends epsilon = 3.1, more than 2") != []


def test_headers_and_summaries() -> None:
    text = "\n".join(headers(None))
    assert len(NUMBER.findall(text)) >= 6
    assert unnamed(text) == []
    shown = printed_summary(claimed(seeded=False))
    assert len(NUMBER.findall(shown)) == 2
    assert unnamed(shown) == []


def test_with_seeded_entropy_there_is_no_epsilon_at_all() -> None:
    text = "\n".join(headers(SEEDED))
    assert NUMBER.findall(text) == []
    assert text.count(SEEDED) == 3
    summary = claimed(seeded=True)
    assert NUMBER.findall(printed_summary(summary)) == []
    assert "epsilon none, expected at most 50 (none)" in printed_summary(summary)
    assert judge(summary.scenario.expect, summary.outcome)[0].ok is False


def test_refusals_and_calibration() -> None:
    small = plan().scenario
    with pytest.raises(ConfigError) as spent:
        check_budget(replace(small, privacy=replace(small.privacy, budget=2.0)), LENGTH)
    assert NUMBER.search(str(spent.value))
    with pytest.raises(ConfigError) as first:
        plan(privacy__budget="0.3")
    assert NUMBER.search(str(first.value))
    done = call(*CALIBRATE, width=300)
    assert done.exit_code == 0
    assert NUMBER.search(done.stdout)
    assert unnamed(f"{spent.value}\n{first.value}\n{done.stdout}") == []
