"""Scenario files bundled with securefl."""

from pathlib import Path
from typing import Literal

from securefl.base import text, version
from securefl.base.errors import ConfigError


def scenario_folder() -> Path:
    """Return the folder of bundled scenario files."""
    package = version.package_folder()
    beside = package.parent / "scenarios"
    return beside if beside.is_dir() else package / "bundled"


def find_bundled(scenario: Path, kind: Literal["scenario", "comparison"] = "scenario") -> Path:
    """Return the scenario's file: as given, or a bundled one.

    Raises:
        ConfigError: neither exists.
    """
    # A folder of that name is ignored: "dropout" may hold an earlier run.
    if scenario.is_file() or scenario.suffix or len(scenario.parts) > 1:
        return scenario
    folder = scenario_folder() / ("" if kind == "scenario" else "comparisons")
    inside = {path.stem: path for path in sorted(folder.glob("*.toml"))}
    if str(scenario) not in inside:
        close, listed = text.closest(str(scenario), tuple(inside)), f"bundled: {', '.join(inside)}"
        remedy = f"did you mean {close}? {listed}" if close else listed
        raise ConfigError(str(scenario), f"no such file, and no bundled {kind} of this name", remedy)
    return inside[str(scenario)]
