"""History of a roster: every broken line, chain and signature is refused."""

from __future__ import annotations

import msgspec
import pytest

from securefl.base.crypto.keyfiles import read_identity
from securefl.base.errors import ConfigError
from securefl.runtime.provision.certificates import utc_now
from securefl.runtime.provision.history import (
    AnyEvent,
    CertificateRenewed,
    History,
    HistoryLine,
    KeysRevoked,
    MemberAdded,
    MemberRemoved,
    MemberRotated,
    ProjectBegun,
    SettingsChanged,
    read_history,
)
from tests.looped import looped
from tests.unit.cli.programs import call, refusal
from tests.unit.provision.machines import Machines, done


def decoded(history: History, at: int) -> HistoryLine:
    return msgspec.json.decode(history.lines[at], type=HistoryLine)


def test_a_history_is_read_as_it_was_written(machines: Machines) -> None:
    history = machines.history()
    again = read_history(history.lines, "again")
    assert (again.head, again.project, again.settings) == (history.head, "trial", history.settings)
    assert again.roster() == history.roster()


@looped(
    "how", ["left out", "exchanged", "cut off", "edited", "spaced", "resigned", "other operator", "twice"]
)
def test_a_broken_history_is_refused(how: str, machines: Machines) -> None:
    history = machines.history()
    lines = list(history.lines)
    line = decoded(history, 2)
    assert isinstance(line.entry, MemberAdded)
    edited = msgspec.structs.replace(line, time="2020-01-01T00:00:00Z")
    other = read_identity(machines.at("p00") / "keys-1" / "p00.key")
    match how:
        case "left out":
            del lines[2]
        case "exchanged":
            lines[2], lines[3] = lines[3], lines[2]
        case "cut off":
            lines[2] = lines[2][:-3]
        case "edited":
            lines[2] = edited.encode()
        case "spaced":
            lines[2] = lines[2].replace(b'"number":2', b'"number": 2')
        case "resigned":
            signature = other.sign(edited.message).hex()
            lines[2] = msgspec.structs.replace(edited, signature=signature).encode()
        case "other operator":
            first = decoded(history, 0)
            assert isinstance(first.entry, ProjectBegun)
            key = other.public.verify_key.hex()
            entry = msgspec.structs.replace(first.entry, verify_key=key)
            first = msgspec.structs.replace(first, entry=entry)
            lines[0] = msgspec.structs.replace(first, signature=other.sign(first.message).hex()).encode()
        case "twice":
            lines.insert(2, lines[2])
    with pytest.raises(ConfigError, match=r"x: entry \d: (is damaged|is not|does not continue)") as found:
        read_history(lines, "x")
    assert found.value.remedy == "do not use it; ask the operator by another channel"


@looped("how", ["edited", "signed by another", "added", "signature of another line"])
def test_the_last_entry_has_to_be_signed(how: str, machines: Machines) -> None:
    """No later entry has its hash: the signature alone protects it."""
    history = machines.history()
    lines = list(history.lines)
    last = decoded(history, -1)
    other = read_identity(machines.at("p00") / "keys-1" / "p00.key")
    edited = msgspec.structs.replace(last, entry=SettingsChanged(digest="0" * 64))
    added = HistoryLine(
        number=len(lines), previous=history.head, time=last.time, entry=MemberRemoved(name="p01")
    )
    match how:
        case "edited":
            lines[-1] = edited.encode()
        case "signed by another":
            signature = other.sign(edited.message).hex()
            lines[-1] = msgspec.structs.replace(edited, signature=signature).encode()
        case "added":
            lines.append(added.encode())
        case "signature of another line":
            lines.append(msgspec.structs.replace(added, signature=last.signature).encode())
    with pytest.raises(ConfigError, match=r"x: entry \d: is not signed by the operator"):
        read_history(lines, "x")


def test_a_cut_history_is_a_shorter_one(machines: Machines) -> None:
    """The end of a history cannot be seen in itself: a kit compares it with what it has accepted."""
    history = machines.history()
    assert len(read_history(history.lines[:3], "x").lines) == 3
    with pytest.raises(ConfigError, match="has no history"):
        read_history([], "x")


def events(machines: Machines) -> list[tuple[AnyEvent, str]]:
    history = machines.history()
    p00, p01 = history.members["p00"], history.members["p01"]  # type: ignore[index]
    assert p00.public is not None
    assert p01.public is not None
    assert history.authority is not None
    keys = {
        "name": "p00",
        "verify_key": p00.public.verify_key.hex(),
        "seal_key": p00.public.seal_key.hex(),
        "certificate": p00.certificate.text,
        "fingerprint": p00.fingerprint,
    }
    begun = decoded(history, 0).entry
    return [
        (begun, "begun is the first one"),
        (MemberAdded(**keys), "p00 has other keys already"),
        (MemberRotated(**keys), "p00 was rotated, but keeps a key"),
        (
            MemberRotated(**keys | {"fingerprint": p01.fingerprint}),
            "p00 has a fingerprint that is not of its keys",
        ),
        (MemberRotated(**keys | {"name": "p07"}), "p07 has no keys that could be replaced"),
        (MemberAdded(**keys | {"name": "p07"}), "certificate of p07 is not a certificate of p07"),
        (MemberAdded(**keys | {"name": "../x"}), "../x is not a name"),
        (MemberAdded(**keys | {"name": "p07", "verify_key": "x"}), "not 64 hexadecimal digits"),
        (MemberAdded(**keys | {"name": "p07", "seal_key": "0" * 64}), "weak key"),
        (MemberAdded(**keys | {"name": "p07", "certificate": "x"}), "is not a certificate"),
        (
            MemberAdded(**keys | {"name": "p07", "certificate": history.authority.text}),
            "is not a certificate of p07",
        ),
        (CertificateRenewed(name="p00", certificate=p01.certificate.text), "is not a certificate of p00"),
        (CertificateRenewed(name="p07", certificate=p01.certificate.text), "p07 is not a member"),
        (MemberRemoved(name="p07"), "p07 is not a member"),
        (KeysRevoked(name="p07", reason="x"), "p07 is not a member"),
    ]


def test_events_have_to_fit_the_state(machines: Machines) -> None:
    operator = read_identity(machines.operator / "operator.key")
    for event, reason in events(machines):
        history = machines.history()
        line = HistoryLine(
            number=len(history.lines), previous=history.head, time="2030-01-01T00:00:00Z", entry=event
        )
        signed = msgspec.structs.replace(line, signature=operator.sign(line.message).hex())
        with pytest.raises(ConfigError) as found:
            history.read_line(signed.encode())
        assert reason in str(found.value).replace(": ", " ")
        with pytest.raises(ConfigError) as found:
            machines.history().append(event, operator, utc_now())
        assert reason in str(found.value).replace(": ", " ")


def test_the_first_event_is_begun(machines: Machines) -> None:
    operator = read_identity(machines.operator / "operator.key")
    with pytest.raises(ConfigError, match="begun is the first one"):
        History("x").append(SettingsChanged(digest="0"), operator, utc_now())


def test_the_history_is_printed(machines: Machines, kits: Machines) -> None:
    for file in (kits.operator / "history.jsonl", kits.at("p00") / "kit.toml"):
        told = done("history", file)
        assert f"added p00 {kits.fingerprint('p00')}" in told
        assert kits.operator_fingerprint() in told
    (machines.operator / "history.jsonl").write_text("{}\n")
    reason = refusal(call("provision", "history", machines.operator / "history.jsonl"))
    assert "entry 0: is damaged" in reason
