"""Version of this package and location of its files."""

from importlib.resources import files
from pathlib import Path
from typing import Final

__version__: Final = "0.3.0.dev0"


def package_folder() -> Path:
    """Return the folder of the package."""
    return Path(str(files("securefl")))
