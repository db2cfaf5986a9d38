"""Making a kit: what it has, how wheels are found, and what is refused."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from securefl.training.data import datasets
from tests.unit.cuda.fake_wheels import make_source, make_wheel
from tools.cuda import kit
from tools.cuda.closure import Closure, Distribution
from tools.cuda.kit import Downloader, check_size, describe_kit, main, make_kit, pack_data
from tools.cuda.manifest import File, Manifest, Wheel, read_manifest, verify
from tools.cuda.refusal import FailedError, RefusedError

EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder that is the only index of pip."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder with empty files in place of Fashion-MNIST."""
    folder = tmp_path / "data"
    (folder / "fashion-mnist").mkdir(parents=True)
    for name in kit.DATA_FILES:
        (folder / "fashion-mnist" / name).touch()
    monkeypatch.setattr(kit, "DATA_FILES", dict.fromkeys(kit.DATA_FILES, EMPTY))
    return folder


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose only requirement is ``alpha``."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    extras = "".join(f'{extra} = ["beta<2"]\n' for extra in kit.EXTRAS)
    tests = ", ".join(f'"{name}>=1"' for name in kit.TEST_PACKAGES)
    (folder / "pyproject.toml").write_text(
        '[project]\nname = "securefl"\ndependencies = ["alpha>=1"]\n'
        f"[project.optional-dependencies]\n{extras}dev = [{tests}]\n"
    )
    (folder / "constraints.txt").write_text("alpha==1.5\n")
    present = "\n".join(kit.TEST_PACKAGES) + "\nnumpy==2.5.2\n"
    (folder / "present.txt").write_text(present)
    monkeypatch.setattr(kit, "ROOT", folder)
    return folder


def test_the_digests_are_those_that_securefl_checks() -> None:
    published = datasets._IDX_SETS["fashion-mnist"]
    assert list(kit.DATA_FILES.values()) == [
        published.train_images,
        published.train_labels,
        published.test_images,
        published.test_labels,
    ]


def test_roots_are_the_extras_crypten_and_the_packages_of_the_tests() -> None:
    path = kit.ROOT / "pyproject.toml"
    project = kit.read_project(path)
    lines = [str(one) for one in kit.roots(project)]
    assert lines[:2] == ["securefl[crypten,dp,embedded-broker,images,learn,plots,tables]", "crypten"]
    developer = tomllib.loads(path.read_text())["project"]["optional-dependencies"]["dev"]
    assert {str(Requirement(line)) for line in developer} >= set(lines[2:])
    assert "torch>=2.6" in {str(one).partition(";")[0] for one in project.requires}


@pytest.mark.slow
def test_a_kit_has_pinned_wheels_and_data(index: Path, data_dir: Path, root: Path, tmp_path: Path) -> None:
    for version in ("1.5", "2.0"):
        make_wheel(index, "alpha", version, ["numpy>=2"])
    make_wheel(index, "beta", "1.9")
    make_wheel(index, "beta", "2.0")
    make_wheel(index, "crypten", "0.4.1", ["sklearn"])
    made = tmp_path / "kit"
    for _ in range(2):
        # The second one replaces the first.
        manifest = make_kit(data_dir, made, root / "present.txt")
        assert [f"{one.name} {one.version}" for one in manifest.wheels] == [
            "alpha 1.5",
            "beta 1.9",
            "crypten 0.4.1",
        ]
        assert [file.path for file in manifest.data] == sorted(
            f"data/fashion-mnist/{name}" for name in kit.DATA_FILES
        )
        assert manifest.relied_on["numpy"] == ("numpy>=2 (alpha)",)
        assert read_manifest(made) == manifest
        verify(made, manifest)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkout", "data", "index", "kit"]


@pytest.mark.slow
def test_a_kit_that_cannot_be_made_leaves_the_earlier_one(
    index: Path, data_dir: Path, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("alpha", "beta", "crypten"):
        make_wheel(index, name, "1.5")
    made = tmp_path / "kit"
    before = make_kit(data_dir, made, root / "present.txt")
    (root / "constraints.txt").write_text("alpha==3\n")
    with pytest.raises(FailedError, match=r"alpha==3 cannot be downloaded \(ERROR: .*check the network"):
        make_kit(data_dir, made, root / "present.txt")
    assert read_manifest(made) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkout", "data", "index", "kit"]
    assert "alpha-1.5-py3-none-any.whl: 1 KiB" in capsys.readouterr().err


def test_a_folder_that_is_not_a_kit_is_not_replaced(data_dir: Path, root: Path, tmp_path: Path) -> None:
    made = tmp_path / "kit"
    made.mkdir()
    (made / "thesis.txt").touch()
    with pytest.raises(RefusedError, match="kit exists and is not a kit; remove it or name another"):
        make_kit(data_dir, made, root / "present.txt")
    assert (made / "thesis.txt").is_file()


def test_a_wheel_of_the_target_is_preferred_to_sources(index: Path, tmp_path: Path) -> None:
    make_source(index, "alpha", "2.0")
    make_wheel(index, "alpha", "2.0", tag="cp312-cp312-manylinux_2_28_x86_64")
    make_wheel(index, "alpha", "2.0", tag="cp311-cp311-manylinux_2_28_x86_64")
    path = Downloader(tmp_path)(Requirement("alpha"))
    assert path == tmp_path / "alpha-2.0-cp312-cp312-manylinux_2_28_x86_64.whl"


def test_sources_are_built_where_there_is_no_wheel(
    index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_source(index, "crypten", "0.4.1")
    path = Downloader(tmp_path)(Requirement("crypten==0.4.1"))
    assert path == tmp_path / "crypten-0.4.1-py3-none-any.whl"
    assert path.is_file()
    assert "no wheel to download, trying to build one" in capsys.readouterr().err


def manifest_of(wheels: int, data: int) -> Manifest:
    wheel = Wheel("wheels/a.whl", wheels, "", "a", "1")
    return Manifest("3.12", (wheel,), (File("data/b", data, ""),), {})


def test_a_kit_of_42_mib_may_travel() -> None:
    check_size(manifest_of(11 << 20, 31 << 20), 0)
    with pytest.raises(RefusedError) as caught:
        check_size(manifest_of(11 << 20, 31 << 20), 1)
    assert str(caught.value) == (
        "the kit has 42.0 MiB (wheels 11.0 MiB, data 31.0 MiB), and may have 42.0 MiB;"
        " leave a package out; the largest is a"
    )


def test_a_kit_that_is_too_large_is_not_made(
    index: Path,
    data_dir: Path,
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("alpha", "beta", "crypten"):
        make_wheel(index, name, "1.5")
    monkeypatch.setattr(kit.check_size, "__defaults__", (1000,))
    made = tmp_path / "kit"
    arguments = ["kit", "--data-dir", data_dir, "--kit", made, "--present", root / "present.txt"]
    monkeypatch.setattr(sys, "argv", [*map(str, arguments)])
    assert main() == 2
    assert "error: the kit has " in capsys.readouterr().err
    assert not made.exists()


@pytest.mark.parametrize("fault", ["missing", "changed"])
def test_data_that_is_not_the_published_is_refused(data_dir: Path, tmp_path: Path, fault: str) -> None:
    path = data_dir / "fashion-mnist" / "t10k-labels-idx1-ubyte.gz"
    if fault == "missing":
        path.unlink()
    else:
        path.write_bytes(b"0")
    line = "is missing" if fault == "missing" else "is not the published file"
    with pytest.raises(RefusedError, match=rf"t10k-labels-idx1-ubyte\.gz {line}; name a folder that has"):
        pack_data(data_dir, tmp_path / "kit")


def test_entries_of_a_manifest_describe_the_files(tmp_path: Path) -> None:
    path = make_wheel(tmp_path / "wheels", "alpha")
    closure = Closure(((Distribution(canonicalize_name("alpha"), Version("1.0"), ()), path),), {})
    [entry] = describe_kit(tmp_path, closure).wheels
    assert (entry.path, entry.size) == (f"wheels/{path.name}", path.stat().st_size)
    assert (entry.name, entry.version, len(entry.sha256)) == ("alpha", "1.0", 64)
