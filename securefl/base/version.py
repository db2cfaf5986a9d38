"""Version of this package, and the location of its files."""

from importlib.resources import files
from pathlib import Path
from typing import Final

__version__: Final = "0.2.0.dev0"


def package_folder() -> Path:
    """Return the folder of the package; in a checkout the scenarios are beside it."""
    return Path(str(files("securefl")))
