"""Kit of one machine: ``kit.toml`` with the files beside it, and their checks before every start."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from securefl.base import crypto, files
from securefl.base.errors import ConfigError, SecureflError
from securefl.base.ids import DEALER, SERVER, PartyId
from securefl.methods import privacy
from securefl.runtime import account
from securefl.runtime.provision import certificates, signed
from securefl.runtime.provision.behaviours import check_kit_scenario
from securefl.runtime.provision.certificates import TlsCertificate
from securefl.runtime.provision.history import History, read_history
from securefl.runtime.provision.project import BROKER, WITHOUT_IDENTITY
from securefl.runtime.provision.request import key_folders
from securefl.runtime.transport import OBSERVER
from securefl.scenario import FileTable, NonNegative, load_scenario, read_table, write_value

KIT: Final = "kit.toml"
RUNS: Final = "runs"
Role = Literal["party", "server", "dealer", "observer", "broker"]
_AGAIN: Final = "accept the operator's answer again: securefl provision accept"
_SOON_DAYS: Final = 30


class KitTable(FileTable, frozen=True, kw_only=True):
    """Owner of a kit, and the history that it has accepted."""

    format: Literal[1] = 1
    project: str
    name: str
    operator: str
    """Fingerprint of the operator."""
    entries: Annotated[int, Meta(ge=1)]
    """Number of entries of the history."""
    head: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    """SHA-256 of the history's last line."""


class KitFiles(FileTable, frozen=True, kw_only=True):
    """Files of a kit, from its folder."""

    tls_key: str
    certificate: str
    authority: str
    history: str
    key: str = ""
    """Private key of the roster; empty for a broker, as are the fields below."""
    roster: str = ""
    scenario: str = ""
    weights: str = ""


class KitRun(FileTable, frozen=True, kw_only=True):
    """Defaults of runs."""

    broker: str = ""
    """URL of the broker."""
    site: str = ""
    data: str = ""
    parties: NonNegative = 0
    """Number of parties of the roster, which overrides that of the scenario; 0 for a broker."""


class KitFile(FileTable, frozen=True, kw_only=True):
    """Content of ``kit.toml``."""

    kit: KitTable
    files: KitFiles
    run: KitRun = KitRun()
    digests: dict[str, str]
    """SHA-256 by name of each file that the answer brought."""


@dataclass(frozen=True)
class MachineKit:
    """A kit as read; :meth:`check` verifies it."""

    path: Path
    content: KitFile

    @property
    def folder(self) -> Path:
        """Folder of the kit."""
        return self.path.parent

    @property
    def name(self) -> PartyId:
        """Name of the machine."""
        return PartyId(self.content.kit.name)

    @property
    def role(self) -> Role:
        """Role of the machine, for a party and the server the name of its command."""
        return role_of(self.name)

    def file(self, field: str) -> Path:
        """Return the path of a file by its field."""
        return self.folder / str(getattr(self.content.files, field))

    def check(self, now: datetime) -> None:
        """Verify all files of the kit against each other.

        Raises:
            ConfigError: a file is missing or changed, other users can read a key, the history is broken or
                has other keys, or a certificate is not valid at ``now``.
        """
        for _, checks in self._checks(now):
            checks()

    def findings(self, now: datetime) -> Iterator[tuple[str, str, str]]:
        """Yield subject, result and state ("ok", "missing" or "note") of each check."""
        for subject, checks in self._checks(now):
            try:
                yield subject, checks(), "ok"
            except SecureflError as error:
                yield subject, str(error), "missing"
        try:
            left = TlsCertificate(_text(self.file("certificate")), "certificate").ends - now
        except ConfigError:
            return
        if 0 <= left.days < _SOON_DAYS:
            yield "renewal", f"the certificate ends in {left.days} days: ask the operator to renew it", "note"

    def history(self) -> History:
        """Read and verify the history.

        Raises:
            ConfigError: it is broken, or not the one that was accepted.
        """
        path = self.file("history")
        with files.reading(path, _AGAIN):
            lines = path.read_bytes().splitlines()
        found, kit = read_history(lines, str(path)), self.content.kit
        if (len(found.lines), found.head, found.project) != (kit.entries, kit.head, kit.project):
            raise ConfigError(str(path), f"is not the history that {self.path.name} names", _AGAIN)
        if found.operator is None or found.operator.fingerprint() != kit.operator:
            raise ConfigError(f"{self.path}: kit.operator", "is not the operator of the history", _AGAIN)
        return found

    def of_run(self, files: KitFiles, run: KitRun) -> MachineKit:
        """Return this kit with other files and defaults for one run, to be used for :meth:`words` only."""
        return replace(self, content=msgspec.structs.replace(self.content, files=files, run=run))

    def words(self, run: str | None, *, own_budget: bool = False) -> list[str]:
        """Return the arguments of ``securefl party``, ``server``, ``dealer`` or ``observer`` with this kit.

        Args:
            run: id of the run; None if it is missing, which the command reports.
            own_budget: True if the party limits its budget itself.

        Raises:
            ConfigError: the account of a former key cannot be read.
        """
        given, folder = self.content, self.folder
        options: dict[str, Path | str] = {
            "--roster": self.file("roster"),
            "--broker": given.run.broker,
            "--tls-ca": self.file("authority"),
            "--tls-cert": self.file("certificate"),
            "--tls-key": self.file("tls_key"),
        }
        if self.name not in WITHOUT_IDENTITY:
            options["--key"] = self.file("key")
        if run is not None:
            options["--out"] = folder / RUNS / run
        if self.role == "party":
            options["--name"] = self.name
            if given.run.site:
                options["--site"] = given.run.site
        if given.run.data:
            options["--data"] = folder / given.run.data
        spent = self._spent_before(own_budget=own_budget) if self.role == "party" else 0.0
        if spent:
            options["--spent"] = repr(spent)
        words = [f"{name}={value}" for name, value in options.items()]
        if self.name in WITHOUT_IDENTITY:
            return words
        return [str(self.file("scenario")), *words, "--set", f"parties={given.run.parties}"]

    def _spent_before(self, *, own_budget: bool) -> float:
        """Return the epsilon that was spent with former keys on the same data, if a budget counts it."""
        former = [one / f"{self.name}.key" for one in key_folders(self.folder)]
        former = [one for one in former if one != self.file("key") and one.exists()]
        if not former:
            return 0.0
        scenario = load_scenario(self.file("scenario"))
        if scenario.privacy.unit == "none" or (not own_budget and scenario.privacy.budget is None):
            return 0.0
        return math.fsum(_spent(key, scenario.privacy.unit) for key in former)

    def spent_in_others(self, unit: privacy.Unit, run: str) -> float:
        """Return the epsilon that all keys of a party have spent in other runs than ``run``.

        Raises:
            AccountInUseError: a party of this key runs.
            ConfigError: an account cannot be read.
        """
        keys = [one / f"{self.name}.key" for one in key_folders(self.folder)]
        return math.fsum(_spent(key, unit, run) for key in keys if key.exists())

    def _checks(self, now: datetime) -> list[tuple[str, Callable[[], str]]]:
        """Return the checks by subject; each raises ``ConfigError`` or returns its result."""
        checks = [
            ("kit files", self._check_files),
            ("kit keys", self._check_private),
            ("history", self._check_history),
            ("membership", self._check_membership),
            ("certificate", lambda: self._check_certificates(now)),
        ]
        if self.role != "broker":
            checks.append(("roster", self._check_roster))
        if self.content.files.scenario:
            checks.append(("scenario", self._check_scenario))
        return checks

    def _check_files(self) -> str:
        for name, digest in self.content.digests.items():
            path = self.folder / name
            with files.reading(path, _AGAIN):
                found = signed.sha256(path.read_bytes())
            if found != digest:
                raise ConfigError(str(path), f"is not the file that {self.path.name} names", _AGAIN)
        return f"{len(self.content.digests)} files as accepted"

    def _check_private(self) -> str:
        certificates.read_key(self.file("tls_key"))
        if self.name not in WITHOUT_IDENTITY:
            crypto.read_identity(self.file("key"))
        mode = self.folder.stat().st_mode & 0o077
        if mode & 0o022:
            raise ConfigError(str(self.folder), "can be changed by other users", f"chmod go-w {self.folder}")
        return "private keys are readable by their owner only"

    def _check_history(self) -> str:
        found = self.history()
        return f"{len(found.lines)} entries, head {found.head[:16]}, operator {self.content.kit.operator}"

    def _check_scenario(self) -> str:
        path = self.file("scenario")
        with files.reading(path, _AGAIN):
            check_kit_scenario(path.read_text(encoding="utf-8"), self.content.files.weights, str(path))
        return "no attacks and faults, no other files"

    def _check_membership(self) -> str:
        member = self.history().members.get(self.name)
        if member is None or member.gone:
            how = "is not in" if member is None else f"was {member.gone} by"
            raise ConfigError(str(self.name), f"{how} the history", "ask the operator")
        own = None if self.name in WITHOUT_IDENTITY else crypto.read_identity(self.file("key")).public
        point = certificates.point_of
        tls = certificates.read_key(self.file("tls_key")).public_key()
        if member.public != own or point(tls) != point(member.certificate.key):
            raise ConfigError(str(self.name), "has other keys in the history than in this kit", _AGAIN)
        return f"{self.name} with this kit's keys, fingerprint {member.fingerprint}"

    def _check_roster(self) -> str:
        roster = crypto.read_roster(self.file("roster"))
        if roster != self.history().roster():
            raise ConfigError(str(self.file("roster")), "is not the roster of the history", _AGAIN)
        return f"{len(roster.parties)} parties, digest {roster.digest().hex()[:16]}"

    def _check_certificates(self, now: datetime) -> str:
        authority = TlsCertificate(_text(self.file("authority")), str(self.file("authority")))
        own = TlsCertificate(_text(self.file("certificate")), str(self.file("certificate")))
        known, member = self.history(), self.history().members.get(self.name)
        if known.authority is None or known.authority.fingerprint != authority.fingerprint:
            raise ConfigError(str(self.file("authority")), "is not the authority of the history", _AGAIN)
        if member is None or member.certificate.fingerprint != own.fingerprint:
            raise ConfigError(str(self.file("certificate")), "is not the newest of the history", _AGAIN)
        own.check_issued(authority, self.name)
        authority.check_dates(now)
        own.check_dates(now)
        return f"valid until {own.ends:%Y-%m-%d}"


def role_of(name: str) -> Role:
    """Return the role of a machine by its name."""
    roles: dict[str, Role] = {SERVER: "server", DEALER: "dealer", OBSERVER: "observer", BROKER: "broker"}
    return roles.get(name, "party")


def read_kit(path: Path) -> MachineKit:
    """Read a kit without its files.

    Raises:
        ConfigError: it cannot be read, or a field is unknown, missing or invalid.
    """
    content = read_table(path, KitFile, "name the kit.toml of securefl provision accept")
    named = [getattr(content.files, field) for field in content.files.__struct_fields__]
    for name in (*named, *content.digests):
        if Path(name).is_absolute() or ".." in Path(name).parts or "\0" in name:
            raise ConfigError(f"{path}: files", f"{name[:60]!r} is outside of the kit's folder", _AGAIN)
    needed = ["tls_key", "certificate", "authority", "history"]
    if content.kit.name != BROKER:
        needed.append("roster")
    if content.kit.name not in WITHOUT_IDENTITY:
        needed += ["key", "scenario"]
    for field in needed:
        if not getattr(content.files, field):
            raise ConfigError(f"{path}: files.{field}", "is empty", _AGAIN)
    return MachineKit(path.absolute(), content)


def kit_text(content: KitFile) -> str:
    """Return ``kit.toml`` as text."""
    lines = ["# Written by securefl provision accept. Each run checks the digests below.\n"]
    for table in ("kit", "files", "run"):
        values = getattr(content, table)
        lines.append(f"[{table}]")
        fields = {field: getattr(values, field) for field in values.__struct_fields__}
        lines += [f"{field} = {write_value(value)}" for field, value in fields.items() if value != ""]
        lines.append("")
    lines.append("[digests]")
    lines += [f"{write_value(name)} = {write_value(digest)}" for name, digest in content.digests.items()]
    return "\n".join(lines) + "\n"


def _spent(key: Path, unit: privacy.Unit, but: str = "") -> float:
    owner = crypto.read_identity(key).public
    with account.AccountFile(account.account_beside(key), owner, None) as file:
        return account.spent_epsilon(account.without_run(file.entries, but), unit)


def _text(path: Path) -> str:
    with files.reading(path, _AGAIN):
        return path.read_text(encoding="ascii")
