"""Project file: names, addresses and files of a federation, written by its operator."""

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Annotated, ClassVar, Final

from msgspec import Meta

from securefl.base.errors import ConfigError
from securefl.base.ids import DEALER, SERVER, PartyId, is_name
from securefl.protocol import messages
from securefl.runtime.transport import OBSERVER, OPERATOR
from securefl.scenario import OWN_NAME, FileTable, Name, read_table

BROKER: Final = "broker"
"""Name of the broker's machine."""
ROLES: Final = (SERVER, BROKER, DEALER)
WITHOUT_IDENTITY: Final = (BROKER, OBSERVER)
"""Names of machines with a TLS key only, which are not in the roster."""
"""Names of machines that are not sites."""
Days = Annotated[int, Meta(ge=1, le=3_650)]
Port = Annotated[int, Meta(ge=1, le=65_535)]
HOST: Final = re.compile(r"(?=.{1,253}$)[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[?[0-9A-Fa-f:]+\]?")
DATA_NAME: Final = re.compile(r"[A-Za-z0-9_][\w.-]*")
SCENARIO_NAME: Final = re.compile(r"(?!(?i:kit|roster|policy)\.toml$)[A-Za-z0-9_][\w.-]{,60}\.toml")
WEIGHTS_NAME: Final = re.compile(r"[A-Za-z0-9_][\w.-]{,60}\.safetensors")
"""Names of files that an operator writes into kits, from which Python imports and systemd takes units.

A disk may not tell ``Policy.toml`` from ``policy.toml``, and refuses names of more than 255 bytes.
"""
PREFIX: Final = re.compile(r"/[\w./-]{1,200}")


def broker_url(host: str, port: int) -> str:
    """Return the URL of a broker with TLS; an IPv6 address gets its brackets."""
    return f"mqtts://[{host.strip('[]')}]:{port}" if ":" in host else f"mqtts://{host}:{port}"


class BrokerTable(FileTable, frozen=True, kw_only=True):
    """Address of the broker."""

    remedies: ClassVar[Mapping[str, str]] = {
        "host": "write a host name or an IP address",
        "port": "write a port from 1 to 65535, such as 8883",
    }
    host: str
    """Host name or IP address under which all machines reach the broker."""
    port: Port = 8883

    @property
    def url(self) -> str:
        """Address of the broker as a URL."""
        return broker_url(self.host, self.port)


class ServerTable(FileTable, frozen=True, kw_only=True):
    """The server's machine."""

    host: str = ""
    """Host name, for people and for the container; may be empty."""
    data: str = ""
    """Name of the file with test samples in the server's folder; empty with sites."""


class DealerTable(FileTable, frozen=True, kw_only=True):
    """Machine of the dealer of validated sums."""

    host: str = ""
    """Host name, as of the server."""


class SiteTable(FileTable, frozen=True, kw_only=True):
    """One site, a party of the federation."""

    remedies: ClassVar[Mapping[str, str]] = {
        "name": 'write the name of a site, such as name = "p00"',
        "host": "write a host name or an IP address",
    }
    name: Name
    host: str = ""
    """Host name, as of the server."""


class ProjectFile(FileTable, frozen=True, kw_only=True):
    """Content of ``project.toml``."""

    remedies: ClassVar[Mapping[str, str]] = {
        "name": 'write a name for the federation, such as name = "trial"',
        "scenario": 'write the name of a scenario file beside this one, such as scenario = "federation.toml"',
        "days": "write a number of days from 1 to 3650",
        "broker": 'write a table [broker] with host = "..."',
        "sites": 'write a table [[sites]] with name = "..." for each site',
    }
    name: Name
    scenario: str
    """Name of the scenario file, beside this file."""
    site: str = ""
    """Training of all sites as ``module:name``; each site has its own module in the folder of its kit."""
    data: str = ""
    """In place of ``site``: name of the file with a site's samples in its folder."""
    days: Days = 365
    """Validity of certificates in days."""
    prefix: str = "/srv/securefl"
    """Folder in which securefl is installed on each machine, as ``.venv``."""
    broker: BrokerTable
    server: ServerTable = ServerTable()
    dealer: DealerTable | None = None
    observer: bool = False
    """True if an observer may connect to the broker; its request may come at any time."""
    sites: Annotated[tuple[SiteTable, ...], Meta(min_length=1, max_length=messages.MAX_PARTIES)]
    """One table ``[[sites]]`` for each site."""

    @property
    def members(self) -> dict[PartyId, str]:
        """Host by name of all machines with a key of the roster, the server first."""
        found = {SERVER: self.server.host}
        if self.dealer is not None:
            found[DEALER] = self.dealer.host
        return found | {PartyId(one.name): one.host for one in self.sites}

    @property
    def names(self) -> frozenset[str]:
        """Names that may make requests."""
        return frozenset((*self.members, BROKER, *((OBSERVER,) if self.observer else ())))


def is_machine(name: str) -> bool:
    """Return True if a machine may have this name."""
    return (is_name(name) or name in {SERVER, OBSERVER}) and name != OPERATOR


def read_project(path: Path) -> ProjectFile:
    """Read and check a project file.

    Raises:
        ConfigError: the file cannot be read, or a field is unknown, missing or invalid.
    """
    project = read_table(path, ProjectFile, "name a project file as in docs/provision.md")
    for field, value, allowed, form in _texts(project):
        if not allowed.fullmatch(value) or ".." in value:
            raise ConfigError(f"{path}: {field}", f"{value[:60]!r} is not valid", f"write {form}")
    if project.site and project.data:
        raise ConfigError(f"{path}: data", "is for built-in training, and site is given", "keep one of both")
    if project.site and project.server.data:
        raise ConfigError(
            f"{path}: server.data", "is for built-in training, and site is given", "leave it out"
        )
    seen = set[str]()
    for number, one in enumerate(project.sites):
        if not is_name(one.name) or one.name in {*ROLES, OPERATOR}:
            raise ConfigError(
                f"{path}: sites.{number}.name", f"{one.name!r} is a reserved name", "choose another one"
            )
        if one.name in seen:
            raise ConfigError(
                f"{path}: sites.{number}.name", f"{one.name!r} occurs twice", "give each site its own name"
            )
        seen.add(one.name)
    return project


def _texts(project: ProjectFile) -> list[tuple[str, str, re.Pattern[str], str]]:
    """Return field, text, pattern and form of the texts of a project, without empty optional ones."""
    host, file = "a host name or an IP address", "the name of a file beside this one, without folders"
    required = [
        ("scenario", project.scenario, SCENARIO_NAME, f"{file}, and with the ending .toml"),
        ("prefix", project.prefix, PREFIX, "an absolute folder of A-Z a-z 0-9 . _ / -"),
        ("broker.host", project.broker.host, HOST, host),
    ]
    hosts = {"server.host": project.server.host}
    if project.dealer is not None:
        hosts["dealer.host"] = project.dealer.host
    hosts |= {f"sites.{number}.host": one.host for number, one in enumerate(project.sites)}
    optional = [
        ("site", project.site, OWN_NAME, "module:name; kits start no script (docs/adapters.md, Limits)"),
        ("data", project.data, DATA_NAME, "the name of a file in the site's folder"),
        ("server.data", project.server.data, DATA_NAME, "the name of a file in the server's folder"),
        *((field, value, HOST, host) for field, value in hosts.items()),
    ]
    return [*required, *(one for one in optional if one[1])]


def plain_file(name: str) -> bool:
    """Return True if ``name`` is the name of a file without folders, safe in every file of a kit."""
    return DATA_NAME.fullmatch(name) is not None and ".." not in name and PurePosixPath(name).name == name
