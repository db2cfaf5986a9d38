"""Files beside a project file: scenario and first weights."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from securefl.base import files
from securefl.base.errors import ConfigError
from securefl.runtime.provision.behaviours import check_no_behaviours
from securefl.runtime.provision.project import WEIGHTS_NAME, ProjectFile
from securefl.scenario import Scenario, load_scenario
from securefl.training import models

PROJECT: Final = "project.toml"


def project_scenario(
    project: ProjectFile, folder: Path, parties: int | None = None, source: str = PROJECT
) -> Scenario:
    """Load the scenario, with another number of parties if given, and check it against the project.

    Args:
        project: as read.
        folder: with the scenario.
        parties: number of parties; None for that of the scenario.
        source: name of the project file in errors.

    Raises:
        ConfigError: it is invalid, or the project lacks ``site`` or ``data``.
    """
    overrides = () if parties is None else (f"parties={parties}",)
    file = folder / project.scenario
    scenario = load_scenario(file, overrides)
    check_no_behaviours(read_text(file), str(file))
    by_sites = scenario.model.by_sites
    if by_sites and not project.site:
        raise ConfigError(
            f"{folder / source}: site",
            f'is missing: model.type = "{scenario.model.name}" is trained by sites',
            "write module:name",
        )
    if not by_sites and not project.data:
        raise ConfigError(
            f"{folder / source}: data",
            f'is missing: model.type = "{scenario.model.name}" needs samples at each site',
            "write the name of a file",
        )
    if not by_sites and not project.server.data:
        raise ConfigError(
            f"{folder / source}: server.data",
            "is missing: the server tests with its samples",
            "write the name of a file",
        )
    return scenario


def weights_file(folder: Path, name: str) -> Path:
    """Return the path of the first weights.

    Raises:
        ConfigError: the scenario names a file outside of the folder.
    """
    if not WEIGHTS_NAME.fullmatch(name):
        raise ConfigError(
            "model.file",
            f"{name!r} is not the name of a .safetensors file beside the project file",
            "put it there, without folders",
        )
    return folder / name


def check_weights(scenario: Scenario, path: Path, content: bytes, field: str = "model.file") -> None:
    """Check that the first weights of a scenario are arrays with which a run can begin.

    Args:
        scenario: that names first weights.
        path: of the file, for errors.
        content: of the file.
        field: that names the file, for errors.

    Raises:
        ConfigError: they are not.
    """
    models.decode_arrays(content, path, str(getattr(scenario.model, "sha256", "")), field)


def read_bytes(path: Path) -> bytes:
    """Read a file beside the project file.

    Raises:
        ConfigError: it cannot be read.
    """
    with files.reading(path, "put it beside the project file"):
        return path.read_bytes()


def read_text(path: Path) -> str:
    """Read a text beside the project file, with one line feed an end of line.

    Raises:
        ConfigError: it cannot be read, or is not UTF-8.
    """
    with files.reading(path, "put it beside the project file"):
        return re.sub(r"\r\n?", "\n", path.read_text(encoding="utf-8-sig"))
