"""docs/provision.md, its commands done as written: five hospitals, then each change."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from securefl.base.errors import ConfigError
from securefl.runtime.agents.kit_code import check_kit_code
from securefl.runtime.provision.kit import read_kit
from securefl.runtime.provision.operator_folder import history_of
from securefl.runtime.provision.project import read_project
from securefl.runtime.provision.request import read_request
from tests.unit.cli.programs import call
from tests.unit.provision.machines import WEIGHTS_FILE

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "provision.md").read_text()
SITES = ("p00", "p01", "p02", "p03", "p04")
NAMES = (*SITES, "server", "broker")
FINGERPRINT = "1234-5678-9abc-def0-1234"


def spelled(start: str) -> list[str]:
    """The words of the one indented command that begins so."""
    (line,) = re.findall(rf"^    securefl ({re.escape(start)}.*)$", PAGE, re.MULTILINE)
    return [word.strip('"') for word in re.findall(r'"[^"]*"|\S+', line)]


def fenced(language: str, start: str) -> str:
    (text,) = (
        one
        for one in re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
        if start in one
    )
    return str(text)


def done(words: list[str], **exchanged: str) -> str:
    """Run a command of the page, with other words for some."""
    result = call(*(exchanged.get(word.replace("-", "_").replace(".", "_"), word) for word in words))
    assert result.exit_code == 0, result.stderr
    return result.stdout


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "project.toml").write_text(fenced("toml", 'name = "hospitals"'))
    shutil.copy(ROOT / "examples" / "own_training" / "federation.toml", tmp_path)
    (tmp_path / "initial.safetensors").write_bytes(WEIGHTS_FILE)
    return tmp_path


def request(here: Path, name: str, monkeypatch: pytest.MonkeyPatch, *more: str) -> str:
    """Section 2, in the folder of a machine; return the fingerprint that the site reads out."""
    (here / name).mkdir(exist_ok=True)
    with monkeypatch.context() as there:
        there.chdir(here / name)
        (words,) = (
            re.findall(r"^    securefl (provision request --name p00)$", PAGE, re.MULTILINE)
            if not more
            else [" ".join(spelled("provision request --name p00 --rotate"))]
        )
        done(words.split(), p00=name)
    shutil.copy(here / name / f"{name}.request", here)
    return read_request(here / f"{name}.request").fingerprint


def accept(here: Path, name: str, operator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(here / "operator" / "answers" / f"{name}.answer", here / name)
    with monkeypatch.context() as there:
        there.chdir(here / name)
        words = spelled("provision accept")
        done([word.replace("p00", name).replace(FINGERPRINT, operator) for word in words])


def allow_code(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last command of section 3; the code is not imported."""
    kit = read_kit(folder / "kit.toml")
    with pytest.raises(ConfigError, match="imports hospital:Hospital"):
        check_kit_code(kit)
    (folder / "hospital.py").write_text("raise SystemExit")
    with monkeypatch.context() as there:
        there.chdir(folder)
        done(spelled("agent kit.toml --write-policy"))
    assert check_kit_code(kit) == "hospital:Hospital as policy.toml allows"


def sign(name: str, fingerprint: str) -> None:
    words = spelled("provision sign operator p00.request")
    done([word.replace("p00", name).replace(FINGERPRINT, fingerprint) for word in words])


def test_the_page_works_word_by_word(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = done(spelled("provision begin"))
    (operator,) = re.findall(r"fingerprint of the operator (\S+)", told)
    for name in NAMES:
        sign(name, request(here, name, monkeypatch))
    for name in NAMES:
        accept(here, name, operator, monkeypatch)
    units = {path.name for path in here.glob("*/*.service")}
    for name in NAMES:
        stem = f"securefl-hospitals-{name}"
        assert f"{stem}{'' if name == 'broker' else '@'}.service" in units
    allow_code(here / "p00", monkeypatch)
    assert read_kit(here / "p00" / "kit.toml").content.run.broker == "mqtts://broker.example.org:8883"

    sign("p00", request(here, "p00", monkeypatch, "--rotate"))
    for change in ("renew operator p00", "remove operator p02", "revoke operator p01"):
        done(spelled(f"provision {change}"))
    assert not (here / "operator" / "answers" / "p00.answer").exists()
    scenario = here / "operator" / "federation.toml"
    scenario.write_text(scenario.read_text().replace("size = 4", "size = 3"))
    (again,) = re.findall(r"^    securefl (provision sign operator)$", PAGE, re.MULTILINE)
    done(again.split())
    accept(here, "p00", operator, monkeypatch)
    assert read_kit(here / "p00" / "kit.toml").content.files.key == "keys-2/p00.key"
    monkeypatch.chdir(here / "p00")
    told = done(spelled("provision history"))
    made = [line.split()[2] for line in told.splitlines()[-6:-1]]
    assert made == ["rotated", "renewed", "removed", "revoked", "settings"]
    history = history_of(here / "operator" / "history.jsonl")
    assert set(history.roster().parties) == {"p00", "p03", "p04"}


def test_the_table_has_each_field_of_a_project(here: Path) -> None:
    project = read_project(here / "project.toml")
    named = set(re.findall(r"`([a-z.]+)`", "".join(re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE))))
    tables = {"broker": project.broker, "server": project.server, "sites": project.sites[0]}
    for field in project.__struct_fields__:
        if field in tables:
            inner = {f"{field}.{one}" for one in tables[field].__struct_fields__}
            assert inner <= named | {"sites.name", "server.data"}
        elif field != "dealer":
            assert field in named
