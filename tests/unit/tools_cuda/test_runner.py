from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.tools_cuda.scripts import SETTING, Bench, unit
from tools.cuda.lines import NAME, LineFile, read_lines
from tools.cuda.processes import GRACE
from tools.cuda.runner import CODE_UNFINISHED, RESERVE, Clock, Unit

TWO = """
import sys
done = sys.argv[sys.argv.index("--done") + 1].split(",")
for part in ("a", "b"):
    if part not in done:
        print('{"part": "%s", "seconds": 0.5}' % part, flush=True)
"""
ONE = TWO.replace('("a", "b")', '("a",)')


def test_results_are_lines_with_their_setting(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    assert bench.runner.run([unit(tmp_path, TWO)])
    first, second = bench.lines("result")
    assert first == {
        "kind": "result",
        "unit": "measure",
        "device": "cpu",
        **SETTING,
        "part": "a",
        "seconds": 0.5,
    }
    assert second["part"] == "b"
    (end,) = bench.lines("end")
    assert (end["outcome"], end["why"]) == ("done", "")
    assert read_lines(tmp_path / "out" / NAME) == list(bench.file.lines)


def test_a_result_is_on_the_disk_before_the_unit_ends(tmp_path: Path) -> None:
    file = tmp_path / "out" / NAME
    # The unit itself waits for its first line to appear in the file.
    text = f"""
import json, os, sys
print('{{"part": "a"}}', flush=True)
while not (os.path.exists({str(file)!r}) and '"a"' in open({str(file)!r}).read()):
    os.sched_yield()
print('{{"part": "b"}}', flush=True)
"""
    bench = Bench(tmp_path)
    assert bench.runner.run([unit(tmp_path, text)])
    assert [line["part"] for line in bench.lines("result")] == ["a", "b"]


def test_a_unit_that_hangs_is_stopped_and_reported(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    # A shell starts within milliseconds, so that its line comes before its limit.
    command = ("sh", "-c", 'echo \'{"part": "a"}\'; exec sleep 1000')
    hanging = Unit(name="measure", device="cpu", command=command, estimate=0.0, limit=1.5)
    after = unit(tmp_path, TWO, name="after")
    assert not bench.runner.run([hanging, after])
    assert [line["outcome"] for line in bench.lines("end")] == ["failed", "done"]
    assert bench.lines("end")[0]["why"].startswith("hangs: stopped after")
    assert [line["part"] for line in bench.lines("result")] == ["a", "a", "b"]
    assert any("failed: measure on cpu" in text for text in bench.said)


def test_the_limit_of_the_run_is_no_failure(tmp_path: Path) -> None:
    bench = Bench(tmp_path, seconds=2.0 + GRACE + RESERVE)
    assert bench.runner.run(
        [unit(tmp_path, "import signal\nsignal.pause()"), unit(tmp_path, TWO, name="b", estimate=1.0)]
    )
    stopped, skipped = bench.lines("end")
    assert stopped["outcome"] == "stopped"
    assert "time limit of the run" in stopped["why"]
    assert skipped["outcome"] == "skipped"
    assert skipped["why"] == "takes about 1 s, and 0 s are left"
    assert any("skipped: b on cpu" in text for text in bench.said)


def test_a_required_unit_that_is_skipped_fails_the_run(tmp_path: Path) -> None:
    bench = Bench(tmp_path, seconds=20.0)
    assert not bench.runner.run([unit(tmp_path, TWO, estimate=100.0, required=True)])
    assert [line["outcome"] for line in bench.lines("end")] == ["skipped"]


def test_a_crash_is_reported_with_its_last_lines(tmp_path: Path) -> None:
    lines = "import sys\nfor i in range(50): print('line', i, file=sys.stderr)\n"
    text = f"{lines}raise ValueError({str(tmp_path)!r})"
    bench = Bench(tmp_path)
    assert not bench.runner.run([unit(tmp_path, text)])
    (end,) = bench.lines("end")
    assert (end["outcome"], end["why"]) == ("failed", "exit code 1")
    assert end["errors"][-1] == "ValueError: ."
    assert "line 49" in end["errors"]
    assert "line 5" not in end["errors"]
    assert any("ValueError" in line for line in bench.said)


def test_a_signal_and_a_unit_without_results_are_failures(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    killed = unit(tmp_path, "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", name="killed")
    assert not bench.runner.run([killed, unit(tmp_path, "print('no JSON')", name="silent")])
    assert [line["why"] for line in bench.lines("end")] == ["signal 11", "it ended without a result"]
    assert bench.lines("end")[1]["errors"] == ["no JSON"]


def test_a_second_run_continues(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    assert bench.runner.run([unit(tmp_path, f"{ONE}\nsys.exit({CODE_UNFINISHED})")])
    assert [line["outcome"] for line in bench.lines("end")] == ["unfinished"]
    for _ in range(2):
        bench = Bench(tmp_path)
        assert bench.runner.run([unit(tmp_path, TWO)])
    assert [line["part"] for line in bench.lines("result")] == ["a", "b"]
    assert [line["outcome"] for line in bench.lines("end")] == ["unfinished", "done"]
    assert any("has its results from an earlier run" in text for text in bench.said)


@pytest.mark.parametrize("change", [{"code": "other"}, {"machine": "NVIDIA H100, 16 processors"}])
def test_results_of_other_sources_or_machines_do_not_count(tmp_path: Path, change: dict[str, Any]) -> None:
    assert Bench(tmp_path).runner.run([unit(tmp_path, TWO)])
    bench = Bench(tmp_path, **change)
    assert bench.runner.run([unit(tmp_path, TWO)])
    assert [line["part"] for line in bench.lines("result")] == ["a", "b", "a", "b"]


def test_an_incomplete_result_is_measured_again(tmp_path: Path) -> None:
    partial = TWO.replace('"seconds": 0.5', '"complete": false') + f"\nsys.exit({CODE_UNFINISHED})"
    assert Bench(tmp_path).runner.run([unit(tmp_path, partial)])
    bench = Bench(tmp_path)
    assert bench.runner.run([unit(tmp_path, TWO)])
    assert [line["part"] for line in bench.lines("result")] == ["a", "b", "a", "b"]


def test_an_interrupt_leaves_a_line(tmp_path: Path) -> None:
    def interrupt(text: str) -> None:
        if "part a" in text:
            raise KeyboardInterrupt

    bench = Bench(tmp_path, on_text=interrupt)
    with pytest.raises(KeyboardInterrupt):
        bench.runner.run([unit(tmp_path, ONE + "\nimport signal\nsignal.pause()")])
    assert [line["part"] for line in bench.lines("result")] == ["a"]
    assert [(line["outcome"], line["why"]) for line in bench.lines("end")] == [("stopped", "interrupted")]


def test_a_line_that_was_cut_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_text('{"kind": "end", "unit": "a"}\n{"kind": "re', encoding="utf-8")
    file = LineFile(path)
    file.append({"kind": "result"})
    assert path.read_text() == '{"kind": "end", "unit": "a"}\n{"kind": "result"}\n'


def test_a_whole_line_without_its_end_is_kept(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_text('{"kind": "end"}', encoding="utf-8")
    LineFile(path).append({"kind": "result"})
    assert [line["kind"] for line in read_lines(path)] == ["end", "result"]


def test_a_spoiled_line_in_the_middle_is_refused(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_text('[1]\n{"kind": "end"}\n', encoding="utf-8")
    with pytest.raises(ValueError, match=r"line 1: not a JSON object"):
        read_lines(path)


def test_the_clock_keeps_time_to_stop_a_unit() -> None:
    times = iter([100.0, 130.0, 150.0])
    clock: Any = Clock(60.0, lambda: next(times))
    assert clock.passed == 30.0
    assert clock.left == 60.0 - 50.0 - GRACE - RESERVE


def test_every_line_is_json(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.runner.run([unit(tmp_path, 'print(\'{"part": "ü", "text": "a\\\\nb"}\')')])
    texts = (tmp_path / "out" / NAME).read_text(encoding="utf-8").splitlines()
    assert [json.loads(text)["unit"] for text in texts] == ["measure", "measure"]
