"""Frames under fixed keys, byte by byte, and frames that must be refused, with whose fault it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from securefl.base.crypto.identity import Identity
from securefl.base.crypto.roster import Roster
from securefl.base.errors import PeerError
from securefl.base.ids import EVERYONE, SERVER, PartyId, RunId
from securefl.protocol.wire.codec import encode
from securefl.protocol.wire.envelope import Header, peek, seal_frame
from securefl.protocol.wire.inbox import Inbox

HERE = Path(__file__).parent
GOOD = json.loads((HERE / "wire.json").read_text())
BAD = json.loads((HERE / "wire_bad.json").read_text())
IDENTITIES = {
    name: Identity(PartyId(name), bytes.fromhex(keys["signing"]), bytes.fromhex(keys["sealing"]))
    for name, keys in GOOD["keys"].items()
}
PARTIES = {identity.name: identity.public for identity in IDENTITIES.values() if identity.name != SERVER}
ROSTER = Roster(IDENTITIES[SERVER].public, PARTIES)


def cases(document: dict[str, Any]) -> list[Any]:
    return [pytest.param(vector, id=vector["name"]) for vector in document["vectors"]]


def inbox(me: str) -> Inbox:
    return Inbox(RunId("run"), PartyId(me), ROSTER, 1_000_000)


def test_keys() -> None:
    for name, keys in GOOD["keys"].items():
        assert IDENTITIES[name].public.verify_key.hex() == keys["verify"]


@pytest.mark.parametrize("vector", cases(GOOD))
def test_frame(vector: dict[str, Any]) -> None:
    fields = vector["fields"]
    header = Header(**{**vector["header"], "session": bytes.fromhex(vector["header"]["session"])})
    frame = bytes.fromhex("".join(content for _, content in fields))
    assert [name for name, _ in fields[3:-1]] == list(Header.__struct_fields__)
    body = bytes.fromhex(fields[-1][1])

    assert seal_frame(header, body, IDENTITIES[header.sender]) == frame
    assert peek(frame, "deliverer").header == header
    delivery = inbox("b" if header.recipient == EVERYONE else header.recipient).accept(frame, "d", 0.0)
    assert delivery is not None
    assert (delivery.sender, delivery.place, delivery.signed) == (header.sender, header.place, frame)
    assert repr(delivery.message) == vector["message"]
    assert encode(delivery.message) == body


@pytest.mark.parametrize("vector", cases(BAD))
def test_bad_frame(vector: dict[str, Any]) -> None:
    assert vector["outcome"] == "PeerError"
    with pytest.raises(PeerError) as caught:
        inbox(SERVER).accept(bytes.fromhex(vector["frame"]), "deliverer", 0.0)
    assert caught.value.culprit == vector["culprit"]
    assert vector["reason"] in caught.value.reason
