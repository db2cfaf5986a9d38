"""One line about an exception of foreign code: its place, class and text."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from securefl.base import foreign
from securefl.base.errors import ConfigError
from securefl.scenario import load_scenario
from securefl.training.sites import child

CODE = """\
import json
from pathlib import Path

def parse(text):
    return json.loads(text)

def fit():
    return parse("{" + "x" * 3)

def plain():
    raise KeyError("no such patient")

def silent():
    raise GeneratorExit

def quoted():
    return eval("1 / 0")
"""


@pytest.fixture
def site(tmp_path: Path) -> ModuleType:
    return module_at(tmp_path / "hospital.py")


def module_at(path: Path) -> ModuleType:
    path.write_text(CODE)
    made = ModuleType(path.stem)
    exec(compile(CODE, str(path), "exec"), made.__dict__)  # noqa: S102 - of this file
    return made


def raised(site: ModuleType, name: str) -> BaseException:
    with pytest.raises(BaseException) as error:  # noqa: PT011 - any
        getattr(site, name)()
    # Without the frame of this test, as the code of securefl has none.
    found = error.value
    assert found.__traceback__ is not None
    return found.with_traceback(found.__traceback__.tb_next)


LINES = {
    "plain": "hospital.py:11 in plain: KeyError: 'no such patient'",
    "silent": "hospital.py:14 in silent: GeneratorExit",
    # A library's own frames and evaluated text are not the user's.
    "fit": "hospital.py:5 in parse: JSONDecodeError: Expecting property name",
    "quoted": "hospital.py:17 in quoted: ZeroDivisionError: division by zero",
}


@pytest.mark.parametrize("name", LINES)
def test_the_innermost_line_of_the_users_code_is_named(name: str, site: ModuleType) -> None:
    error = raised(site, name)
    assert foreign.describe(error).startswith(LINES[name])
    # The process of a site cannot import securefl, and says the same.
    assert child._failure(error)["error"].removesuffix(": ").startswith(LINES[name])


def test_installed_code_has_the_line_that_was_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign, "_LIBRARIES", (f"{tmp_path}/", *foreign._LIBRARIES))
    error = raised(module_at(tmp_path / "hospital.py"), "fit")
    assert foreign.describe(error).startswith("hospital.py:8 in fit: JSONDecodeError")


def test_an_error_of_our_own_code_has_no_place() -> None:
    with pytest.raises(ConfigError) as error:
        load_scenario(Path("/nowhere"))
    assert error.value.__traceback__ is not None
    assert foreign.place_of(error.value.with_traceback(error.value.__traceback__.tb_next)) == ""
    assert foreign.describe(ValueError("x\ny")) == "ValueError: x y"
