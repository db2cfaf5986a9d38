"""docs/fields.md and docs/scenarios.md against the program: no field, choice or example missing or wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import inspect

from securefl.base.errors import ConfigError
from securefl.methods.feasibility.limits import check
from securefl.scenario.load import parse_scenario
from securefl.scenario.parts import expand_node
from securefl.scenario.scenario import Scenario
from securefl.scenario.section import Section
from tests.looped import looped
from tools import fields

DOCS = Path(__file__).parents[3] / "docs"
FIELDS = (DOCS / "fields.md").read_text()
TEXT = (DOCS / "scenarios.md").read_text()
SILENT, LIARS = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)


def words(node: inspect.Type) -> Iterator[str]:
    """All field names, type tags and literal choices of the schema."""
    if isinstance(node, inspect.StructType):
        if node.tag is not None:
            yield str(node.tag)
        for field in node.fields:
            yield field.encode_name
            for one in expand_node(field.type):
                yield from words(one)
    elif isinstance(node, inspect.UnionType):
        for member in node.types:
            yield from words(member)
    elif isinstance(node, inspect.VarTupleType):
        for one in expand_node(node.item_type):
            yield from words(one)
    elif isinstance(node, inspect.LiteralType):
        yield from map(str, node.values)


@looped("word", sorted(set(words(inspect.type_info(Scenario)))))
def test_the_reference_has_every_field_and_choice(word: str) -> None:
    assert re.search(rf"[`\".\[ ]{re.escape(word)}[`\".\], ]", FIELDS), word


def test_the_page_of_fields_is_that_of_the_schema() -> None:
    assert fields.page() == FIELDS


def test_a_field_without_a_docstring_is_refused() -> None:
    class Bare(Section, frozen=True, kw_only=True):
        width: int = 1

    (field,) = inspect.type_info(Bare).fields  # type: ignore[attr-defined]
    with pytest.raises(LookupError, match=r"Bare\.width has no docstring"):
        fields.bullet(Bare, field)


def test_the_first_example_behaves_as_described() -> None:
    assert check(parse_scenario(SILENT)).tolerated_dropouts == (1, 1, 1)
    assert check(parse_scenario(SILENT, ("secure_sum.min_survivors=3",))).tolerated_dropouts == (0, 0, 0)
    active = ("secure_sum.server=active", "secure_sum.verify=off")
    assert check(parse_scenario(SILENT, active)).quorum == 5
    with pytest.raises(ConfigError) as caught:
        check(parse_scenario(SILENT, active[:1]))
    assert str(caught.value) in " ".join(TEXT.split())
    derived = (*active[:1], "secure_sum.threshold=", "secure_sum.min_survivors=")
    assert check(parse_scenario(SILENT, derived)).tolerated_dropouts == (0, 0, 0)


def test_the_second_example_behaves_as_described() -> None:
    assert check(parse_scenario(LIARS)).p_rule_holds == pytest.approx(0.182, abs=5e-4)
    worst = ("aggregation.claim=worst-case",)
    with pytest.raises(ConfigError, match=r"^aggregation\.claim: "):
        check(parse_scenario(LIARS, worst))
    limits = check(parse_scenario(LIARS, (*worst, "clustering.size=2", "aggregation.rule.trim=2")))
    assert limits.clusters == 6
    assert set(limits.tolerated_dropouts) == {0}
