"""Versions that parties report when they join, and the server's comparison with its own."""

from __future__ import annotations

import platform
from collections.abc import Callable

import numpy as np
import pytest
from msgspec import structs

from securefl.base.errors import PeerError
from securefl.base.ids import SERVER, PartyId
from securefl.base.version import __version__
from securefl.protocol.kernel.effects import Finished
from securefl.protocol.messages.control import JoinRun, Software
from securefl.protocol.round.shared.reports import PartiesJoined, Versions, VersionsDiffer
from securefl.protocol.wire.codec import decode, encode
from securefl.runtime.process.software import own_software
from tests.simulation.world import Op, World, scenario

OWN = Software(python="3.11.7", numpy="2.4.6", securefl="0.2.0")
OLD = Versions("3.11.7", "2.4.6", "0.2.0")
NEWER = {
    PartyId("p03"): structs.replace(OWN, python="3.12.1"),
    PartyId("p04"): structs.replace(OWN, python="3.12.1", numpy="2.5.0"),
}


def some_newer(name: PartyId) -> Software | None:
    return NEWER.get(name, OWN)


def run(software: Callable[[PartyId], Software | None], *ops: Op, rounds: str = "1") -> World:
    world = World(scenario(6, rounds=rounds), ops=ops, software=software).run()
    assert isinstance(world.server.outcome, Finished)
    assert not world.server.rejects
    return world


def test_differences_are_one_report_once_all_have_joined() -> None:
    world = run(some_newer)
    (report,) = world.reports(VersionsDiffer)
    assert report == VersionsDiffer(
        OLD, tuple(zip(NEWER, (Versions("3.12.1", n, "0.2.0") for n in ("2.4.6", "2.5.0")), strict=True))
    )
    kinds = [type(one) for one in world.server.reports]
    assert kinds.index(VersionsDiffer) == kinds.index(PartiesJoined) + 1
    assert report.line() == (
        "versions differ: p03, p04 run Python 3.12.1, the server 3.11.7;"
        " p04 runs numpy 2.5.0, the server 2.4.6"
    )


def test_many_parties_are_folded() -> None:
    others = tuple((PartyId(f"p{i:02d}"), OLD._replace(python="3.13.0")) for i in range(11))
    assert VersionsDiffer(OLD, others).line() == (
        "versions differ: p00, p01, p02, p03, p04, p05, p06, p07 and 3 more run Python 3.13.0,"
        " the server 3.11.7"
    )


@pytest.mark.parametrize(
    "software",
    [
        lambda _name: None,
        lambda _name: OWN,
        lambda name: None if name == SERVER else some_newer(name),
        lambda name: OWN if name == SERVER else None,
    ],
    ids=["none reported", "all alike", "server without versions", "only the server"],
)
def test_without_a_difference_there_is_no_report(software: Callable[[PartyId], Software | None]) -> None:
    assert run(software).reports(VersionsDiffer) == []


def test_versions_come_before_the_party_joins() -> None:
    world = run(some_newer)
    for name in world.parties:
        sent = [type(one.message) for one in world.sent if one.sender == name][:3]
        assert sent[1:] == [Software, JoinRun]


def test_a_party_that_comes_later_is_reported_once() -> None:
    """The first two messages are lost: it joins after the deadline, when the run has begun."""
    ops = [Op("drop", "p03", kind, n) for kind in ("Software", "JoinRun") for n in range(2)]
    world = World(scenario(6, rounds="3"), ops=ops, software=some_newer)
    late = encode(NEWER[PartyId("p03")])
    node, sender = world.nodes[SERVER], world.nodes[PartyId("p03")]
    sent: list[bytes] = []

    def observe(at: object, _before: object, _event: object, after: object, _effects: object) -> None:
        if at is node and type(after).__name__ == "CollectingHellos" and len(sent) < 2:
            sent.append(late)
            message = decode(late, "p03")
            for frame in sender.outbox.frames(SERVER, world.sent[0].place, message):
                world._schedule(0.001, SERVER, frame)

    world.observers.append(observe)
    world.run()
    assert len(sent) == 2
    first, second = world.reports(VersionsDiffer)
    assert [name for name, _ in first.others] == ["p04"]
    assert [name for name, _ in second.others] == ["p03"]


def test_a_server_that_was_started_again_compares_again() -> None:
    world = run(some_newer, Op("restart", SERVER, "Invite", 1), rounds="2")
    assert world.starts == 2
    assert [[name for name, _ in one.others] for one in world.reports(VersionsDiffer)] == [["p03", "p04"]] * 2


@pytest.mark.parametrize("version", ["", "3.12\n", "3.12 beta", "\x1b[31m", "1" * 33, "3.12\N{EN DASH}1"])
def test_only_what_can_be_printed_is_a_version(version: str) -> None:
    with pytest.raises(PeerError, match="malformed message"):
        decode(encode(structs.replace(OWN, python=version)), "p00")
    assert decode(encode(OWN), "p00") == OWN


def test_a_process_reports_what_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert own_software() == Software(
        python=platform.python_version(), numpy=np.__version__, securefl=__version__
    )
    monkeypatch.setattr(np, "__version__", "2.4.6 (patched, by a distribution of its own)")
    found = own_software()
    assert found.numpy == "2.4.6--patched--by-a-distributio"
    assert decode(encode(found), "p00") == found
