"""Checks of an installed wheel outside the checkout: commands, a project, quickstart, own site, agents."""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

from securefl.base.errors import ConfigError

from .agents import try_agents
from .build import command

EXTRAS = "learn,embedded-broker,dp,plots,tables"
"""Extras of the clean environment: all that are not for development and install from an index."""
COMMANDS_LOAD = """
import securefl, sys
from importlib.metadata import version
from securefl.cli.app import COMMANDS, Deferred
from typer.main import get_command
for name in COMMANDS:
    Deferred(name).load()
print(securefl.__file__, version("securefl"), len(COMMANDS))
"""


def install(builder: Path, wheel: Path, version: str, constraints: Path, folder: Path) -> Path:
    """Make an environment without the checkout, install the wheel and its extras; return the interpreter.

    The wheel comes from its own folder only, so that no index can answer for its name.
    """
    environment = _environment(folder)
    command([builder, "-m", "venv", "--without-pip", folder / "clean"], folder)
    python = folder / "clean" / "bin" / "python"
    pip = [builder, "-m", "pip", "--python", python, "install", "--quiet"]
    own = ["--no-index", "--no-deps", "--find-links", wheel.parent, f"securefl=={version}"]
    command([*pip, *own], folder, environment)
    command([*pip, "-c", constraints, f"securefl[{EXTRAS}]=={version}"], folder, environment)
    return python


def try_out(python: Path, version: str, sdist: Path, folder: Path) -> Iterator[str]:
    """Run the commands of a new user; yield a line for each that succeeds.

    Raises:
        ConfigError: a command failed, or left out its files.
    """
    environment = _environment(folder) | {"PATH": f"{python.parent}:/usr/bin:/bin"}
    securefl = python.parent / "securefl"

    def run(line: str, where: Path) -> str:
        return command([securefl, *line.split()], where, environment)

    shown = run("--version", folder)
    if version not in shown.split():
        raise ConfigError("securefl --version", f"expected {version}, found {shown.strip()}")
    yield f"securefl --version: {shown.strip()}"

    place, *_ = command([python, "-c", COMMANDS_LOAD], folder, environment).split()
    if not Path(place).is_relative_to(python.parents[1]):
        raise ConfigError("securefl", f"imported from {place}", "unset PYTHONPATH")
    yield "all commands load"

    run("init x --kind torch", folder)
    run("simulate federation.toml --site train:Site --out first", folder / "x")
    run("report first --out page.html", folder / "x")
    _expect(folder / "x" / "page.html", "</html>")
    yield "init, simulate and report"

    # Twelve processes import torch at once; on a busy machine they join late.
    run("run quickstart --broker embedded --set deadlines.join=300 --out quickstart", folder)
    _expect(folder / "quickstart" / "summary.json", '"rounds"')
    yield "run quickstart --broker embedded"

    with tarfile.open(sdist) as tar:
        tar.extractall(folder / "sdist", filter="data")
    (unpacked,) = (folder / "sdist").iterdir()
    own = shutil.copytree(unpacked / "examples" / "own_training", folder / "own")
    run("site weights hospital:Hospital --out initial.safetensors", own)
    run("site check federation.toml hospital:Hospital", own)
    run("run federation.toml --site hospital:Hospital --broker embedded --out out", own)
    run("report out --out page.html", own)
    _expect(own / "page.html", "</html>")
    yield "an own site: weights, check, run and report"
    yield try_agents(securefl, run, own, folder / "machines", environment)


def try_tools(builder: Path, wheel: Path, constraints: Path, folder: Path) -> Iterator[str]:
    """Install the wheel with `uv tool` and with pipx, and call the command; yield a line for each."""
    shared = _environment(folder) | {"PATH": f"{builder.parent}:/usr/bin:/bin"}
    for name, words, variables in (
        (
            "uv tool",
            [
                builder.parent / "uv",
                "tool",
                "install",
                "--python",
                builder,
                "--constraints",
                constraints,
                wheel,
            ],
            {"UV_TOOL_DIR": "uv/tools", "UV_TOOL_BIN_DIR": "uv/bin", "UV_CACHE_DIR": "uv/cache"},
        ),
        (
            "pipx",
            [builder, "-m", "pipx", "install", "--python", builder, "--pip-args", f"-c {constraints}", wheel],
            {"PIPX_HOME": "pipx/home", "PIPX_BIN_DIR": "pipx/bin", "PIPX_DEFAULT_BACKEND": "pip"},
        ),
    ):
        places = {key: str(folder / value) if "/" in value else value for key, value in variables.items()}
        command(words, folder, shared | places)
        program = folder / name.split()[0] / "bin" / "securefl"
        shown = command([program, "--version"], folder, shared).strip()
        yield f"{name} install: {shown}"


def _expect(path: Path, text: str) -> None:
    if not path.is_file() or text not in path.read_text(encoding="utf-8"):
        raise ConfigError(path.name, f"is missing or lacks {text}", f"look in {path.parent}")


def _environment(folder: Path) -> dict[str, str]:
    """Variables of a user of another machine: a fresh home, no checkout on the path."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    dropped = ("PYTHON", "SECUREFL", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    return kept | {"HOME": str(home), "PYTHONNOUSERSITE": "1"}
