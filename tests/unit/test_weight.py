"""The counting rules of ``tools/weight.py``, one by one."""

from __future__ import annotations

import pytest

from tools import weight

CASES = {
    "blank and comment": ("# note\n\nx = 1  # one\n", 1, 0),
    "docstrings": (
        '"""Module."""\nclass A:\n    """Class."""\n    x: int\n    """Attribute,\n    two lines."""\n',
        2,
        0,
    ),
    "text that is code": ('text = """\none\n"""\n', 3, 0),
    "imports": ("import os\nfrom a import (\n    b,\n    c,\n)\ndef f():\n    import d\n", 7, 6),
}


@pytest.mark.parametrize("case", CASES)
def test_lines_are_counted_by_the_rules(case: str) -> None:
    source, code, imports = CASES[case]
    assert weight.weigh(source) == weight.Weight(1, code, imports)


def test_research_is_counted_apart() -> None:
    folder = weight.ROOT / "securefl"
    assert weight.wing(folder / "lab" / "bench" / "x.py") == "lab/bench"
    assert weight.wing(folder / "lab" / "audit" / "x.py") == "lab"
    assert weight.wing(folder / "_api.py") == "securefl"
