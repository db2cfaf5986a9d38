"""Length and last hash of each transcript, recorded in the run's summary.

A chain cut between two entries still verifies; the summary detects the cut.
"""

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

from securefl.base.errors import ConfigError
from securefl.runtime.transcript import chain, lines

_TAIL: Final = 4096


def ends_in(folder: Path) -> dict[str, lines.JsonValue]:
    """Return length (header and end included) and last hash of each complete transcript, unverified."""
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
    """Refuse transcripts, by name, whose length or last hash differs from the summary.

    ``stated`` is the result of :func:`ends_in` at the end of the run; transcripts missing from it are not
    checked. ``blank`` names transcripts without a whole line.

    Raises:
        ConfigError: names the file and the entry at which it ends, or the empty file.
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
