"""Numbers in the findings of experiment files are made here from the committed results."""

from __future__ import annotations

import re

import pytest

from tests.unit.experiments.committed import PAPERS, findings, points, short, span
from tests.unit.experiments.findings import br_ifca, dp, hidden_groups, share, weighting

BY_PAPER = {
    "br-ifca": br_ifca,
    "dp": dp,
    "hidden-groups": hidden_groups,
    "share": share,
    "weighting": weighting,
}
"""``PHRASES`` with numbers of results, and ``OTHERS`` with settings, numbers of a paper, and
measurements that results do not have.
"""

WORD = r"(?:half a|one|two|three|four|five|six|seven|eight|nine|ten|\d+)"
NUMBER = re.compile(
    rf"(?<![\w.])\d*\.\d+|\b{WORD}(?: to {WORD})? points?\b|\b{WORD} of (?:five (?:seeds|draws)|20\b)"
)
"""Decimal numbers, percentage points, and counts of seeds, draws and groups."""
SHEETS = sorted(
    str(path.relative_to(PAPERS).with_suffix(""))
    for path in PAPERS.rglob("*.toml")
    if not path.name.startswith("_")
)


@pytest.mark.parametrize("sheet", SHEETS)
def test_numbers_of_findings_are_those_of_results(sheet: str) -> None:
    """A new number in findings belongs in ``PHRASES`` of its paper, or with a reason in ``OTHERS``."""
    paper, name = sheet.split("/")
    text, known = findings(sheet), BY_PAPER[paper]
    phrases = (*known.PHRASES.get(name, tuple)(), *known.OTHERS.get(name, ()))
    assert [phrase for phrase in phrases if phrase not in text] == []
    for phrase in phrases:
        text = text.replace(phrase, "")
    assert NUMBER.findall(text) == []


def test_every_phrase_is_about_an_experiment() -> None:
    named = {f"{paper}/{name}" for paper, one in BY_PAPER.items() for name in {*one.PHRASES, *one.OTHERS}}
    assert named <= {*SHEETS}


def test_forms_of_numbers() -> None:
    assert [short(one) for one in (0.724, -0.051, 10.5, 1.0)] == [".72", "-.05", "10.50", "1.00"]
    assert span((0.104, 0.04)) == ".04 to .10"
    assert span((0.2551, 0.2649), 1) == ".3"
    assert points(0.021, 0.099) == "2 to 10"
    assert points(0.0004, 0.0049) == "0"
    with pytest.raises(AssertionError):
        points(-0.01, 0.02)
