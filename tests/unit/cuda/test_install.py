"""Installation of a kit: only what its manifest describes, and only by pip's own files."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cuda.fake_wheels import make_fake_kit, make_wheel
from tools.cuda.install import install, unmet
from tools.cuda.manifest import Manifest, read_manifest
from tools.cuda.refusal import FailedError, RefusedError

ROOT = Path(__file__).parents[3]


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    folder = tmp_path / "kit"
    make_fake_kit(folder)
    return folder


def test_wheels_are_installed_whatever_the_settings_of_pip(
    kit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each of these would keep pip from installing these wheels there.
    monkeypatch.setenv("PIP_NO_BINARY", ":all:")
    monkeypatch.setenv("PIP_REQUIRE_HASHES", "1")
    scratch = tmp_path / "scratch"
    install(kit, scratch)
    assert {path.name for path in scratch.glob("*.py")} == {"alpha.py", "beta.py"}
    code = "import alpha, importlib.metadata as m; print(alpha.VALUE, m.version('beta'))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(scratch)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "1.0 1.0\n"


def test_as_a_program_without_any_package(kit: Path, tmp_path: Path) -> None:
    call = [sys.executable, "-S", "-m", "tools.cuda.install", "--kit", str(kit), "--target"]
    refused = subprocess.run([*call, str(kit)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert refused.stderr == f"error: {kit} is not an empty folder; name an empty or a new one\n"
    call.remove("-S")
    done = subprocess.run(
        [*call, str(tmp_path / "new")], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "new" / "alpha.py").is_file()


def flip_a_byte(kit: Path) -> None:
    path = next((kit / "wheels").glob("alpha*"))
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)


def append_a_byte(kit: Path) -> None:
    path = next((kit / "wheels").glob("beta*"))
    path.write_bytes(path.read_bytes() + b"0")


def remove_a_wheel(kit: Path) -> None:
    next((kit / "wheels").glob("beta*")).unlink()


def add_a_wheel(kit: Path) -> None:
    make_wheel(kit / "wheels", "gamma")


def change_the_data(kit: Path) -> None:
    (kit / "data" / "numbers" / "one.bin").write_bytes(b"2" * 100)


@pytest.mark.parametrize(
    ("tamper", "line"),
    [
        (flip_a_byte, r"alpha-1\.0-py3-none-any\.whl is not the file that the manifest describes"),
        (append_a_byte, r"beta-1\.0-py3-none-any\.whl is not the file that the manifest describes"),
        (remove_a_wheel, r"beta-1\.0-py3-none-any\.whl is missing"),
        (add_a_wheel, r"gamma-1\.0-py3-none-any\.whl is not in the manifest"),
        (change_the_data, r"one\.bin is not the file that the manifest describes"),
    ],
)
def test_a_kit_that_was_tampered_with_is_refused(
    kit: Path, tmp_path: Path, tamper: Callable[[Path], None], line: str
) -> None:
    tamper(kit)
    with pytest.raises(RefusedError, match=f"{line}; make the kit again: make cuda-kit"):
        install(kit, tmp_path / "scratch")
    assert not (tmp_path / "scratch").exists()


def test_a_folder_without_a_manifest_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match=r"is not a kit: it has no manifest\.json; make one"):
        install(tmp_path, tmp_path / "scratch")


def edited(kit: Path, **changes: Any) -> None:
    path = kit / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"format": 2}, "has format 2, not 1"),
        ({"wheels": [{"path": "wheels/a.whl"}]}, "cannot be read"),
        ({"wheels": 3}, "cannot be read"),
        ({"relied_on": []}, "cannot be read"),
        ({"data": [{"path": "../a", "size": 1, "sha256": ""}]}, "which is not in the kit"),
        ({"data": [{"path": "data/../../a", "size": 1, "sha256": ""}]}, "which is not in the kit"),
        ({"data": [{"path": "/etc/passwd", "size": 1, "sha256": ""}]}, "which is not in the kit"),
        ({"python": "3.9"}, "the kit is for Python 3.9, not 3."),
    ],
)
def test_a_manifest_that_is_wrong_is_refused(
    kit: Path, tmp_path: Path, changes: dict[str, Any], line: str
) -> None:
    edited(kit, **changes)
    with pytest.raises(RefusedError, match=line):
        install(kit, tmp_path / "scratch")


def test_a_manifest_that_is_no_json_is_refused(kit: Path, tmp_path: Path) -> None:
    (kit / "manifest.json").write_text("{")
    with pytest.raises(RefusedError, match="cannot be read"):
        install(kit, tmp_path / "scratch")


def test_a_manifest_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = make_fake_kit(tmp_path)
    assert read_manifest(tmp_path) == written
    assert written.size == sum(
        path.stat().st_size for path in tmp_path.rglob("*.*") if path.suffix != ".json"
    )


def test_a_wheel_that_pip_refuses_is_reported(tmp_path: Path) -> None:
    kit = tmp_path / "kit"
    make_fake_kit(kit, ("alpha",), tag="cp27-cp27m-win32")
    with pytest.raises(
        FailedError, match=r"pip could not install the kit: ERROR: alpha.*not a supported wheel"
    ):
        install(kit, tmp_path / "scratch")


def test_packages_of_this_machine_that_do_not_satisfy_are_named() -> None:
    relied_on = {
        "no-such-package": ("no-such-package>=1 (alpha)",),
        "pytest": ("pytest>=1 (alpha)", "pytest[dev]<1 (beta)"),
    }
    lines = unmet(Manifest("3.12", (), (), relied_on))
    assert lines[0] == "no-such-package is not installed; needed by no-such-package>=1 (alpha)"
    assert lines[1:] == [f"pytest {pytest.__version__} is installed; needed is pytest[dev]<1 (beta)"]
