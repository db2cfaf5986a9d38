"""A reader who leaves."""

from __future__ import annotations

import os
import subprocess
import sys

from securefl.runtime.report.console import Terminal

_TALKER = """
import sys
from securefl.runtime.report.console import Terminal
sys.stdin.readline()
Terminal().print("unheard")
Terminal().print("unheard, too")
print("by other means")
sys.exit(7)
"""


def test_a_closed_pipe_changes_no_exit_code() -> None:
    talker = subprocess.Popen(
        [sys.executable, "-c", _TALKER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert talker.stdout is not None
    assert talker.stdin is not None
    assert talker.stderr is not None
    talker.stdout.close()
    talker.stdin.write("go\n")
    talker.stdin.flush()
    assert talker.wait(timeout=60) == 7
    assert talker.stderr.read() == ""


def test_a_reader_who_stays_reads_all() -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as stream:
        Terminal(file=stream).print("heard")
    with os.fdopen(reader) as stream:
        assert stream.read() == "heard\n"
