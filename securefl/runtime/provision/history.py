"""History of a roster: JSON lines, each signed by the operator, each with the hash of the line before.

The state of the federation follows from the history: roster, certificates, revoked certificates, digest of
the settings. A site accepts only a history that continues its own, so that no entry can be taken back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

import msgspec
from msgspec import Struct

from securefl.base import crypto
from securefl.base.errors import ConfigError
from securefl.base.ids import DEALER, SERVER, PartyId
from securefl.runtime.provision import certificates
from securefl.runtime.provision.certificates import Revoked, TlsCertificate
from securefl.runtime.provision.project import WITHOUT_IDENTITY, is_machine
from securefl.runtime.provision.signed import from_hex, sha256
from securefl.runtime.transport import OPERATOR

NOTHING: Final = "0" * 64
"""Hash before the first line."""
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
_KEY: Final = re.compile(r"[0-9a-f]{64}")


class HistoryEvent(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="event"):
    """Base of events."""


class ProjectBegun(HistoryEvent, frozen=True, kw_only=True, tag="begun"):
    """First event: the operator's public keys and the authority."""

    project: str
    verify_key: str
    seal_key: str
    authority: str
    """Certificate of the authority (PEM)."""


class SettingsChanged(HistoryEvent, frozen=True, kw_only=True, tag="settings"):
    """Scenario, broker or another setting changed."""

    digest: str
    """SHA-256 of the settings, 64 hexadecimal digits."""


class KeysEntry(HistoryEvent, frozen=True, kw_only=True):
    """Base of events with the keys of a machine."""

    name: str
    verify_key: str
    """64 hexadecimal digits; empty for the broker, as is ``seal_key``."""
    seal_key: str
    certificate: str
    """PEM."""
    fingerprint: str
    """Fingerprint of the request."""


class MemberAdded(KeysEntry, frozen=True, kw_only=True, tag="added"):
    """A machine joined the project with its keys."""


class MemberRotated(KeysEntry, frozen=True, kw_only=True, tag="rotated"):
    """A machine has new keys; its former certificate is revoked."""


class CertificateRenewed(HistoryEvent, frozen=True, kw_only=True, tag="renewed"):
    """A new certificate for the same key."""

    name: str
    certificate: str


class MemberRemoved(HistoryEvent, frozen=True, kw_only=True, tag="removed"):
    """A machine left the project; its certificate is revoked."""

    name: str


class KeysRevoked(HistoryEvent, frozen=True, kw_only=True, tag="revoked"):
    """The keys of a machine may be known to others; it returns with new keys only."""

    name: str
    reason: str


AnyEvent = (
    ProjectBegun
    | SettingsChanged
    | MemberAdded
    | MemberRotated
    | CertificateRenewed
    | MemberRemoved
    | KeysRevoked
)


class HistoryLine(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line."""

    number: int
    previous: str
    """SHA-256 of the line before, 64 hexadecimal digits."""
    time: str
    entry: AnyEvent
    signature: str = ""
    """Ed25519 signature by the operator over the line with an empty signature, 128 hexadecimal digits."""

    def encode(self) -> bytes:
        """Return the line without its end."""
        return msgspec.json.encode(self)

    @property
    def message(self) -> bytes:
        """Bytes under the signature."""
        unsigned = msgspec.structs.replace(self, signature="")
        return crypto.encode("securefl/1", "provision: history", unsigned.encode())


@dataclass(frozen=True)
class Member:
    """Latest keys of a machine."""

    name: PartyId
    public: crypto.PublicIdentity | None
    """None for the broker."""
    certificates: tuple[TlsCertificate, ...]
    """All that were issued for its keys, the latest last."""
    fingerprint: str
    gone: str = ""
    """``removed`` or ``revoked``; empty for a machine that takes part."""

    @property
    def certificate(self) -> TlsCertificate:
        """Latest certificate."""
        return self.certificates[-1]


@dataclass
class History:
    """Verified history, and the state that follows from it. Made by :meth:`begin` or :func:`read_history`."""

    source: str
    lines: list[bytes] = field(default_factory=list)
    project: str = ""
    operator: crypto.PublicIdentity | None = None
    authority: TlsCertificate | None = None
    members: dict[PartyId, Member] = field(default_factory=dict)
    revoked: list[Revoked] = field(default_factory=list)
    settings: str = ""
    """Digest of the current settings; empty before the first ones."""
    _used: dict[bytes, str] = field(default_factory=dict)
    """Name by public key of all keys that were ever in use."""
    _lost: set[bytes] = field(default_factory=set)
    """Public keys that were rotated or revoked, and never return."""

    @property
    def head(self) -> str:
        """SHA-256 of the last line, 64 hexadecimal digits."""
        return sha256(self.lines[-1]) if self.lines else NOTHING

    @property
    def present(self) -> dict[PartyId, Member]:
        """Machines that take part, by name."""
        return {name: one for name, one in self.members.items() if not one.gone}

    def roster(self) -> crypto.Roster:
        """Return the roster of the machines that take part.

        Raises:
            ConfigError: the server or all sites are missing.
        """
        publics = {name: one.public for name, one in self.present.items() if one.public is not None}
        server, dealer = publics.pop(SERVER, None), publics.pop(DEALER, None)
        if server is None or not publics:
            missing = "the server" if server is None else "any site"
            raise ConfigError(self.source, f"has no keys of {missing}", "sign its request first")
        return crypto.Roster(server, publics, dealer)

    def check_keys(self, name: str, keys: Iterable[bytes], source: str) -> None:
        """Check that keys may be used by a machine.

        Raises:
            ConfigError: another machine has them, or they were rotated or revoked.
        """
        for key in keys:
            if self._used.get(key, name) != name:
                raise ConfigError(
                    source, f"has a key of {self._used[key]}", "make a new request on the machine itself"
                )
            if key in self._lost:
                raise ConfigError(
                    source,
                    f"has a key of {name} that was replaced or revoked",
                    "make new keys on the machine: securefl provision request --rotate",
                )

    def append(self, entry: AnyEvent, operator: crypto.Identity, now: datetime) -> None:
        """Sign an event and apply it.

        Raises:
            ConfigError: the event does not fit the state.
        """
        line = HistoryLine(number=len(self.lines), previous=self.head, time=now.strftime(_TIME), entry=entry)
        signed = msgspec.structs.replace(line, signature=operator.sign(line.message).hex())
        self._apply(entry, now)
        self.lines.append(signed.encode())

    def read_line(self, raw: bytes) -> None:
        """Verify a line and apply it.

        Raises:
            ConfigError: it is damaged, does not continue the chain, or is not signed by the operator.
        """
        where = f"{self.source}: entry {len(self.lines)}"
        try:
            line = msgspec.json.decode(raw, type=HistoryLine)
            now = datetime.strptime(line.time, _TIME).replace(tzinfo=UTC)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
            raise ConfigError(where, "is damaged", _BROKEN) from None
        if line.encode() != raw:
            raise ConfigError(where, "is not written as the operator's program writes it", _BROKEN)
        if (line.number, line.previous) != (len(self.lines), self.head):
            raise ConfigError(where, "does not continue the entry before: the chain is broken", _BROKEN)
        operator = self.operator
        if operator is None and isinstance(line.entry, ProjectBegun):
            operator = _identity(OPERATOR, line.entry.verify_key, line.entry.seal_key, where)
        if operator is None or not operator.verify(line.message, from_hex(line.signature)):
            raise ConfigError(where, "is not signed by the operator", _BROKEN)
        try:
            self._apply(line.entry, now)
        except ConfigError as error:
            raise ConfigError(where, f"{error.path} {error.reason}", _BROKEN) from None
        self.lines.append(raw)

    def _apply(self, entry: AnyEvent, now: datetime) -> None:
        first = not self.lines
        if first != isinstance(entry, ProjectBegun):
            raise ConfigError("event", "begun is the first one, and no other", _BROKEN)
        match entry:
            case ProjectBegun():
                self.project = entry.project
                self.operator = _identity(OPERATOR, entry.verify_key, entry.seal_key, self.source)
                self.authority = TlsCertificate(entry.authority, "authority")
            case SettingsChanged():
                self.settings = entry.digest
            case MemberAdded() | MemberRotated():
                self._bring_keys(entry, now)
            case CertificateRenewed():
                old = self._present(entry.name)
                new = self._certificate(entry.certificate, entry.name)
                if certificates.point_of(new.key) != certificates.point_of(old.certificate.key):
                    raise ConfigError(entry.name, "was renewed with another key", _BROKEN)
                self.members[old.name] = replace(old, certificates=(*old.certificates, new))
            case MemberRemoved():
                self._end(self._present(entry.name), "removed", now)
            case KeysRevoked():
                member = self._present(entry.name)
                self._end(member, "revoked", now, compromised=True)
                self._lost.update(_keys(member))

    def _bring_keys(self, entry: MemberAdded | MemberRotated, now: datetime) -> None:
        if not is_machine(entry.name):
            raise ConfigError(entry.name[:40], "is not a name", _BROKEN)
        name, old = PartyId(entry.name), self.members.get(PartyId(entry.name))
        rotated = isinstance(entry, MemberRotated)
        if rotated and old is None:
            raise ConfigError(name, "has no keys that could be replaced", "make a request without --rotate")
        if not rotated and old is not None and old.gone != "removed":
            reason = "was revoked" if old.gone else "has other keys already"
            raise ConfigError(name, reason, "for new keys make the request on its machine with --rotate")
        public = None
        if name not in WITHOUT_IDENTITY:
            public = _identity(name, entry.verify_key, entry.seal_key, self.source)
        new = Member(name, public, (self._certificate(entry.certificate, name),), entry.fingerprint)
        if entry.fingerprint != certificates.fingerprint_of(name, new.certificate.key, public):
            raise ConfigError(name, "has a fingerprint that is not of its keys", _BROKEN)
        self.check_keys(name, _keys(new), name)
        if rotated and old is not None:
            if set(_keys(new)) & set(_keys(old)):
                raise ConfigError(name, "was rotated, but keeps a key", "make all keys anew with --rotate")
            if not old.gone:
                self._end(old, "rotated", now)
            self._lost.update(_keys(old))
        self._used.update(dict.fromkeys(_keys(new), name))
        self.members[name] = new

    def _end(self, member: Member, how: str, now: datetime, *, compromised: bool = False) -> None:
        self.revoked += [Revoked(one.serial, now, compromised) for one in member.certificates]
        self.members[member.name] = replace(member, gone=how)

    def _present(self, name: str) -> Member:
        member = self.members.get(PartyId(name))
        if member is None or member.gone:
            reason = f"was {member.gone} before" if member is not None else "is not a member"
            known = ", ".join(self.present) or "none"
            raise ConfigError(name[:40], reason, f"members: {known}")
        return member

    def _certificate(self, text: str, name: str) -> TlsCertificate:
        found = TlsCertificate(text, f"certificate of {name}")
        assert self.authority is not None  # noqa: S101 - of the first entry
        found.check_issued(self.authority, name)
        return found


_BROKEN: Final = "do not use it; ask the operator by another channel"


def read_history(lines: Sequence[bytes], source: str) -> History:
    """Verify a history from its first line on.

    Raises:
        ConfigError: it is empty, damaged, not signed, or its chain is broken.
    """
    history = History(source)
    for line in lines:
        history.read_line(line)
    if not lines:
        raise ConfigError(source, "has no history", _BROKEN)
    return history


def history_lines(history: History) -> Iterator[str]:
    """Yield a line for a person for each entry."""
    for raw in history.lines:
        line = msgspec.json.decode(raw, type=HistoryLine)
        match line.entry:
            case ProjectBegun(project=project):
                what = f"begun {project}"
            case SettingsChanged(digest=digest):
                what = f"settings {digest[:16]}"
            case MemberAdded(name=name, fingerprint=keys) | MemberRotated(name=name, fingerprint=keys):
                what = f"{'added' if isinstance(line.entry, MemberAdded) else 'rotated'} {name} {keys}"
            case CertificateRenewed(name=name, certificate=text):
                what = f"renewed {name} until {TlsCertificate(text, name).ends:%Y-%m-%d}"
            case MemberRemoved(name=name):
                what = f"removed {name}"
            case KeysRevoked(name=name, reason=reason):
                what = f"revoked {name}: {reason}"
        yield f"{line.number:4} {line.time} {what}"


def _identity(name: str, verify_key: str, seal_key: str, source: str) -> crypto.PublicIdentity:
    for text in (verify_key, seal_key):
        if not _KEY.fullmatch(text):
            raise ConfigError(source, f"has a key of {name} that is not 64 hexadecimal digits", _BROKEN)
    found = crypto.PublicIdentity(PartyId(name), bytes.fromhex(verify_key), bytes.fromhex(seal_key))
    if found.has_weak_key():
        raise ConfigError(source, f"has a weak key of {name} (low order), which protects nothing", _BROKEN)
    return found


def _keys(member: Member) -> list[bytes]:
    own = [member.public.verify_key, member.public.seal_key] if member.public is not None else []
    return [*own, certificates.point_of(member.certificate.key)]
