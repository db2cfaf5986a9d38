"""Files of a new project, from templates."""

from __future__ import annotations

import csv
import io
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from securefl.base.errors import ConfigError
from securefl.lab import new_folder, templates
from securefl.lab.project.choices import Project
from securefl.methods import feasibility, privacy
from securefl.scenario import Scenario, parse_scenario

_ENDING: Final = ".j2"
_FIRST_SCALE: Final = 12
"""``encoding.scale_bits`` from which the search for that of the noise starts."""
_COLUMNS: Final = ("mean radius", "mean texture", "mean smoothness", "mean concavity")


def write_project(folder: Path, project: Project) -> tuple[Path, ...]:
    """Write the files of a project into a new folder, and return their paths.

    Its scenario is checked before anything is written.

    Raises:
        ConfigError: the folder exists and is not empty, or the choices do not fit together.
        RunAbortedError: a file cannot be written.
    """
    new_folder.check_new(folder, "FOLDER")
    texts = _texts(project, scale_bits=_FIRST_SCALE)
    if project.epsilon is not None:
        texts = _texts(project, scale_bits=_scale_of(parse_scenario(texts["federation.toml"]), project))
    feasibility.check(parse_scenario(texts["federation.toml"]))
    return new_folder.fill_folder(folder, {name: text.encode() for name, text in texts.items()})


def _scale_of(scenario: Scenario, project: Project) -> int:
    """Return the ``encoding.scale_bits`` that the noise of a project needs.

    Raises:
        ConfigError: no scale has this amount of noise, or the choices do not fit together.
    """
    feasibility.check(scenario)
    try:
        return privacy.fit_scale(scenario, project.parameters).encoding.scale_bits
    except ConfigError as error:
        if error.path != "privacy.epsilon":
            raise
        raise ConfigError("--epsilon", error.reason, error.remedy) from error


def _texts(project: Project, *, scale_bits: int) -> dict[str, str]:
    root = resources.files(__package__).joinpath("templates")
    found: dict[str, str] = {}
    # The built-in training of tables needs no files of its own.
    parts = [part for part in ("common", project.kind) if root.joinpath(part).is_dir()]
    for part in parts:
        for name, file in _files(root.joinpath(part)):
            found[name.removesuffix(_ENDING)] = templates.render(file, project=project, scale_bits=scale_bits)
    if project.kind == "tables":
        found["patients.csv"] = _patients()
    return found


def _files(folder: Traversable, before: str = "") -> list[tuple[str, Traversable]]:
    found = []
    for one in sorted(folder.iterdir(), key=lambda file: file.name):
        if one.is_dir():
            found += _files(one, f"{before}{one.name}/")
        elif one.name.endswith(_ENDING):
            found.append((before + one.name, one))
    return found


def _patients() -> str:
    """Return a table of public data, in place of the user's own: 569 patients with four measurements.

    Raises:
        ConfigError: scikit-learn is not installed.
    """
    try:
        from sklearn.datasets import load_breast_cancer  # noqa: PLC0415 - an extra
    except ImportError:
        raise ConfigError("--kind tables", "needs scikit-learn", "pip install 'securefl[learn]'") from None
    data = load_breast_cancer()
    names = list(data.feature_names)
    columns = [names.index(name) for name in _COLUMNS]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("patient", *_COLUMNS, "diagnosis"))
    for number, (row, label) in enumerate(zip(data.data, data.target, strict=True)):
        writer.writerow((number, *(f"{row[at]:g}" for at in columns), "benign" if label else "malignant"))
    return out.getvalue()
