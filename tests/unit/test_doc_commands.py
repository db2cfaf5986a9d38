"""Commands and Python code in the documents: options exist, targets exist, code of docs/python.md runs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from typer.main import get_command

from securefl.cli.app import COMMANDS, Deferred, app
from tests.looped import looped

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
GENERATED = {"api.md", "fields.md"}
BLOCK = re.compile(r"(?:^ {4}.*\n|^\n(?= {4}))+", re.MULTILINE)


def blocks(page: Path) -> list[str]:
    """The indented blocks of code of a page."""
    text = re.sub(r"^(- |\d+\. ).*(\n(?: .*)?)*?(?=\n\S|\Z)", "", page.read_text(), flags=re.MULTILINE)
    return [dedent(block) for block in BLOCK.findall(text)]


def commands(page: Path) -> Iterator[list[str]]:
    """The words of each call of ``securefl`` in blocks and in spans of code."""
    text = page.read_text()
    lines = "\n".join(blocks(page)).replace("\\\n", " ").splitlines()
    spans = re.findall(r"`(securefl [^`\n]+)`", text)
    for line in (*lines, *spans):
        found = re.match(r"(?:\$ |sudo -u \S+ )?(?:\.venv/bin/)?securefl (.+)", line.strip())
        if found:
            words = re.split(r"\s[#|>]|&&|;", found[1])[0]
            yield shlex.split(words if words.count("'") % 2 == 0 else words.replace("'", ""))


def command_of(words: list[str]) -> tuple[Any, list[str]]:
    """The command that the words call, and the words after its name."""
    command: Any = get_command(app)
    while words and hasattr(command, "commands"):
        name = words[0]
        if name.startswith("-"):
            break
        assert name in command.commands, f"no command {name!r}"
        command, words = command.commands[name], words[1:]
        if isinstance(command, Deferred):
            command = command.load()
    return command, words


@looped("page", [page for page in PAGES if page.name not in GENERATED])
def test_options_of_commands_exist(page: Path) -> None:
    for words in commands(page):
        if not words or not re.fullmatch(r"[a-z-]+", words[0]):
            continue
        command, rest = command_of(words)
        known = {option for one in command.params for option in (*one.opts, *one.secondary_opts)} | {"--help"}
        given = {word.partition("=")[0] for word in rest if re.match(r"--[a-z]", word)}
        assert given <= known, f"securefl {' '.join(words)}: {sorted(given - known)}"


def test_every_command_is_on_its_page() -> None:
    text = (ROOT / "docs" / "commands.md").read_text()
    assert [name for name in COMMANDS if not re.search(rf"`securefl {name}\b", text)] == []


@looped("page", PAGES)
def test_targets_of_make_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = re.findall(r"(?:^ {4}|`)make ([a-z-]+)", page.read_text(), re.MULTILINE)
    assert set(named) <= targets


@pytest.mark.live
def test_the_code_of_the_python_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    run = [
        block for block in blocks(ROOT / "docs" / "python.md") if not re.search(r"^ .*\.\.\.$", block, re.M)
    ]
    assert len(run) >= 6
    for block in run:
        exec(compile(block, "docs/python.md", "exec"), names)  # noqa: S102 - of our own page
