"""Formatting of counts, percentages, times, names and paths for people."""

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NoReturn

_FOLDERS: Final = re.compile(r"(?<![\w:/])(?:~|\.{1,2})?/(?:[^\s/:;,'\"()]+/)*(?=[^\s/:;,'\"()]+)")
"""Folders before the last part of a path; URLs do not match."""


def count(number: int, noun: str, plural: str = "") -> str:
    """Return ``1 sum`` or ``2 sums``; ``plural`` if it is not ``noun`` with an s."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


def percent(probability: float) -> str:
    """Return a percentage with three digits near 0 and near 1."""
    if 0 < probability < 1e-4:
        return f"{probability:.1e}"
    if 1 - 1e-4 < probability < 1:
        return f"1 - {1 - probability:.1e}"
    return f"{100 * probability:.3g} %"


def chance(probability: float) -> str:
    """Return a probability for a header: ``3.6 %``, ``< 0.1 %``, ``> 99.9 %``."""
    if 0 < probability < 1e-3:
        return "< 0.1 %"
    if 1 - 1e-3 < probability < 1:
        return "> 99.9 %"
    return f"{100 * probability:.3g} %"


def without_folders(text: str) -> str:
    """Return ``text`` with only the last part of each path: folders are private."""
    return _FOLDERS.sub("", text)


def printable(text: str, limit: int = 160) -> str:
    """Return ``text`` on one line without control characters, cut to ``limit``."""
    clean = "".join(c if c.isprintable() else "?" for c in text)
    return clean if len(clean) <= limit else clean[: limit - 3] + "..."


def split_words(name: str) -> str:
    """Return the words of a class name: ``collecting hellos`` for ``CollectingHellos``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()


def count_of(number: int, noun: str) -> str:
    """Return ``1 sum`` or ``2,000 sums``."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def list_of(names: Iterable[str], limit: int = 8) -> str:
    """Return a list such as ``p00, p01 and 3 more``."""
    names = [printable(name, 32) for name in names]
    shown, rest = names[:limit], len(names) - limit
    return ", ".join(shown) + (f" and {rest} more" if rest > 0 else "")


def closest(word: str, names: Sequence[str], cutoff: float = 0.6) -> str | None:
    """Return the name that a misspelt or shortened word means; None if no name is close.

    In this order: the shortest name with this prefix, a name abbreviated by prefixes of its words (``trmean``
    or ``tm`` for ``trimmed-mean``), the most similar spelling.

    ``cutoff`` is the least similarity, in [0, 1].
    """
    letters, by_length = "".join(_words(word)), sorted(names, key=lambda name: (len(name), name))
    if len(letters) > 1:
        for name in by_length:
            if "".join(_words(name)).startswith(letters):
                return name
        for name in by_length:
            if _abbreviates(letters, _words(name)):
                return name
    return next(iter(difflib.get_close_matches(word, names, n=1, cutoff=cutoff)), None)


def refuse_attribute(
    module: str, names: Sequence[str], elsewhere: Mapping[str, str] = MappingProxyType({})
) -> Callable[[str], NoReturn]:
    """Return a module's ``__getattr__`` that raises AttributeError with the closest name.

    ``names`` are the module's attributes; ``elsewhere`` has full names of other modules' attributes.
    """

    def refuse(name: str) -> NoReturn:
        near = closest(name, [*names, *elsewhere])
        remedy = f" (did you mean {elsewhere.get(near, near)}?)" if near else ""
        raise AttributeError(f"{module} has no attribute {name!r}{remedy}", name=name)

    return refuse


def _words(name: str) -> list[str]:
    return re.findall(r"[^\W_]+", name.casefold())


def _abbreviates(letters: str, words: Sequence[str]) -> bool:
    """Return True if ``letters`` are a prefix of each word, concatenated."""
    if not words:
        return not letters
    sizes = range(1, len(words[0]) + 1)
    return any(letters.startswith(words[0][:n]) and _abbreviates(letters[n:], words[1:]) for n in sizes)


def seconds(number: float) -> str:
    """Return a time such as ``3.2 s``, ``2 min 05 s``, ``1 h 02 min``."""
    if number < 60:
        return f"{number:.1f} s"
    minutes, rest = divmod(round(number), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def rate(fraction: float | None) -> str:
    """Return a percentage such as ``96.1 %``; a dash for None, NaN and infinities."""
    return "-" if fraction is None or not math.isfinite(fraction) else f"{100 * fraction:.1f} %"


def digits(value: float | None) -> str:
    """Return three significant digits such as ``0.0961``; a dash for None."""
    return "-" if value is None else f"{value:.3g}"
