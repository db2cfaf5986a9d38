"""What a process's transcript says of the messages that it sent and received."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from securefl.base.ids import PartyId
from securefl.protocol.kernel.effects import Finished, Send
from securefl.protocol.kernel.events import Place
from securefl.protocol.messages.masking import MaskedInput
from securefl.protocol.messages.rounds import Freeze
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.wire.codec import encode
from securefl.protocol.wire.inbox import Delivery
from securefl.runtime.report.witness import News, ProcessWitness, Waiting
from securefl.runtime.transcript.chain import read_transcript
from tests.unit.process.processes import settings

P01 = PartyId("p01")
PLACE = Place(0, 0, 0, 0)


def recorded(folder: Path, *messages: AnyMessage) -> list[dict[str, Any]]:
    """The entries of a process that sends each of these and gets it back."""
    witness = ProcessWitness(settings(folder), lambda _news: None, 32)
    for message in messages:
        witness.sent(1.0, Send(P01, PLACE, message))
        witness.received(2.0, Delivery(P01, PLACE, message, b""))
    witness.close(Finished("done"))
    entries = read_transcript(folder / "transcripts" / "p00.jsonl").entries
    return [dict(entry.fields) for entry in entries if entry.kind in {"sent", "received"}]


def freeze(*survivors: str) -> Freeze:
    return Freeze(survivors=survivors, attempts=(), receipts=())


def test_messages_that_differ_differ_in_the_transcript(tmp_path: Path) -> None:
    one, two = freeze("p00", "p01"), freeze("p00", "p02")
    entries = recorded(tmp_path, one, two)
    digests = [entry["sha256"] for entry in entries]
    assert digests == [hashlib.sha256(encode(message)).hexdigest() for message in (one, one, two, two)]
    assert digests[0] != digests[2]


def test_a_masked_input_has_the_digest_of_its_vector(tmp_path: Path) -> None:
    vectors = [np.arange(5, dtype=np.uint32), np.arange(5, dtype=np.uint32)[::-1]]
    sent = recorded(tmp_path, *(MaskedInput(vector=vector.tobytes()) for vector in vectors))[::2]
    first, second = (entry["vector"]["digest"] for entry in sent)
    assert first != second
    assert all("sha256" not in entry for entry in sent)


def test_who_waits_says_for_whom_and_since_when(tmp_path: Path) -> None:
    told: list[News] = []
    witness = ProcessWitness(settings(tmp_path), told.append, 32)
    before = datetime.now().astimezone()
    witness.waits(["p01", "server"], 3600.0)
    (news,) = told
    assert isinstance(news, Waiting)
    assert before <= news.since + timedelta(hours=1) <= datetime.now().astimezone()
    assert str(news) == f"waits for p01, server since {news.since:%H:%M:%S}"
