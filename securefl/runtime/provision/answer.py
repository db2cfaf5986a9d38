"""Answer of the operator to one machine: a single signed file with all that its kit needs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from securefl.base import crypto
from securefl.base.errors import ConfigError
from securefl.base.ids import NAME
from securefl.runtime.provision import certificates, signed
from securefl.runtime.provision.history import History, read_history
from securefl.runtime.provision.project import (
    BROKER,
    DATA_NAME,
    HOST,
    PREFIX,
    SCENARIO_NAME,
    WEIGHTS_NAME,
)
from securefl.scenario import OWN_NAME

SMALL: Final = 16 * 2**20
"""Bytes up to which the first weights travel in the answer."""
_NEW_ANSWER: Final = "ask the operator for a new answer: securefl provision sign"


class ProjectSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings that all machines share. Their digest is in the history."""

    project: str
    broker_host: str
    broker_port: int
    scenario_name: str
    scenario: str
    """Text of the scenario file."""
    site: str
    data: str
    server_data: str
    weights_name: str
    """Name of the file with the first weights; empty if there is none."""
    weights_digest: str
    """Its SHA-256, 64 hexadecimal digits."""
    prefix: str
    hosts: dict[str, str]
    """Host name of each machine, empty if it is not given."""

    def digest(self) -> str:
        """Return the SHA-256 of all fields, 64 hexadecimal digits."""
        return signed.sha256(msgspec.json.encode(self, order="deterministic"))

    def check_texts(self, source: str) -> None:
        """Check all texts that units, configurations and kits have, as an operator's project file is checked.

        An operator may sign answers by another program: a line feed would add a line to a unit of root.

        Args:
            source: of the answer.

        Raises:
            ConfigError: a text is not of its form.
        """
        required = [
            ("project", self.project, NAME),
            ("broker_host", self.broker_host, HOST),
            ("scenario_name", self.scenario_name, SCENARIO_NAME),
            ("prefix", self.prefix, PREFIX),
        ]
        optional = [
            ("site", self.site, OWN_NAME),
            ("data", self.data, DATA_NAME),
            ("server_data", self.server_data, DATA_NAME),
            ("weights_name", self.weights_name, WEIGHTS_NAME),
            *((f"hosts.{name[:40]}", host, HOST) for name, host in self.hosts.items()),
        ]
        for field, text, allowed in [*required, *(one for one in optional if one[1])]:
            if not allowed.fullmatch(text) or ".." in text:
                raise ConfigError(
                    f"{source}: {field}", f"{text[:60]!r} is not valid in a kit", "ask the operator"
                )
        if not 1 <= self.broker_port <= 65_535:
            raise ConfigError(
                f"{source}: broker_port", f"{self.broker_port} is not a port", "ask the operator"
            )


class AnswerBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Signed content of an answer."""

    name: str
    history: list[str]
    """Lines of the history."""
    settings: ProjectSettings
    weights: bytes = b""
    """First weights, if they are small."""
    crl: str = ""
    """For the broker: list of revoked certificates (PEM)."""


@dataclass(frozen=True)
class Answer:
    """Verified answer."""

    body: AnswerBody
    history: History

    @property
    def operator(self) -> crypto.PublicIdentity:
        """Public keys of the operator, as the history states them."""
        assert self.history.operator is not None  # noqa: S101 - of a verified history
        return self.history.operator


def write_answer(path: Path, body: AnswerBody, operator: crypto.Identity) -> None:
    """Sign and write an answer.

    Raises:
        ConfigError: it cannot be written.
    """
    text = msgspec.json.encode(body).decode()
    signed.write_signed(path, signed.SignedFile.sign("securefl answer", text, operator))


def read_answer(path: Path) -> Answer:
    """Read an answer, and verify it against the operator's keys in its own history.

    The caller compares these keys with the operator's fingerprint or an earlier history.

    Raises:
        ConfigError: it cannot be read, is damaged, or a signature, a digest or the chain is wrong.
    """
    file = signed.read_signed(path, "securefl answer", "name an .answer file of securefl provision sign")
    body = file.content(AnswerBody, str(path), _NEW_ANSWER)
    history = read_history([line.encode() for line in body.history], str(path))
    answer = Answer(body, history)
    file.verify(answer.operator, str(path), _NEW_ANSWER)
    if body.settings.digest() != history.settings or body.settings.project != history.project:
        raise ConfigError(str(path), "has settings that its history does not have", _NEW_ANSWER)
    if body.weights and signed.sha256(body.weights) != body.settings.weights_digest:
        raise ConfigError(str(path), "has first weights that its settings do not have", _NEW_ANSWER)
    if body.name == BROKER:
        assert history.authority is not None  # noqa: S101 - of a verified history
        serials = [one.serial for one in history.revoked]
        certificates.check_crl(body.crl, history.authority.text, serials, str(path))
    return answer
