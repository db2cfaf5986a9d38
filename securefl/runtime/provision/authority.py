"""Folder of the operator: authority, signing key, project and history; all that the operator decides.

Every decision is one durable write of the history. Answers follow from it and are written anew each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from securefl.base import crypto, files
from securefl.base.errors import ConfigError, DecisionError, RunAbortedError
from securefl.base.ids import PartyId
from securefl.methods import feasibility
from securefl.runtime import account
from securefl.runtime.provision import answer, certificates, history, inputs, signed
from securefl.runtime.provision.inputs import PROJECT
from securefl.runtime.provision.operator_folder import (
    AUTHORITY_KEY,
    HISTORY,
    OPERATOR_KEY,
    OWN_FILES,
    RESTORE,
    check_new,
    history_of,
    lock,
    write_history,
    write_project,
)
from securefl.runtime.provision.operator_head import OperatorHead
from securefl.runtime.provision.project import BROKER, read_project
from securefl.runtime.provision.request import KeyRequest
from securefl.runtime.transport import OPERATOR
from securefl.scenario import Scenario

ANSWERS: Final = "answers"


@dataclass
class SigningOutcome:
    """Result of a command of the operator."""

    answers: list[Path] = field(default_factory=list)
    """Answers that were written."""
    awaited: dict[str, str] = field(default_factory=dict)
    """Host by name of the machines whose requests are missing."""
    problem: str = ""
    """Error of the scenario for these parties, which keeps answers of parties and server back; else empty."""


class Authority:
    """Open folder of an operator, locked against other commands. Made by :meth:`open`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = read_project(folder / PROJECT)
        self.operator = crypto.read_identity(folder / OPERATOR_KEY)
        self._head = OperatorHead(self.operator.public)
        self._key = certificates.read_key(folder / AUTHORITY_KEY)
        self.history = history_of(folder / HISTORY)
        if self.history.operator != self.operator.public:
            raise ConfigError(str(folder / HISTORY), "was signed by another operator's key", RESTORE)
        if self.history.project != self.project.name:
            raise ConfigError(
                f"{folder / PROJECT}: name",
                f"is {self.project.name!r}, and the project began as {self.history.project!r}",
                "keep the name, or begin a new project",
            )
        assert self.history.authority is not None  # noqa: S101 - of a verified history
        self._certificate = self.history.authority.text
        if certificates.point_of(self.history.authority.key) != certificates.point_of(self._key.public_key()):
            raise ConfigError(
                str(folder / AUTHORITY_KEY), "is not the key of the history's authority", RESTORE
            )

    @staticmethod
    def begin(project_file: Path, folder: Path, now: datetime) -> crypto.PublicIdentity:
        """Make authority, signing key and history of a project, with copies of its files.

        Returns:
            Public keys of the operator.

        Raises:
            ConfigError: the project or a file of it is invalid, the folder has an authority already, or the
                state folder is unusable.
            RunAbortedError: the state folder cannot be written.
        """
        account.check_state_folder()
        project = read_project(project_file)
        beside = project_file.parent
        copies = {PROJECT: project_file, project.scenario: beside / project.scenario}
        scenario = inputs.project_scenario(project, beside, source=project_file.name)
        if weights := scenario.model.first_file:
            copies[weights] = inputs.weights_file(beside, weights)
        contents = {name: inputs.read_bytes(path) for name, path in copies.items()}
        if weights:
            inputs.check_weights(scenario, copies[weights], contents[weights])
        check_new(folder)
        for name, content in contents.items():
            there = files.read_if_there(folder / name) if folder.exists() else None
            if there is not None and there != content:
                raise ConfigError(
                    str(folder / name), "exists already, with another content", "choose another --out"
                )
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                str(folder), f"cannot be made: {error.strerror}", "choose another --out"
            ) from error
        with lock(folder):
            check_new(folder)
            made = [folder / name for name in contents if not (folder / name).exists()]
            made += [folder / name for name in OWN_FILES]
            try:
                return write_project(folder, project.name, contents, now)
            except BaseException:
                for path in made:
                    path.unlink(missing_ok=True)
                raise

    @staticmethod
    @contextmanager
    def open(folder: Path) -> Iterator[Authority]:
        """Open an operator's folder for one command.

        Raises:
            ConfigError: it has no authority, a file of it is invalid, or another command has it open.
            DecisionError: its history is older than the one that this machine signed last, or of another
                machine.
        """
        with Authority._open_unchecked(folder) as found:
            found._head.check(found.history, str(folder / HISTORY))
            yield found

    @staticmethod
    def restore(folder: Path, file: Path, newest: history.History) -> Authority:
        """Continue with the longer one of a folder's history and ``newest``, which a site has accepted.

        Args:
            folder: operator's folder, restored from a backup.
            file: of the site's history, for errors.
            newest: verified.

        Raises:
            ConfigError: the history is of another operator, or the folder is invalid.
            DecisionError: the histories differ, or this machine has signed a longer one.
            RunAbortedError: the state folder cannot be written.
        """
        with Authority._open_unchecked(folder) as found:
            own = found.history
            if (newest.operator, newest.project) != (own.operator, own.project):
                raise ConfigError(
                    str(file), "is of another operator or project", "name the history of a site of this one"
                )
            differing = (
                at for at, pair in enumerate(zip(own.lines, newest.lines, strict=False)) if pair[0] != pair[1]
            )
            if (at := next(differing, None)) is not None:
                raise DecisionError(
                    str(file),
                    f"differs from {folder / HISTORY} from entry {at} on",
                    "restore an older copy of the folder, from before that entry",
                )
            longest = max(own, newest, key=lambda one: len(one.lines))
            found._head.check_restored(longest, str(file))
            found.history = longest
            write_history(folder / HISTORY, longest)
            found._head.write(longest)
            return found

    @staticmethod
    @contextmanager
    def _open_unchecked(folder: Path) -> Iterator[Authority]:
        if not (folder / HISTORY).exists():
            raise ConfigError(
                str(folder), "is not the folder of an operator", "name one of securefl provision begin"
            )
        with lock(folder):
            found = Authority(folder)
            with found._head.lock():
                yield found

    @property
    def has_settings_of_history(self) -> bool:
        """True if project, scenario and first weights are those of the history's last settings.

        Raises:
            ConfigError: a file of the folder is invalid.
        """
        scenario, weights = self._read_inputs()
        return self._settings(scenario, weights).digest() == self.history.settings

    def sign(self, requests: Sequence[KeyRequest], now: datetime) -> SigningOutcome:
        """Admit machines by their requests, all or none, and write all answers anew.

        A request whose keys are those of the history already changes nothing.

        Raises:
            ConfigError: a name is not in the project, keys do not fit the history, or two requests are of one
                machine. Nothing is written.
        """
        allowed = self.project.names
        names = [one.name for one in requests]
        for one in requests:
            if one.name not in allowed:
                raise ConfigError(
                    one.source,
                    f"is of {one.name}, which the project does not have",
                    f"add it to {self.folder / PROJECT}, or use one of {', '.join(sorted(allowed))}",
                )
            if names.count(one.name) > 1:
                raise ConfigError(one.source, f"is one of several requests of {one.name}", "keep the newest")
        for one in requests:
            self._admit(one, now)
        return self._finish(now)

    def renew(self, names: Sequence[str], now: datetime) -> SigningOutcome:
        """Issue new certificates for the same keys.

        Raises:
            ConfigError: a name is not a member's, or is given twice.
        """
        for name in names:
            if names.count(name) > 1:
                raise ConfigError("NAME", f"{name[:40]!r} is given twice", "name each machine once")
            member = self._member(name)
            self._append(
                history.CertificateRenewed(
                    name=name, certificate=self._issue(member.name, member.certificate.key, now)
                ),
                now,
            )
        return self._finish(now)

    def remove(self, name: str, now: datetime) -> SigningOutcome:
        """Remove a machine from the roster, and revoke its certificates.

        Raises:
            ConfigError: the name is not a member's.
        """
        self._member(name)
        self._append(history.MemberRemoved(name=name), now)
        return self._finish(now)

    def revoke(self, name: str, reason: str, now: datetime) -> SigningOutcome:
        """Revoke the keys and certificates of a machine, until it has new ones.

        Raises:
            ConfigError: the name is not a member's, or the reason is not one short line.
        """
        if not reason.isprintable() or not 1 <= len(reason) <= 200:
            raise ConfigError(
                "--reason", "is not a line of 1 to 200 characters", "write the cause in one line"
            )
        self._member(name)
        self._append(history.KeysRevoked(name=name, reason=reason), now)
        return self._finish(now)

    def client_files(self, folder: Path, now: datetime) -> dict[str, Path]:
        """Write a key and a certificate of one day, with which the operator connects to the broker.

        Returns:
            Paths in ``folder`` by their names in :func:`securefl.runtime.transport.parse_brokers`.
        """
        made = {"ca_file": "ca.pem", "cert_file": "operator.pem", "key_file": "operator.tls.key"}
        paths = {field: folder / name for field, name in made.items()}
        key = certificates.new_key()
        certificates.write_key(paths["key_file"], key)
        name, public = PartyId(OPERATOR), key.public_key()
        text = certificates.issue(self._certificate, self._key, name, public, 1, now, ())
        signed.write_file(paths["cert_file"], text.encode())
        signed.write_file(paths["ca_file"], self._certificate.encode())
        return paths

    def _member(self, name: str) -> history.Member:
        try:
            return self.history.present[PartyId(name)]
        except KeyError:
            known = ", ".join(sorted(self.history.present)) or "none"
            found = self.history.members.get(PartyId(name))
            reason = f"was {found.gone} before" if found is not None else "is not a member"
            raise ConfigError("NAME", f"{name[:40]!r} {reason}", f"members: {known}") from None

    def _admit(self, request: KeyRequest, now: datetime) -> None:
        if self.has(request):
            return
        self.history.check_keys(request.name, request.keys, request.source)
        kind = history.MemberRotated if request.body.rotate else history.MemberAdded
        entry = kind(
            name=request.name,
            verify_key=request.body.verify_key,
            seal_key=request.body.seal_key,
            certificate=self._issue(request.name, request.tls_key, now),
            fingerprint=request.fingerprint,
        )
        try:
            self._append(entry, now)
        except ConfigError as error:
            raise ConfigError(request.source, f"{error.path} {error.reason}", error.remedy) from None

    def has(self, request: KeyRequest) -> bool:
        """Return True if the history has exactly these keys for a machine that takes part."""
        member = self.history.present.get(request.name)
        return member is not None and self._holds(member, request)

    def _holds(self, member: history.Member, request: KeyRequest) -> bool:
        point = certificates.point_of
        return member.public == request.public and point(member.certificate.key) == point(request.tls_key)

    def _issue(self, name: PartyId, key: certificates.TlsPublicKey, now: datetime) -> str:
        hosts = (self.project.broker.host,) if name == BROKER else ()
        return certificates.issue(self._certificate, self._key, name, key, self.project.days, now, hosts)

    def _append(self, event: history.AnyEvent, now: datetime) -> None:
        self.history.append(event, self.operator, now)

    def _finish(self, now: datetime) -> SigningOutcome:
        """Write the history, then the answers that follow from it.

        Raises:
            ConfigError: the history cannot be written.
            RunAbortedError: its head or an answer cannot be written.
        """
        scenario, weights = self._read_inputs()
        settings = self._settings(scenario, weights)
        if weights and settings.digest() != self.history.settings:
            # Not if they are unchanged: a revocation does not wait for them.
            inputs.check_weights(scenario, self.folder / settings.weights_name, weights)
        folder = self.folder / ANSWERS
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            remedy = "move it away, or give yourself the right to write there"
            raise ConfigError(str(folder), f"cannot be made: {error.strerror}", remedy) from error
        self._renew_broker(now)
        if settings.digest() != self.history.settings:
            self._append(history.SettingsChanged(digest=settings.digest()), now)
        write_history(self.folder / HISTORY, self.history)
        self._head.write(self.history)
        there = self.history.members
        members = self.project.members
        awaited = {str(name): host for name, host in members.items() if name not in there}
        if BROKER not in there:
            awaited[BROKER] = self.project.broker.host
        outcome = SigningOutcome(awaited=awaited, problem="" if awaited else self._problem())
        held = bool(awaited or outcome.problem)
        for name in there:
            path = folder / f"{name}.answer"
            if name not in self.history.present or (held and name != BROKER):
                # A former answer would still be accepted.
                path.unlink(missing_ok=True)
                continue
            body = answer.AnswerBody(
                name=name,
                history=[line.decode() for line in self.history.lines],
                settings=settings,
                weights=weights if len(weights) <= answer.SMALL and name != BROKER else b"",
                crl=self._crl(now) if name == BROKER else "",
            )
            try:
                answer.write_answer(path, body, self.operator)
            except ConfigError as error:
                remedy = "the history is written; then: securefl provision sign"
                raise RunAbortedError(f"{error.path}: {error.reason} ({remedy})") from error
            outcome.answers.append(path)
        return outcome

    def _renew_broker(self, now: datetime) -> None:
        """Issue a certificate for the broker's new address, if it has one."""
        broker = self.history.present.get(PartyId(BROKER))
        if broker is not None and not broker.certificate.names_host(self.project.broker.host):
            certificate = self._issue(broker.name, broker.certificate.key, now)
            self._append(history.CertificateRenewed(name=BROKER, certificate=certificate), now)

    def _crl(self, now: datetime) -> str:
        return certificates.make_crl(self._certificate, self._key, self.history.revoked, now)

    def _problem(self) -> str:
        """Return the reason why the scenario cannot run with these parties; empty if it can."""
        try:
            parties = len(self.history.roster().parties)
            feasibility.check(inputs.project_scenario(self.project, self.folder, parties))
        except ConfigError as error:
            return str(error)
        return ""

    def _read_inputs(self) -> tuple[Scenario, bytes]:
        """Return scenario and first weights, which may be large and are read once."""
        scenario = inputs.project_scenario(self.project, self.folder)
        if name := scenario.model.first_file:
            return scenario, inputs.read_bytes(inputs.weights_file(self.folder, name))
        return scenario, b""

    def _settings(self, scenario: Scenario, weights: bytes) -> answer.ProjectSettings:
        project = self.project
        return answer.ProjectSettings(
            project=project.name,
            broker_host=project.broker.host,
            broker_port=project.broker.port,
            scenario_name=project.scenario,
            scenario=inputs.read_text(self.folder / project.scenario),
            site=project.site,
            data=project.data,
            server_data=project.server.data,
            weights_name=scenario.model.first_file,
            weights_digest=signed.sha256(weights) if scenario.model.first_file else "",
            prefix=project.prefix,
            hosts={str(name): host for name, host in project.members.items()},
        )
