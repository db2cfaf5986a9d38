"""Help shows what was written: rich takes words in square brackets for markup, and swallows them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.text import Text
from typer.main import get_command
from typer.testing import CliRunner

from securefl.cli.app import COMMANDS, TASKS, Deferred, app
from tests.looped import looped
from tests.unit.cli.programs import call


def helps(command: Any, path: tuple[str, ...] = ("securefl",)) -> Iterator[tuple[str, str]]:
    """Every help text of a command, its options and its commands, with where it is."""
    yield " ".join(path), command.help or ""
    for parameter in command.params:
        yield " ".join((*path, str(parameter.name))), getattr(parameter, "help", None) or ""
    for name, child in getattr(command, "commands", {}).items():
        yield from helps(child.load() if isinstance(child, Deferred) else child, (*path, name))


def programs(command: Any, path: tuple[str, ...] = ("securefl",)) -> Iterator[tuple[str, Any]]:
    """Each command and group."""
    command = command.load() if isinstance(command, Deferred) else command
    yield " ".join(path), command
    for name, child in getattr(command, "commands", {}).items():
        yield from programs(child, (*path, name))


def test_no_help_is_taken_for_markup() -> None:
    found = list(helps(get_command(app)))
    assert len(found) > 100
    assert [(where, text) for where, text in found if Text.from_markup(text).plain != text] == []


def test_each_command_states_its_exit_codes() -> None:
    """Others than measurements of this machine, whose end is of no use to a script."""
    found = [(place, one) for place, one in programs(get_command(app)) if not hasattr(one, "commands")]
    ends = {place: one.help or "" for place, one in found if " bench " not in place}
    silent = [place for place, text in ends.items() if not re.search(r"^Exit codes: 0 ", text, re.MULTILINE)]
    assert silent == ["securefl more"]
    for place, text in ends.items():
        stated = text.partition("Exit codes: ")[2].replace("\n", " ")
        found = re.findall(r"(?:^|[;,] |\. )(\d)(?= )", stated)
        assert found == sorted(set(found)), place
        assert set(found) <= set("012345"), place


VALUE = re.compile(
    r"(|[A-Z][A-Z,|:=.all]*|[a-z]+(-[a-z]+)*(\|[a-z]+(-[a-z]+)*)+)( ?\((\d+ to \d+|at least \d+)\))?"
)


def test_help_shows_values_in_words_of_users() -> None:
    """FILE, N (1 to 100), text|json, nothing for a flag; no name of a type of Python."""
    seen = set[str]()
    for place, command in programs(get_command(app)):
        context = command.make_context("x", [], resilient_parsing=True)
        for parameter in command.get_params(context):
            shown = parameter.display_type_rich(context)
            assert VALUE.fullmatch(shown), (place, parameter.name, shown)
            assert parameter._get_number_range_help_str() is None
            assert bool(shown) != (
                getattr(parameter, "is_flag", False) or parameter.param_type_name == "argument"
            )
            assert "`" not in (parameter.help or "")
            seen.add(shown)
        usage = command.get_usage(context)
        assert "......" not in usage
        assert "[[" not in usage
        assert "`" not in (command.help or "")
    assert {"", "FILE", "DIR", "N", "NAME", "TEXT", "NUMBER", "N (1 to 100)", "PORT (0 to 65535)"} <= seen


def test_a_printed_help_has_no_types() -> None:
    shown = call("compare", "--help", width=200).stdout
    assert re.search(r"--seeds +N \(1 to 100\) ", shown)
    assert not re.search(r"<(str|path|bool|int|float)\b|x<=|<=x|<list\[", shown)


def test_paragraphs_of_help_are_wrapped_by_the_terminal() -> None:
    text = call("provision", "renew", "--help", width=400).stdout
    (codes,) = (line for line in text.splitlines() if "Exit codes" in line)
    assert codes.rstrip().endswith("After 2 and 5 nothing is written.")


def test_help_waits_for_no_large_library() -> None:
    slow = ("torch", "scipy", "sklearn", "matplotlib", "dp_accounting", "crypten")
    asked = f"import sys, securefl.cli.app; print(*(name for name in {slow} if name in sys.modules))"
    run = subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True, text=True)
    assert run.stdout.split() == []


@looped("name", COMMANDS)
def test_the_list_of_commands_says_what_a_command_says_of_itself(name: str) -> None:
    deferred = Deferred(name)
    own = str(deferred.load().help).split("\n\n")[0].replace("\n", " ")
    assert deferred.help is not None
    assert own.startswith(deferred.help.rstrip("."))


def test_help_shows_at_most_twelve_commands_by_task_and_more_shows_the_rest() -> None:
    runner = CliRunner()
    first, more = (runner.invoke(app, [word]).stdout for word in ("--help", "more"))
    shown = {name for name in COMMANDS if re.search(rf"│ {name} ", first)}
    assert shown == {name for names in TASKS.values() for name in names}
    assert len(shown) + 1 <= 12
    assert [line for line in first.splitlines() if line.startswith("╭─ ")][1:] != []
    # docs/agents.md needs no other commands of the operator.
    assert {"provision", "agent", "runs"} <= set(TASKS["Operate"])
    for task in TASKS:
        assert f"╭─ {task} " in first
    assert {line.split()[1] for line in more.splitlines()} == set(COMMANDS) - shown


def test_help_imports_no_command() -> None:
    asked = (
        "import sys, securefl.cli.app; from typer.testing import CliRunner;"
        " assert CliRunner().invoke(securefl.cli.app.app, ['--help']).exit_code == 0;"
        " print('numpy' in sys.modules, 'securefl.cli.run' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True, text=True)
    assert run.stdout.split() == ["False", "False"]


@pytest.mark.parametrize(
    "words", [["--help"], ["run", "--help"], ["simulate", "--help"], ["plan", "--parties", "20", "--json"]]
)
def test_no_torch_is_loaded_for_what_does_not_train(words: list[str], tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from securefl.cli.app import main\n"
        f"sys.argv = ['securefl', *{words!r}]\n"
        "try:\n    main()\n"
        "except SystemExit as end:\n    assert not end.code, end.code\n"
        "print('torch' in sys.modules)"
    )
    told = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    shown = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=told, capture_output=True, text=True, check=True
    )
    assert shown.stdout.splitlines()[-1] == "False"
