"""Makers of sites named by ``--site``: a class, a Flower app or an NVFlare script."""

import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from securefl.base.errors import ConfigError
from securefl.methods import attacks
from securefl.scenario import Scenario
from securefl.training.sites import apart, load
from securefl.training.sites.adapters.offer import Given, is_client_app, offer


@dataclass(frozen=True)
class _Federation:
    """Data of a scenario for an app."""

    file: str
    names: tuple[str, ...]

    def site_arguments(self, party: str) -> Given:
        place = self.names.index(party) if party in self.names else None
        return Given(self.file, place, len(self.names))


def maker_of(name: str, scenario: Scenario, python: Path | None, memory: int) -> load.SiteMaker:
    """Return the maker that ``name`` names, for this process or, with ``python``, for one process per site.

    ``name`` is ``module:name`` of a maker of sites or a Flower app, or the path of an NVFlare script and its
    arguments. A process has ``deadlines.submit`` seconds per round, or nine tenths of ``deadlines.training``,
    and ``memory`` MB; 0 for no limit.

    Raises:
        ConfigError: as for :func:`securefl.training.sites.apart.site_apart` and
            :func:`securefl.training.sites.load.site_maker`, or a script is not found.
    """
    known = _Federation(
        str(Path(getattr(scenario.model, "file", "")).resolve()), attacks.party_names(scenario.parties)
    )
    seconds = scenario.training_seconds
    script = _script(name)
    if python is None:
        if memory:
            raise ConfigError("--site-memory", "needs a site in a process of its own", "add --site-python")
        if script:
            remedy = "--site-python names the interpreter of an environment with nvflare"
            raise ConfigError(f"--site {name}", "is a script, which needs a process of its own", remedy)
        made = load.site_maker(name)
        return _offering(name, made, known.site_arguments) if is_client_app(made) else made
    process = apart.SiteProcess(python, memory)
    if script:
        return apart.script_apart(name, script, process, seconds, known.site_arguments)
    return apart.site_apart(name, process, seconds, known.site_arguments)


def first_of(name: str, python: Path | None, local: tuple[str, ...]) -> load.SiteMaker:
    """Return the maker of sites or initial models that ``name`` names, for :command:`securefl site weights`.

    ``name`` may also be ``module:name`` of a torch module or of arrays by name. ``python`` runs it in another
    process. Arrays whose names match ``local`` are not sent.

    Raises:
        ConfigError: as for :func:`maker_of`.
    """
    if _script(name):
        remedy = "name a function or class that makes its model, as in train:Net"
        raise ConfigError(name, "has no parameters, as every script", remedy)
    given = Given(first=True, local=local)
    if python is not None:
        return apart.site_apart(name, apart.SiteProcess(python), apart.START_SECONDS, lambda _party: given)
    return _offering(name, load.import_named(name), lambda _party: given)


def _offering(name: str, found: object, given: Callable[[str], Given]) -> load.SiteMaker:
    """Return the maker for the object that ``name`` names, in this process."""
    module = sys.modules[name.partition(":")[0]]

    def make(party: str) -> Any:
        return offer(found, module, party, given(party))

    make.__module__, _, make.__qualname__ = name.partition(":")
    return make


def _script(name: str) -> str:
    """Return the script in ``name`` with an absolute path, and its arguments; empty for ``module:name``.

    Raises:
        ConfigError: there is no such file here or beside the scenario.
    """
    try:
        path, *arguments = shlex.split(name)
    except ValueError:
        return ""
    if not path.endswith(".py"):
        return ""
    for folder in ("", *sys.path):
        place = Path(folder, path)
        if place.is_file():
            return shlex.join([str(place.resolve()), *arguments])
    raise ConfigError(
        f"--site {name}", f"{path} was found neither here nor beside the scenario", "name an existing script"
    )
