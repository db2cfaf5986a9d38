"""Check of a built site: it loads nothing from a network.

``python -m tools.documentation.offline site`` prints each script, style, font, image or frame of another
host, and ends with 1 if there is one. Links that a reader follows may lead to other hosts.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

REMOTE = re.compile(r"(?:https?:)?//", re.IGNORECASE)
LOADING = {"script": ("src",), "img": ("src", "srcset"), "iframe": ("src",), "source": ("src", "srcset")}
LOADING |= {
    "audio": ("src",),
    "video": ("src", "poster"),
    "embed": ("src",),
    "object": ("data",),
    "use": ("href",),
}
"""Attributes by element whose targets a browser loads on its own."""
NOT_LOADED = {"canonical", "next", "prev", "alternate", "edit"}
"""Relations of a `link` that a browser does not load."""
IN_STYLES = re.compile(r"""(?:url\(\s*|@import\s+)["']?((?:https?:)?//[^"')\s;]+)""", re.IGNORECASE)


class _Loads(HTMLParser):
    """Targets that a page loads from other hosts."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect the remote targets of an element."""
        given = {name: value or "" for name, value in attrs}
        names = LOADING.get(tag, ())
        if tag == "link" and not set(given.get("rel", "").split()) & NOT_LOADED:
            names = ("href",)
        self.found += [given[name] for name in names if REMOTE.match(given.get(name, "").strip())]
        self.found += IN_STYLES.findall(given.get("style", ""))
        # Material loads a drawing program from another host if a page has a diagram.
        if "mermaid" in given.get("class", "").split():
            self.found.append("a diagram (mermaid)")
        self._in_style = tag == "style"

    def handle_endtag(self, tag: str) -> None:
        """Note the end of a style."""
        self._in_style &= tag != "style"

    def handle_data(self, data: str) -> None:
        """Collect the remote targets of a style."""
        if self._in_style:
            self.found += IN_STYLES.findall(data)


def remote(text: str, suffix: str) -> list[str]:
    """Return the targets that a page (``.html``) or style (``.css``) loads from other hosts."""
    if suffix == ".css":
        return IN_STYLES.findall(text)
    page = _Loads()
    page.feed(text)
    page.close()
    return page.found


def faults(site: Path) -> Iterator[str]:
    """Yield a line for each target of another host in a site."""
    for path in sorted(site.rglob("*")):
        if path.suffix in {".html", ".css"}:
            for target in remote(path.read_text(encoding="utf-8"), path.suffix):
                yield f"{path.relative_to(site)}: loads {target}"


def main(words: list[str]) -> int:
    """Check the site in the folder that is named."""
    site = Path(words[0])
    if not (site / "index.html").is_file():
        print(f"{site}: has no index.html (make docs)", file=sys.stderr)
        return 2
    lines = list(faults(site))
    print("\n".join(lines[:20]) if lines else f"{site}: loads nothing from a network")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
