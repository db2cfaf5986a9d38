from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.tiers import sampled
from tests.unit.tools_cuda.scripts import Bench, unit
from tools.cuda.environment import ROOT
from tools.cuda.suites import SUITES, Suite

TESTS = """
import os
import pytest

@pytest.mark.parametrize("number", [1, 2])
def test_passes(number):
    assert os.environ["SECUREFL_DEVICE"] == "cpu"
    print("something on the standard output")

def test_fails():
    value = 41
    assert value == 42, "the last line"

@pytest.fixture
def broken():
    raise OSError("no device")

def test_errs(broken):
    pass

@pytest.mark.skip(reason="no GPU")
def test_skipped():
    pass

@pytest.mark.xfail(strict=True)
def test_expected():
    assert False
"""
PROGRAM = """
import sys
from pathlib import Path
from tools.cuda.suites import Suite, run_suite
from tools.cuda.unit import reserved_output, write_line
suite = Suite("own", "own", "test_*.py", (), 0, 0)
with reserved_output() as file:
    code = run_suite(suite, "cpu", lambda line: write_line(file, line), Path(sys.argv[1]), int(sys.argv[2]))
sys.exit(code)
"""


def run(folder: Path, processes: int = 1) -> tuple[int, list[Any]]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), str(processes)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("processes", sampled([1, 2], [1]))
def test_failed_tests_are_lines_and_all_are_counted(tmp_path: Path, processes: int) -> None:
    (tmp_path / "test_own.py").write_text(TESTS)
    code, lines = run(tmp_path, processes)
    assert code == pytest.ExitCode.TESTS_FAILED
    failed = {line["test"].rpartition("::")[2]: line["error"] for line in lines if line.get("kind") == "test"}
    assert set(failed) == {"test_fails", "test_errs"}
    assert any("the last line" in text for text in failed["test_fails"])
    assert any("no device" in text for text in failed["test_errs"])
    counts = lines[-1]
    assert (counts["passed"], counts["failed"], counts["skipped"], counts["complete"]) == (2, 2, 2, True)
    assert counts["reasons"]["no GPU"] == 1


def test_passed_tests_are_done(tmp_path: Path) -> None:
    (tmp_path / "test_own.py").write_text("def test_one(): pass")
    code, lines = run(tmp_path)
    assert code == 0
    assert [line["part"] for line in lines] == ["tests"]


def test_a_file_that_cannot_be_imported_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "test_own.py").write_text("import nothing_of_this_name")
    code, lines = run(tmp_path)
    assert code != 0
    assert any("nothing_of_this_name" in text for text in lines[0]["error"])


@pytest.mark.parametrize("text", [None, "value = 1"])
def test_no_test_is_a_failure(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "test_own.py").write_text(text)
    code, _ = run(tmp_path)
    assert code != 0


STOPPED = """
import os, signal

def test_a():
    pass

def test_b():
    # As the runner does when the time is up.
    os.kill(int(os.environ["UNIT"]), signal.SIGTERM)
    signal.pause()
"""


@pytest.mark.parametrize("processes", sampled([1, 2], [1]))
def test_an_interrupted_suite_keeps_its_numbers(tmp_path: Path, processes: int) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_own.py").write_text(STOPPED)
    program = (
        f"import os, signal, sys\nos.environ['UNIT'] = str(os.getpid())\nsys.path.insert(0, {str(ROOT)!r})\n"
    )
    program += f"sys.argv[1:] = [{str(tmp_path / 'tests')!r}, {processes}]\n"
    program += "signal.signal(signal.SIGTERM, signal.default_int_handler)\n" + PROGRAM
    bench = Bench(tmp_path)
    assert not bench.runner.run([unit(tmp_path, program, name="own", required=True)])
    (end,) = bench.lines("end")
    assert end["outcome"] == "unfinished"
    (counts,) = bench.lines("result")
    assert counts["complete"] is False
    assert counts["failed"] == 0


def test_the_suites_are_those_of_the_contracts() -> None:
    assert [suite.name for suite in SUITES] == ["contracts", "crypten"]
    assert all(isinstance(suite, Suite) and suite.pattern.startswith("tests/contracts/") for suite in SUITES)
    assert list(ROOT.glob(SUITES[1].pattern)) != []
