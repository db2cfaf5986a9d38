"""The target: its packages, and the wheels that it can install."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.tags import parse_tag
from packaging.utils import canonicalize_name
from packaging.version import Version

from tools.cuda.refusal import RefusedError
from tools.cuda.target import PRESENT, read_versions, tags


def test_the_file_of_the_target_has_torch_and_not_the_kit() -> None:
    present = read_versions(PRESENT)
    assert present[canonicalize_name("torch")] == Version("2.11.0+cu130")
    assert present[canonicalize_name("pytest")] is None
    assert "cryptography" not in present


def test_names_are_normalised_and_comments_ignored(tmp_path: Path) -> None:
    file = tmp_path / "present.txt"
    file.write_text("# a machine\n\nTyping_Extensions  # without a version\nnumpy == 2.5.2\n")
    assert read_versions(file) == {"typing-extensions": None, "numpy": Version("2.5.2")}


@pytest.mark.parametrize("line", ["numpy>=2", "numpy==2.*", "numpy==2,!=3", "two words", "==1"])
def test_a_line_that_is_not_one_version_is_refused(tmp_path: Path, line: str) -> None:
    file = tmp_path / "present.txt"
    file.write_text(f"torch\n{line}\n")
    with pytest.raises(RefusedError, match=r"present\.txt:2: .*write NAME or NAME==VERSION"):
        read_versions(file)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="cannot be read: No such file"):
        read_versions(tmp_path / "none.txt")


@pytest.mark.parametrize(
    ("tag", "fits"),
    [
        ("cp312-cp312-manylinux_2_28_x86_64", True),
        ("cp312-cp312-manylinux2014_x86_64", True),
        ("cp39-abi3-manylinux_2_17_x86_64", True),
        ("py3-none-any", True),
        ("py2.py3-none-any", True),
        ("cp311-cp311-manylinux_2_28_x86_64", False),
        ("cp313-abi3-manylinux_2_28_x86_64", False),
        ("cp312-cp312-manylinux_2_39_x86_64", False),
        ("cp312-cp312-manylinux_2_28_aarch64", False),
        ("cp312-cp312-musllinux_1_2_x86_64", False),
        ("py2-none-any", False),
    ],
)
def test_tags_that_the_target_takes(tag: str, fits: bool) -> None:
    assert (not parse_tag(tag).isdisjoint(tags())) is fits
