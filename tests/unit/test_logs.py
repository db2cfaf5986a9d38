"""Lines of the diagnostic log: JSON with run, process and round, and what is said of late messages."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from pathlib import Path

import pytest

from securefl.base import logs
from securefl.base.ids import PartyId
from securefl.protocol.kernel.events import Place
from securefl.protocol.messages import RollCall
from securefl.protocol.wire.inbox import Delivery
from securefl.runtime.report.witness import News, PartyPresence, ProcessWitness
from tests.simulation.world import World, scenario
from tests.unit.process.processes import settings


def record(text: str, *arguments: object) -> logging.LogRecord:
    return logging.LogRecord("securefl.x", logging.INFO, "x.py", 1, text, arguments, None)


def test_a_line_is_one_json_object_with_all_fields() -> None:
    line = logs.JsonLines().format(record("a %s\nb", '"c"'))
    assert "\n" not in line
    fields = json.loads(line)
    assert datetime.fromisoformat(fields.pop("time")).tzinfo == UTC
    none = {"run": None, "party": None, "round": None}
    assert fields == {"level": "info", "logger": "securefl.x", "message": 'a "c"\nb', **none}


def test_run_party_and_round_are_bound_in_their_context_only() -> None:
    form = logs.JsonLines()
    with logs.bind_run("r1", "p00"):
        logs.bind_round(3)
        inside = json.loads(form.format(record("x")))
    after = json.loads(form.format(record("x")))
    assert [inside[name] for name in ("run", "party", "round")] == ["r1", "p00", 3]
    assert [after[name] for name in ("run", "party", "round")] == [None, None, None]


def test_an_exception_is_a_field() -> None:
    one = record("x")
    one.exc_info = ValueError, ValueError("broken"), None
    assert "ValueError: broken" in json.loads(logs.JsonLines().format(one))["exception"]


@pytest.mark.parametrize(
    ("reason", "level", "said"),
    [
        (
            "late: Hello of round 0, too",
            logging.DEBUG,
            "p00 ignores a late message of p01: Hello of round 0, too",
        ),
        ("reveals its nonce twice", logging.INFO, "p00 rejects a message of p01: reveals its nonce twice"),
    ],
)
def test_late_messages_are_no_accusation(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, reason: str, level: int, said: str
) -> None:
    witness = ProcessWitness(settings(tmp_path), lambda _news: None, 32)
    with caplog.at_level(logging.DEBUG, logger="securefl"):
        witness.record_refusal(1.0, "p01", reason)
    assert caplog.record_tuples[-1][1:] == (level, said)


def test_the_server_tells_who_is_there_and_who_is_gone(tmp_path: Path) -> None:
    told: list[News] = []
    world = World(scenario(6))
    witness = ProcessWitness(settings(tmp_path, "server"), told.append, 32, world.plan)
    for party in ("p01", "p01", "p02"):
        came = Delivery(PartyId(party), Place(-1), RollCall(), b"")
        witness.record_received(1.0, came, idle=party == "p02")
    witness.record_gone("p01")
    witness.record_gone("p05")
    seen = [(one.joined, one.connected, one.expected) for one in told if isinstance(one, PartyPresence)]
    assert seen == [(0, 0, 6), (1, 1, 6), (1, 2, 6), (1, 1, 6)]
