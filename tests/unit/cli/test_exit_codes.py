"""The table of exit codes in the documents, and all that has to agree with it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest
import typer

from securefl.base import errors
from securefl.base.errors import ConfigError, DecisionError, RunAbortedError, RunHaltedError, SecureflError
from securefl.cli.console import one_line_errors
from securefl.cli.run_end import finish
from securefl.protocol.kernel.effects import Aborted, Finished
from securefl.runtime.report.expect import MEANING

DOCS = Path(__file__).parents[3] / "docs"
DEPLOYMENT = (DOCS / "deployment.md").read_text()
CONTAINERS = (DOCS / "containers.md").read_text()


class Row(NamedTuple):
    """One line of the table."""

    code: int
    name: str
    restarts: bool


def table() -> dict[int, Row]:
    text = (DOCS / "commands.md").read_text()
    found = re.findall(r"^\| (\d+) \| `(EXIT_\w+)` \| .+ \| (yes|no) \|$", text, re.MULTILINE)
    return {int(code): Row(int(code), name, restarts == "yes") for code, name, restarts in found}


ROWS = table()


def test_the_table_has_all_codes_of_the_program() -> None:
    own = {getattr(errors, name): name for name in vars(errors) if name.startswith("EXIT_")}
    assert {row.code: row.name for row in ROWS.values()} == own
    assert MEANING.keys() == ROWS.keys()
    assert [row.code for row in ROWS.values() if row.restarts] == [errors.EXIT_ABORTED]


def test_there_is_no_second_table() -> None:
    with_tables = [
        path.name for path in DOCS.glob("*.md") if re.search(r"^\| exit code \|", path.read_text(), re.M)
    ]
    assert with_tables == ["commands.md"]


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (ConfigError("field", "is wrong"), "EXIT_REFUSED"),
        (DecisionError("account", "was moved"), "EXIT_DECIDE"),
        (RunAbortedError("no broker"), "EXIT_ABORTED"),
        (RunHaltedError("displaced"), "EXIT_DECIDE"),
    ],
)
def test_errors_end_commands_with_the_code_of_the_table(error: SecureflError, name: str) -> None:
    with pytest.raises(typer.Exit) as ended, one_line_errors():
        raise error
    assert ROWS[ended.value.exit_code].name == name


@pytest.mark.parametrize(
    ("outcome", "name"),
    [
        (Aborted("no word"), "EXIT_ABORTED"),
        (Aborted("rounds are missing", decide=True), "EXIT_DECIDE"),
        (Aborted("stopped", resumable=True, over=False), "EXIT_PAUSED"),
    ],
)
def test_a_party_ends_with_the_code_of_the_table(outcome: Aborted, name: str) -> None:
    with pytest.raises(typer.Exit) as ended, one_line_errors():
        finish(outcome)
    assert ROWS[ended.value.exit_code].name == name


def test_a_party_that_is_done_ends_without_a_code() -> None:
    finish(Finished("3 rounds done"))


def codes_of(setting: str) -> set[int]:
    (line,) = re.findall(rf"^{setting}=([\d ]+)$", DEPLOYMENT, re.MULTILINE)
    return {int(word) for word in line.split()}


def test_the_unit_restarts_as_the_table_states() -> None:
    assert "\nRestart=on-failure\n" in DEPLOYMENT
    quiet = {0} | codes_of("SuccessExitStatus") | codes_of("RestartPreventExitStatus")
    assert quiet == {row.code for row in ROWS.values() if not row.restarts}


def test_the_job_of_kubernetes_fails_as_the_table_states() -> None:
    (values,) = re.findall(r"^ +values: \[([\d, ]+)\]$", CONTAINERS, re.MULTILINE)
    assert {int(word) for word in values.split(",")} == {
        row.code for row in ROWS.values() if not row.restarts and row.code
    }


def compose_lines() -> str:
    """The shell lines of the compose example, as compose hands them to the shell."""
    (block,) = re.findall(r"^      - \|\n((?:        .*\n)+)", CONTAINERS, re.MULTILINE)
    return re.sub(r"^        ", "", block, flags=re.MULTILINE).replace("$$", "$")


def fake(folder: Path, body: str) -> dict[str, str]:
    """An environment in which ``securefl`` is a script with this body."""
    program = folder / "securefl"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


@pytest.mark.parametrize("code", [*ROWS, 77])
def test_the_lines_for_compose_restart_as_the_table_states(code: int, tmp_path: Path) -> None:
    env = fake(tmp_path, f"exit {code}")
    done = subprocess.run(
        ["sh", "-c", compose_lines()], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    restarts = code not in ROWS or ROWS[code].restarts
    assert done.returncode == (code if restarts else 0)
    assert bool(done.stderr) == (code != 0 and not restarts)


@pytest.mark.parametrize("early", [False, True])
def test_the_lines_for_compose_hand_on_sigterm(early: bool, tmp_path: Path) -> None:
    """The party has its own time to end, and its exit code counts; also if it has only just started."""
    ready, lines = tmp_path / "ready", compose_lines()
    if early:
        # Before the line by which the shell knows the party, which handles the signal by then.
        lines = lines.replace("pid=$!", f"until [ -e {ready} ]; do :; done; kill -TERM $$\npid=$!")
    never = tmp_path / "never"
    body = f"trap 'kill $!; exit 3' TERM\nmkfifo {never}\nread line < {never} & : > {ready}\nwait"
    env = fake(tmp_path, body)
    with subprocess.Popen(["sh", "-c", lines], env=env, start_new_session=True) as shell:
        try:
            while not early and not ready.exists():
                assert shell.poll() is None
            if not early:
                shell.terminate()
            assert shell.wait(60) == 3
        finally:
            # What waits at the pipe may outlive the party.
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
