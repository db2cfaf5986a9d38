"""Orders of the operator and notices of agents: signed messages about one run.

The operator's key is that of the accepted history. A notice is signed by its machine's identity.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from securefl.base import crypto
from securefl.base.errors import ConfigError
from securefl.base.ids import DEALER, SERVER, PartyId, is_name
from securefl.runtime.provision import History, Kind, SignedFile, decode_signed, plain_file, sha256

BodyT = TypeVar("BodyT", bound=Struct)
TIME_FORMAT: Final = "%Y-%m-%dT%H:%M:%SZ"
SCENARIO_BYTES: Final = 12_000
"""Largest scenario, so that an order fits each broker's message limit of 16 KiB."""
WEIGHTS_BYTES: Final = 2**30
_NEW: Final = "ask the operator for a new submission: securefl runs submit"
_IGNORE: Final = "after a rotation or removal this is expected; else ask that machine's administrator"
_SITE: Final = re.compile(r"[\w.]+:\w+")
Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
Line = Annotated[str, Meta(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]

State = Literal[
    "received", "asked", "accepted", "refused", "expired", "running", "paused", "stopped", "done", "failed"
]
"""State of a run at one agent."""
ENDED: Final[frozenset[State]] = frozenset({"refused", "expired", "stopped", "done", "failed"})
"""States that no later state follows."""


class Submission(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Run that the operator asks the sites to take part in."""

    project: str
    run: str
    """Id of the run; each agent accepts it once."""
    submitted: str
    expires: str
    """No agent accepts or starts the run after this time (UTC)."""
    history: Digest
    """Head of the operator's history, from which roster and settings follow."""
    parties: Annotated[tuple[str, ...], Meta(min_length=1)]
    scenario: Annotated[str, Meta(max_length=SCENARIO_BYTES)]
    """Text of the scenario file."""
    scenario_digest: Digest
    """Digest of the resolved scenario, as the processes of the run compare it."""
    site: str
    """Code that the sites have installed, as ``module:name``; empty for built-in training."""
    data: str
    """Name of the samples in each site's folder; empty with a site."""
    server_data: str
    weights_digest: str
    """SHA-256 of the first weights; empty without."""
    weights_bytes: Annotated[int, Meta(ge=0, le=WEIGHTS_BYTES)]
    note: Line = ""
    """Purpose, for the person who decides."""


class StopOrder(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Request of the operator to end a run."""

    project: str
    run: str
    submission: Digest
    """SHA-256 of the submission that it ends."""
    reason: Line


class Notice(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """State of a run at one agent."""

    project: str
    run: str
    submission: Digest
    """SHA-256 of the submission that the agent has."""
    name: str
    """Name of the machine."""
    number: Annotated[int, Meta(ge=1)]
    """Counts the agent's notices of the run: a notice replaces those with smaller numbers."""
    time: str
    state: State
    reason: Line = ""


@dataclass(frozen=True)
class Order:
    """Verified submission."""

    content: Submission
    signed: SignedFile

    @property
    def digest(self) -> str:
        """SHA-256 of the signed text, by which people and messages name it."""
        return sha256(self.signed.body.encode())

    @property
    def expires(self) -> datetime:
        """Time after which no agent accepts or starts it."""
        return read_time(self.content.expires)

    @property
    def rank(self) -> tuple[str, str]:
        """Place in the queue: by the time of submission, then by run."""
        return self.content.submitted, self.content.run


def utc_text(time: datetime) -> str:
    """Return a time as text, to the second."""
    return time.astimezone(UTC).strftime(TIME_FORMAT)


def read_time(text: str) -> datetime:
    """Return the time of :func:`utc_text`; raise a ValueError for other text."""
    return datetime.strptime(text, TIME_FORMAT).replace(tzinfo=UTC)


def sign_body(kind: Kind, body: Struct, identity: crypto.Identity) -> SignedFile:
    """Return a signed message."""
    return SignedFile.sign(kind, msgspec.json.encode(body).decode(), identity)


def encode_signed(file: SignedFile) -> bytes:
    """Return a signed message as it is sent and stored."""
    return msgspec.json.encode(file)


def line_of(text: str) -> str:
    """Return a text as one line for a notice: printable, and short."""
    return "".join(char if char.isprintable() else " " for char in text)[:200]


def is_site(name: str) -> bool:
    """Return True if a text may name code of sites."""
    return _SITE.fullmatch(name) is not None


def read_submission(raw: bytes, history: History, source: str) -> Order:
    """Verify a submission against the operator's key and the project of an accepted history.

    Raises:
        ConfigError: it is damaged, signed by another key, of another project, or a field is invalid.
    """
    content, file = _read_operators(raw, "securefl submission", Submission, history, source)
    for field, value, fits in (
        ("run", content.run, is_name(content.run)),
        ("submitted", content.submitted, _is_time(content.submitted)),
        ("expires", content.expires, _is_time(content.expires)),
        ("parties", content.parties, _are_parties(content.parties)),
        ("site", content.site, not content.site or is_site(content.site)),
        ("data", content.data, plain_file(content.data) if not content.site else not content.data),
        ("server_data", content.server_data, not content.server_data or plain_file(content.server_data)),
        ("weights_digest", content.weights_digest, _digest_fits(content)),
    ):
        if not fits:
            raise ConfigError(source, f"field {field}: {str(value)[:60]!r} is not valid", _NEW)
    return Order(content, file)


def read_stop_order(raw: bytes, history: History, source: str) -> StopOrder:
    """Verify a stop order.

    Raises:
        ConfigError: as :func:`read_submission`.
    """
    content, _ = _read_operators(raw, "securefl stop order", StopOrder, history, source)
    return content


def read_notice(raw: bytes, history: History, source: str) -> Notice:
    """Verify a notice against the identity of the machine that it names.

    Raises:
        ConfigError: it is damaged, of another project, or not signed by a present machine of that name.
    """
    file = decode_signed(raw, "securefl notice", source, _IGNORE)
    content = file.content(Notice, source, _IGNORE)
    member = history.present.get(PartyId(content.name))
    if member is None or member.public is None:
        raise ConfigError(source, f"is from {content.name[:40]!r}, which is not in the roster", _IGNORE)
    file.verify(member.public, source, _IGNORE)
    if content.project != history.project or not _is_time(content.time):
        raise ConfigError(source, "is of another project, or has no time", _IGNORE)
    return content


def _read_operators(
    raw: bytes, kind: Kind, body: type[BodyT], history: History, source: str
) -> tuple[BodyT, SignedFile]:
    file = decode_signed(raw, kind, source, _NEW)
    content = file.content(body, source, _NEW)
    assert history.operator is not None  # noqa: S101 - of a verified history
    file.verify(history.operator, source, _NEW)
    if getattr(content, "project") != history.project:  # noqa: B009 - a field of both kinds
        raise ConfigError(source, f"is not of the project {history.project!r}", _NEW)
    return content, file


def _is_time(text: str) -> bool:
    try:
        return utc_text(read_time(text)) == text
    except ValueError:
        return False


def _are_parties(names: Iterable[str]) -> bool:
    found = list(names)
    return all(is_name(one) and one not in {SERVER, DEALER} for one in found) and len(set(found)) == len(
        found
    )


def _digest_fits(content: Submission) -> bool:
    if not content.weights_bytes:
        return not content.weights_digest
    return re.fullmatch("[0-9a-f]{64}", content.weights_digest) is not None
