"""``securefl init``: a new project in a folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, Generic, NamedTuple, TypeVar

import typer

from securefl.base.errors import ConfigError, UsageError
from securefl.base.ids import PartyId
from securefl.cli import console, options
from securefl.cli.site import write_first
from securefl.lab import new_folder, project
from securefl.scenario import own_parts_from

ValueT = TypeVar("ValueT")
_SERVER: Final = "Server: curious (follows the protocol) or active (may lie)"
_TRIES: Final = 3
"""Answers to one question; the last wrong one ends the command."""
_PRIVACY: Final = "Differential privacy of each site (epsilon, or none)"


class _Question(NamedTuple, Generic[ValueT]):
    given: ValueT | None
    """Value of the option, if it is given."""
    text: str
    default: ValueT
    parse: Callable[[str], ValueT]
    fields: Callable[[ValueT], dict[str, Any]]
    """Fields of the project that follow from a value."""

    def ask(self, chosen: project.Project) -> project.Project:
        """Return the project with an answer, asked for on a terminal; elsewhere with the default.

        After a wrong answer the question is asked again.

        Raises:
            ConfigError: the last of the answers is refused.
        """
        if not sys.stdin.isatty():
            return replace(chosen, **self.fields(self.default))
        for tries in range(_TRIES, 0, -1):
            answer: ValueT = typer.prompt(self.text, default=self.default, type=self.parse)
            try:
                return replace(chosen, **self.fields(answer))
            except ConfigError as error:
                if tries == 1:
                    raise
                console.say(f"{error.reason} ({error.remedy})")
        raise UsageError("cannot ask a question without tries")


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
    if site_python is not None and not site_python.is_file():
        raise ConfigError(
            "--site-python", f"{site_python} is not a file", "name the bin/python of an environment"
        )
    chosen = _choices(folder, kind, sites, server, epsilon, apart=site_python is not None)
    for file in project.write_project(folder, chosen):
        console.say(f"written: {file}")
    if chosen.first and (not chosen.library or site_python is not None):
        _write_weights(folder, chosen.first, site_python)
    console.say(f"next: cd {folder} && {_first_command(chosen, site_python)}")


def _choices(
    folder: Path, kind: str | None, sites: int | None, server: str | None, epsilon: str | None, *, apart: bool
) -> project.Project:
    """Return the choices: name and options first, then an answer to each question, checked before the next.

    Raises:
        ConfigError: the folder or a choice is refused.
    """
    if folder == Path() and any(Path().iterdir()):
        reason = "is empty or the current folder, which has files"
        raise ConfigError("FOLDER", reason, "name a new folder")
    chosen = project.Project(name=folder.absolute().name, kind="torch")
    new_folder.check_new(folder, "FOLDER")
    questions: tuple[_Question[Any], ...] = (
        _Question(kind, f"What trains ({_kinds()})", "torch", str, lambda one: {"kind": one}),
        _Question(sites, "How many sites", 5, int, lambda one: {"sites": one}),
        _Question(server, _SERVER, "curious", str, lambda one: {"active": _is_active(one)}),
        _Question(epsilon, _PRIVACY, "none", str, lambda one: {"epsilon": _epsilon(one)}),
    )
    for one in questions:
        if one.given is not None:
            chosen = replace(chosen, **one.fields(one.given))
    if apart and kind == "tables":
        _refuse_python()
    for one in questions:
        if one.given is None:
            chosen = one.ask(chosen)
    if apart and chosen.kind == "tables":
        _refuse_python()
    return chosen


def _refuse_python() -> None:
    raise ConfigError(
        "--site-python",
        "is for code of sites, and --kind tables has none",
        "leave it out, or choose another kind",
    )


def _kinds() -> str:
    return "; ".join(f"{kind}: {what}" for kind, what in project.KINDS.items())


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
