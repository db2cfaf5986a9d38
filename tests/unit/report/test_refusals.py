"""A flood of refused frames neither fills the disk nor goes unmentioned."""

from __future__ import annotations

from pathlib import Path

from securefl.base.ids import PartyId
from securefl.protocol.kernel.effects import Finished
from securefl.protocol.kernel.events import Place
from securefl.protocol.messages.control import Here
from securefl.protocol.round.shared.reports import ClustersDrawn
from securefl.protocol.wire.inbox import Delivery
from securefl.runtime.report.witness import MOST, MOST_OF_ONE, ProcessWitness, Refusal, RefusalLines
from securefl.runtime.transcript.chain import read_transcript
from tests.unit.process.processes import settings


def drawn(round_: int) -> ClustersDrawn:
    p00, p01 = PartyId("p00"), PartyId("p01")
    return ClustersDrawn(round_, bytes(32), (((p00, p01),),), (), bytes(32), ((p00, 1), (p01, 1)))


def test_a_transcript_stays_small_and_says_how_many_there_were(tmp_path: Path) -> None:
    told: list[object] = []
    witness = ProcessWitness(settings(tmp_path), told.append, 32)
    for number in range(20_000):
        witness.record_refusal(1.0, "p01", f"frame {number} is not authentic")
        witness.record_refusal(1.0, f"nobody{number}", "is not a member of the roster")
    witness.report(2.0, drawn(0))
    witness.record_refusal(3.0, "p01", "again")
    witness.close(Finished("done"))
    path = tmp_path / "transcripts" / "p00.jsonl"
    assert path.stat().st_size < 300_000
    refused = [entry.fields for entry in read_transcript(path).entries if entry.kind == "refused"]
    alone = [fields for fields in refused if "times" not in fields]
    assert len(alone) == MOST + 1
    assert sum(fields["culprit"] == "p01" for fields in alone) == MOST_OF_ONE + 1
    assert sum(int(str(fields.get("times", 1))) for fields in refused) == 40_001
    # Whoever counts them hears of every one.
    assert sum(isinstance(news, Refusal) for news in told) == 40_001


def test_signed_messages_that_are_refused_or_change_nothing_fill_no_disk_either(tmp_path: Path) -> None:
    witness = ProcessWitness(settings(tmp_path), lambda _news: None, 32)
    here = Delivery(PartyId("p01"), Place(-1), Here(connection=2, kept=True), b"")
    for _ in range(2):
        for _ in range(5000):
            witness.record_received(1.0, here, idle=True)
        witness.record_received(1.0, here)
        witness.report(2.0, drawn(0))
    witness.close(Finished("done"))
    entries = read_transcript(tmp_path / "transcripts" / "p00.jsonl").entries
    assert sum(entry.kind == "received" for entry in entries) == 2 * (MOST_OF_ONE + 1)


def test_each_round_has_its_lines() -> None:
    lines = RefusalLines()
    for _ in range(3):
        written = [lines.take("p01", str(number)) for number in range(MOST_OF_ONE + 5)]
        assert written == [True] * MOST_OF_ONE + [False] * 5
        assert lines.settle() == [("p01", str(MOST_OF_ONE + 4), 5)]
    assert lines.settle() == []
