"""Count phrases that CONTRIBUTING.md advises against, in docstrings, comments, names and documents.

``python tools/language.py`` prints the counts. ``--worst PATTERN`` prints the places of a pattern.
``--check`` fails if a count exceeds its ceiling in ``tools/language.json``. ``--write`` makes today's counts
the ceilings.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
CEILINGS: Final = ROOT / "tools" / "language.json"
LONGEST: Final = 30
"""Words of a sentence that a reader takes in at once."""
PATTERNS: Final = {
    "people for parties": re.compile(
        r"\b(nobody|everybody|anybody|somebody|everyone|whoever|whomever)\b", re.I
    ),
    "say or tell for send": re.compile(r"\b(say|says|said|saying|told|tells|telling)\b", re.I),
    "where there is": re.compile(r"\bwhere (there (is|are|was|were)|none|it is|they are|one is)\b", re.I),
    "what as a noun": re.compile(
        r"\b(of|from|to|by|with|for|than|and|in|on|about|as|is|are) what\b(?! to\b)", re.I
    ),
    "that of which": re.compile(
        r"(?<!\b(?:some|each|none|most|many|four) )(?<!\b(?:all|one|any) )\bof which\b"
        r"|\b(of|to|for|from|with|by|at) whom\b",
        re.I,
    ),
    "let go of": re.compile(r"\b(lets? go of|makes? of|comes? to nothing|turns? up|goes on|went on)\b", re.I),
}
RELATIVE: Final = re.compile(r"(What|Who|Whom|Whose|Whether|Which|How|Of|Where|When|Why|That|As) ")
PARTICIPLE: Final = re.compile(
    r"_*((?!(need|seed|feed|keygen|screen|embed|speed|shed|open|listen|token)$)[a-z]+(ed|en)"
    r"|told|said|kept|held|made|sent|shown|known|found|met|got)"
)
_SENTENCE: Final = re.compile(
    r"(?<=[.!?:;])\s+(?=[A-Z`\"'(])|\n\s*\n|\n\s*[-*] |\n\s+(?=\w+: )|\n\s*(?=>>> )"
)
"""Ends of sentences, of list items, of arguments in a docstring, and of lines of an example."""


@dataclass(frozen=True)
class Text:
    """A docstring, a comment or a paragraph of a document."""

    place: str
    text: str
    title: bool = False
    """True if it is a docstring, whose first line is a title."""


def docstrings(path: Path, tree: ast.Module) -> Iterator[Text]:
    """Yield docstrings, those of attributes too."""
    name = str(path.relative_to(ROOT))
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield Text(f"{name}:{node.lineno}", text, title=True)


def comments(path: Path, source: str) -> Iterator[Text]:
    """Yield comments; adjacent lines are one comment."""
    name = str(path.relative_to(ROOT))
    block: list[str] = []
    first, last = 0, -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not re.match(r"# (noqa|type|fmt|pragma)\b", token.string):
            if token.start[0] != last + 1 and block:
                yield Text(f"{name}:{first}", " ".join(block))
                block = []
            first = first if block else token.start[0]
            block.append(token.string.lstrip("# "))
            last = token.start[0]
    if block:
        yield Text(f"{name}:{first}", " ".join(block))


def functions(path: Path, tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield place and name of the functions that are no properties."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            marks = {ast.unparse(one).rpartition(".")[2] for one in node.decorator_list}
            if not marks & {"property", "cached_property", "fixture", "setter"}:
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node.name


def paragraphs(path: Path) -> Iterator[Text]:
    """Yield the paragraphs of a document outside its code blocks."""
    plain = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for part in re.split(r"\n\s*\n", plain):
        if not part.startswith("    ") and not part.startswith("|"):
            yield Text(str(path.relative_to(ROOT)), part)


def without_code(text: str) -> str:
    """Return a text with ``x`` in place of code and links."""
    return re.sub(r"``.*?``|`[^`]*`|\(http[^)]*\)", "x", text)


def sentences(text: str) -> list[str]:
    """Return the sentences of a text, without code and links."""
    return [one for one in _SENTENCE.split(without_code(text)) if one.strip()]


@dataclass
class Counts:
    """Places of each pattern, and the number of sentences."""

    places: dict[str, list[str]]
    sentences: int = 0

    def add(self, pattern: str, place: str, excerpt: str) -> None:
        """Note a place."""
        self.places.setdefault(pattern, []).append(f"{place}: {' '.join(excerpt.split())[:90]}")


def count() -> Counts:
    """Count in the product, README, the hand-written documents and the changelog."""
    counts = Counts({name: [] for name in PATTERNS})
    texts: list[Text] = []
    for path in sorted((ROOT / "securefl").rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source)
        texts += [*docstrings(path, tree), *comments(path, source)]
        for place, name in functions(path, tree):
            if PARTICIPLE.fullmatch(name):
                counts.add("participle alone", place, name)
    generated = {"api.md", "fields.md"}
    pages = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
    texts += [one for path in pages if path.name not in generated for one in paragraphs(path)]
    for text in texts:
        _count_text(counts, text)
    return counts


def _count_text(counts: Counts, text: Text) -> None:
    if text.title and RELATIVE.match(text.text):
        counts.add("relative title", text.place, text.text)
    plain = without_code(text.text)
    for name, pattern in PATTERNS.items():
        for found in pattern.finditer(plain):
            counts.add(name, text.place, plain[max(0, found.start() - 40) : found.end() + 40])
    for one in sentences(text.text):
        counts.sentences += 1
        if len(one.split()) > LONGEST:
            counts.add("long sentence", text.place, one)


def main() -> int:
    """Print, check or write counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worst", metavar="PATTERN", help="print the places of a pattern")
    parser.add_argument("--folders", action="store_true", help="print counts by folder too")
    parser.add_argument("--check", action="store_true", help="fail if a count exceeds its ceiling")
    parser.add_argument("--write", action="store_true", help="make today's counts the ceilings")
    given = parser.parse_args()
    counts = count()
    now = {name: len(places) for name, places in sorted(counts.places.items())}
    if given.worst:
        print("\n".join(counts.places[given.worst]))
        return 0
    if given.write:
        CEILINGS.write_text(json.dumps(now, indent=1) + "\n", encoding="utf-8")
    ceilings = json.loads(CEILINGS.read_text(encoding="utf-8")) if CEILINGS.exists() else now
    for name, number in now.items():
        print(f"{number:6} {name} (at most {ceilings.get(name, 0)})")
        if given.folders:
            by = Counter("/".join(place.split(":")[0].split("/")[:3]) for place in counts.places[name])
            print("       " + ", ".join(f"{folder} {many}" for folder, many in by.most_common(12)))
    print(f"{counts.sentences:6} sentences")
    over = [name for name, number in now.items() if number > ceilings.get(name, 0)]
    if given.check and over:
        print(f"more than before: {', '.join(over)}; --worst NAME lists the places", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
