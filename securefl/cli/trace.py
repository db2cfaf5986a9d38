"""``securefl trace``: captured frames, decoded up to the payload."""

from __future__ import annotations

import binascii
import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from securefl.base import crypto, files
from securefl.base.errors import EXIT_EXPECTED, EXIT_UNEXPECTED, ConfigError, PeerError
from securefl.base.ids import EVERYONE, PartyId, RunId
from securefl.base.text import count
from securefl.cli.console import answers, say
from securefl.cli.options import JsonOption
from securefl.protocol import wire


def trace(
    frame: Annotated[
        Path,
        typer.Argument(
            metavar="FRAME",
            help="File with one frame, or with one in hex on each line (mosquitto_sub -F %x); - is stdin.",
        ),
    ],
    *,
    roster: Annotated[
        Path | None, typer.Option(help="Roster of the run; with it signatures are checked.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Decode the envelope of captured frames: sender, place in the run, sizes, signature. Never a payload.

    Exit codes: 0 no signature is wrong, 1 one is, 2 refused.
    """
    with answers(only=as_json) as stdout:
        known = None if roster is None else crypto.read_roster(roster)
        found, others = [], 0
        for one in frames(frame):
            try:
                found.append(facts(one, known))
            except PeerError as error:
                others, reason = others + 1, error.reason
        if not found:
            raise ConfigError(
                str(frame), f"has no frame of securefl: {reason}", "a frame as it travels, or its hex digits"
            )
        if as_json:
            stdout.write(json.dumps({"frames": found, "other_messages": others}) + "\n")
        else:
            for item in found:
                for label, value in item.items():
                    say(f"{label.replace('_', ' ')}: {value}")
                say("")
            if others:
                say(f"{count(others, 'message')} of other kinds, such as probes of the broker, left out")
    wrong = any(one["signature"] not in {"valid", UNCHECKED} for one in found)
    raise typer.Exit(EXIT_UNEXPECTED if wrong else EXIT_EXPECTED)


UNCHECKED = "not checked (name the roster by --roster)"


def frames(path: Path) -> Iterator[bytes]:
    """Yield the frames of a file: one, or hex lines.

    Raises:
        ConfigError: unreadable or empty.
    """
    with files.reading(path):
        content = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    if not content.strip():
        raise ConfigError(str(path), "is empty", "capture one: mosquitto_sub -C 1 -F %x > frame.hex")
    try:
        yield from [binascii.unhexlify(line) for line in content.split()]
    except binascii.Error:
        yield content


def facts(frame: bytes, roster: crypto.Roster | None) -> dict[str, Any]:
    """Return header fields of a frame, its sizes in bytes and the state of its signature.

    Raises:
        PeerError: it is not a frame.
    """
    payload = wire.peek(frame, "the file")
    header = payload.header
    to = "all" if header.recipient == EVERYONE else header.recipient
    scope = {"round": header.round, "reclustering": header.reclustering, "cluster": header.cluster}
    return {
        "kind": header.kind,
        "run": header.run,
        "sender": header.sender,
        "recipient": to,
        **{name: number for name, number in scope.items() if number >= 0},
        "attempt": header.attempt,
        "session": header.session.hex(),
        "sequence": header.seq,
        "part": f"{header.part + 1} of {header.parts}",
        "frame_bytes": len(frame),
        "payload_bytes": len(payload.body),
        "sha256": hashlib.sha256(frame).hexdigest(),
        "signature": UNCHECKED if roster is None else signature(frame, payload, roster),
    }


def signature(frame: bytes, payload: wire.Payload, roster: crypto.Roster) -> str:
    """Return the state of a frame's signature: ``valid`` or ``WRONG: reason``."""
    header = payload.header
    sender = next((one for name, one in roster.items() if name == header.sender), None)
    if sender is None:
        return f"WRONG: the roster has no {header.sender}"
    try:
        wire.open_frame(frame, payload, sender, RunId(header.run), PartyId(header.recipient))
    except PeerError as error:
        return f"WRONG: {error.reason}"
    return "valid"
