"""Code in the documents is well-formed, and is run by a named test or marked here as not run."""

from __future__ import annotations

import ast
import configparser
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.looped import looped
from tests.unit.test_doc_commands import GENERATED, PAGES, ROOT, blocks

RUN_BY = {
    "agents.md": "tests/live/test_agents.py",
    "backup.md": "tests/unit/provision/test_backup_guide.py",
    "brokers.md": "tests/live/test_bridge.py",
    "coming-from-flower.md": "tests/interop/test_coming_from.py",
    "coming-from-nvflare.md": "tests/interop/test_coming_from.py",
    "compare.md": "tests/unit/experiments/test_comparison.py",
    "containers.md": "tests/unit/cli/test_exit_codes.py",
    "data.md": "tests/unit/cli/test_data_page.py",
    "deployment.md": "tests/live/test_deployment_guide.py",
    "frameworks.md": "tests/live/test_compared.py",
    "metrics.md": "tests/live/test_deployment_guide.py",
    "monitoring.md": "tests/unit/monitoring/test_dashboard.py",
    "provision.md": "tests/unit/provision/test_guide.py",
    "python.md": "tests/unit/test_doc_commands.py",
    "scenarios.md": "tests/unit/scenario/test_documents.py",
    "sites.md": "tests/live/test_personal.py",
    "tutorial.md": "tests/live/test_tutorial.py",
}
"""Test by page that takes blocks from the page and runs or loads them."""
NOT_RUN = {
    "README.md": "its lines are those of make demo and of python.md",
    "CONTRIBUTING.md": "targets of make; the installer of the CUDA kit needs its folder",
    "adapters.md": "a part of a Flower app; whole apps run in tests/interop",
    "simulation.md": "2,000 parties: 34 s; its measurements name their commit",
    "statistics.md": "parts of examples/statistics, which tests/live/test_examples.py runs",
}
"""Reason by page with code that no test takes from the page."""
COMMAND = re.compile(
    r"(\$ )?((sudo|\.venv/bin/)\S*|securefl|make|cd|mkdir|python3?|pip|gpg|ssh-keygen|sha256sum|[A-Z_]+=)"
)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def fences(page: Path) -> list[tuple[str, str]]:
    return [(language, text) for language, text in FENCE.findall(page.read_text()) if language]


def language_of(block: str) -> str:
    """The language of an indented block: commands, toml, python; or text, such as output and formulas."""
    lines = [line for line in block.splitlines() if line.strip() and not line.startswith((" ", "#"))]
    if all(COMMAND.match(line) for line in lines):
        return "commands"
    for language, parse in (("toml", tomllib.loads), ("python", ast.parse)):
        try:
            parse(block)
        except (tomllib.TOMLDecodeError, SyntaxError):
            continue
        return language
    return "text"


@looped("page", [page for page in PAGES if page.name not in GENERATED])
def test_fenced_blocks_are_well_formed(page: Path) -> None:
    for language, text in fences(page):
        match language:
            case "python":
                compile(text, page.name, "exec")
            case "toml":
                tomllib.loads(text)
            case "yaml":
                yaml.safe_load(text)
            case "ini":
                configparser.ConfigParser(interpolation=None, strict=False).read_string(text)
            case "bash":
                checked = subprocess.run(
                    ["bash", "-n"], input=text, text=True, capture_output=True, check=False
                )
                assert checked.returncode == 0, f"{page.name}: {checked.stderr}"
            case other:
                assert other == "text", page.name


def test_a_test_runs_each_block_of_code_or_a_reason_stands_here() -> None:
    with_code = {
        page.name
        for page in PAGES
        if page.name not in GENERATED
        and (
            any(language != "text" for language, _ in fences(page))
            or any(language_of(block) in {"toml", "python"} for block in blocks(page))
        )
    }
    assert with_code - RUN_BY.keys() - NOT_RUN.keys() == set()
    assert NOT_RUN.keys() - with_code == set()
    assert NOT_RUN.keys() & RUN_BY.keys() == set()


@pytest.mark.parametrize(("page", "test"), RUN_BY.items())
def test_the_named_test_reads_the_page(page: str, test: str) -> None:
    stem = page.removesuffix(".md")
    assert re.search(rf'"({stem}|{page})"', (ROOT / test).read_text())
