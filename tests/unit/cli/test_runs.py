"""``securefl runs``: refusals before any connection, each with a remedy that fits."""

from __future__ import annotations

from pathlib import Path

from tests.looped import looped
from tests.unit.cli.programs import call, refusal
from tests.unit.provision.machines import begun, signed


@looped("words", [("submit", "trial-1"), ("list",), ("show", "trial-1"), ("stop", "trial-1")])
def test_a_folder_that_is_not_the_operators_is_refused(words: tuple[str, ...], tmp_path: Path) -> None:
    line = refusal(call("runs", words[0], tmp_path, *words[1:]))
    assert line.startswith(f"{tmp_path}: is not the operator's folder (")
    assert "securefl provision begin" in line


def test_a_machines_folder_is_refused_as_the_operators(tmp_path: Path) -> None:
    made = signed(tmp_path)
    made.accept("p00")
    assert "is not the operator's folder" in refusal(call("runs", "list", made.at("p00")))
    assert "is not the operator's folder" in refusal(
        call("runs", "submit", made.at("p00") / "kit.toml", "trial-1")
    )


def test_a_run_that_was_never_submitted_cannot_be_stopped(tmp_path: Path) -> None:
    made = begun(tmp_path)
    line = refusal(call("runs", "stop", made.operator, "trial-1"))
    assert "'trial-1' was not submitted" in line
    assert f"securefl runs list {made.operator}" in line
