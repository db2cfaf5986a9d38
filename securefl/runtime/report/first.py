"""Copy of a run's first model file."""

import hashlib
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType

from securefl.base import files
from securefl.base.errors import ConfigError
from securefl.base.version import __version__
from securefl.runtime import transcript
from securefl.scenario import Scenario

FIRST_MODEL = "first.safetensors"


def versions() -> Mapping[str, str]:
    """Return the versions of software that determine a first model, by name."""
    try:
        torch = version("torch")
    except PackageNotFoundError:
        torch = ""
    return MappingProxyType({"securefl": __version__, "torch": torch})


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file, in hex; empty if unreadable."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def check_first_model(directory: Path, scenario: Scenario) -> None:
    """Refuse a folder with another file at the path of the copy.

    Raises:
        ConfigError: it would be overwritten.
    """
    copy, first = directory / FIRST_MODEL, scenario.model.first_file
    if first and copy.exists() and file_digest(copy) != file_digest(Path(first)):
        raise ConfigError(
            "--out", f"{copy} differs from {first}, of which it should be a copy", "choose another --out"
        )


def keep_first_model(directory: Path, scenario: Scenario) -> None:
    """Copy the first model's file into a run folder, for audits on other machines.

    An unreadable file is skipped: every process of the run refuses it.

    Raises:
        RunAbortedError: the write failed.
    """
    first, copy = scenario.model.first_file, directory / FIRST_MODEL
    if not first or copy.exists():
        return
    try:
        content = Path(first).read_bytes()
    except OSError:
        return
    with transcript.writing(copy):
        files.write_whole(copy, content, durable=True)
