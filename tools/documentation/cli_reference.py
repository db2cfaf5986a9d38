"""Reference of the command line as Markdown, made from the commands themselves.

``python -m tools.documentation.cli_reference`` prints the page; the hooks of the site call it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from securefl.cli.app import COMMANDS, TASKS, Deferred, app

HEAD = """# Reference of the command line

All commands with their arguments and options, for people who type them, made from the code.
[Command line](commands.md) explains them; terms: [glossary](glossary.md).
"""


def page() -> str:
    """Return the whole page."""
    group: Any = get_command(app)
    order = [name for names in TASKS.values() for name in names]
    names = [*order, *(name for name in COMMANDS if name not in order)]
    parts = [HEAD]
    for name in names:
        parts += _sections(f"securefl {name}", group.commands[name])
    return "\n".join(parts)


def _sections(name: str, command: Any) -> Iterator[str]:
    """Yield the section of a command, then those of its subcommands."""
    if isinstance(command, Deferred):
        command = command.load()
    yield f"## `{name}`\n\n{_text(command.help)}\n"
    rows = [row for parameter in command.params if (row := _row(parameter)) is not None]
    if rows:
        yield "| argument or option | default | meaning |\n|---|---|---|\n" + "\n".join(rows) + "\n"
    for sub, below in getattr(command, "commands", {}).items():
        yield from _sections(f"{name} {sub}", below)


def _row(parameter: Any) -> str | None:
    """Return the table row of an argument or option; None if it is hidden."""
    if getattr(parameter, "hidden", False):
        return None
    if parameter.param_type_name == "argument":
        names = (parameter.metavar or parameter.name).upper()
    else:
        names = ", ".join((*parameter.opts, *parameter.secondary_opts))
    default = parameter.default
    has_default = default not in (None, False, (), []) and not callable(default)
    shown = "required" if parameter.required else f"`{default}`" if has_default else ""
    meaning = re.sub(r"\s+", " ", getattr(parameter, "help", None) or "").replace("|", "\\|")
    return f"| `{names}` | {shown} | {_escape(meaning)} |"


def _text(text: str | None) -> str:
    """Return a docstring as Markdown: paragraphs, and exit codes as a list."""
    plain = (text or "").replace("\b", "").replace("\f", "").strip()
    return _escape(re.sub(r"``([^`]+)``", r"`\1`", plain))


def _escape(text: str) -> str:
    """Escape angle brackets outside of code, which Markdown takes for HTML."""
    pieces = re.split(r"(`[^`]*`)", text)
    return "".join(piece if piece.startswith("`") else piece.replace("<", "&lt;") for piece in pieces)


if __name__ == "__main__":
    print(page())
