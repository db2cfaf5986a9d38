"""What a process's transcript says of the messages that it sent and received."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from securefl.base.ids import SERVER, PartyId, RunId
from securefl.methods.feasibility.limits import check
from securefl.protocol.kernel.effects import Finished, Send
from securefl.protocol.kernel.events import Place
from securefl.protocol.messages.masking import MaskedInput
from securefl.protocol.messages.rounds import Freeze, ModelAnnounce
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.round.shared.plan import RunPlan
from securefl.protocol.round.shared.reports import RoundStarted, TriplesDealt
from securefl.protocol.wire.codec import encode
from securefl.protocol.wire.inbox import Delivery
from securefl.runtime.report.witness import News, ProcessWitness, Waiting
from securefl.runtime.transcript.chain import read_transcript
from securefl.runtime.transcript.segments import names_in
from tests.simulation.rosters import seeded_identities
from tests.unit.process.processes import settings

P01 = PartyId("p01")
PLACE = Place(0, 0, 0, 0)
MODEL = ModelAnnounce(params=bytes(8))


def recorded(folder: Path, *messages: AnyMessage) -> list[dict[str, Any]]:
    """The entries of a process that sends each of these and gets it back."""
    witness = ProcessWitness(settings(folder), lambda _news: None, 32)
    for message in messages:
        witness.record_sent(1.0, Send(P01, PLACE, message))
        witness.record_received(2.0, Delivery(P01, PLACE, message, b""))
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


BOUND = 4_000


def rounds_of(witness: ProcessWitness, begin: Any, folder: Path) -> tuple[list[int], int | None]:
    """The rounds that are left of ten, each of some lines, and the one that the transcript begins with."""
    for round_ in range(10):
        begin(round_)
        for _ in range(3):
            witness.record_refusal(float(round_), "p03", f"round {round_}: {'x' * 200}")
    witness.close(Finished("done"))
    (file,) = (folder / "transcripts").glob("*.jsonl")
    transcript = read_transcript(file)
    reasons = [str(entry.fields["reason"]) for entry in transcript.of_kind("refused")]
    return sorted({int(reason.split()[1].rstrip(":")) for reason in reasons}), transcript.round


@pytest.mark.parametrize("name", ["server", "dealer", "p00"])
def test_a_bounded_transcript_is_divided_where_rounds_begin(name: str, tmp_path: Path) -> None:
    """At the server by its own report, at the dealer with its triples, at a party by the model it is sent."""
    own = settings(tmp_path, name, transcript_bytes=BOUND)
    _, roster = seeded_identities((PartyId("p00"), P01), 1)
    plan = RunPlan(RunId("r1"), own.scenario, check(own.scenario), roster, 2)
    witness = ProcessWitness(own, lambda _news: None, 32, plan)

    def begin(round_: int) -> None:
        match name:
            case "server":
                witness.report(0.0, RoundStarted(round_, b""))
            case "dealer":
                witness.report(0.0, TriplesDealt(round_, 0, 0, 0, 3))
            case _:
                witness.record_received(0.0, Delivery(SERVER, Place(round_), MODEL, b""))

    left, first = rounds_of(witness, begin, tmp_path)
    assert first is not None
    assert left == list(range(first, 10))
    assert 2 <= len(left) <= 5
    transcript = read_transcript(tmp_path / "transcripts" / f"{name}.jsonl")
    kinds = {"server": "round_started", "dealer": "triples_dealt", "p00": "received"}
    assert transcript.entries[0].kind == kinds[name]
    assert transcript.header["vantage"] == name
    assert transcript.header["parties"] == ["p00", "p01"]


def test_models_that_were_refused_divide_nothing(tmp_path: Path) -> None:
    """Nor do those of a round that has begun: whoever sends them cannot have rounds deleted."""
    witness = ProcessWitness(settings(tmp_path, transcript_bytes=BOUND), lambda _news: None, 32)

    def begin(round_: int) -> None:
        witness.record_received(0.0, Delivery(SERVER, Place(1000 + round_), MODEL, b""), idle=True)
        witness.record_received(0.0, Delivery(SERVER, Place(0), MODEL, b""))

    assert rounds_of(witness, begin, tmp_path) == (list(range(10)), None)


def test_a_restarted_process_does_not_go_on_in_segments_of_its_last_start(tmp_path: Path) -> None:
    """Killed as it had closed one file, and had not begun the next."""
    bounded = settings(tmp_path, transcript_bytes=BOUND)
    witness = ProcessWitness(bounded, lambda _news: None, 32)
    witness.record_refusal(0.0, "p03", "x" * 1000)
    witness.record_received(0.0, Delivery(SERVER, Place(1), MODEL, b""))
    (tmp_path / "transcripts" / "p00.jsonl").unlink()
    ProcessWitness(bounded, lambda _news: None, 32).close(Finished("done"))
    assert names_in(tmp_path / "transcripts") == ("p00", "p00.2")
