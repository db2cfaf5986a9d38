"""Public names: each has a docstring with an example that runs."""

from __future__ import annotations

import doctest
import inspect
from pathlib import Path

import pytest

import securefl
from tests.looped import looped

LIVE = ("audit", "run", "run_async")
"""Functions whose examples start processes."""
ELSEWHERE = {"AuditReport": "audit"}
"""Names whose docstring refers to the example of another."""
MODULES = {"rules": securefl.rules, "attacks": securefl.attacks, "sections": securefl.sections}
MEMBERS = [f"{name}.{member}" for name, module in MODULES.items() for member in module.__all__]
NAMES = sorted({*dir(securefl), *MEMBERS} - {"__version__"})


def example_of(name: str, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Run the example of a name in an empty folder."""
    monkeypatch.chdir(folder)
    module, _, member = name.rpartition(".")
    home = MODULES.get(module, securefl)
    text = inspect.getdoc(getattr(home, member)) or ""
    if name in ELSEWHERE:
        assert f":func:`securefl.{ELSEWHERE[name]}`" in text
        return
    test = doctest.DocTestParser().get_doctest(text, dict(vars(home)) if module else {}, name, None, 0)
    assert test.examples, f"{name}: its docstring has no example"
    assert doctest.DocTestRunner(optionflags=doctest.IGNORE_EXCEPTION_DETAIL).run(test).failed == 0


@looped("name", [name for name in NAMES if name not in LIVE])
def test_the_example_of_a_name_runs(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    example_of(name, monkeypatch, tmp_path_factory.mktemp("example"))


@pytest.mark.live
@pytest.mark.parametrize("name", LIVE)
def test_the_example_of_a_run_runs(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    example_of(name, monkeypatch, tmp_path)
