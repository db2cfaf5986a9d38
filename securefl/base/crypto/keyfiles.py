"""Key files: TOML texts for private identities, public identities and rosters.

The ``kind`` field prevents reading one kind as another. Keys are 64 lower-case hex digits. A private file
also holds the matching public keys. No file is overwritten: an empty file reserves the name, then the content
is renamed over it. Readers refuse the empty file of a crash.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from securefl.base.crypto.identity import KEY_BYTES, Identity, PublicIdentity
from securefl.base.crypto.roster import Roster
from securefl.base.errors import ConfigError
from securefl.base.ids import DEALER, SERVER, PartyId, is_name

_PRIVATE: Final = "securefl private identity"
_PUBLIC: Final = "securefl public identity"
_ROSTER: Final = "securefl roster"
_HEADER_OF_PRIVATE = """\
# ===========================================================================
#  SECRET. This is the private identity of {name}.
#  Whoever reads this file can speak in its name and open what is sealed to it.
#  Keep it on the machine it was made on: do not mail, copy or commit it.
# ===========================================================================
"""
_KEY = re.compile(r"[0-9a-f]{64}")
_NEW_FILE = os.O_CREAT | os.O_EXCL | os.O_WRONLY
_MAX_BYTES = 16 * 1024 * 1024


def write_identity(path: Path, identity: Identity) -> None:
    """Write a private identity to a new file with mode 0600.

    Raises:
        ConfigError: the file exists, or its folder cannot be written to.
    """
    public = identity.public
    body = _HEADER_OF_PRIVATE.format(name=identity.name) + _table(
        ("kind", _PRIVATE),
        ("name", identity.name),
        ("signing_key", identity.signing_key.hex()),
        ("sealing_key", identity.sealing_key.hex()),
        ("verify_key", public.verify_key.hex()),
        ("seal_key", public.seal_key.hex()),
    )
    _write(path, body, mode=0o600)


def read_identity(path: Path) -> Identity:
    """Read the identity in a private file.

    Raises:
        ConfigError: unreadable, readable by other users, of another kind, a wrong field, or keys that do not
            match.
    """
    fields = _read(
        path, _PRIVATE, {"name", "signing_key", "sealing_key", "verify_key", "seal_key"}, secret=True
    )
    name = _member_name(path, fields)
    identity = Identity(name, _key(path, fields, "signing_key"), _key(path, fields, "sealing_key"))
    stated = PublicIdentity(name, _key(path, fields, "verify_key"), _key(path, fields, "seal_key"))
    if identity.public != stated:
        raise ConfigError(
            str(path),
            "private and public key do not match: the file was edited or damaged",
            "restore it from a backup",
        )
    return identity


def write_public(path: Path, public: PublicIdentity) -> None:
    """Write a public identity to a new file.

    Raises:
        ConfigError: the file exists, or its folder cannot be written to.
    """
    header = f"# The public identity of {public.name}: not secret. Fingerprint {public.fingerprint()}\n"
    _write(path, header + _table(("kind", _PUBLIC), *_public_fields(public)), mode=0o644)


def read_public(path: Path) -> PublicIdentity:
    """Read the identity in a public file.

    Raises:
        ConfigError: unreadable, of another kind, or a wrong field.
    """
    return _public(path, _read(path, _PUBLIC, {"name", "verify_key", "seal_key"}))


def write_roster(path: Path, roster: Roster) -> None:
    """Write a roster to a new file.

    Raises:
        ConfigError: the file exists, or its folder cannot be written to.
    """
    _write(path, roster_text(roster), mode=0o644)


def roster_text(roster: Roster) -> str:
    """Return the content of a roster's file."""
    header = (
        "# The roster of a federation: names and public keys, not secret.\n"
        "# Everybody in a run must hold the same one.\n"
        f"# Digest {roster.digest().hex()}\n"
    )
    entries = ["\n[[member]]\n" + _table(*_public_fields(member)) for member in roster.values()]
    return header + _table(("kind", _ROSTER)) + "".join(entries)


def read_roster(path: Path) -> Roster:
    """Read the roster in a file.

    Raises:
        ConfigError: unreadable, of another kind, a wrong field, or not a valid :class:`Roster`.
    """
    entries = _read(path, _ROSTER, {"member"})["member"]
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ConfigError(str(path), "member is not a list of tables", "write each one under [[member]]")
    members: dict[PartyId, PublicIdentity] = {}
    for entry in entries:
        _expect_fields(path, entry, {"name", "verify_key", "seal_key"})
        member = _public(path, entry)
        if member.name in members:
            raise ConfigError(str(path), f"{member.name} occurs more than once", "remove one of the entries")
        members[member.name] = member
    server = members.pop(SERVER, None)
    if server is None:
        raise ConfigError(
            str(path), "lists no server", f"add the .pub file named {SERVER!r}: securefl keygen --roster"
        )
    dealer = members.pop(DEALER, None)
    try:
        return Roster(server, members, dealer)
    except ConfigError as error:
        raise ConfigError(str(path), f"{error.path} {error.reason}", error.remedy) from error


def _public_fields(public: PublicIdentity) -> tuple[tuple[str, str], ...]:
    return (
        ("name", public.name),
        ("verify_key", public.verify_key.hex()),
        ("seal_key", public.seal_key.hex()),
    )


def _public(path: Path, fields: Mapping[str, Any]) -> PublicIdentity:
    name = _member_name(path, fields)
    return PublicIdentity(name, _key(path, fields, "verify_key"), _key(path, fields, "seal_key"))


def _table(*fields: tuple[str, str]) -> str:
    # Values are names, kinds and hex digits: no escapes.
    return "".join(f'{name} = "{value}"\n' for name, value in fields)


def _write(path: Path, text: str, mode: int) -> None:
    try:
        # Reserves the name, or fails if it exists.
        os.close(os.open(path, _NEW_FILE, mode))
    except FileExistsError:
        raise ConfigError(str(path), "exists already", "choose another name or move the file away") from None
    except OSError as error:
        raise ConfigError(
            str(path), f"cannot be written: {error.strerror}", "choose a folder that you may write"
        ) from error
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with os.fdopen(os.open(temporary, _NEW_FILE, mode), "w", encoding="ascii") as file:
            os.fchmod(file.fileno(), mode)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        path.unlink(missing_ok=True)
        raise ConfigError(
            str(path), f"cannot be written: {error.strerror}", "choose a folder that you may write"
        ) from error


def _read(path: Path, kind: str, names: set[str], *, secret: bool = False) -> Mapping[str, Any]:
    try:
        with path.open("rb") as file:
            shared = bool(os.fstat(file.fileno()).st_mode & 0o077)
            raw = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(
            str(path), f"cannot be read: {error.strerror}", "name a key file that you may read"
        ) from error
    if len(raw) > _MAX_BYTES:
        raise ConfigError(str(path), "is not a key file: it is too large")
    try:
        fields = tomllib.loads(raw.decode())
    except (ValueError, RecursionError):
        # The parser's message may quote a private key.
        raise ConfigError(
            str(path), f"is not a {kind} file: it is not TOML text", "name a file that securefl keygen wrote"
        ) from None
    if fields.pop("kind", None) != kind:
        raise ConfigError(
            str(path), f"is not a {kind} file", "name the right file, or make it with securefl keygen"
        )
    if secret and shared:
        raise ConfigError(
            str(path),
            "is readable by other users of this machine, who could act as this party",
            f"chmod 600 {path}",
        )
    _expect_fields(path, fields, names)
    return fields


def _expect_fields(path: Path, fields: Mapping[str, Any], names: set[str]) -> None:
    missing, unknown = sorted(names - fields.keys()), sorted(fields.keys() - names)
    if missing:
        raise ConfigError(str(path), f"has no field {', '.join(missing)}", "make the file again with keygen")
    if unknown:
        raise ConfigError(str(path), f"has unknown fields: {', '.join(map(ascii, unknown))}", "remove them")


def _member_name(path: Path, fields: Mapping[str, Any]) -> PartyId:
    name = fields["name"]
    if not isinstance(name, str) or not (is_name(name) or name == SERVER):
        raise ConfigError(
            str(path),
            "its field name is not a valid party name",
            "use a-z, 0-9, - and _, at most 32 characters",
        )
    return PartyId(name)


def _key(path: Path, fields: Mapping[str, Any], name: str) -> bytes:
    text = fields[name]
    if not isinstance(text, str) or _KEY.fullmatch(text) is None:
        # Not quoted: it may be a private key with one wrong digit.
        raise ConfigError(
            str(path), f"{name} is not {2 * KEY_BYTES} hex digits", "make the file again with keygen"
        )
    return bytes.fromhex(text)
