from __future__ import annotations

import pytest

from securefl.base.ids import EVERYONE, SERVER, Instance, RunId, is_name
from tests.looped import looped


@pytest.mark.parametrize("name", ["a", "0", "party-01", "a_b", "a" * 32, "alle", "servers", "0-_"])
def test_names(name: str) -> None:
    assert is_name(name)


WRONG = ["", "a" * 33, "A", "a b", "a\n", "\na", "a\x00", "a/b", "..", ".", "+", "#", "*", "-a", "_a", "a.b"]
WRONG += ["a:b", "$a", "all", "\N{LATIN SMALL LETTER E WITH ACUTE}", "\N{ARABIC-INDIC DIGIT ONE}"]
WRONG += ["\N{CYRILLIC SMALL LETTER A}"]


@looped("name", WRONG)
def test_no_names(name: str) -> None:
    assert not is_name(name)


def test_reserved_names_name_no_party() -> None:
    assert not is_name(SERVER)
    assert not is_name(EVERYONE)


def test_instances_differ_in_every_coordinate() -> None:
    base = Instance(RunId("run"), 1, 2, 3, 4)
    changed = [Instance(*base[:at], 9, *base[at + 1 :]) for at in range(5)]  # type: ignore[call-arg, arg-type]
    assert len({base, *changed}) == 6
