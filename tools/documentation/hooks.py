"""Hooks of MkDocs: pages that are generated or lie outside of `docs`, and links to them.

MkDocs checks links between pages, so each linked file of the repository becomes a page (`links.py`).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

from tools.documentation import links

ROOT = Path(__file__).parents[2]
PYTHON = Path(os.environ.get("SECUREFL_PYTHON", ROOT / ".venv" / "bin" / "python"))
"""Interpreter with securefl: the environment of the site does not have it."""
SHIM = "assets/javascripts/iframe-worker.js"
"""Place in the site of iframe-worker 1.0.4, which lets the search run in pages opened from a folder."""
WINGS = ("cli", "lab", "runtime", "training", "protocol", "methods", "scenario", "base")
"""Packages of the product, high to low; each has a page of its units."""
UNITS = """# Units of `{wing}`

Exports of the units of `securefl.{wing}`, for contributors, made from docstrings.
[Contributing](../contributing.md#the-layout) explains the wings; users need the [Python API](../api.md).
Terms: [glossary](../glossary.md).

"""
SEARCH = '<div class="md-search" data-md-component="search" role="dialog"'
EXPORT = re.compile(r"^from \S+ import (\w+) as \1$", re.MULTILINE)


def on_config(config: Any) -> Any:
    """Expand the patterns of the navigation, such as ``adr/0*.md``."""
    config["nav"] = _expanded(config["nav"], Path(config["docs_dir"]))
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add generated pages, pages of the root, and every file that a page links to."""
    generated = {"cli.md": _cli_reference(), **_units()}
    origins = {f"docs/{file.src_uri}": file for file in files.documentation_pages()}
    ahead = [(path, file.content_string) for path, file in origins.items()]
    ahead += [(name, (ROOT / name).read_text(encoding="utf-8")) for name in links.RENAMED]
    seen = set(origins)
    while ahead:
        path, text = ahead.pop()
        if path in seen and path not in origins:
            continue
        seen.add(path)
        if path not in origins:
            generated[links.site_path(path)] = links.page(path, text)
        if path.endswith(".md"):
            targets = {target for target in links.outside(path, text) if target not in seen}
            ahead += [(target, (ROOT / target).read_text(encoding="utf-8")) for target in sorted(targets)]
    files.append(File.generated(config, SHIM, abs_src_path=str(Path(__file__).with_name("iframe-worker.js"))))
    for name, text in generated.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Let links to files outside of `docs` lead to their pages."""
    uri = page.file.src_uri
    if page.file.generated_by is not None:
        return markdown
    return links.rewritten(f"docs/{uri}", markdown)


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Name the dialog of the search, which Material leaves without a name."""
    if output.count(SEARCH) != 1:
        raise PluginError(f"{page.file.src_uri}: {SEARCH} is not there once; Material has changed")
    return output.replace(SEARCH, f'{SEARCH} aria-label="Search"')


def _cli_reference() -> str:
    """Make the reference of commands with the interpreter that has securefl."""
    done = subprocess.run(
        [PYTHON, "-m", "tools.documentation.cli_reference"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise PluginError(f"reference of commands: {last} (make setup, or set SECUREFL_PYTHON)")
    return done.stdout


def _units() -> dict[str, str]:
    """Make a page for each wing: the exports of its packages with a stub, which other units may import."""
    pages = {}
    for wing in WINGS:
        text = ""
        for stub in sorted((ROOT / "securefl" / wing).rglob("__init__.pyi")):
            exports = sorted(EXPORT.findall(stub.read_text(encoding="utf-8")))
            name = ".".join(stub.parent.relative_to(ROOT).parts)
            text += f"::: {name}\n    options:\n      members: {json.dumps(exports)}\n\n" if exports else ""
        if text:
            pages[f"units/{wing}.md"] = UNITS.format(wing=wing) + text
    return pages


def _expanded(entries: list[Any], docs: Path) -> list[Any]:
    """Return a navigation with the files that each pattern names."""
    found: list[Any] = []
    for entry in entries:
        if isinstance(entry, dict):
            found += [
                {title: _expanded(below, docs) if isinstance(below, list) else below}
                for title, below in entry.items()
            ]
        elif "*" in entry:
            found += sorted(path.relative_to(docs).as_posix() for path in docs.glob(entry))
        else:
            found.append(entry)
    return found
