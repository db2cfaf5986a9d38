"""``make docs``: links to files of the repository, targets of other hosts, the reference of commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from securefl.cli.app import COMMANDS
from tests.looped import looped
from tools.documentation import cli_reference, links, offline

ROOT = Path(__file__).parents[2]


@looped(
    "path, text, expected",
    [
        ("docs/a.md", "[b](protocol.md#x)", "[b](protocol.md#x)"),
        ("docs/a.md", "[b](../CONTRIBUTING.md#tiers)", "[b](contributing.md#tiers)"),
        ("docs/adr/0.md", "[b](../../CHANGELOG.md)", "[b](../changelog.md)"),
        ("docs/a.md", "[`s`](../setup.py)", "[`s`](source/setup.py.md)"),
        ("docs/a.md", "[m](../changes/README.md)", "[m](source/changes/README.md)"),
        ("CONTRIBUTING.md", "[g](docs/glossary.md)", "[g](glossary.md)"),
        ("README.md", "![i](docs/img/federation.svg)", "![i](img/federation.svg)"),
        ("changes/README.md", "[c](../CHANGELOG.md)", "[c](../../changelog.md)"),
        ("docs/a.md", "[b](https://example.org/setup.py)", "[b](https://example.org/setup.py)"),
        ("docs/a.md", "`[s](../setup.py)`", "`[s](../setup.py)`"),
        (
            "docs/a.md",
            "    [s](../setup.py)\n[s](../setup.py)",
            "    [s](../setup.py)\n[s](source/setup.py.md)",
        ),
        ("docs/a.md", "```\n[s](../setup.py)\n```", "```\n[s](../setup.py)\n```"),
        ("docs/a.md", "[s](../absent.py)", "[s](../absent.py)"),
    ],
)
def test_links_lead_to_pages_of_the_site(path: str, text: str, expected: str) -> None:
    assert links.rewritten(path, text) == expected


def test_linked_files_become_pages() -> None:
    text = "[a](../setup.py) [b](index.md) [c](../docs/index.md) `[d](../Makefile)` [e](../no.py)"
    assert links.outside("docs/a.md", text) == {"setup.py"}
    page = links.page("setup.py", 'print("```")\n')
    assert page == '# setup.py\n\n````python\nprint("```")\n````\n'


@looped(
    "text, suffix, found",
    [
        ('<script src="https://a.example/x.js"></script>', ".html", ["https://a.example/x.js"]),
        ('<script src="//a.example/x.js"></script>', ".html", ["//a.example/x.js"]),
        ('<link rel="preconnect" href="https://f.example">', ".html", ["https://f.example"]),
        ('<link rel="stylesheet" href="https://f.example/f.css">', ".html", ["https://f.example/f.css"]),
        ('<img src="http://a.example/x.png">', ".html", ["http://a.example/x.png"]),
        ("<style>@import 'https://f.example/f'</style>", ".html", ["https://f.example/f"]),
        ('<p style="background:url(//a.example/x)">', ".html", ["//a.example/x"]),
        ('<pre class="mermaid">', ".html", ["a diagram (mermaid)"]),
        ("@font-face{src:url(https://f.example/f.woff2)}", ".css", ["https://f.example/f.woff2"]),
        ('<script src="../x.js"></script><img src="data:image/png;base64,//8=">', ".html", []),
        ('<a href="https://a.example">a</a><link rel="canonical" href="https://a.example">', ".html", []),
        ("<code>url(https://a.example)</code>", ".html", []),
        ("a{background:url(\"data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg'/>\")}", ".css", []),
    ],
)
def test_targets_of_other_hosts_are_found(text: str, suffix: str, found: list[str]) -> None:
    assert offline.remote(text, suffix) == found


def test_a_site_that_loads_from_another_host_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert offline.main([str(tmp_path)]) == 2
    (tmp_path / "index.html").write_text('<script src="x.js"></script>')
    assert offline.main([str(tmp_path)]) == 0
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "a.css").write_text("@import url(https://f.example/f.css);")
    assert offline.main([str(tmp_path)]) == 1
    assert capsys.readouterr().out.endswith("below/a.css: loads https://f.example/f.css\n")


def test_the_reference_has_all_commands_and_options() -> None:
    page = cli_reference.page()
    assert [name for name in COMMANDS if f"## `securefl {name}`\n" not in page] == []
    assert "## `securefl site check`\n" in page
    assert "| `SCENARIO` | required | Scenario file (TOML), or the name of a bundled one. |" in page
    assert "| `--broker` | `auto` |" in page
    assert "runs/&lt;scenario>" in page


def test_every_hand_written_page_has_a_place_in_the_navigation() -> None:
    """MkDocs refuses a page without a place, too, but in another environment."""
    text = (ROOT / "mkdocs.yml").read_text()
    pages = [path.name for path in (ROOT / "docs").glob("*.md")]
    assert [name for name in pages if f"- {name}\n" not in text] == []
