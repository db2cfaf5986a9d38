"""docs/data.md, done as it is written: its program, its scenario, its commands, and what they print."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import securefl
from tests.unit.cli.programs import call

PAGE = (Path(__file__).parents[3] / "docs" / "data.md").read_text()


def fenced(language: str) -> str:
    """The page's one block in this language."""
    (block,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    return str(block)


def indented(start: str) -> str:
    """The indented block that begins with these words."""
    found = re.search(rf"^ {{4}}{re.escape(start)}.*\n(?: {{4}}.*\n|\n)*", PAGE, re.MULTILINE)
    assert found is not None, start
    return textwrap.dedent(found[0])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("page")
    (made / "make_patients.py").write_text(fenced("python"))
    (made / "federation.toml").write_text(fenced("toml"))
    subprocess.run([sys.executable, "make_patients.py"], cwd=made, check=True)
    return made


def test_the_check_prints_what_the_page_says(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    ended = call("data", "check", "federation.toml", "patients.csv")
    assert (ended.exit_code, ended.stdout) == (0, fenced("text"))


def test_the_simulation_ends_as_the_page_says(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    ended = call("simulate", "federation.toml", "--seed", "1")
    (promised,) = re.findall(r"ends at (\d+) % on a fifth of the patients", PAGE)
    accuracy = re.search(r"([\d.]+) % on the test set", ended.output)
    assert accuracy is not None, ended.output
    assert abs(float(accuracy[1]) - int(promised)) < 1


def test_the_site_reads_its_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "north.csv").write_text("id,age,sex,days\n1,30,f,4\n2,70,m,9.5\n3,,m,2\n")
    names: dict[str, type] = {}
    exec(indented("import securefl"), names)  # noqa: S102 - the page's own code
    ward = names["Ward"]("north")
    assert ward.x.tolist() == [[-1, 1, 0], [1, 0, 1]]
    assert (ward.days.tolist(), ward.samples) == ([4, 9.5], 2)


LINES = re.findall(r"^ {4}(north\.csv, line .*)$", PAGE, re.MULTILINE)
ERRORS = {
    "4O": "age,sex\n" + "4,f\n" * 15 + "4O,f\n",
    "'F'": "sex,age\nf,1\nm,1\nF,1\n",
    "has no value": "age,sex\n" + "1,f\n" * 7 + ",f\n" * 3 + "1,f\n" * 230,
    "has 5 cells": "a,b,c,d,age,sex\n" + "0,0,0,0,1,f\n" * 10 + "0,0,0,1,f\n",
}


@pytest.mark.parametrize("words", ERRORS)
def test_errors_are_those_of_the_page(words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (promised,) = (line for line in LINES if words in line)
    (tmp_path / "north.csv").write_text(ERRORS[words])
    with pytest.raises(securefl.ConfigError) as caught:
        securefl.read_table("north.csv", ["age", securefl.Column(name="sex", categories=("f", "m"))])
    assert str(caught.value) == promised


def test_every_error_of_the_page_is_tried() -> None:
    assert len(LINES) == len(ERRORS)
