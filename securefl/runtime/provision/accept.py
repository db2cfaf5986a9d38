"""Acceptance of an answer at its machine: all checks, then the files of the kit, ``kit.toml`` last."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from securefl.base import crypto, files
from securefl.base.errors import ConfigError, RunAbortedError
from securefl.base.ids import PartyId
from securefl.runtime import transport
from securefl.runtime.provision import broker_files, certificates, services, signed
from securefl.runtime.provision.answer import Answer, ProjectSettings
from securefl.runtime.provision.behaviours import check_kit_scenario
from securefl.runtime.provision.history import Member
from securefl.runtime.provision.kit import (
    KIT,
    KitFile,
    KitFiles,
    KitRun,
    KitTable,
    MachineKit,
    kit_text,
    read_kit,
    role_of,
)
from securefl.runtime.provision.project import (
    BROKER,
    WITHOUT_IDENTITY,
    broker_url,
)
from securefl.runtime.provision.request import key_folders

_HISTORY: Final = "history.jsonl"
_ROSTER: Final = "roster.toml"
_PLACE: Final = re.compile(r"/[A-Za-z0-9._+/-]*")
_OTHER: Final = "use the answer to this machine's own request"


@dataclass(frozen=True)
class Acceptance:
    """Answer that has passed all checks, with the content of its kit."""

    folder: Path
    kit: KitFile
    contents: Mapping[str, bytes]
    """Content by name of all files but ``kit.toml``."""

    def write(self) -> MachineKit:
        """Write the files, ``kit.toml`` last: until then it names other digests, and no process starts.

        Raises:
            RunAbortedError: a file cannot be written.
        """
        try:
            for name, content in self.contents.items():
                signed.write_file(self.folder / name, content)
            signed.write_file(self.folder / KIT, kit_text(self.kit).encode())
        except ConfigError as error:
            again = "accept the answer again: no process starts before"
            raise RunAbortedError(f"{error.path}: {error.reason} ({again})") from error
        return read_kit(self.folder / KIT)


def check_answer(
    answer: Answer,
    source: str,
    folder: Path,
    now: datetime,
    *,
    fingerprint: str | Callable[[str], str],
    weights: Path | None = None,
) -> Acceptance:
    """Check an answer against the keys in a machine's folder and the kit there, if there is one.

    Args:
        answer: verified in itself.
        source: its file.
        folder: with the keys of the machine.
        now: the time.
        fingerprint: of the operator; or a function that asks for it, by project, if there is no kit yet.
        weights: file with the first weights, if the answer does not have them.

    Raises:
        ConfigError: it is of another operator, does not continue the kit's history, is for other keys, or has
            an expired certificate or no first weights. Nothing is written.
    """
    if not _PLACE.fullmatch(str(_place(folder))):
        raise ConfigError(
            str(folder),
            "has characters that units and mosquitto.conf cannot name",
            "choose a folder of A-Z a-z 0-9 . _ + / -",
        )
    former, settings = _former(folder), answer.body.settings
    # Before a person is asked: the question names the project.
    settings.check_texts(source)
    _check_operator(answer, source, former, fingerprint)
    member, keys = _own_keys(answer, source, folder)
    check_kit_scenario(settings.scenario, settings.weights_name, f"{source}: {settings.scenario_name}")
    member.certificate.check_dates(now)
    authority = answer.history.authority
    assert authority is not None  # noqa: S101 - of a verified history
    contents = {
        broker_files.AUTHORITY: authority.text.encode(),
        f"{member.name}.pem": member.certificate.text.encode(),
        _HISTORY: b"".join(line + b"\n" for line in answer.history.lines),
    }
    found = KitFiles(
        tls_key=f"{keys}/{member.name}.tls.key",
        certificate=f"{member.name}.pem",
        authority=broker_files.AUTHORITY,
        history=_HISTORY,
    )
    run = KitRun()
    if member.name == BROKER:
        contents |= _broker_contents(answer, folder, found)
    else:
        own, found, run = _member_contents(answer, source, found, member.name, keys, weights)
        contents |= own
    kit = KitFile(
        kit=KitTable(
            project=settings.project,
            name=member.name,
            operator=answer.operator.fingerprint(),
            entries=len(answer.history.lines),
            head=answer.history.head,
        ),
        files=found,
        run=run,
        digests={name: signed.sha256(content) for name, content in contents.items()},
    )
    _check_own_files(folder, contents, (settings.scenario_name, settings.weights_name), former)
    extra = _service_contents(settings, folder, member.name)
    return Acceptance(folder, kit, {**contents, **extra})


def _place(folder: Path) -> Path:
    """Return a folder as units and configurations name it."""
    return Path(os.path.abspath(folder))  # noqa: PTH100 - links stay as they are


def _former(folder: Path) -> MachineKit | None:
    return read_kit(folder / KIT) if (folder / KIT).exists() else None


def _check_own_files(
    folder: Path, contents: Mapping[str, bytes], names: Iterable[str], former: MachineKit | None
) -> None:
    """Check that files whose names the operator chooses replace no file of the site, such as a policy."""
    written = former.content.digests if former is not None else {}
    for name in names:
        if name not in contents or name in written:
            continue
        found = files.read_if_there(folder / name)
        if found is not None and found != contents[name]:
            raise ConfigError(
                str(folder / name),
                "exists already, and is not of a kit: the answer would replace it",
                "move it away, or ask the operator for another name",
            )


def _check_operator(
    answer: Answer, source: str, former: MachineKit | None, fingerprint: str | Callable[[str], str]
) -> None:
    """Compare with the history that the kit has accepted, else with the fingerprint that a person gives."""
    new = answer.history
    if former is None or isinstance(fingerprint, str):
        given = fingerprint if isinstance(fingerprint, str) else fingerprint(new.project)
        given = given.strip().lower()
        if given != answer.operator.fingerprint():
            raise ConfigError(
                source,
                "is signed by an operator with another fingerprint than the given one",
                "the operator reads out what provision history prints there; do not accept it before",
            )
    if former is None:
        return
    kit = former.content.kit
    if answer.operator.fingerprint() != kit.operator:
        raise ConfigError(
            source,
            f"is signed by another operator than the kit's, {kit.operator}",
            "do not accept it; ask the operator by another channel",
        )
    if len(new.lines) < kit.entries:
        raise ConfigError(
            source,
            f"has an older history: {len(new.lines)} entries, and this kit has {kit.entries}",
            "ask the operator for the newest answer",
        )
    if signed.sha256(new.lines[kit.entries - 1]) != kit.head:
        raise ConfigError(
            source,
            f"has another history: entry {kit.entries - 1} is not the one of this kit",
            "do not accept it; the operator's history was changed or restored from an old copy",
        )


def _own_keys(answer: Answer, source: str, folder: Path) -> tuple[Member, str]:
    """Return the machine's entry in the history, and the folder of the keys that it names."""
    member = answer.history.members.get(PartyId(answer.body.name))
    if member is None or member.gone:
        how = f"was {member.gone} by" if member is not None else "is not in"
        raise ConfigError(source, f"is for {answer.body.name[:40]}, which {how} the history", _OTHER)
    folders = key_folders(folder)
    if not folders:
        raise ConfigError(
            str(folder), "has no keys", "name the folder in which securefl provision request made them"
        )
    point = certificates.point_of
    for keys in reversed(folders):
        key = keys / f"{member.name}.tls.key"
        if not key.exists():
            continue
        if point(certificates.read_key(key).public_key()) != point(member.certificate.key):
            continue
        if member.public is not None:
            identity = crypto.read_identity(keys / f"{member.name}.key")
            if identity.public != member.public:
                raise ConfigError(source, f"has another roster key than {keys}", _OTHER)
        return member, keys.name
    raise ConfigError(source, f"is for {member.name} with other keys than those in {folder}", _OTHER)


def _member_contents(
    answer: Answer, source: str, found: KitFiles, name: PartyId, keys: str, weights: Path | None
) -> tuple[dict[str, bytes], KitFiles, KitRun]:
    """Return the files of machines other than the broker, and the tables of their kit."""
    settings, roster = answer.body.settings, answer.history.roster()
    broker = broker_url(settings.broker_host, settings.broker_port)
    if name in WITHOUT_IDENTITY:
        own = {_ROSTER: crypto.roster_text(roster).encode()}
        return own, msgspec.structs.replace(found, roster=_ROSTER), KitRun(broker=broker)
    contents = {
        _ROSTER: crypto.roster_text(roster).encode(),
        settings.scenario_name: settings.scenario.encode(),
    }
    if settings.weights_name:
        contents[settings.weights_name] = _weights(answer, source, weights)
    elif weights is not None:
        raise ConfigError("--weights", "is given, and this scenario has no first weights", "leave it out")
    found = msgspec.structs.replace(
        found,
        key=f"{keys}/{name}.key",
        roster=_ROSTER,
        scenario=settings.scenario_name,
        weights=settings.weights_name,
    )
    role = role_of(name)
    run = KitRun(
        broker=broker,
        site=settings.site if role == "party" else "",
        data=settings.data if role == "party" else settings.server_data if role == "server" else "",
        parties=len(roster.parties),
    )
    return contents, found, run


def _weights(answer: Answer, source: str, given: Path | None) -> bytes:
    settings = answer.body.settings
    if given is None:
        if not answer.body.weights:
            raise ConfigError(
                source,
                f"has no first weights: they are too large ({settings.weights_name})",
                "get the file from the operator, and give it as --weights",
            )
        return answer.body.weights
    with files.reading(given):
        content = given.read_bytes()
    if signed.sha256(content) != settings.weights_digest:
        raise ConfigError(
            "--weights",
            f"{given} is not the file of the operator",
            f"its SHA-256 is {settings.weights_digest}",
        )
    return content


def _broker_contents(answer: Answer, folder: Path, found: KitFiles) -> dict[str, bytes]:
    settings = answer.body.settings
    stem = services.service_stem(settings.project, BROKER)
    place = _place(folder)
    conf = broker_files.mosquitto_configuration(
        place,
        project=settings.project,
        port=settings.broker_port,
        certificate=found.certificate,
        key=found.tls_key,
        state=f"/var/lib/{stem}",
        unit=stem,
    )
    names = [name for name in answer.history.present if name != BROKER]
    emqx = broker_files.emqx_configuration(
        place, port=settings.broker_port, certificate=found.certificate, key=found.tls_key
    )
    return {
        broker_files.CRL: answer.body.crl.encode(),
        broker_files.ACL: transport.mosquitto_acl().encode(),
        broker_files.CONFIGURATION: conf.encode(),
        broker_files.EMQX: emqx.encode(),
        broker_files.EMQX_ACL: broker_files.emqx_access_rules(names).encode(),
    }


def _service_contents(settings: ProjectSettings, folder: Path, name: PartyId) -> dict[str, bytes]:
    place = _place(folder)
    if name == BROKER:
        made = services.broker_service(place, project=settings.project, name=name)
    else:
        made = services.member_services(
            place,
            project=settings.project,
            name=name,
            role=role_of(name),
            prefix=settings.prefix,
            host=settings.hosts.get(name, ""),
        )
    return {file: text.encode() for file, text in made.items()}
