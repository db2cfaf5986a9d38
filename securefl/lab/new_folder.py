"""New folders that a command fills: with all of their files, or not at all."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from securefl.base import files
from securefl.base.errors import ConfigError, RunAbortedError


def check_new(folder: Path, option: str) -> None:
    """Check that a folder does not exist, or is empty.

    Raises:
        ConfigError: it is a file or has content; the error names ``option``.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(option, f"{folder} exists and is not empty", "name a new folder")


def fill_folder(folder: Path, contents: Mapping[str, bytes]) -> tuple[Path, ...]:
    """Write files by their names in a new folder, and return their paths. An error leaves none of them.

    Raises:
        RunAbortedError: a file cannot be written.
    """
    is_new = not folder.exists()
    try:
        for name, content in contents.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            files.write_whole(folder / name, content)
    except OSError as error:
        for name in {Path(name).parts[0] for name in contents}:
            path = folder / name
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
        if is_new and folder.is_dir():
            folder.rmdir()
        raise RunAbortedError(f"{error.filename}: cannot be written: {error.strerror}") from error
    return tuple(folder / name for name in contents)
