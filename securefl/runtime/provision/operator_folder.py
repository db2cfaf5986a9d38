"""Files of an operator's folder: keys, history, and the lock of one command."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Final

from securefl.base import crypto, entropy, files
from securefl.base.errors import ConfigError
from securefl.base.ids import PartyId
from securefl.runtime.provision import certificates, history, signed
from securefl.runtime.provision.operator_head import OperatorHead
from securefl.runtime.transport import OPERATOR

OPERATOR_KEY: Final = f"{OPERATOR}.key"
AUTHORITY_KEY: Final = "authority.key"
HISTORY: Final = "history.jsonl"
OWN_FILES: Final = (OPERATOR_KEY, AUTHORITY_KEY, HISTORY)
RESTORE: Final = "restore the folder from a backup"


def check_new(folder: Path) -> None:
    """Raise ConfigError if a folder has a file of an operator already."""
    for name in OWN_FILES:
        if (folder / name).exists():
            raise ConfigError(str(folder / name), "exists already", "choose another --out")


def lock(folder: Path) -> AbstractContextManager[None]:
    """Hold an operator's folder for one command.

    Raises:
        ConfigError: another command holds it.
    """
    return files.lock_folder(folder, "command", "wait for its end")


def write_project(
    folder: Path, project: str, contents: Mapping[str, bytes], now: datetime
) -> crypto.PublicIdentity:
    """Write the files of a new project, its history last; return the operator's public keys."""
    for name, content in contents.items():
        signed.write_file(folder / name, content)
    operator = crypto.Identity.generate(PartyId(OPERATOR), entropy.OsEntropy())
    key = certificates.new_key()
    crypto.write_identity(folder / OPERATOR_KEY, operator)
    certificates.write_key(folder / AUTHORITY_KEY, key)
    begun = history.History(str(folder / HISTORY))
    entry = history.ProjectBegun(
        project=project,
        verify_key=operator.public.verify_key.hex(),
        seal_key=operator.public.seal_key.hex(),
        authority=certificates.make_authority(key, project, now),
    )
    begun.append(entry, operator, now)
    write_history(folder / HISTORY, begun)
    OperatorHead(operator.public).write(begun)
    return operator.public


def history_of(path: Path) -> history.History:
    """Read and verify a file with a history.

    Raises:
        ConfigError: it cannot be read, is damaged, not signed, or its chain is broken.
    """
    with files.reading(path, RESTORE):
        return history.read_history(path.read_bytes().splitlines(), str(path))


def write_history(path: Path, found: history.History) -> None:
    """Write a history durably in one step; raise ConfigError if that fails."""
    signed.write_file(path, b"".join(line + b"\n" for line in found.lines))
