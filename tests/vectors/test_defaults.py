"""Every default of a scenario, against the committed ones: draws leave out fields that are at theirs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import NODEFAULT, inspect

from securefl import scenario
from securefl.scenario.draws import DEFAULTS_VERSION, chosen_fields, drawn_digest
from securefl.scenario.load import parse_scenario
from securefl.scenario.parts import expand_node
from securefl.scenario.scenario import Scenario
from securefl.scenario.section import Section

COMMITTED = Path(__file__).parent / "defaults.json"
SMALL = """
name = "x"
parties = 12
[secure_sum]
threshold = 2
min_survivors = 2
[stop]
rounds = 3
"""


def _structs(node: inspect.Type) -> Iterator[inspect.StructType]:
    match node:
        case inspect.StructType():
            yield node
            for field in node.fields:
                for one in expand_node(field.type):
                    yield from _structs(one)
        case inspect.UnionType():
            for one in node.types:
                yield from _structs(one)
        case inspect.VarTupleType():
            for one in expand_node(node.item_type):
                yield from _structs(one)
        case _:
            pass


def _defaults() -> dict[str, Any]:
    fields = (
        (f"{struct.cls.__name__}.{field.encode_name}", _default(field))
        for struct in _structs(inspect.type_info(Scenario))
        for field in struct.fields
        if not field.required
    )
    return {name: _plain(default) for name, default in sorted(fields)}


def _default(field: inspect.Field) -> object:
    return field.default if field.default_factory is NODEFAULT else field.default_factory()


def _plain(default: object) -> Any:
    """Of a table its kind alone: what it holds stands there by its own fields."""
    if isinstance(default, msgspec.Struct):
        return f"{type(default).__name__}()"
    return json.loads(msgspec.json.encode(default))


def test_defaults_are_the_committed_ones() -> None:
    """A changed or removed default changes what equal scenarios do: raise ``DEFAULTS_VERSION`` with it.

    A new field at a default that changes nothing is added to the file, at the same version
    (``python -m tests.vectors.test_defaults``). If its default is none, it also goes into ``ONLY_GIVEN`` of
    :mod:`securefl.scenario.resolved`.
    """
    committed = json.loads(COMMITTED.read_text())
    assert (committed["version"], committed["defaults"]) == (DEFAULTS_VERSION, _defaults())


def test_a_new_field_at_its_default_changes_no_draw() -> None:
    """A schema of tomorrow: the same scenario with a field more, in itself and in one of its tables."""
    today = parse_scenario(SMALL)

    class Stop(scenario.Stop, frozen=True, kw_only=True):
        grace: float = 2.0

    class Later(scenario.Scenario, frozen=True, kw_only=True):
        tomorrow: bool = False

    given: dict[str, Any] = msgspec.structs.asdict(today)

    def made(grace: float, *, tomorrow: bool) -> Any:
        return Later(**given | {"stop": Stop(rounds=3, grace=grace), "tomorrow": tomorrow})

    assert drawn_digest(made(2.0, tomorrow=False)) == drawn_digest(today)
    assert drawn_digest(made(3.0, tomorrow=False)) != drawn_digest(today)
    assert drawn_digest(made(2.0, tomorrow=True)) != drawn_digest(today)


def test_a_field_that_got_a_default_later_still_counts() -> None:
    """``threshold``, ``min_survivors`` and ``rounds`` were required once: they name the draws as before."""
    assert chosen_fields(parse_scenario('name = "x"\nparties = 12')) == {
        "name": "x",
        "parties": 12,
        "secure_sum": {"threshold": 2, "min_survivors": 2},
        "stop": {"rounds": 10},
    }


class Inner(Section, frozen=True, kw_only=True, tag_field="type", tag="inner"):
    """A table with a kind."""

    size: int = 3
    name: str


class Outer(Section, frozen=True, kw_only=True):
    """A table of tables."""

    inner: Inner
    inners: tuple[Inner, ...] = ()
    most: int | None = None


def test_what_is_at_its_default_is_left_out_wherever_it_stands() -> None:
    one, other = Inner(name="a"), Inner(name="b", size=4)
    assert chosen_fields(Outer(inner=one)) == {"inner": {"type": "inner", "name": "a"}}
    assert chosen_fields(Outer(inner=one, inners=(other,), most=0)) == {
        "inner": {"type": "inner", "name": "a"},
        "inners": [{"type": "inner", "name": "b", "size": 4}],
        "most": 0,
    }


if __name__ == "__main__":
    written = {"version": DEFAULTS_VERSION, "defaults": _defaults()}
    COMMITTED.write_text(json.dumps(written, indent=1, sort_keys=True) + "\n")
