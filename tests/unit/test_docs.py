"""The documents against the repository: links, anchors, paths, the index, and names that are retired."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.looped import looped

ROOT = Path(__file__).parents[2]
FOLDERS = (ROOT, ROOT / "docs", ROOT / "docs" / "adr", ROOT / "docs" / "results")
PAGES = sorted(path for folder in FOLDERS for path in folder.glob("*.md"))
HISTORY = {ROOT / "CHANGELOG.md", *(ROOT / "docs" / "adr").glob("*.md")}
"""What tells of earlier versions, whose names and paths were others."""
GENERATED = {"api.md", "fields.md"}
"""Pages of `docs` that are made from docstrings."""
MOST_WORDS = 45_000
"""Words of the hand-written pages of `docs`: a reader needs 2 h 17 min for them at 300 a minute."""
MOST_TERMS = 60
"""A longer glossary is a sign of coined terms: take those of the field."""
MOST_WORDS_OF_A_CELL = 20
"""A longer table cell is a sentence, which belongs below the table."""
PATH = re.compile(r"`((?:securefl|tests|scenarios|examples|tools|parties|docs)/[\w./-]+)`")
FORMER = (
    "arrays|behaviours|bench|clustering|config|crypto|encoding|entropy|errors|groups|ids|kernel|launch|learning|messages|planning|"
    "privacy|report|reproduce|robust|rounds|secagg|secagg_crypten|secure_sum|simulation|transcript|transport|weighting|wire"
)
RETIRED = {
    r"\bCourse\b": "SimulatedRounds: a course is a lecture",
    r"\bFates\b": "a round's outcome: fate says neither whose nor what",
    r"[Gg]rapevine": "CoalitionFolder: what liars share, and where",
    r"[Ww]orkforce|\bStaffing\b": "trainers: the field's word",
    r"\bShelf\b|\bclass (Desk|Scene|Stage|Board)\b": "FigureFiles, LocalWorker, DisplayState, LocalSetup",
    r"\bfounding\b": "the atom seed: what it is, not what it did",
    r"\bcast(s|ing)? (the |of )?(behaviours|roles|parties)\b": "behaviours are assigned; cast is typing's",
    rf"\bsecurefl[./]({FORMER})\b": "the wing stands between: tools/moves.txt has the new name",
    r"\bparties[./](arguments|console|news|program)\b": "the programs are commands in securefl/cli",
    r"\bdata's way\b": "the data flow",
}
"""What no text or code says any more, and what it says instead or why."""
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def unfenced(page: Path) -> str:
    """The text of a page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """Yield file and anchor of each relative link."""
    for target in LINK.findall(re.sub(r"`[^`\n]*`", "", unfenced(page))):
        if not re.match(r"[a-z]+:", target):
            file, _, anchor = target.partition("#")
            yield (page.parent / file).resolve() if file else page, anchor


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as forges make them; the second of a name ends in -1."""
    seen = Counter[str]()
    found = set()
    for heading in re.findall(r"^#+ (.+)$", unfenced(page), flags=re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


@looped("page", PAGES)
def test_links_lead_somewhere(page: Path) -> None:
    missing = [
        f"{target.relative_to(ROOT)}#{anchor}"
        for target, anchor in links(page)
        if not target.exists() or (anchor and anchor not in anchors(target))
    ]
    assert missing == []


@looped("page", sorted({*PAGES} - HISTORY))
def test_paths_in_the_text_are_there(page: Path) -> None:
    named = PATH.findall(page.read_text(encoding="utf-8"))
    assert [one for one in named if not (ROOT / one).exists()] == []


def test_every_page_is_reached_from_the_index() -> None:
    reached, ahead = set[Path](), [ROOT / "docs" / "index.md"]
    while ahead:
        page = ahead.pop()
        if page not in reached:
            reached.add(page)
            ahead += [target for target, _ in links(page) if target.suffix == ".md"]
    assert [str(page.relative_to(ROOT)) for page in PAGES if page not in reached | {ROOT / "README.md"}] == []


@looped("page", [page for page in PAGES if page.parent in FOLDERS[:2]])
def test_titles_are_no_relative_clauses(page: Path) -> None:
    titles = re.findall(r"^#+ (.+)$", unfenced(page), flags=re.MULTILINE)
    assert [title for title in titles if re.match(r"(What|Where|Whom?|Whose|How|When|Why)\b", title)] == []


def test_the_pages_are_short() -> None:
    pages = [page for page in (ROOT / "docs").glob("*.md") if page.name not in GENERATED]
    words = {page.name: len(page.read_text(encoding="utf-8").split()) for page in pages}
    assert sum(words.values()) <= MOST_WORDS, sorted(words.items(), key=lambda item: -item[1])


def first_paragraph(text: str) -> str:
    """The first paragraph below the title of a page."""
    return text.partition("\n")[2].lstrip("\n").partition("\n\n")[0]


def is_prose(paragraph: str) -> bool:
    """True if a paragraph is text of at least eight words: no heading, table, list, picture or code."""
    return not re.match(r"#|\||[-*+] |\d+\. |>|!|`{3}| {4}", paragraph) and len(cell_words(paragraph)) >= 8


@looped("page", sorted((ROOT / "docs").glob("*.md")))
def test_pages_begin_with_their_purpose(page: Path) -> None:
    paragraph = first_paragraph(page.read_text(encoding="utf-8"))
    assert is_prose(paragraph), paragraph


@looped(
    "paragraph",
    [
        "| a | b |\n|---|---|",
        "- " + "word " * 9,
        "1. " + "word " * 9,
        "    " + "word " * 9,
        "## A part",
        "Seven words are not enough for this.",
        "`a` " * 9,
    ],
)
def test_a_table_list_or_code_is_no_purpose(paragraph: str) -> None:
    assert not is_prose(paragraph)
    assert is_prose(
        first_paragraph("# Page\n\nThis page explains to users all that they need.\n\n" + paragraph)
    )


def test_the_glossary_is_short_and_sorted() -> None:
    rows = re.findall(
        r"^\| ([^|]+) \|", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert rows[0] == "term"
    terms = rows[1:]
    assert len(set(terms)) == len(terms) <= MOST_TERMS
    assert terms == sorted(terms, key=str.casefold)


@looped("page", sorted({ROOT / "README.md", *(ROOT / "docs").glob("*.md")} - {ROOT / "docs" / "glossary.md"}))
def test_pages_link_to_the_glossary(page: Path) -> None:
    assert (ROOT / "docs" / "glossary.md", "") in set(links(page))


def cell_words(cell: str) -> list[str]:
    """The words of a table cell or paragraph outside of spans of code and targets of links."""
    text = re.sub(r"`[^`]*`", " ", cell)
    return re.findall(r"[^\W_][\w'.,-]*", re.sub(r"\]\([^)\s]*\)", "]", text))


def long_cells(text: str) -> list[str]:
    """Table cells with too many words."""
    rows = [line for line in text.splitlines() if line.lstrip().startswith("|")]
    cells = [cell.strip() for row in rows for cell in re.split(r"(?<!\\)\|", re.sub(r"`[^`]*`", "` `", row))]
    return [cell for cell in cells if len(cell_words(cell)) > MOST_WORDS_OF_A_CELL]


@looped("page", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))])
def test_table_cells_are_short(page: Path) -> None:
    assert long_cells(unfenced(page)) == []


def test_long_cells_are_found() -> None:
    words = "one two " * 10
    assert long_cells(f"| {words} | `{words}` {words} | [{words}](a/b.md) |\n\n{words} {words}") == []
    assert long_cells(f"| a | {words} three |") == [f"{words} three"]
    assert len(long_cells(f"| a `b | c` {words} three | {words} \\| four |")) == 2


def test_anchors_are_made_as_forges_make_them(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Overrides: `--set path=value`\n## A b\n## A b\n```\n# no heading\n```\n")
    assert anchors(page) == {"overrides---set-pathvalue", "a-b", "a-b-1"}


def test_every_decision_is_listed() -> None:
    listed = {target for target, _ in links(ROOT / "docs" / "adr" / "index.md")}
    assert [path.name for path in (ROOT / "docs" / "adr").glob("0*.md") if path not in listed] == []


@cache
def lines() -> tuple[tuple[str, str], ...]:
    """Place and text of each line that must not say a retired name."""
    exempt = {*HISTORY, Path(__file__), ROOT / "tools" / "moves.py"}
    tops = ("securefl", "parties", "tests", "tools", "examples")
    code = [path for top in tops for path in (ROOT / top).rglob("*") if path.suffix in {".py", ".pyi"}]
    return tuple(
        (f"{path.relative_to(ROOT)}:{number}", line)
        for path in (*PAGES, *code, ROOT / "pyproject.toml")
        if path not in exempt
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    )


@cache
def text() -> str:
    return "\n".join(line for _, line in lines())


@looped("name", RETIRED)
def test_retired_names_do_not_come_back(name: str) -> None:
    # One search of all lines at once is faster than one of each; a match is then looked up line by line.
    if re.search(name, text(), re.MULTILINE):
        assert [place for place, line in lines() if re.search(name, line)] == [], RETIRED[name]
