"""Kits as arguments: ``securefl party kit.toml --run ID`` in place of all other options."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from securefl.base.errors import ConfigError
from securefl.runtime import agents, provision

CommandT = TypeVar("CommandT", bound=Callable[..., None])
_HELP = frozenset({"-h", "--help"})


def from_kit(role: str) -> Callable[[CommandT], CommandT]:
    """Return a decorator that lets a command take a kit of this role as its first argument."""

    def mark_command(command: CommandT) -> CommandT:
        command.expand_arguments = lambda words: expand(words, role)  # type: ignore[attr-defined]  # typer copies it
        return command

    return mark_command


def expand(words: Sequence[str], role: str) -> list[str]:
    """Replace a kit by the options that it stands for; options after it override them.

    The kit is verified, and the machine's policy must allow the code that the operator names in it. The kit's
    folder, with site, data and first weights, becomes the working directory.

    Raises:
        ConfigError: the kit or a file of it is invalid, it is for another role, or the policy does not allow
            its code.
    """
    at = next((number for number, word in enumerate(words) if is_kit(word, first=number == 0)), None)
    if at is None or _HELP.intersection(words):
        return list(words)
    file = words[at]
    if at > 0:
        raise ConfigError(file, "is a kit, and not the first argument", f"securefl {role} {file} --run ID")
    kit = provision.read_kit(Path(file))
    if kit.role != role:
        remedy = f"securefl {kit.role} {file}" if kit.role != "broker" else "start mosquitto with its files"
        raise ConfigError(file, f"is the kit of {kit.name}, a {kit.role}", remedy)
    kit.check(provision.utc_now())
    # Before the scenario is loaded, which imports its code.
    agents.check_kit_code(kit, own_site=_option(words, "--site") is not None)
    os.chdir(kit.folder)
    own_budget = any(word.partition("=")[0] == "--budget" for word in words)
    return [*kit.words(_option(words, "--run"), own_budget=own_budget), *words[1:]]


def is_kit(word: str, *, first: bool) -> bool:
    """Return True for a file named ``kit.toml``, and for a first argument, a file with a table ``[kit]``."""
    path = Path(word)
    if word.startswith("-"):
        return False
    if path.name == provision.KIT:
        return True
    if not first or path.suffix != ".toml" or not path.is_file():
        return False
    try:
        return "kit" in tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return False


def _option(words: Sequence[str], name: str) -> str | None:
    """Return the last value of an option; None if it is missing."""
    found = None
    for at, word in enumerate(words):
        if word == name and at + 1 < len(words):
            found = words[at + 1]
        elif word.startswith(f"{name}="):
            found = word.partition("=")[2]
    return found
