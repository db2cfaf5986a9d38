"""``securefl init``: a new project in a folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from securefl.base.errors import ConfigError
from securefl.base.ids import PartyId
from securefl.cli import console, options
from securefl.cli.site import write_first
from securefl.lab import project
from securefl.scenario import own_parts_from

ValueT = TypeVar("ValueT")


def init(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="New folder; its name is the project's.")],
    *,
    kind: Annotated[
        str | None, typer.Option(metavar="KIND", help="What trains: torch, tables, flower or nvflare.")
    ] = None,
    sites: Annotated[int | None, typer.Option(help="Number of sites.")] = None,
    server: Annotated[
        str | None,
        typer.Option(
            metavar="TRUST", help="curious: it follows the protocol; or active: sites verify its steps."
        ),
    ] = None,
    epsilon: Annotated[
        str | None,
        typer.Option(metavar="NUMBER", help="Differential privacy of each site, as in 8; or none."),
    ] = None,
    site_python: options.SitePythonOption = None,
) -> None:
    """Make a project that runs at once: scenario, training code, test and README.

    Choices without an option are asked for on a terminal; elsewhere they are torch, 5 sites, a curious
    server and no differential privacy. Public data stand in for yours.

    Exit codes: 0 done; 2 refused; 3 a file cannot be written.
    """
    chosen = project.Project(
        name=folder.absolute().name,
        kind=_choose(kind, f"What trains ({_kinds()})", "torch", str),
        sites=_choose(sites, "How many sites", 5, int),
        active=_is_active(
            _choose(server, "Server: curious (follows the protocol) or active (may lie)", "curious", str)
        ),
        epsilon=_epsilon(
            _choose(epsilon, "Differential privacy of each site (epsilon, or none)", "none", str)
        ),
    )
    if site_python is not None and not site_python.is_file():
        raise ConfigError(
            "--site-python", f"{site_python} is not a file", "name the bin/python of an environment"
        )
    for file in project.write_project(folder, chosen):
        console.say(f"written: {file}")
    if chosen.first and (not chosen.library or site_python is not None):
        _write_weights(folder, chosen.first, site_python)
    console.say(f"next: cd {folder} && {_first_command(chosen, site_python)}")


def _kinds() -> str:
    return "; ".join(f"{kind}: {what}" for kind, what in project.KINDS.items())


def _choose(given: ValueT | None, question: str, default: ValueT, parse: Callable[[str], ValueT]) -> ValueT:
    if given is not None:
        return given
    if not sys.stdin.isatty():
        return default
    answer: ValueT = typer.prompt(question, default=default, type=parse)
    return answer


def _is_active(trust: str) -> bool:
    if trust not in {"curious", "active"}:
        raise ConfigError("--server", f"{trust!r} is unknown", "choose curious or active")
    return trust == "active"


def _epsilon(given: str) -> float | None:
    try:
        return None if given == "none" else float(given)
    except ValueError:
        raise ConfigError(
            "--epsilon", f"{given!r} is not a number", "take a number above 0, or none"
        ) from None


def _write_weights(folder: Path, first: str, site_python: Path | None) -> None:
    """Write the first weights. Code of a site is found in the current folder."""
    before = Path.cwd()
    python = None if site_python is None else site_python.absolute()
    os.chdir(folder)
    try:
        own_parts_from(Path())
        write_first(first, Path("initial.safetensors"), PartyId("p00"), (), python)
    finally:
        os.chdir(before)
    console.say(f"written: {folder / 'initial.safetensors'}")


def _first_command(chosen: project.Project, python: Path | None) -> str:
    if chosen.library and python is None:
        return f"cat README.md (it needs an interpreter with {chosen.library})"
    site = f" --site {chosen.site}" if chosen.site else ""
    apart = f" --site-python {python}" if python is not None else ""
    return f"securefl simulate federation.toml{site}{apart}"
