"""Project file: every field that is wrong is refused by name, and nothing is written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from securefl.runtime.provision.project import read_project
from tests.looped import looped
from tests.unit.cli.programs import call, files, refusal
from tests.unit.provision.machines import PROJECT, SCENARIO, begun


def test_a_project_is_read(tmp_path: Path) -> None:
    (tmp_path / "project.toml").write_text(PROJECT)
    project = read_project(tmp_path / "project.toml")
    assert dict(project.members) == {"server": "", "p00": "a.example.org", "p01": "", "p02": ""}
    assert (project.days, project.broker.port, project.prefix) == (365, 18883, "/srv/securefl")


CASES = [
    ('name = "trial"', 'name = "Trial!"', "name", "1 to 32 of a-z"),
    ('name = "trial"', "", "name", "is missing"),
    ('name = "trial"', "name = 3", "name", "expected string"),
    ('scenario = "federation.toml"', 'scenario = "../federation.toml"', "scenario", "without folders"),
    ('scenario = "federation.toml"', "", "scenario", "is missing"),
    ('data = "samples.npz"', 'data = "a/b.npz"', "data", "is not valid"),
    ('data = "samples.npz"', 'data = "s.npz"\nsite = "a:B"', "data", "keep one of both"),
    ('data = "samples.npz"', 'site = "a b"', "site", "module:name"),
    ('data = "samples.npz"', 'site = "a:B"', "server.data", "leave it out"),
    ('data = "samples.npz"', "sites_ = 1", "sites_", "did you mean sites?"),
    ('data = "samples.npz"', 'data = "s.npz"\ndays = 0', "days", ">= 1"),
    ('data = "samples.npz"', 'data = "s.npz"\ndays = 36500', "days", "<= 3650"),
    ('data = "samples.npz"', 'data = "s.npz"\ndays = "long"', "days", "expected int"),
    ('data = "samples.npz"', 'data = "s.npz"\nprefix = "srv"', "prefix", "absolute folder"),
    ('data = "samples.npz"', 'data = "s.npz"\nprefix = "/srv/../x"', "prefix", "is not valid"),
    ('data = "samples.npz"', 'data = "s.npz"\nprefix = "/srv/%i"', "prefix", "is not valid"),
    ('host = "localhost"', 'host = "a b"', "broker.host", "host name"),
    ('host = "localhost"', 'host = "a\\nlistener 1"', "broker.host", "is not valid"),
    ('host = "localhost"', "", "broker.host", "is missing"),
    ("port = 18883", "port = 0", "broker.port", ">= 1"),
    ("port = 18883", "port = 65536", "broker.port", "<= 65535"),
    ("port = 18883", "prot = 1", "broker.prot", "did you mean broker.port?"),
    ('data = "test.npz"', 'data = "/etc/passwd"', "server.data", "is not valid"),
    ('data = "test.npz"', 'data = "t.npz"\nhost = "-"', "server.host", "host name"),
    ('host = "a.example.org"', 'host = "a:/b"', "sites.0.host", "host name"),
    ('host = "a.example.org"', 'address = "x"', "sites.0.address", "is not a field"),
    ('name = "p02"', 'name = "p01"', "sites.2.name", "occurs twice"),
    ('name = "p02"', 'name = "P02"', "sites.2.name", "1 to 32 of a-z"),
    ('name = "p02"', "", "sites.2.name", "is missing"),
    *(
        ('name = "p02"', f'name = "{name}"', "sites.2.name", "reserved")
        for name in ("server", "broker", "dealer", "operator", "observer", "all")
    ),
    ("[[sites]]", "[[[sites]]", "project.toml", "is not valid TOML"),
]


@looped("old, new, field, reason", CASES)
def test_a_wrong_field_is_refused_by_name(
    old: str, new: str, field: str, reason: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("wrong")
    assert old in PROJECT
    (folder / "project.toml").write_text(
        PROJECT.replace(old, new, 1) if old != 'name = "p02"' else _last(old, new)
    )
    (folder / "federation.toml").write_text(SCENARIO)
    found = refusal(call("provision", "begin", folder / "project.toml", "--out", folder / "op"))
    assert found.startswith(f"{folder / 'project.toml'}")
    assert f": {field}: " in found or field == "project.toml"
    assert reason in found
    assert files(folder) == {"project.toml", "federation.toml"}


def _last(old: str, new: str) -> str:
    before, _, after = PROJECT.rpartition(old)
    return before + new + after


def test_begin_refuses_a_folder_with_keys(tmp_path: Path) -> None:
    made = begun(tmp_path)
    key = (made.operator / "operator.key").read_bytes()
    reason = refusal(call("provision", "begin", tmp_path / "project.toml", "--out", made.operator))
    assert "operator.key: exists already" in reason
    assert (made.operator / "operator.key").read_bytes() == key


@pytest.mark.parametrize("full_at", range(6))
def test_a_full_disk_leaves_nothing_of_a_project(
    full_at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project.toml").write_text(PROJECT)
    (tmp_path / "federation.toml").write_text(SCENARIO)
    synced = list[int]()

    def fail(handle: int) -> None:
        synced.append(handle)
        if len(synced) > full_at:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    reason = refusal(call("provision", "begin", tmp_path / "project.toml", "--out", tmp_path / "op"))
    assert "cannot be written: No space left on device" in reason
    assert files(tmp_path / "op") == set()
    monkeypatch.undo()
    begun(tmp_path)


@pytest.mark.parametrize(
    ("scenario", "project", "reason"),
    [
        (None, PROJECT, "federation.toml: file not found"),
        ("parties = 0", PROJECT, "parties: expected int >= 1"),
        (
            SCENARIO + '[model]\ntype = "weights"\n',
            PROJECT.replace('data = "samples.npz"', ""),
            "site: is missing",
        ),
        (SCENARIO, PROJECT.replace('data = "samples.npz"', ""), "data: is missing"),
        (SCENARIO, PROJECT.replace('data = "test.npz"', ""), "server.data: is missing"),
        (
            SCENARIO.partition("[data]")[0] + '[model]\ntype = "weights"\n',
            PROJECT.replace('data = "samples.npz"', 'site = "a:B"').replace('data = "test.npz"', ""),
            "initial.safetensors: cannot be read",
        ),
        (
            SCENARIO.partition("[data]")[0] + '[model]\ntype = "weights"\nfile = "a/b.safetensors"\n',
            PROJECT.replace('data = "samples.npz"', 'site = "a:B"').replace('data = "test.npz"', ""),
            "model.file: 'a/b.safetensors' is not the name of a .safetensors file",
        ),
    ],
)
def test_files_of_the_project_are_checked_first(
    scenario: str | None, project: str, reason: str, tmp_path: Path
) -> None:
    (tmp_path / "project.toml").write_text(project)
    if scenario is not None:
        (tmp_path / "federation.toml").write_text(scenario)
    found = refusal(call("provision", "begin", tmp_path / "project.toml", "--out", tmp_path / "op"))
    assert reason in found
    assert not (tmp_path / "op").exists()
