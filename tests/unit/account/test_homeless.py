"""Service accounts without a home: all commands work with SECUREFL_STATE, and name it where it is missing."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from securefl.base.errors import ConfigError
from securefl.runtime.account import head as tips
from tests.unit.cli.programs import call, refusal

NAMED = "set SECUREFL_STATE to a folder that this user can write"
SCENARIO = """
name = "n"
parties = 3
[data]
classes = 3
shape = [4]
standardise = { mean = 0, deviation = 1 }
[secure_sum]
server = "active"
[stop]
rounds = 2
"""


@pytest.fixture(params=["unset", "empty", "missing", "a file", "not writable"])
def homeless(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A process whose user has no home that it can write."""
    for name in ("SECUREFL_STATE", "XDG_STATE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    kind: str = request.param
    home = tmp_path / "home"
    if kind == "unset":

        def unknown(_kind: type[Path]) -> Path:
            raise RuntimeError("Could not determine home directory.")

        # As for a user that is not in the list of users.
        monkeypatch.setattr(Path, "home", classmethod(unknown))
    elif kind == "empty":
        monkeypatch.setenv("HOME", "")
    else:
        monkeypatch.setenv("HOME", str(home))
    if kind == "a file":
        home.write_text("")
    elif kind == "not writable":
        home.mkdir()
        # Root may write in any folder, so that permissions alone stop nobody in a container.
        (home / ".local").write_text("")
    return kind


def party(folder: Path) -> list[str | Path]:
    """Arguments of a party whose broker is out of reach."""
    (folder / "n.toml").write_text(SCENARIO)
    np.savez(folder / "x.npz", x_train=np.ones((9, 4), np.float32), y_train=np.arange(9) % 3)
    return [
        *("party", folder / "n.toml", "--name", "p00", "--key", folder / "p00.key"),
        *(
            "--roster",
            folder / "roster.toml",
            "--data",
            folder / "x.npz",
            "--run",
            "r",
            "--out",
            folder / "out",
        ),
        *("--broker", "mqtt://127.0.0.1:1"),
    ]


def test_a_party_is_refused_before_it_connects(homeless: str, tmp_path: Path) -> None:
    assert call("keygen", "--all-in-one", "3", "--out", tmp_path).exit_code == 0
    assert NAMED in refusal(call(*party(tmp_path)))


def test_with_a_state_folder_it_goes_on_to_the_broker(
    homeless: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "given" / "state"
    monkeypatch.setenv("SECUREFL_STATE", str(state))
    assert call("keygen", "--all-in-one", "3", "--out", tmp_path).exit_code == 0
    result = call(*party(tmp_path))
    assert result.exit_code == 3
    assert "broker" in result.stderr
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    kept = list(state.iterdir())
    assert kept
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}
    assert call("account", "--key", tmp_path / "p00.key").exit_code == 0
    assert call("doctor", "--key", tmp_path / "p00.key").exit_code == 0


def test_accounts_and_doctor_name_the_remedy(homeless: str, tmp_path: Path) -> None:
    made = call("keygen", "--party", "north", "--out", tmp_path, width=400)
    assert made.exit_code == 0
    assert NAMED in made.stdout
    key, account = tmp_path / "north.key", tmp_path / "north.account"
    assert NAMED in refusal(call("account", "--key", key))
    account.unlink()
    assert NAMED in refusal(call("account", "--begin", "--key", key))
    assert not account.exists(), "half done"
    shown = call("doctor", "--key", key, width=400)
    assert shown.exit_code == 3
    assert NAMED in shown.stdout
    without = call("doctor", width=400)
    assert without.exit_code == 0, "a server keeps no state"
    assert NAMED in without.stdout


def test_a_server_keeps_no_state(homeless: str, tmp_path: Path) -> None:
    made = call("keygen", "--party", "server", "--out", tmp_path, width=400)
    assert "SECUREFL_STATE" not in made.stdout


def test_a_state_folder_that_is_given_and_of_no_use_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SECUREFL_STATE", str(tmp_path / "file" / "state"))
    with pytest.raises(
        ConfigError, match=r"file/state cannot be written: Not a directory \(set SECUREFL_STATE"
    ):
        tips.check_state_folder()
    monkeypatch.setenv("SECUREFL_STATE", str(tmp_path / "new" / "state"))
    tips.check_state_folder()
    assert not (tmp_path / "new").exists(), "a check writes nothing"


@pytest.mark.slow
def test_no_command_writes_in_a_home_or_complains_of_it(tmp_path: Path) -> None:
    """Simulation, audit and pictures: a process of its own, as matplotlib looks for its folder once."""
    home = tmp_path / "home"
    home.write_text("")
    (tmp_path / "n.toml").write_text(
        'name = "n"\nparties = 4\n[stop]\nrounds = 1\n[training]\ndevice = "cpu"\n'
    )
    environment = {k: v for k, v in os.environ.items() if k not in {"MPLCONFIGDIR", "XDG_CACHE_HOME"}}
    for command in (
        "simulate n.toml --out run",
        "audit run",
        "plot run --out run.png",
        "data histogram n.toml --out data.png",
    ):
        done = subprocess.run(
            [sys.executable, "-m", "securefl", *command.split()],
            cwd=tmp_path,
            env={**environment, "HOME": str(home)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "home" not in done.stderr
        assert "atplotlib" not in done.stderr
