"""Signed messages of operator and agents: what is refused, and each field of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from securefl.base.errors import ConfigError
from securefl.runtime.agents.board import (
    PART,
    Address,
    EarlyMessages,
    Topics,
    WeightParts,
    count_parts,
    parts_of,
)
from securefl.runtime.agents.submission import (
    SCENARIO_BYTES,
    StopOrder,
    read_notice,
    read_stop_order,
    read_submission,
)
from securefl.runtime.provision.signed import sha256
from tests.unit.agents.samples import MACHINES, content, history, notice, order, signed

TOPICS = Topics("trial")


def test_a_submission_is_read_as_it_was_signed() -> None:
    found = read_submission(signed(content(note="first training")), history(), "test")
    assert found.content == content(note="first training")
    assert found.digest == sha256(found.signed.body.encode())
    assert found.digest != order().digest


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"project": "other"}, "project"),
        ({"run": "../one"}, "run"),
        ({"run": "server"}, "run"),
        ({"submitted": "yesterday"}, "submitted"),
        ({"expires": "2026-05-04 12:00"}, "expires"),
        ({"parties": ("p00", "p00")}, "parties"),
        ({"parties": ("p00", "server")}, "parties"),
        ({"parties": ("p00", "a/b")}, "parties"),
        ({"site": "os.system"}, "site"),
        ({"site": "hospital:Hospital; rm"}, "site"),
        ({"data": "../samples.npz"}, "data"),
        ({"server_data": "/etc/passwd"}, "server_data"),
        ({"site": "", "data": ""}, "data"),
        ({"data": "samples.npz"}, "data"),
        ({"weights_digest": "", "weights_bytes": 1}, "weights_digest"),
        ({"weights_digest": "A" * 64, "weights_bytes": 1}, "weights_digest"),
        ({"weights_digest": "a" * 64}, "weights_digest"),
    ],
)
def test_each_bad_field_is_named(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        read_submission(signed(content(**fields)), history(), "submission of one")


@pytest.mark.parametrize(
    "change",
    [
        {"parties": []},
        {"history": "a" * 63},
        {"scenario_digest": ""},
        {"scenario": "#" * (SCENARIO_BYTES + 1)},
        {"weights_bytes": -1},
        {"note": "two\nlines"},
        {"note": "x" * 201},
        {"unknown": 1},
        {"run": 3},
    ],
)
def test_bodies_that_do_not_decode_are_refused(change: dict[str, Any]) -> None:
    file = json.loads(signed(content()))
    body = json.loads(file["body"]) | change
    with pytest.raises(ConfigError, match="damaged body"):
        read_submission(json.dumps(file | {"body": json.dumps(body)}).encode(), history(), "test")


def test_only_the_operator_submits_and_stops() -> None:
    for name in MACHINES:
        with pytest.raises(ConfigError, match="not signed"):
            read_submission(signed(content(), by=MACHINES[name]), history(), "test")
    stop = StopOrder(project="trial", run="one", submission="c" * 64, reason="wrong scenario")
    assert read_stop_order(signed(stop, "securefl stop order"), history(), "test") == stop
    with pytest.raises(ConfigError, match="not signed"):
        read_stop_order(signed(stop, "securefl stop order", MACHINES["server"]), history(), "test")


def test_a_signature_holds_for_one_kind_of_message_only() -> None:
    file = json.loads(signed(content()))
    for kind in ("securefl stop order", "securefl notice", "securefl answer"):
        with pytest.raises(ConfigError):
            read_submission(json.dumps(file | {"kind": kind}).encode(), history(), "test")
    stop = StopOrder(project="trial", run="one", submission="c" * 64, reason="")
    asked = json.loads(signed(stop, "securefl stop order")) | {"kind": "securefl submission"}
    with pytest.raises(ConfigError):
        read_submission(json.dumps(asked).encode(), history(), "test")


@pytest.mark.parametrize(
    "field", ["run", "expires", "scenario", "parties", "site", "weights_digest", "history"]
)
def test_each_field_is_under_the_signature(field: str) -> None:
    others = {
        "run": "two", "expires": "2027-01-01T00:00:00Z", "scenario": "", "parties": ["p00"],
        "site": "evil:Site", "weights_digest": "d" * 64, "history": "d" * 64,
    }  # fmt: skip
    file = json.loads(signed(content()))
    body = json.loads(file["body"]) | {field: others[field]}
    with pytest.raises(ConfigError, match="not signed"):
        read_submission(json.dumps(file | {"body": json.dumps(body)}).encode(), history(), "test")


def test_a_notice_is_signed_by_its_machine() -> None:
    of = notice("p00", "accepted")
    assert read_notice(signed(of, "securefl notice", MACHINES["p00"]), history(), "test") == of
    with pytest.raises(ConfigError, match="not signed"):
        read_notice(signed(of, "securefl notice", MACHINES["p01"]), history(), "test")
    stray = notice("p07", "accepted")
    with pytest.raises(ConfigError, match="is not in the roster"):
        read_notice(signed(stray, "securefl notice", MACHINES["p00"]), history(), "test")
    other = notice("p00", "accepted", project="other")
    with pytest.raises(ConfigError, match="another project"):
        read_notice(signed(other, "securefl notice", MACHINES["p00"]), history(), "test")


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_refused(raw: bytes) -> None:
    for read in (read_submission, read_stop_order, read_notice):
        with pytest.raises(ConfigError):
            read(raw, history(), "test")


@given(st.data())
def test_damaged_messages_are_refused(data: st.DataObject) -> None:
    raw = bytearray(signed(content()))
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] ^= data.draw(st.integers(1, 255))
    try:
        found = read_submission(bytes(raw), history(), "test")
    except ConfigError:
        return
    # JSON has several spellings of one text.
    assert found.content == content()


@pytest.mark.parametrize("size", [1, PART - 1, PART, PART + 1, 3 * PART, 3 * PART + 7])
def test_first_weights_are_put_together_in_any_order(size: int) -> None:
    whole = bytes(number % 251 for number in range(size))
    asked = content(weights_digest=sha256(whole), weights_bytes=size)
    parts = dict(enumerate(parts_of(whole)))
    assert len(parts) == count_parts(asked)
    kept = WeightParts(asked)
    for number in sorted(parts, reverse=True)[:-1]:
        assert kept.put(number, parts[number]) is None
        assert f"of {len(parts)} parts" in kept.missing
    assert kept.put(len(parts), b"x" * PART) is None
    assert kept.put(0, parts[0] + b"x") is None
    assert kept.put(0, parts[0]) == whole


def test_parts_of_other_weights_are_dropped() -> None:
    asked = content(weights_digest=sha256(b"right"), weights_bytes=5)
    kept = WeightParts(asked)
    assert kept.put(0, b"wrong") is None
    assert kept.put(0, b"right") == b"right"


def test_topics_are_read_as_they_are_made() -> None:
    for topic, kind in (
        (TOPICS.submission("one"), "submission"),
        (TOPICS.stop("one"), "stop"),
        (TOPICS.part("one", 12), "weights"),
        (TOPICS.notice("one", "p00"), "notice"),
    ):
        found = TOPICS.read(topic)
        assert found is not None
        assert (found.kind, found.run) == (kind, "one")
    for topic in (
        "sfl-agents/1/other/orders/one/stop",
        TOPICS.probe,
        "",
        f"{TOPICS.root}/orders/one/weights/²",
    ):
        assert TOPICS.read(topic) is None


def test_early_messages_are_kept_by_topic_and_sender() -> None:
    early = EarlyMessages()
    stop, first = Address("stop", "one"), Address("notice", "one", name="p00")
    early.keep(stop, b"stop")
    early.keep(first, b"old")
    early.keep(first, b"new")
    # A machine that floods with runs of its own displaces nothing, and takes little memory.
    for number in range(10_000):
        early.keep(Address("notice", f"run-{number}", name="p01"), b"x")
    assert sum(len(early.take(f"run-{number}")) for number in range(10_000)) == 2**18 // 513
    early.keep(Address("notice", "one", name="p01"), b"x" * 1000)
    assert early.take("one") == {
        stop: b"stop", first: b"new", Address("notice", "one", name="p01"): b"x" * 1000,
    }  # fmt: skip
    assert early.take("one") == {}
