"""Habits of the repository: hooks, subjects of commits, fragments of news, templates."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml

from tests.looped import looped
from tools.subject import complaint

ROOT = Path(__file__).parents[2]


@looped(
    "message, wrong",
    [
        ("Refuse a negative count of parties\n\nWhy.", ""),
        ("A" * 71, ""),
        ("A" * 72, "72 characters"),
        ("refuse it", "capital"),
        ("Refuse it.", "full stop"),
        ("Refuse it\nat once", "empty line"),
        ("\n", "is empty"),
        ("fixup! Refuse it.", ""),
    ],
)
def test_subjects(message: str, wrong: str) -> None:
    found = complaint(message)
    assert (wrong in found) if wrong else not found


def test_the_hook_refuses_a_long_subject(tmp_path: Path) -> None:
    message = tmp_path / "message"
    for text, code in (("Refuse it", 0), ("R" * 80, 1)):
        message.write_text(text)
        hook = subprocess.run([sys.executable, ROOT / "tools" / "subject.py", message], check=False)
        assert hook.returncode == code


def test_hooks_run_what_the_checks_run() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    (repository,) = config["repos"]
    assert repository["repo"] == "local"
    makefile = (ROOT / "Makefile").read_text().replace("$(BIN)", ".venv/bin")
    for hook in repository["hooks"]:
        command = hook["entry"].removesuffix(" --fix")
        assert hook["id"] == "subject" or command in makefile, command


def test_fragments_have_a_known_kind() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]
    kinds = "|".join(kind["directory"] for kind in config["type"])
    names = {path.name for path in (ROOT / config["directory"]).iterdir()} - set(config["ignore"])
    assert [name for name in names if not re.fullmatch(rf"(\d+|\+[\w-]+)\.({kinds})(\.\d+)?\.md", name)] == []


def test_the_changelog_is_short() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    assert "<!-- towncrier release notes start -->" in text
    assert len(text[: text.find("\n## 0.1") + 1 or None].splitlines()) <= 120


@looped("path", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")))
def test_issue_forms_are_complete(path: Path) -> None:
    form = yaml.safe_load(path.read_text())
    if path.name != "config.yml":
        assert {"name", "description", "body"} <= form.keys()
        assert all(item["type"] in {"markdown", "textarea"} for item in form["body"])
