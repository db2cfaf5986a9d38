"""A release, from the commit to files that another machine verifies and uses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.live, pytest.mark.slow]


def run(words: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The commit, whatever the checkout has beside it."""
    folder = tmp_path / "clone"
    assert run(["git", "clone", "--quiet", str(ROOT), str(folder)], tmp_path).returncode == 0
    return folder


def release(clone: Path, *options: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "tools.release", "--builder", str(ROOT / ".venv-release/bin/python")]
    return run([*words, *options], clone, PYTHONPATH=str(clone))


def test_a_release(clone: Path, tmp_path: Path) -> None:
    made = run(["make", ".venv-release/.installed"], ROOT)
    assert made.returncode == 0, made.stderr
    key = tmp_path / "key"
    assert run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], tmp_path).returncode == 0
    done = release(clone, "--key", str(key), "--signer", "a@example.org")
    assert done.returncode == 0, done.stdout + done.stderr
    out = clone / "dist"
    # The commands of docs/release.md, of a user.
    assert run(["sha256sum", "--check", "--strict", "SHA256SUMS"], out).returncode == 0
    verify = "ssh-keygen -Y verify -f allowed_signers -I a@example.org -n securefl-release -s SHA256SUMS.sig"
    assert run(["sh", "-c", f"{verify} < SHA256SUMS"], out).returncode == 0
    named = {line.split()[1] for line in (out / "SHA256SUMS").read_text().splitlines()}
    assert {path.name for path in out.iterdir()} == named | {
        "SHA256SUMS",
        "SHA256SUMS.sig",
        "allowed_signers",
    }
    (path,) = out.glob("*.cdx.json")
    bill = json.loads(path.read_text())
    assert (bill["bomFormat"], bill["metadata"]["component"]["name"]) == ("CycloneDX", "securefl")
    versions = {one["name"].lower(): one["version"] for one in bill["components"]}
    assert versions.keys() >= {"torch", "cryptography", "numpy", "amqtt"}
    assert not versions.keys() & {"pytest", "pip"}
    assert str(tmp_path) not in path.read_text()


def test_a_changed_checkout_is_refused_and_nothing_is_written(clone: Path) -> None:
    (clone / "README.md").write_text("changed")
    done = release(clone, "--skip-install")
    assert done.returncode == 2
    assert done.stderr == "no release: git: tracked files differ from the commit (commit or stash them)\n"
    assert not (clone / "dist").exists()


def test_a_folder_with_other_files_is_refused(clone: Path) -> None:
    (clone / "dist").mkdir()
    (clone / "dist" / "thesis.txt").write_text("keep")
    done = release(clone, "--skip-install")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "has other files: thesis.txt" in done.stderr
    assert (clone / "dist" / "thesis.txt").read_text() == "keep"
