"""The rehearsal: its steps, imports, stubs and the network that it lacks."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest

from tools.cuda import imports, offline
from tools.cuda.kit import ROOT
from tools.cuda.refusal import RefusedError
from tools.cuda.rehearse import TESTS, Step, environment, take
from tools.cuda.stand_in import STUB_MESSAGE, find_interpreter, write_stub

CUT = offline.prefix(sys.executable)


@pytest.mark.parametrize(
    ("code", "expected", "exit_code", "passes"),
    [
        ("print('all well')", "well", 0, True),
        ("print('all well')", "ill", 0, False),
        ("print('all well'); raise SystemExit(1)", "well", 0, False),
        ("print('all well'); raise SystemExit(3)", "well", 3, True),
    ],
)
def test_a_step_needs_its_words_and_its_exit_code(
    code: str, expected: str, exit_code: int, passes: bool
) -> None:
    output = take(Step("a step", ("-c", code), expected, exit_code), [sys.executable], {})
    assert (output == []) is passes
    if not passes:
        assert output[0] == "all well"
        assert output[-1].startswith("exit code ")


def test_steps_see_no_index_no_proxy_and_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "PIP_INDEX_URL", "PIP_FIND_LINKS", "PYTHONHOME"):
        monkeypatch.setenv(name, "somewhere")
    settings = environment(tmp_path / "scratch", tmp_path)
    assert "somewhere" not in settings.values()
    assert settings["PIP_NO_INDEX"] == "1"
    assert settings["PYTHONPATH"] == f"{ROOT}:{tmp_path / 'scratch'}"
    assert not Path(settings["PIP_CACHE_DIR"]).exists()


def test_the_tests_of_the_rehearsal_exist() -> None:
    assert [path for path in TESTS if not (ROOT / path).exists()] == []


def test_modules_of_the_checkout() -> None:
    names = imports.modules(ROOT)
    assert {"securefl", "securefl.base.errors", "securefl.training.sgd", "securefl.cli.app"} <= set(names)
    assert "securefl.__main__" not in names


@pytest.mark.parametrize(
    ("name", "free"),
    [
        ("securefl.base", True),
        ("securefl.base.errors", True),
        ("securefl.protocol.secure_sum.crypten.session", True),
        ("securefl.protocol.secure_sum.crypten.preloaded", False),
        ("securefl.cli.app", True),
        ("securefl.cli.run", False),
        ("securefl.training.sgd", False),
    ],
)
def test_parts_that_import_without_torch(name: str, free: bool) -> None:
    assert imports.is_torch_free(name) is free


def test_only_the_stub_of_torch_excuses_a_module() -> None:
    stub = ImportError(STUB_MESSAGE)
    wrapped = ValueError("no CrypTen")
    wrapped.__cause__ = stub
    assert imports.needs_torch(stub, STUB_MESSAGE)
    assert imports.needs_torch(wrapped, STUB_MESSAGE)
    assert not imports.needs_torch(ImportError("No module named 'aiomqtt'"), STUB_MESSAGE)


def test_a_module_that_cannot_be_imported_fails_the_step(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(imports, "modules", lambda _root: ["securefl.base.errors", "securefl.base.not_there"])
    assert imports.main(STUB_MESSAGE) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("cannot import securefl.base.not_there: ModuleNotFoundError")
    assert lines[1] == "1 modules imported, 0 need torch, 0 need another framework, 1 failed"


def test_a_stub_is_a_distribution(tmp_path: Path) -> None:
    write_stub(tmp_path, "opt-einsum-fx", "2.11.0+cu130")
    [stub] = distributions(path=[str(tmp_path)])
    assert (stub.metadata["Name"], stub.version) == ("opt-einsum-fx", "2.11.0+cu130")


def test_without_an_interpreter_the_rehearsal_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    # As a launcher whose version is not selected.
    (tmp_path / "python3.12").write_text("#!/bin/sh\nexit 127\n")
    (tmp_path / "python3.12").chmod(0o755)
    with pytest.raises(RefusedError, match=r"python3\.12 was not found; install Python 3\.12"):
        find_interpreter()


@pytest.mark.skipif(not CUT, reason="namespaces are not permitted here")
def test_offline_only_the_loopback_interface_is_reachable() -> None:
    code = (
        "import socket\n"
        "server = socket.create_server(('127.0.0.1', 0))\n"
        "socket.create_connection(server.getsockname()).close()\n"
        "print('loopback')\n"
        "try:\n"
        "    socket.create_connection(('192.0.2.1', 80))\n"
        "except OSError as error:\n"
        "    print(error.strerror)\n"
    )
    done = subprocess.run([*CUT, sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["loopback", "Network is unreachable"]
