"""Links of pages to files of the repository, as pages of the site.

Pages of `docs` link to files of the repository, as on a forge. In the site each linked file is a page: a
Markdown file as it is, another one as a block of code.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]
RENAMED = {
    "README.md": "readme.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
"""Places in the site of pages in the root of the repository."""
LANGUAGES = {".py": "python", ".pyi": "python", ".toml": "toml", ".json": "json", ".ipynb": "json"}
LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\]\()([^)\s]+)(\))|`[^`\n]+`")
"""A link, or a span of code, which is no link."""
BLOCK = re.compile(r"(^```[\s\S]*?^```|^(?: {4}|\t).*$)", re.MULTILINE)


def rewritten(path: str, text: str) -> str:
    """Return the text of a file with the links of its page in the site."""
    here = posixpath.dirname(site_path(path))

    def link(found: re.Match[str]) -> str:
        target, _, anchor = (found[2] or "").partition("#")
        if not target or re.match(r"[a-z]+:", target):
            return found[0]
        resolved = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        if not (ROOT / resolved).is_file():
            return found[0]
        moved = posixpath.relpath(site_path(resolved), here or ".")
        return found[1] + moved + (f"#{anchor}" if anchor else "") + found[3]

    pieces = BLOCK.split(text)
    return "".join(piece if place % 2 else LINK.sub(link, piece) for place, piece in enumerate(pieces))


def outside(path: str, text: str) -> set[str]:
    """Return the files outside of `docs` that a page links to."""
    found = set()
    found_links = [link for piece in BLOCK.split(text)[::2] for link in LINK.finditer(piece) if link[2]]
    for link in found_links:
        target = link[2].partition("#")[0]
        resolved = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        if target and not resolved.startswith(("docs/", "..")) and (ROOT / resolved).is_file():
            found.add(resolved)
    return found


def site_path(path: str) -> str:
    """Return the place in the site of a file of the repository."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if path in RENAMED:
        return RENAMED[path]
    return f"source/{path}" if path.endswith(".md") else f"source/{path}.md"


def page(path: str, text: str) -> str:
    """Return a file of the repository as a page."""
    if path.endswith(".md"):
        return rewritten(path, text)
    fence = "`" * (1 + max(map(len, re.findall(r"`+", text)), default=2))
    return f"# {path}\n\n{fence}{LANGUAGES.get(PurePosixPath(path).suffix, '')}\n{text.rstrip()}\n{fence}\n"
