"""``make release``: package data, complete archives, normalised sdists, signatures."""

from __future__ import annotations

import hashlib
import io
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from securefl.base.errors import ConfigError
from securefl.base.version import __version__
from tools.release.build import check_sdist, check_wheel, digest, normalise, package_path
from tools.release.signature import allowed_signers, sign, verify

ROOT = Path(__file__).parents[2]
FILES = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("securefl/a.py", "scenarios/b.toml")}


@pytest.fixture
def checkout() -> Path:
    if not (ROOT / ".git").exists():
        pytest.skip("needs the checkout of git")
    return ROOT


def test_package_data_are_the_tracked_files(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wheel gets from setup.py all files that git tracks in securefl/ and scenarios/."""
    # Environments of newer versions of Python do not have it (make versions).
    setuptools = pytest.importorskip("setuptools")
    build_py = pytest.importorskip("setuptools.command.build_py").build_py
    monkeypatch.chdir(checkout)
    given: dict[str, object] = {}
    # Only the keywords of the call: a whole distribution would write an egg-info.
    monkeypatch.setattr("setuptools.setup", given.update)
    exec(compile((checkout / "setup.py").read_text(), "setup.py", "exec"), {})  # noqa: S102 - our own file
    distribution = setuptools.Distribution(
        {**given, "script_name": "setup.py", "include_package_data": False}
    )
    command = build_py(distribution)
    command.ensure_finalized()
    modules = {Path(path).as_posix() for _, _, path in command.find_all_modules()}
    data = {(Path(folder) / name).as_posix() for _, folder, _, names in command.data_files for name in names}
    words = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "securefl", "scenarios"]
    names = set(subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines())
    assert len(names) > 800
    assert {Path(path).suffix for path in data} >= {".css", ".html", ".j2", ".pyi", ".toml", ".typed"}
    assert sorted(names - modules - data) == []
    assert sorted((modules | data) - names) == []


def test_scenarios_are_bundled_in_the_wheel() -> None:
    assert package_path("scenarios/papers/a.toml") == "securefl/bundled/papers/a.toml"
    assert package_path("securefl/py.typed") == "securefl/py.typed"
    assert package_path("tests/conftest.py") is None


def wheel(folder: Path, **changes: str) -> Path:
    """A wheel whose files contain their tracked names; changes as content, or empty to leave a file out."""
    path = folder / "one-1-py3-none-any.whl"
    inside = {"securefl/a.py": "securefl/a.py", "securefl/bundled/b.toml": "scenarios/b.toml", **changes}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("one-1.dist-info/METADATA", "Name: one")
        for name, text in inside.items():
            if text:
                archive.writestr(name, text)
    return path


def test_a_complete_wheel_passes(tmp_path: Path) -> None:
    check_wheel(wheel(tmp_path), FILES)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"securefl/bundled/b.toml": ""}, r"lacks securefl/bundled/b\.toml \(add it to package_data"),
        ({"securefl/a.py": "changed"}, r"has changed securefl/a\.py"),
        ({"first.safetensors": "x"}, r"has the untracked first\.safetensors"),
        ({f"securefl/{n}": "x" for n in range(7)}, r"securefl/4 and 2 others"),
    ],
)
def test_a_wheel_with_other_files_is_refused(change: dict[str, str], reason: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=reason) as refused:
        check_wheel(wheel(tmp_path, **change), FILES)
    assert "\n" not in str(refused.value)


def sdist(path: Path, names: dict[str, bytes], time: int, uid: int, mode: int) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in names.items():
            entry = tarfile.TarInfo(f"one-1/{name}")
            entry.size, entry.mtime, entry.uid, entry.mode = len(content), time, uid, mode
            tar.addfile(entry, io.BytesIO(content))
    return path


def test_normalised_sdists_are_equal(tmp_path: Path) -> None:
    """Order, times, owners and modes of two machines differ, and nothing else."""
    names = {"b": b"2", "a": b"1"}
    one = sdist(tmp_path / "one.tar.gz", names, 1_700_000_000, 0, 0o644)
    other = sdist(tmp_path / "other.tar.gz", dict(sorted(names.items())), 1_800_000_000, 1000, 0o664)
    assert digest(one) != digest(other)
    for path in (one, other):
        normalise(path, 1_600_000_000)
    assert digest(one) == digest(other)
    with tarfile.open(one) as tar:
        assert [(member.name, member.mtime, member.mode) for member in tar] == [
            ("one-1/a", 1_600_000_000, 0o644),
            ("one-1/b", 1_600_000_000, 0o644),
        ]
        assert tar.extractfile("one-1/b").read() == b"2"  # type: ignore[union-attr]


def test_an_sdist_needs_all_but_files_of_the_forge(tmp_path: Path) -> None:
    contents = {name: name.encode() for name in FILES}
    path = sdist(tmp_path / "one.tar.gz", {**contents, "PKG-INFO": b"x"}, 0, 0, 0o644)
    check_sdist(path, FILES | {".github/workflows/ci.yml": "0"})
    with pytest.raises(ConfigError, match=r"lacks docs/a\.md \(add it to MANIFEST\.in\)"):
        check_sdist(path, FILES | {"docs/a.md": "0"})


@pytest.fixture
def signed(tmp_path: Path) -> tuple[Path, Path]:
    """Digests signed by a throw-away key, and the signers that a user trusts."""
    key, sums, signers = tmp_path / "key", tmp_path / "SHA256SUMS", tmp_path / "allowed_signers"
    new_key(key)
    sums.write_text("00  one.whl\n")
    sign(sums, key)
    signers.write_text(allowed_signers(key, "a@example.org"))
    return sums, signers


def new_key(path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)


def test_a_signature_verifies(signed: tuple[Path, Path]) -> None:
    sums, signers = signed
    verify(sums, signers, "a@example.org")
    assert signers.read_text().startswith('a@example.org namespaces="securefl-release" ssh-ed25519 ')
    assert "PRIVATE" not in signers.read_text() + sums.with_name("SHA256SUMS.sig").read_text()


def test_changed_digests_are_refused(signed: tuple[Path, Path]) -> None:
    sums, signers = signed
    sums.write_text("01  one.whl\n")
    with pytest.raises(ConfigError, match=r"^SHA256SUMS\.sig: .*\(do not install these files\)$"):
        verify(sums, signers, "a@example.org")


def test_the_signature_of_another_is_refused(signed: tuple[Path, Path], tmp_path: Path) -> None:
    sums, signers = signed
    with pytest.raises(ConfigError, match="do not install"):
        verify(sums, signers, "b@example.org")
    new_key(tmp_path / "other")
    sign(sums, tmp_path / "other")
    with pytest.raises(ConfigError, match="do not install"):
        verify(sums, signers, "a@example.org")


def test_a_signature_for_another_purpose_is_refused(signed: tuple[Path, Path], tmp_path: Path) -> None:
    sums, signers = signed
    sums.with_name("SHA256SUMS.sig").unlink()
    words = ["ssh-keygen", "-Y", "sign", "-q", "-n", "git", "-f", str(tmp_path / "key"), str(sums)]
    subprocess.run(words, check=True)
    with pytest.raises(ConfigError, match="do not install"):
        verify(sums, signers, "a@example.org")


def test_missing_and_readable_keys_are_refused(tmp_path: Path) -> None:
    sums = tmp_path / "SHA256SUMS"
    sums.write_text("00  one.whl\n")
    with pytest.raises(ConfigError, match=r"^--key: .* is not a file"):
        sign(sums, tmp_path / "absent")
    new_key(tmp_path / "key")
    (tmp_path / "key").chmod(0o640)
    with pytest.raises(ConfigError, match=r"^--key: .* is readable by other users \(chmod 600"):
        sign(sums, tmp_path / "key")
    (tmp_path / "key.pub").unlink()
    with pytest.raises(ConfigError, match=r"key\.pub is missing \(ssh-keygen -y"):
        allowed_signers(tmp_path / "key", "a@example.org")
    with pytest.raises(ConfigError, match="there is no signature"):
        verify(sums, tmp_path / "signers", "a@example.org")


def test_the_citation_names_the_version() -> None:
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text()
