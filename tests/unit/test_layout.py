"""Circles of imports that ``tools/layout.py`` refuses, in packages made for the test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import layout

FIRST = "securefl.base.pair.first"
SECOND = "securefl.base.pair.second"
BACK = {
    "at the top": "from securefl.base.pair import first\n",
    "of a name": "from securefl.base.pair.first import Thing\n",
    "of an export of the package": "from securefl.base.pair import Thing\n",
    "in a function": "def f():\n    from securefl.base.pair import first\n",
    "for types": "import typing\nif typing.TYPE_CHECKING:\n    from securefl.base.pair import first\n",
}


def circles(root: Path, second: str) -> list[str]:
    """Return the complaints about circles in a package of two modules, whose first imports the second."""
    pair = root / "securefl" / "base" / "pair"
    pair.mkdir(parents=True)
    for folder in (root / "securefl", pair.parent, pair):
        (folder / "__init__.py").touch()
    (root / "securefl" / "__init__.pyi").touch()
    (pair / "__init__.pyi").write_text("from .first import Thing as Thing\n")
    (pair / "first.py").write_text("from securefl.base.pair import second\n\nclass Thing: ...\n")
    (pair / "second.py").write_text(second)
    return [line for line in layout.complaints(layout.modules(root)) if "circle" in line]


@pytest.mark.parametrize("back", BACK)
def test_modules_of_a_unit_that_import_each_other_are_refused(back: str, tmp_path: Path) -> None:
    (found,) = circles(tmp_path, BACK[back])
    assert found.startswith("modules import each other in a circle: ")
    assert {FIRST, SECOND} == set(found.partition(": ")[2].split(" < "))


def test_a_module_that_imports_itself_is_refused(tmp_path: Path) -> None:
    assert circles(tmp_path, "from securefl.base.pair import second\n")


def test_an_import_one_way_is_accepted(tmp_path: Path) -> None:
    assert not circles(tmp_path, "import math\n")
