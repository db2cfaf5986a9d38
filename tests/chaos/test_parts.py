"""Parts of the chaos suite that need no federation: lists, packets, shrinking, records."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from securefl.base.crypto.identity import Identity
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.ids import SERVER, PartyId, RunId
from securefl.protocol.kernel.events import Place
from securefl.protocol.messages.rounds import Reveal
from securefl.protocol.wire.outbox import Outbox
from tests.chaos import __main__ as chaos
from tests.chaos import faults, running
from tests.chaos.faults import BROKER, DEALER, KINDS, Fault, Kill, When, draw, of_kind
from tests.chaos.packets import frame_in, level_of, read_packet
from tests.chaos.records import (
    BrokenCheck,
    Case,
    Record,
    append_record,
    page,
    read_case,
    read_records,
    write_case,
)
from tests.chaos.running import case_of, cases_of_each_kind, setup_of
from tests.chaos.setups import SETUPS, drawn
from tests.chaos.shrink import ddmin

SEEDS = range(400)


def test_a_seed_is_always_the_same_case_and_seeds_are_different_ones() -> None:
    assert [case_of(seed) for seed in SEEDS] == [case_of(seed) for seed in SEEDS]
    assert len({case_of(seed) for seed in SEEDS}) == len(SEEDS)


def test_lists_have_all_kinds_of_faults_in_all_setups() -> None:
    found = Counter(type(fault) for seed in SEEDS for fault in case_of(seed).faults)
    assert set(found) == set(KINDS)
    assert {drawn(seed).name for seed in SEEDS} == set(SETUPS)
    whom = {fault.who for seed in SEEDS for fault in case_of(seed).faults if isinstance(fault, Kill)}
    assert {BROKER, DEALER, SERVER, "p00"} <= whom


def test_the_server_is_killed_at_every_sight_of_every_setup() -> None:
    found = set()
    for seed in range(6_000):
        setup = drawn(seed)
        for fault in draw(seed, setup.field):
            if isinstance(fault, Kill) and fault.who == "server":
                found.add((setup.name, fault.when.kind))
    for name, setup in SETUPS.items():
        for kinds in setup.field.sights.values():
            assert {(name, kind) for kind in kinds} <= found


def test_no_more_parties_are_gone_for_good_than_a_run_can_spare() -> None:
    for seed in SEEDS:
        case = case_of(seed)
        gone = {one.who for one in case.faults if isinstance(one, Kill) and one.back is None}
        assert BROKER not in gone
        assert len(gone) <= setup_of(case).field.spare


def test_faults_wait_for_what_the_setup_sends() -> None:
    for seed in SEEDS:
        field = drawn(seed).field
        for fault in draw(seed, field):
            who = fault.when.by if fault.when.by in field.sights else "party"
            assert fault.when.kind in field.sights[who]
            assert fault.when.by in field.processes


def test_each_kind_by_itself() -> None:
    cases = cases_of_each_kind(2)
    assert [type(case.faults[0]) for case in cases] == [kind for kind in (*KINDS, Kill) for _ in range(2)]
    assert [case.faults[0].who for case in cases if isinstance(case.faults[0], Kill)][-2:] == [SERVER, SERVER]
    assert faults.NAMES.keys() == set(KINDS)
    field = SETUPS["masks"].field
    assert all(isinstance(of_kind(kind, 3, field), kind) for kind in KINDS)


def test_a_case_is_read_as_it_was_written(tmp_path: Path) -> None:
    for seed in SEEDS[:50]:
        case = case_of(seed)
        write_case(tmp_path / "case.json", case)
        assert read_case(tmp_path / "case.json") == case
        assert all(str(fault) for fault in case.faults)


def test_shrinking_finds_what_does_it() -> None:
    for guilty in ({3}, {0, 7}, {1, 2, 5}, set(range(8))):
        left, calls = ddmin(range(8), lambda part, guilty=guilty: guilty <= set(part), 200)  # type: ignore[misc]
        assert set(left) == guilty
        assert calls <= 200


def test_shrinking_ends_when_no_call_is_left_and_keeps_what_broke() -> None:
    asked: list[tuple[int, ...]] = []

    def breaks(part: tuple[int, ...]) -> bool:
        asked.append(part)
        return {2, 13} <= set(part)

    left, calls = ddmin(range(16), breaks, 5)
    assert calls == len(asked) == 5
    assert {2, 13} <= set(left)
    assert tuple(range(16)) not in asked


def test_what_breaks_without_any_fault_shrinks_to_none() -> None:
    assert ddmin("abc", lambda _part: True, 10) == ((), 1)


def _publish(topic: str, payload: bytes, level: int, head: int = 0x32) -> bytes:
    name = topic.encode()
    body = len(name).to_bytes(2, "big") + name + (b"\0\x07" if head & 0x06 else b"")
    body += (b"\x03\x0b\x01\x02" if level == 5 else b"") + payload
    length, left = b"", len(body)
    while True:
        left, byte = divmod(left, 128)
        length += bytes([byte | (0x80 if left else 0)])
        if not left:
            return bytes([head]) + length + body


@pytest.mark.parametrize("level", [4, 5])
@pytest.mark.parametrize("head", [0x30, 0x32, 0x3A])
def test_frames_are_found_in_packets(level: int, head: int) -> None:
    entropy = InsecureSeededEntropy(0)
    outbox = Outbox(RunId("r"), Identity.generate(PartyId("p00"), entropy), entropy)
    (frame,) = outbox.frames(SERVER, Place(3, 1, 2, 1), Reveal(nonce=bytes(32)))
    packet = _publish("sfl/1/r/up/p00", frame, level, head)
    connect = b"\x10\x10\0\x04MQTT" + bytes([level]) + bytes(9)

    async def read() -> list[bytes]:
        reader = asyncio.StreamReader()
        reader.feed_data(connect + packet + b"\xc0\0")
        reader.feed_eof()
        return [await read_packet(reader) for _ in range(4)]

    assert asyncio.run(read()) == [connect, packet, b"\xc0\0", b""]
    assert level_of(connect) == level
    seen = frame_in(packet, level, "p00", 1.5)
    assert seen is not None
    assert (seen.at, seen.by, seen.kind) == (1.5, "p00", "Reveal")
    assert (seen.round, seen.reclustering, seen.cluster, seen.attempt) == (3, 1, 2, 1)
    for other in (_publish("sfl/1/r/status/p00", b"gone", level), b"\xc0\0"):
        assert frame_in(other, level, "p00", 0.0) is None


def _record(seed: int, *broken: str) -> Record:
    case = case_of(seed)
    checks = tuple(BrokenCheck(check, "something |odd|") for check in broken)
    return Record(seed, case, tuple(range(len(case.faults))), checks, 5, 1, 10, 30, 33, 12.0, 36.0)


def test_results_are_kept_line_by_line_and_the_last_of_a_seed_counts(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    assert read_records(path) == ()
    for record in (_record(2), _record(1, "sums"), _record(2, "twice")):
        append_record(path, record)
    with path.open("ab") as file:
        file.write(b'{"seed":')
    assert read_records(path) == (_record(1, "sums"), _record(2, "twice"))


def test_a_line_that_was_cut_off_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    append_record(path, _record(1))
    path.write_bytes(path.read_bytes()[:-20])
    append_record(path, _record(2))
    assert read_records(path) == (_record(2),)


def test_the_page_counts_what_broke() -> None:
    shrunk = msgspec.structs.replace(_record(4, "sums", "sums", "keys"), shrunk=case_of(4).faults[:1])
    text = page([*map(_record, range(1, 4)), shrunk], "make chaos")
    assert "4 runs, 3 of them as they should be" in text
    assert "| no wrong sum | 1 |" in text
    assert "| nobody exposed | 0 |" in text
    assert "0.04 CPU hours" in text
    assert f"- {case_of(4).faults[0]}" in text
    assert "something  odd" in text


def test_the_page_says_where_the_server_was_killed() -> None:
    at = When("p03", "Release", 1), When("server", "Freeze", 0), When("server", "Freeze", 1)
    faults = tuple(Kill(when=when, who="server", back=1.0) for when in at)
    case = msgspec.structs.replace(case_of(1), faults=faults)
    record = msgspec.structs.replace(_record(1), case=case, struck=(0, 1))
    text = page([record, msgspec.structs.replace(record, seed=2, struck=(1, 2))], "make chaos")
    assert "| party: Release | 1 | 1 |" in text
    assert "| server: Freeze | 3 | 3 |" in text


def test_a_case_that_has_changed_is_another_one() -> None:
    case: Case = case_of(1)
    fault: Fault = Kill(when=When("server", "Invite", 0), who="p00")
    assert msgspec.structs.replace(case, faults=(fault,)) != case
    assert replace(setup_of(case), training=9.0) != setup_of(case)


def test_a_failing_list_shrinks_to_the_fault_that_breaks_the_same_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = next(case for case in map(case_of, SEEDS) if len(case.faults) == 6)
    guilty = case.faults[4]
    tried: list[tuple[Fault, ...]] = []

    def stand_in(_seed: int, one: Case) -> Record:
        tried.append(one.faults)
        # In every second run only, and another check breaks whatever is done.
        breaks = guilty in one.faults and len(tried) % 2 == 0
        checks = ("sums", "keys") if breaks else ("keys",)
        return msgspec.structs.replace(_record(1, *checks), case=one)

    monkeypatch.setattr(running, "run_case", stand_in)
    failing = msgspec.structs.replace(_record(1, "sums"), case=case)
    assert running.shrunk(failing, 40) == (guilty,)
    assert all(faults != case.faults for faults in tried)


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, list[int]]]:
    """The command, with a stand-in for its runs: those of even seeds break something."""

    def run(*arguments: str) -> tuple[int, list[int]]:
        ran: list[int] = []

        def stand_in(cases: dict[int, Case], *_: object, **__: object) -> Iterator[Record]:
            for seed in cases:
                ran.append(seed)
                yield _record(seed, *(() if seed % 2 else ("twice",)))

        monkeypatch.setattr(chaos, "_run", stand_in)
        results = tmp_path / "results.jsonl"
        return chaos.main([*arguments, "--results", str(results), "--shrink", "0"]), ran

    return run


def test_seeds_that_have_results_are_not_run_again(
    command: Callable[..., tuple[int, list[int]]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("--runs", "3", "--seed", "1") == (1, [1, 2, 3])
    assert "--replay" in capsys.readouterr().out
    assert read_case(tmp_path / "failing-2.json") == case_of(2)
    assert command("--runs", "5", "--seed", "1", "--page", str(tmp_path / "page.md")) == (1, [4, 5])
    assert "3 of 5 seeds are in" in capsys.readouterr().out
    text = (tmp_path / "page.md").read_text()
    assert "5 runs, 3 of them as they should be" in text
    assert 'make chaos ARGS="--runs 5 --seed 1"' in text
    assert command("--runs", "1", "--seed", "5") == (0, [])


def test_a_result_of_another_list_is_not_taken_for_this_one(
    command: Callable[..., tuple[int, list[int]]], tmp_path: Path
) -> None:
    """The suite has changed: the seed stands for other faults now."""
    older = msgspec.structs.replace(_record(1), case=case_of(2))
    append_record(tmp_path / "results.jsonl", older)
    assert command("--runs", "1", "--seed", "1") == (0, [1])


def test_one_fault_of_each_kind(command: Callable[..., tuple[int, list[int]]]) -> None:
    code, ran = command("--each", "1")
    assert (code, len(ran)) == (1, len(KINDS) + 1)
