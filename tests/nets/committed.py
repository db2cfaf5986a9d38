"""The committed traces: one compressed file for each feature, and the comparison with a new trace."""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping
from itertools import zip_longest
from pathlib import Path

FOLDER = Path(__file__).parent / "traces"
_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME}]

Lines = list[str]


def file_of(net: str) -> Path:
    """Return the file that holds a net: that of its feature, which its name begins with."""
    return FOLDER / f"{net.partition(',')[0].replace(':', '').replace(' ', '_')}.json.xz"


def read(net: str) -> Lines | None:
    """Return the committed lines of a net; None if there are none."""
    path = file_of(net)
    return json.loads(lzma.decompress(path.read_bytes())).get(net) if path.exists() else None


def everything() -> dict[str, Lines]:
    """Return all committed nets by name."""
    found: dict[str, Lines] = {}
    for path in sorted(FOLDER.glob("*.json.xz")):
        found |= json.loads(lzma.decompress(path.read_bytes()))
    return found


def write(found: Mapping[str, Lines]) -> None:
    """Write all nets, and remove files that hold none of them."""
    FOLDER.mkdir(exist_ok=True)
    files: dict[Path, dict[str, Lines]] = {}
    for net, lines in found.items():
        files.setdefault(file_of(net), {})[net] = lines
    for path, nets in files.items():
        content = json.dumps(nets, indent=0).encode() + b"\n"
        if not path.exists() or lzma.decompress(path.read_bytes()) != content:
            path.write_bytes(lzma.compress(content, filters=_FILTERS))
    for path in set(FOLDER.glob("*.json.xz")) - set(files):
        path.unlink()


def difference(known: Lines | None, found: Lines) -> str:
    """Return what the first line that differs is about; empty if all are equal."""
    if known is None:
        return "is not committed"
    for number, (old, new) in enumerate(zip_longest(known, found)):
        if old != new:
            return f"line {number}: {_named(old, new)}"
    return ""


def _named(old: str | None, new: str | None) -> str:
    if old is None or new is None:
        return f"{'no longer' if new is None else 'in addition'} {_head(old or new or '')}"
    if _head(old) != _head(new):
        return f"{_head(new)} in place of {_head(old)}"
    before, after = _fields(old), _fields(new)
    changed = [
        f"{name} is {after.get(name, 'absent')}, was {before.get(name, 'absent')}"
        for name in {**before, **after}
        if before.get(name) != after.get(name)
    ]
    if before.keys() == after.keys() and list(before) != list(after):
        changed.append(f"fields are in another order: {', '.join(after)}")
    where = f" of round {before['round']}" if "round" in before else ""
    return f"{_head(old)}{where}: {'; '.join(changed)}"


def _head(line: str) -> str:
    """Return the process, its effect, and the kind of its message or report."""
    return " ".join(word for word in line.split(" ")[:3] if "=" not in word)


def _fields(line: str) -> dict[str, str]:
    pairs = (word.partition("=") for word in line.split(" ") if "=" in word)
    fields: dict[str, str] = {}
    for name, _, value in pairs:
        fields.setdefault(name, value)
    return fields
