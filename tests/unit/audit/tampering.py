"""Changing what a recorded run left so that its hash chains hold again, as a forger of transcripts can."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection
from typing import Any

from msgspec import structs

from securefl.base.ids import SERVER, PartyId
from securefl.protocol.kernel.events import Place
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.messages.verification import ChainedAnnounce
from securefl.protocol.round.shared.signed_claim import announced_contents, sign_claim
from securefl.protocol.wire.codec import decode, encode
from securefl.protocol.wire.envelope import SIGNATURE, peek, seal_frame
from securefl.runtime.report.rundir import RunDirectory
from securefl.runtime.transcript.chain import TranscriptWriter, read_transcript
from tests.simulation.rosters import seeded_identities
from tests.simulation.world import RUN

Fields = dict[str, Any]
NAMES = tuple(PartyId(f"p{k:02d}") for k in range(12))
IDENTITIES = seeded_identities(NAMES, 1)[0]


def keep(directory: RunDirectory, content: bytes) -> str:
    """Put a file among the frames."""
    name = hashlib.sha256(content).hexdigest()
    (directory.frame_folder / name).write_bytes(content)
    return name


def retold(
    directory: RunDirectory,
    vantage: str,
    change: Callable[[str, Fields], list[tuple[str, Fields]]],
    *,
    without: Collection[str] = (),
) -> None:
    """Write a transcript again, with what ``change`` makes of each entry, and the summary without its end.

    ``without``: fields of the header that it is to lack.
    """
    path = directory.transcript_folder / f"{vantage}.jsonl"
    old = read_transcript(path)
    path.unlink()
    header = {name: value for name, value in old.header.items() if name not in without}
    with TranscriptWriter(path, header) as writer:
        for entry in old.entries:
            for kind, fields in change(entry.kind, dict(entry.fields)):
                writer.append(kind, fields)
    summary = directory.read_summary()
    summary["transcripts"] = {}
    directory.summary_file.write_text(json.dumps(summary))


def received(
    directory: RunDirectory,
    vantage: str,
    kind: str,
    round_: int,
    change: Callable[[Any], AnyMessage],
    *,
    signed: bool = True,
    added: bool = False,
    inner: bool = True,
    whole: bool = True,
) -> None:
    """Change a message that a process received in a round, signed again by who had sent it or not.

    ``added``: leave the true one, too. ``inner``: of an announcement, sign the claim in it again as well.
    ``whole``: in one frame; else in parts, of which the message is kept.
    """
    done = 0

    def tamper(of: str, fields: Fields) -> list[tuple[str, Fields]]:
        nonlocal done
        if of != "received" or fields["message"] != kind or fields["place"][0] != round_ or done:
            return [(of, fields)]
        done += 1
        frame = (directory.frame_folder / fields["kept"]).read_bytes()
        if not whole:
            name = keep(directory, encode(change(decode(frame, "test"))))
            return [(of, {**fields, "kept": name, "sha256": name})]
        payload = peek(frame, "test")
        changed = change(decode(bytes(payload.body), "test"))
        body = encode(_signed(changed, payload.header.place) if inner else changed)
        header = structs.replace(payload.header, seq=payload.header.seq + 1000 * added)
        made = seal_frame(header, body, IDENTITIES[PartyId(fields["from"])])
        if not signed:
            made = frame[:SIGNATURE] + made[SIGNATURE:]
        other = {**fields, "kept": keep(directory, made), "sha256": hashlib.sha256(body).hexdigest()}
        return [*([(of, fields)] if added else []), (of, other)]

    retold(directory, vantage, tamper)
    assert done, f"{vantage} received no {kind} in round {round_}"


def invented(
    directory: RunDirectory,
    vantage: str,
    kind: str,
    round_: int,
    change: Callable[[Any], AnyMessage],
    *,
    added: bool = True,
) -> None:
    """Add a message to those that a process received in a round, as if it had come in parts: unsigned.

    ``added``: before the true one; else in its place.
    """
    done = 0

    def tell(of: str, fields: Fields) -> list[tuple[str, Fields]]:
        nonlocal done
        if of != "received" or fields["message"] != kind or fields["place"][0] != round_ or done:
            return [(of, fields)]
        done += 1
        content = (directory.frame_folder / fields["kept"]).read_bytes()
        if fields["kept"] != fields["sha256"]:
            content = bytes(peek(content, "test").body)
        name = keep(directory, encode(change(decode(content, "test"))))
        return [(of, {**fields, "kept": name, "sha256": name}), *([(of, fields)] if added else [])]

    retold(directory, vantage, tell)
    assert done, f"{vantage} received no {kind} in round {round_}"


def _signed(message: AnyMessage, place: Place) -> AnyMessage:
    """An announcement with the server's signature over the claim that is in it now."""
    if not isinstance(message, ChainedAnnounce):
        return message
    contents = announced_contents(message.claim.model, message.attests)
    signed = sign_claim(IDENTITIES[SERVER], RUN, message.claim, place, contents)
    return structs.replace(message, signature=signed.signature)
