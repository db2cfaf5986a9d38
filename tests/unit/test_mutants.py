"""The mutants fit the code as it is; `make mutants` says whether a test notices each."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.heavy import HEAVY
from tests.looped import looped

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "results" / "mutants.md"


def _tool() -> Any:
    spec = importlib.util.spec_from_file_location("mutants", ROOT / "tools" / "mutants.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


TOOL = _tool()
MUTANTS = TOOL.read_mutants()


@cache
def _names(test: str) -> set[str]:
    return set(re.findall(r"^\s*(?:async )?(?:def|class) (\w+)", (ROOT / test).read_text(), re.MULTILINE))


@cache
def _left_out(test: str) -> set[str]:
    """Functions that the fast tier, and so ``make mutants``, leaves out with all their cases."""
    text = (ROOT / test).read_text()
    return set(re.findall(r"^ *@pytest\.mark\.(?:slow|paper)\n(?: *@.*\n)* *def (\w+)", text, re.MULTILINE))


@cache
def _tree(path: str) -> str:
    return ast.dump(ast.parse((ROOT / path).read_text()))


@looped("mutant", MUTANTS)
def test_each_fits_its_file_and_its_tests(mutant: Any) -> None:
    mutated = mutant.applied((ROOT / mutant.file).read_text())
    assert ast.dump(ast.parse(mutated)) != _tree(mutant.file), "it changes nothing that runs"
    assert mutant.why
    assert "|" not in mutant.why + mutant.equivalent
    assert mutant.tests
    for test in mutant.tests:
        path, *names = test.split("[")[0].split("::")
        assert (ROOT / path).exists(), path
        assert {*names} <= (_names(path) if names else set()), test
        assert not (names and names[-1] in _left_out(path)), f"{test} is not of the fast tier"
        # Of a test without a case, those in the fast tier do; a case that is named has to be among them.
        cases = HEAVY.get(test.split("[")[0])
        assert cases is None or (cases and "[" not in test), f"{test} is not of the fast tier"


def test_there_are_many_and_the_page_has_them() -> None:
    page = PAGE.read_text()
    assert len(MUTANTS) >= 150
    listed = re.findall(r"^\| ([\w-]+) \| `", page, re.MULTILINE)
    assert listed == [one.name for one in MUTANTS], "make mutants writes the page"
    assert " 0 unexplained" in page


def test_a_text_that_is_gone_or_there_twice_is_stale() -> None:
    one = TOOL.Mutant("area", "name", "file", "check()", "pass", ("test",), "why")
    assert one.applied("check()\n") == "pass\n"
    for text in ("", "check()\ncheck()\n"):
        with pytest.raises(ValueError, match="not once"):
            one.applied(text)


def test_changes_of_file_test_or_data_touch_a_mutant() -> None:
    one = TOOL.Mutant(
        "area", "name", "securefl/a.py", "x", "y", ("tests/b.py::test_c", "tests/folder"), "why"
    )
    for name in ("securefl/a.py", "tests/b.py", "tests/folder/test_d.py", "tests/mutants/area.toml"):
        assert TOOL.touched(one, {name})
    assert not TOOL.touched(one, {"securefl/b.py", "tests/folder2/test_d.py", "tests/mutants/other.toml"})


SAMPLES = {
    "killed": ("return 1", "return 2", ""),
    "not equivalent": ("return 1", "return 3", "so it is said"),
    "survived": ("return 1", "return 1 + 0", ""),
    "equivalent": ("return 1", "return 0 + 1", "one and nothing"),
    "broken": ("return 1", "return (", ""),
    "stale": ("return 3", "return 2", ""),
    "timeout": ("return 1", "while True: pass", ""),
}


@pytest.mark.slow
def test_what_becomes_of_mutants(tmp_path: Path) -> None:
    """The tool itself, on a tree with one function and its test."""
    data = [
        f'[[mutant]]\nname = "{name}"\nfile = "securefl/one.py"\nsearch = "{search}"\nreplace = "{replace}"\n'
        f'tests = ["tests/test_one.py"]\nwhy = "a sample"\n'
        + (f'equivalent = "{argued}"\n' if argued else "")
        for name, (search, replace, argued) in SAMPLES.items()
    ]
    files = {
        "tools/mutants.py": (ROOT / "tools" / "mutants.py").read_text(),
        "securefl/__init__.py": "",
        "securefl/one.py": "def one():\n    return 1\n",
        "tests/test_one.py": "from securefl.one import one\n\n\ndef test_one():\n    assert one() == 1\n",
        "tests/mutants/sample.toml": "\n".join(data),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    subprocess.run(("git", "init", "-q"), cwd=tmp_path, check=True)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = (sys.executable, "tools/mutants.py", *words)
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    # One that never ends meets a short limit, and the others none: a busy machine is no result.
    ending = [f"sample/{name}" for name in SAMPLES if name != "timeout"]
    each = run("--timeout", "3600", "--only", *ending), run("--timeout", "60", "--only", "sample/timeout")
    good = run("--timeout", "3600", "--only", "sample/killed", "sample/equivalent")
    told = "".join(one.stdout for one in each)
    found = {name: re.search(rf"/[0-9]+ ([a-z ]+?) +[0-9.]+ s  sample/{name} ", told) for name in SAMPLES}
    assert {name: match and match[1] for name, match in found.items()} == {name: name for name in SAMPLES}
    assert [one.returncode for one in (*each, good)] == [1, 0, 0], told + good.stdout + good.stderr
    assert (tmp_path / "securefl/one.py").read_text() == files["securefl/one.py"]
