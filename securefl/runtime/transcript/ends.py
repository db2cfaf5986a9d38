"""Ends of transcripts: how far each went, as the run itself says when it ends.

A chain that is cut between two entries still holds. Who kept the summary sees that the rest is missing.
"""

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

from securefl.base.errors import ConfigError
from securefl.runtime.transcript import chain, lines

_TAIL: Final = 4096
"""Bytes in which an ``end`` entry fits."""


def ends_in(folder: Path) -> dict[str, lines.JsonValue]:
    """Entries (header and end included) and last hash of each transcript, by name, that ended in good order.

    Only last lines are read; chains are not verified. A process that was stopped left no end and is not here.
    """
    found: dict[str, lines.JsonValue] = {}
    for path in sorted(folder.glob("*.jsonl")):
        try:
            with path.open("rb") as file:
                file.seek(-min(_TAIL, file.seek(0, os.SEEK_END)), os.SEEK_END)
                fields = lines.parse(file.read().removesuffix(b"\n").rpartition(b"\n")[2])
        except (OSError, ValueError):
            continue
        if fields.get("kind") == chain.END and isinstance(last := fields.get("n"), int):
            found[path.stem] = {"entries": last + 1, "head": fields.get("hash")}
    return found


def check_ends(stated: Any, transcripts: Mapping[str, chain.Transcript], blank: Collection[str] = ()) -> None:
    """Refuse transcripts that are not as long as the run says, or end otherwise.

    Args:
        stated: what :func:`ends_in` gave when the run ended; transcripts that it lacks are not checked.
        transcripts: by name.
        blank: names of those without a whole line.

    Raises:
        ConfigError: names the file and the entry at which it ends, or the one that is empty.
    """
    if not isinstance(stated, dict) or not all(isinstance(end, dict) for end in stated.values()):
        raise ConfigError(
            "summary.json",
            "its field transcripts is not a table",
            "it was changed after the run: restore the file",
        )
    for name in blank:
        if name in stated:
            raise ConfigError(
                f"transcripts/{name}.jsonl",
                f"is empty, but summary.json states {stated[name].get('entries')} entries",
                "it was emptied after the run: put back the whole file",
            )
    for name, transcript in transcripts.items():
        end = stated.get(name)
        if end is None or end.get("head") == transcript.head:
            continue
        raise ConfigError(
            str(transcript.path),
            f"ends with entry {transcript.length - 1}, but summary.json states {end.get('entries')} "
            f"entries, last hash {end.get('head')}",
            "it was cut or replaced after the run: put back the whole file",
        )
