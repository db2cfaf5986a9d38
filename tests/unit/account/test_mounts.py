"""Mounts from a list as of proc(5), and what the doctor makes of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from securefl.cli import doctor as doctor_module
from securefl.runtime.account.head import Mount, mount_of
from tests.unit.cli.programs import call

LIST = """\
22 1 0:21 / / rw,relatime shared:1 - overlay overlay rw,lowerdir=/l
30 22 0:25 / /run rw - tmpfs tmpfs rw
31 22 8:1 / /srv rw - xfs /dev/sda1 rw
32 31 8:2 /trial /srv/trial\\0401 rw master:3 - ext4 /dev/sda2 rw
33 32 0:40 / /srv/trial\\0401/state rw - nfs4 host:/state rw
damaged
"""


@pytest.fixture
def mounts(tmp_path: Path) -> Path:
    path = tmp_path / "mountinfo"
    path.write_text(LIST)
    return path


@pytest.mark.parametrize(
    ("path", "point", "kind", "durable"),
    [
        ("/opt/state/securefl", "/", "overlay", False),
        ("/run/x", "/run", "tmpfs", False),
        ("/srv", "/srv", "xfs", True),
        ("/srv/trial 12/x", "/srv", "xfs", True),
        ("/srv/trial 1/keys/north.account", "/srv/trial 1", "ext4", True),
        ("/srv/trial 1/state", "/srv/trial 1/state", "nfs4", True),
    ],
)
def test_the_mount_of_a_path_is_the_innermost(
    path: str, point: str, kind: str, durable: bool, mounts: Path
) -> None:
    found = mount_of(Path(path), mounts)
    assert found == Mount(Path(point), kind)
    assert found.is_durable == durable


def test_of_two_mounts_on_one_point_the_last_one_counts(mounts: Path) -> None:
    mounts.write_text(LIST + "40 22 0:50 / /srv rw - tmpfs tmpfs rw\n")
    assert mount_of(Path("/srv/x"), mounts) == Mount(Path("/srv"), "tmpfs")


def test_without_a_list_there_is_no_mount(tmp_path: Path) -> None:
    assert mount_of(tmp_path, tmp_path / "gone") is None


def test_this_machine_has_a_mount_for_a_file_that_does_not_exist(tmp_path: Path) -> None:
    found = mount_of(tmp_path / "a" / "b")
    assert found is None or tmp_path.is_relative_to(found.point)


def diagnosed(
    monkeypatch: pytest.MonkeyPatch, mounts: Path, *, inside: bool, **env: str
) -> dict[str, list[str]]:
    """State and text of each line of the doctor about a party's state."""
    monkeypatch.setattr(doctor_module, "mount_of", lambda path: mount_of(path, mounts))
    monkeypatch.setattr(doctor_module, "in_container", lambda: inside)
    for name in ("SECUREFL_STATE", "SECUREFL_MACHINE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    shown = call("doctor", "--key", "/srv/trial 1/north.key", width=400)
    assert shown.exit_code == 0, shown.stdout
    lines = {}
    for what in ("account", "state folder", "one mount", "machine name"):
        found = [line for line in shown.stdout.splitlines() if f" {what} " in line]
        lines[what] = [found[0].split()[0], found[0]] if found else []
    return lines


def test_the_doctor_warns_of_a_state_folder_that_ends_with_the_container(
    monkeypatch: pytest.MonkeyPatch, mounts: Path
) -> None:
    lines = diagnosed(monkeypatch, mounts, inside=True, SECUREFL_STATE="/opt/state")
    assert lines["account"][0] == "ok"
    assert lines["state folder"][0] == "note"
    assert "overlay" in lines["state folder"][1]
    assert "set SECUREFL_STATE" in lines["one mount"][1]
    assert "set SECUREFL_MACHINE" in lines["machine name"][1]


def test_the_doctor_warns_of_two_durable_mounts(monkeypatch: pytest.MonkeyPatch, mounts: Path) -> None:
    lines = diagnosed(monkeypatch, mounts, inside=False, SECUREFL_STATE="/srv/trial 1/state")
    assert [lines[what][0] for what in ("account", "state folder", "one mount")] == ["ok", "ok", "note"]
    assert lines["machine name"][0] == "ok"


def test_the_doctor_is_content_with_one_durable_mount(monkeypatch: pytest.MonkeyPatch, mounts: Path) -> None:
    own = {"SECUREFL_STATE": "/srv/trial 1/other", "SECUREFL_MACHINE": "north"}
    lines = diagnosed(monkeypatch, mounts, inside=True, **own)
    assert [lines[what][0] for what in ("account", "state folder", "machine name")] == ["ok"] * 3
    assert lines["one mount"] == []
