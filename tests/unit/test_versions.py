"""``make versions``: interpreters, environments, left-out tests and the table."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
OWN = f"{sys.version_info.major}.{sys.version_info.minor}"


def _tool() -> Any:
    spec = importlib.util.spec_from_file_location("versions", ROOT / "tools" / "versions.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


TOOL = _tool()

MODULES = {
    "test_needs_it.py": "import absent_one.part\ndef test_never(): pass\n",
    "test_needs_it_below.py": "import helper\ndef test_never(): pass\n",
    "helper.py": "try:\n    import absent_one\nexcept ImportError:\n    raise RuntimeError('install it')\n",
    "folder/conftest.py": "import absent_one\n",
    "folder/test_of_its_folder.py": "def test_never(): pass\n",
    "folder/below/test_further_down.py": "def test_never(): pass\n",
    "test_other_package.py": "import absent_other\ndef test_never(): pass\n",
    "test_broken_package.py": "import broken\ndef test_never(): pass\n",
    "broken/__init__.py": "import broken.part\n",
    "test_syntax.py": "def test_never(:\n",
    "test_cases.py": """
import importlib.metadata, importlib.util, subprocess, sys
import pytest

@pytest.mark.parametrize("case", [1, 2])
def test_imports_it(case):
    import absent_one

def test_converts_the_error():
    try:
        import absent_one.part
    except ImportError:
        raise ValueError("install it")

def test_in_a_process():
    done = subprocess.run([sys.executable, "-c", "import absent_one"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

def test_in_a_process_with_its_own_output(capfd):
    subprocess.run([sys.executable, "-c", "import absent_one"], check=False, text=True)
    print(capfd.readouterr().err, file=sys.stderr)
    assert False

def test_command_that_makes_it_a_line():
    try:
        import absent_one
    except ImportError:
        code = 2
    assert code == 0

def test_after_one_that_searched():
    assert False, "no search of its own"

def test_searches_and_passes():
    assert importlib.util.find_spec("absent_one") is None

def test_searches_with_another_result():
    assert importlib.util.find_spec("absent_one") is not None

@pytest.fixture(scope="module")
def shared():
    subprocess.run([sys.executable, "-c", "import absent_one"], check=True)

def test_first_with_a_shared_fixture(shared):
    pass

def test_second_with_a_shared_fixture(shared):
    pass

def test_asks_for_a_distribution():
    try:
        importlib.metadata.version("absent_one")
    except ImportError:
        code = 2
    assert code == 0

@pytest.fixture
def needing():
    import absent_one

def test_fixture(needing):
    pass

def test_passes():
    pass

def test_fails():
    assert False

def test_imports_another():
    import absent_other

def test_another_process():
    done = subprocess.run([sys.executable, "-c", "import absent_other"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

def test_skips_itself():
    pytest.skip("a reason of its own")
""",
}


def _run_pytest(folder: Path, *options: str) -> tuple[int, Any, str]:
    for name, text in MODULES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    outcomes = folder / "outcomes.json"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", folder, "-p", "tools.left_out"),
            *("-p", "no:cacheprovider", "-q", "--continue-on-collection-errors"),
            *("--absent=absent_one,broken", f"--outcomes={outcomes}", *options),
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, TOOL.Outcomes.read(outcomes), done.stdout


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["one process", "xdist"])
@pytest.mark.slow
def test_only_what_needs_an_absent_package_is_left_out(tmp_path: Path, options: tuple[str, ...]) -> None:
    code, found, output = _run_pytest(tmp_path, *options)
    assert code == 1, output
    assert found.left_out == dict.fromkeys(
        (
            "folder/below/test_further_down.py",
            "folder/test_of_its_folder.py",
            "test_cases.py::test_asks_for_a_distribution",
            "test_cases.py::test_command_that_makes_it_a_line",
            "test_cases.py::test_converts_the_error",
            "test_cases.py::test_first_with_a_shared_fixture",
            "test_cases.py::test_fixture",
            "test_cases.py::test_imports_it[1]",
            "test_cases.py::test_imports_it[2]",
            "test_cases.py::test_in_a_process",
            "test_cases.py::test_in_a_process_with_its_own_output",
            "test_cases.py::test_searches_with_another_result",
            "test_cases.py::test_second_with_a_shared_fixture",
            "test_needs_it.py",
            "test_needs_it_below.py",
        ),
        "needs absent_one",
    )
    assert len(found.modules) == 4
    assert found.failed == (
        "test_broken_package.py",
        "test_cases.py::test_after_one_that_searched",
        "test_cases.py::test_another_process",
        "test_cases.py::test_fails",
        "test_cases.py::test_imports_another",
        "test_other_package.py",
        "test_syntax.py",
    )
    assert found.passed == ("test_cases.py::test_passes", "test_cases.py::test_searches_and_passes")
    assert found.skipped == {"test_cases.py::test_skips_itself": "a reason of its own"}


def _executable(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_an_interpreter_is_on_path_or_pyenvs(tmp_path: Path) -> None:
    shims, bin_, home = tmp_path / "shims", tmp_path / "bin", tmp_path / "home"
    environ = {"PATH": f"{shims}{os.pathsep}{bin_}", "HOME": str(home)}
    assert TOOL.interpreter("3.98", environ) is None
    # A shim whose version is not selected ends with an error; another file has a wrong version.
    _executable(shims / "python3.98", "exit 127")
    _executable(bin_ / "python3.98", "echo 3.97")
    assert TOOL.interpreter("3.98", environ) is None
    for patch in (9, 10, 8):
        _executable(home / f".pyenv/versions/3.98.{patch}/bin/python3.98", "echo 3.98")
    assert TOOL.interpreter("3.98", environ) == home / ".pyenv/versions/3.98.10/bin/python3.98"
    elsewhere = {**environ, "PYENV_ROOT": str(tmp_path / "none")}
    assert TOOL.interpreter("3.98", elsewhere) is None
    _executable(bin_ / "python3.98", "echo 3.98")
    assert TOOL.interpreter("3.98", environ) == bin_ / "python3.98"


def test_an_interpreter_reports_its_version(tmp_path: Path) -> None:
    (tmp_path / f"python{OWN}").symlink_to(sys.executable)
    assert TOOL.interpreter(OWN, {"PATH": str(tmp_path)}) == tmp_path / f"python{OWN}"


def test_an_environment_is_made_again_when_its_sources_change(tmp_path: Path) -> None:
    stamp, source = tmp_path / "stamp", tmp_path / "source"
    source.touch()
    assert not TOOL.is_current(stamp, [source])
    stamp.touch()
    os.utime(source, (1, 1))
    assert TOOL.is_current(stamp, [source])
    os.utime(stamp, (0, 0))
    assert not TOOL.is_current(stamp, [source])


def test_an_environment_with_an_absent_package_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in TOOL.SOURCES:
        (tmp_path / name).touch()
    own = tmp_path / ".venv-3.98/bin/python"
    _executable(own, f'exec {sys.executable} "$@"')
    (tmp_path / ".venv-3.98/.installed").touch()
    monkeypatch.setattr(TOOL, "ABSENT", ("absent_one",))
    assert TOOL.environment("3.98", own, tmp_path) == own
    monkeypatch.setattr(TOOL, "ABSENT", ("pytest", "absent_one"))
    with pytest.raises(TOOL.UnusableEnvironmentError, match=r"\.venv-3\.98 has pytest; remove"):
        TOOL.environment("3.98", own, tmp_path)


def test_an_environment_that_cannot_be_made_is_a_problem(tmp_path: Path) -> None:
    for name in TOOL.SOURCES:
        (tmp_path / name).touch()
    failing = tmp_path / "python"
    _executable(failing, "exit 3")
    with pytest.raises(TOOL.UnusableEnvironmentError, match=r"exit code 3: .*venv --clear"):
        TOOL.environment("3.98", failing, tmp_path)
    assert not (tmp_path / ".venv-3.98/.installed").exists()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], False),
        (["-k", "median"], False),
        (["tests/vectors"], True),
        (["-x", "tests/unit/test_ids.py::test_a"], True),
    ],
)
def test_paths_replace_the_default_tests(arguments: list[str], named: bool) -> None:
    assert TOOL.names_tests(arguments) is named
    assert all((ROOT / path).exists() for path in TOOL.TESTS)


def test_the_report_names_and_counts() -> None:
    left_out = {
        "tests/a.py": "needs torch",
        "tests/b.py::test_x[1]": "needs torch",
        "tests/b.py::test_x[2]": "needs torch",
        "tests/b.py::test_y": "needs torch",
        "tests/b.py::test_z": "needs sklearn",
    }
    results = [
        TOOL.Result("3.12", TOOL.Outcomes(("t1", "t2"), ("tests/c.py::test_w",), left_out, {"t3": "why"})),
        TOOL.Result("3.13", problem="exit code 3: pip"),
    ]
    assert "\n".join(TOOL.report(results)).splitlines() == [
        "",
        "Python 3.12, left out:",
        "  tests/a.py: needs torch",
        "  tests/b.py: needs torch: test_x (2 cases), test_y",
        "  tests/b.py: needs sklearn: test_z",
        "",
        "Python 3.12, failed:",
        "  tests/c.py::test_w",
        "",
        "Python  passed  failed                left out            skipped",
        "3.12    2       1                     1 modules, 4 tests  1",
        "3.13    0       0 (exit code 3: pip)  0 modules, 0 tests  0",
    ]


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """Results by version that is installed; no test runs."""
    results: dict[str, Any] = {}
    monkeypatch.setattr(
        TOOL, "interpreter", lambda version, _environ: tmp_path if version in results else None
    )
    monkeypatch.setattr(TOOL, "environment", lambda _version, python: python)
    monkeypatch.setattr(TOOL, "run_tests", lambda version, *_: results[version])
    return results


def test_a_version_that_is_not_installed_is_named(
    runs: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    runs["3.13"] = TOOL.Result("3.13", TOOL.Outcomes(("t",)))
    assert TOOL.main([]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "Python 3.12 is not installed: not tested"


def test_without_any_interpreter_it_fails(runs: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert TOOL.main([]) == 1
    assert (
        capsys.readouterr().out.splitlines()[-1]
        == "no interpreter found: install one of python3.12, python3.13"
    )


@pytest.mark.parametrize(
    "result",
    [
        TOOL.Result("3.12", TOOL.Outcomes(("t",), ("u",))),
        TOOL.Result("3.12", TOOL.Outcomes(("t",)), "pytest ended with exit code 3"),
        TOOL.Result("3.12", TOOL.Outcomes(left_out={"tests/a.py": "needs torch"})),
    ],
    ids=["a failure", "a problem", "no test"],
)
def test_a_bad_result_fails(runs: dict[str, Any], result: Any) -> None:
    runs.update({"3.12": result, "3.13": TOOL.Result("3.13", TOOL.Outcomes(("t",)))})
    assert TOOL.main([]) == 1


def test_an_environment_failure_is_a_row_and_the_other_version_runs(
    runs: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(version: str, python: Path) -> Path:
        if version == "3.12":
            raise TOOL.UnusableEnvironmentError("exit code 1: pip")
        return python

    runs.update({"3.12": None, "3.13": TOOL.Result("3.13", TOOL.Outcomes(("t", "u")))})
    monkeypatch.setattr(TOOL, "environment", fail)
    assert TOOL.main([]) == 1
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[-2:]]
    assert [row[:3] for row in rows] == [["3.12", "0", "0"], ["3.13", "2", "0"]]


def test_pytest_without_outcomes_is_a_problem(tmp_path: Path) -> None:
    python = tmp_path / "python"
    _executable(python, "exit 4")
    assert TOOL.run_tests("3.12", python, "1", ()).problem == "pytest ended with exit code 4"


def test_the_extras_require_no_absent_package() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    required = " ".join(line for name in TOOL.EXTRAS.split(",") for line in extras[name])
    assert not {"torch", "scikit-learn", "crypten", "learn"} & set(required.replace(">", " ").split())


def test_outcomes_are_what_the_plugin_writes(tmp_path: Path) -> None:
    path = tmp_path / "outcomes.json"
    path.write_text(json.dumps({"passed": ["a"], "failed": [], "left_out": {"b": "c"}, "skipped": {}}))
    assert TOOL.Outcomes.read(path) == TOOL.Outcomes(("a",), (), {"b": "c"}, {})
