"""``securefl init``: projects that run at once."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch

from securefl.base.errors import ConfigError
from securefl.cli import init as command
from securefl.lab.project import KINDS, Project, write_project
from securefl.methods import feasibility, privacy
from securefl.runtime.process import declared_length
from securefl.scenario import load_scenario
from tests.tiers import covering
from tests.unit.cli.programs import call, refusal


@pytest.fixture
def no_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", open("/dev/null"))  # noqa: PTH123, SIM115 - as a script has it


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("torch", ()),
        pytest.param("tables", (), marks=pytest.mark.live),
        pytest.param("torch", ("--epsilon", "1"), marks=pytest.mark.live),
        pytest.param("tables", ("--epsilon", "1"), marks=pytest.mark.live),
    ],
)
def test_a_project_runs_and_its_own_test_passes(
    kind: str, options: tuple[str, ...], tmp_path: Path, no_prompt: None
) -> None:
    folder = tmp_path / "clinics"
    done = call("init", folder, "--kind", kind, "--sites", "4", *options)
    assert done.exit_code == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.startswith(f"next: cd {folder} && securefl simulate federation.toml")
    assert load_scenario(folder / "federation.toml").parties == 4
    own = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert own.returncode == 0, own.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_each_file_of_each_kind_can_be_read(kind: str, tmp_path: Path) -> None:
    names = set()
    for active, epsilon in ((False, None), (True, 8.0)):
        folder = tmp_path / f"{kind}-{active}"
        project = Project(name="x", kind=kind, sites=5, active=active, epsilon=epsilon)
        for file in write_project(folder, project):
            text = file.read_text()
            assert "{{" not in text
            assert "{%" not in text
            names.add(str(file.relative_to(folder)))
            if file.suffix == ".py":
                ast.parse(text)
            elif file.suffix == ".toml":
                tomllib.loads(text)
        scenario = load_scenario(folder / "federation.toml")
        assert scenario.secure_sum.server == ("active" if active else "curious")
        assert scenario.privacy.epsilon == (epsilon or None)
        readme = (folder / "README.md").read_text()
        assert project.site in readme
        for mentioned in re.findall(r"^\| `([\w./]+)`", readme, re.MULTILINE):
            assert any(one.startswith(mentioned.rstrip("/")) for one in names)
    assert {"README.md", "federation.toml", "test_federation.py"} <= names


@pytest.mark.parametrize("sites", [3, 4, 5, 8, 30, 200])
@pytest.mark.parametrize("active", [False, True])
def test_every_number_of_sites_is_feasible(sites: int, active: bool, tmp_path: Path) -> None:
    project = Project(name="x", kind="torch", sites=sites, active=active)
    write_project(tmp_path / "x", project)
    feasibility.check(load_scenario(tmp_path / "x" / "federation.toml"))


@pytest.mark.parametrize(
    ("kind", "epsilon", "sites", "active"),
    covering(KINDS, (3.0, 8.0, 1.0, 0.2, 50.0, 0.05), (200, 3, 10, 50, 5), (False, True)),
)
def test_noise_fits_its_scale(kind: str, epsilon: float, sites: int, active: bool, tmp_path: Path) -> None:
    """All choices within the ranges of the options make a scenario whose noise has tables."""
    project = Project(name="x", kind=kind, sites=sites, active=active, epsilon=epsilon)
    write_project(tmp_path / "x", project)
    scenario = load_scenario(tmp_path / "x" / "federation.toml")
    settled = privacy.settle(scenario, project.parameters, None)
    feasibility.check(settled)
    privacy.check_budget(settled, project.parameters)
    mechanism = privacy.mechanism_of(settled, project.parameters)
    assert mechanism is not None
    assert (mechanism.allowed, settled.privacy.budget) == (10, epsilon)


@pytest.mark.parametrize("kind", KINDS)
def test_the_noise_is_that_of_the_template_model(kind: str, tmp_path: Path) -> None:
    project = Project(name="x", kind=kind, sites=5)
    write_project(tmp_path / "x", project)
    scenario = load_scenario(tmp_path / "x" / "federation.toml")
    if kind == "tables":
        assert declared_length(scenario, 0) == project.parameters
        return
    source = next(file for file in (tmp_path / "x").rglob("*.py") if "class Net" in file.read_text())
    tree = ast.parse(source.read_text())
    net = next(one for one in tree.body if isinstance(one, ast.ClassDef) and one.name == "Net")
    space: dict[str, Any] = {"nn": torch.nn}
    exec(compile(ast.Module([net], []), "net", "exec"), space)  # noqa: S102 - a class of the template
    assert sum(one.numel() for one in space["Net"]().parameters()) == project.parameters


def test_noise_without_a_scale_is_refused_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_prompt: None
) -> None:
    monkeypatch.setattr(Project, "parameters", 10**7)
    line = refusal(call("init", tmp_path / "new", "--kind", "tables", "--sites", "50", "--epsilon", "0.2"))
    assert line.startswith("--epsilon: 0.2 over 10 releases needs a multiplier of")
    assert "(set at least 2.9" in line
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--kind", "keras"), "--kind: 'keras' is unknown (choose from torch, tables, flower, nvflare)"),
        (("--sites", "2"), "--sites: is 2 (take 3 to 200; edit federation.toml for more)"),
        (("--sites", "201"), "--sites: is 201"),
        (("--server", "evil"), "--server: 'evil' is unknown (choose curious or active)"),
        (("--epsilon", "much"), "--epsilon: 'much' is not a number (take a number above 0, or none)"),
        (("--epsilon", "0"), "--epsilon: is 0 (take 0.05 to 50, or none)"),
        (("--epsilon", "1e-300"), "--epsilon: is 1e-300"),
        (("--epsilon", "nan"), "--epsilon: is nan"),
        (("--epsilon", "inf"), "--epsilon: is inf"),
        (("--site-python", "/nowhere/python"), "--site-python: /nowhere/python is not a file"),
        (("--kind", "tables", "--site-python", "/nowhere"), "--site-python: /nowhere is not a file"),
    ],
)
def test_bad_choices_are_refused_and_nothing_is_written(
    options: tuple[str, ...], reason: str, tmp_path: Path, no_prompt: None
) -> None:
    assert reason in refusal(call("init", tmp_path / "new", *options))
    assert not (tmp_path / "new").exists()


def test_a_folder_that_is_taken_or_has_no_name_is_refused(tmp_path: Path, no_prompt: None) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "file").write_text("")
    assert "exists and is not empty (name a new folder)" in refusal(call("init", tmp_path / "old"))
    assert "exists and is not empty" in refusal(call("init", tmp_path / "old" / "file"))
    assert "is not a name for a project" in refusal(call("init", tmp_path / "Two Words"))
    (tmp_path / "file").write_text("")
    assert call("init", tmp_path / "file" / "x", "--kind", "tables").exit_code == 3


def test_a_terminal_is_asked_for_what_no_option_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def prompt(question: str, default: Any, type: Any) -> Any:  # noqa: A002 - typer's name
        asked.append(question)
        return {"How many sites": 6}.get(question, default)

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.prompt", prompt)
    command.init(tmp_path / "x", kind="tables")
    assert load_scenario(tmp_path / "x" / "federation.toml").parties == 6
    assert len(asked) == 3
    assert not any("What trains" in one for one in asked)


@pytest.mark.parametrize(
    ("name", "options", "answers", "reason", "questions"),
    [
        ("old", {}, {}, "exists and is not empty", 0),
        ("Two Words", {}, {}, "is not a name for a project", 0),
        ("new", {"epsilon": "much"}, {}, "is not a number", 0),
        ("new", {"sites": 2}, {}, "--sites: is 2", 0),
        ("new", {"server": "evil"}, {}, "'evil' is unknown", 0),
        ("new", {"site_python": Path("/nowhere")}, {}, "is not a file", 0),
        ("new", {}, {"What trains": "keras"}, "'keras' is unknown", 3),
        ("new", {}, {"How many": 2}, "--sites: is 2", 4),
        ("new", {}, {"Server": "evil"}, "'evil' is unknown", 5),
        ("new", {"kind": "tables"}, {"Differential": "0"}, "--epsilon: is 0", 5),
        ("new", {"kind": "tables", "site_python": Path(sys.executable)}, {}, "--kind tables has none", 0),
        ("new", {"site_python": Path(sys.executable)}, {"What trains": "tables"}, "has none", 4),
        ("", {}, {}, "FOLDER: is empty or the current folder, which has files", 0),
    ],
)
def test_nothing_more_is_asked_after_a_refusal(
    name: str,
    options: dict[str, Any],
    answers: dict[str, Any],
    reason: str,
    questions: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The folder and all options are checked before the first question, each answer before the next."""
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "file").write_text("")
    asked: list[str] = []

    def prompt(question: str, default: Any, type: Any) -> Any:  # noqa: A002 - typer's name
        asked.append(question)
        return next((one for start, one in answers.items() if question.startswith(start)), default)

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.prompt", prompt)
    with pytest.raises(ConfigError, match=re.escape(reason)):
        command.init(tmp_path / name if name else Path(), **options)
    assert len(asked) == questions
    assert [one.name for one in tmp_path.iterdir()] == ["old"]


def test_an_empty_current_folder_may_be_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_prompt: None
) -> None:
    (tmp_path / "new").mkdir()
    monkeypatch.chdir(tmp_path / "new")
    assert call("init", ".", "--kind", "tables").exit_code == 0
    assert load_scenario(tmp_path / "new" / "federation.toml").name == "new"


def test_a_wrong_answer_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers: dict[str, list[Any]] = {"How many sites": [2, 6], "Server": ["evil", "bad", "active"]}

    def prompt(question: str, default: Any, type: Any) -> Any:  # noqa: A002 - typer's name
        of = next((rest for start, rest in answers.items() if question.startswith(start)), [])
        return of.pop(0) if of else default

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.prompt", prompt)
    command.init(tmp_path / "x", kind="tables")
    scenario = load_scenario(tmp_path / "x" / "federation.toml")
    assert (scenario.parties, scenario.secure_sum.server) == (6, "active")
    shown = "".join(capsys.readouterr())
    assert "is 2 (take 3 to 200; edit federation.toml for more)" in shown
    assert shown.count("is unknown (choose curious or active)") == 2
