"""A project with an operator's key, and submissions signed by it, without files and brokers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from securefl.base.crypto import Identity
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.ids import PartyId
from securefl.runtime.agents.submission import (
    Notice,
    Order,
    Submission,
    encode_signed,
    read_submission,
    sign_body,
    utc_text,
)
from securefl.runtime.provision.history import History, Member

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
OPERATOR = Identity.generate(PartyId("operator"), InsecureSeededEntropy(1))
MACHINES = {
    name: Identity.generate(PartyId(name), InsecureSeededEntropy(2 + number))
    for number, name in enumerate(("server", "p00", "p01"))
}


def history() -> History:
    found = History("test", project="trial", operator=OPERATOR.public)
    for name, identity in MACHINES.items():
        found.members[PartyId(name)] = Member(PartyId(name), identity.public, (), "")
    return found


def content(**fields: Any) -> Submission:
    given: dict[str, Any] = {
        "project": "trial",
        "run": "one",
        "submitted": utc_text(NOW),
        "expires": utc_text(NOW + timedelta(hours=1)),
        "history": "a" * 64,
        "parties": ("p00", "p01"),
        "scenario": 'name = "small"\n',
        "scenario_digest": "b" * 64,
        "site": "hospital:Hospital",
        "data": "",
        "server_data": "",
        "weights_digest": "",
        "weights_bytes": 0,
    }
    return Submission(**given | fields)


def signed(body: msgspec.Struct, kind: Any = "securefl submission", by: Identity = OPERATOR) -> bytes:
    return encode_signed(sign_body(kind, body, by))


def order(**fields: Any) -> Order:
    return read_submission(signed(content(**fields)), history(), "test")


def notice(name: str, state: Any, reason: str = "", number: int = 1, **fields: Any) -> Notice:
    given: dict[str, Any] = {
        "project": "trial",
        "run": "one",
        "submission": order().digest,
        "time": utc_text(NOW),
    }
    return Notice(**given | {"name": name, "state": state, "reason": reason, "number": number} | fields)
