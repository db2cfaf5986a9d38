"""The public API: what docs/python.md promises."""

from __future__ import annotations

import asyncio
import inspect
import json
import multiprocessing
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import securefl
from securefl import sections
from securefl._runs import RunArguments
from tests.looped import looped

SMALL = {"stop.rounds": 2, "expect": [], "training.epochs": 1}


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> securefl.RunResult:
    return securefl.simulate(
        securefl.load("quickstart", SMALL), out=tmp_path_factory.mktemp("runs") / "small", exact=True
    )


def test_names_are_imported_when_they_are_used() -> None:
    loaded = "*(name for name in sys.modules if name.startswith('securefl.'))"
    asked = f"import sys, securefl; print({loaded}, 'numpy' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True, text=True)
    assert told.stdout.split() == ["False"]


@pytest.mark.parametrize("module", ["securefl.methods.robust.rules.inner_product", "securefl.scenario"])
def test_any_module_may_be_imported_first(module: str) -> None:
    """A search for the name of a module must not import the modules that suggestions come from."""
    subprocess.run([sys.executable, "-c", f"import {module}"], check=True)


def test_overrides_as_values_and_as_words() -> None:
    by_value = securefl.load("quickstart", {"stop.rounds": 3, "aggregation.rule": {"type": "median"}})
    by_word = securefl.load("quickstart", ["stop.rounds=3", 'aggregation.rule={type="median"}'])
    assert by_value == by_word
    assert by_value.stop.rounds == 3
    again = securefl.with_overrides(by_value, {"aggregation.rule": by_word.aggregation.rule})
    assert again == by_word


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"stop.rounds": 0}, "stop.rounds: expected int >= 1, found 0"),
        ({"stop.round": 3}, "stop.round: "),
        ({"name.first": 3}, "name.first: name is not a table"),
        ({"secure_sum.threshold": 7}, "secure_sum.threshold: "),
        ({"aggregation.rule": "medain"}, "aggregation.rule: expected table, found "),
        ({"": 1}, "overrides: '' is not a path"),
    ],
)
def test_a_bad_override_is_refused_in_one_line(overrides: dict[str, object], words: str) -> None:
    with pytest.raises(securefl.ConfigError) as refused:
        securefl.load("quickstart", overrides)
    assert str(refused.value).startswith(words)
    assert "\n" not in str(refused.value)


def test_overrides_as_objects() -> None:
    drop = sections.Drop(parties=("p01",), phase="after-shares")
    changes = {"behaviours": (drop,), "stop.rounds": np.int64(2), "stop": sections.Stop(rounds=5)}
    changed = securefl.with_overrides(securefl.load("quickstart", {"expect": []}), changes)
    assert changed.behaviours == (drop,)
    assert changed.stop.rounds == 5


@looped(
    "value, words",
    [
        (object(), "an object of object"),
        (securefl.rules.Median, "the class Median"),
        (np.zeros(2), "ndarray"),
    ],
)
def test_what_no_file_has_is_no_override(value: object, words: str) -> None:
    with pytest.raises(securefl.ConfigError, match=f"^aggregation.rule: is .*{words}"):
        securefl.with_overrides(securefl.load("quickstart"), {"aggregation.rule": value})


def test_overrides_are_of_a_scenario() -> None:
    name: Any = "quickstart"
    with pytest.raises(securefl.ConfigError, match=r"^scenario: is 'quickstart', expected a Scenario"):
        securefl.with_overrides(name, {})


def test_no_such_scenario() -> None:
    with pytest.raises(securefl.ConfigError, match="no such file, and no bundled scenario"):
        securefl.load("quickstrat")


def test_explained() -> None:
    told = securefl.explain(securefl.load("quickstart"))
    assert told.startswith("# run\n#   12 parties\n#   4 clusters of 3: 2 members open a sum")
    assert "rounds = 8" in told


def test_a_result_is_its_rounds_and_its_model(simulated: securefl.RunResult) -> None:
    assert [record.round for record in simulated] == [0, 1]
    assert len(simulated) == 2
    assert simulated.accuracy == simulated.rounds[-1].accuracy
    arrays, tensors = simulated.arrays(), simulated.state_dict()
    assert arrays.keys() == tensors.keys()
    assert all(np.array_equal(arrays[name], tensors[name].numpy()) for name in arrays)
    assert simulated.scenario.stop.rounds == 2
    with pytest.raises(securefl.ConfigError, match="does not exist"):
        simulated.arrays(group=1)


def test_a_result_is_shown_in_a_line(simulated: securefl.RunResult) -> None:
    shown = f"<RunResult quickstart: 2 rounds done, accuracy {simulated.accuracy:.3f}, in {simulated.path}>"
    assert repr(simulated) == shown


def test_a_scenario_is_shown_in_a_line() -> None:
    shown = repr(securefl.load("quickstart"))
    assert shown == "<Scenario quickstart: 12 parties, 8 rounds, masking, trimmed-mean>"


def test_records_are_given_as_rounds_end(tmp_path: Path) -> None:
    seen: list[securefl.RoundRecord] = []
    scenario = securefl.load("quickstart", SMALL)
    result = securefl.simulate(scenario, rounds=3, on_round=seen.append, out=tmp_path / "run")
    assert tuple(seen) == result.rounds
    assert (len(seen), result.scenario.stop.rounds, scenario.stop.rounds) == (3, 3, 2)


def test_a_simulation_that_was_interrupted_goes_on(tmp_path: Path) -> None:
    whole = securefl.simulate("quickstart", rounds=4, seeded=True, out=tmp_path / "whole")

    def interrupt(record: securefl.RoundRecord) -> None:
        if record.round == 2:
            raise KeyboardInterrupt

    first = securefl.simulate("quickstart", rounds=4, seeded=True, out=tmp_path / "part", on_round=interrupt)
    assert "by the user" in repr(first)
    rest = securefl.simulate("quickstart", rounds=4, seeded=True, out=tmp_path / "part", resume=True)
    assert [record.update_norm for record in rest] == [record.update_norm for record in whole]
    np.testing.assert_equal(rest.arrays(), whole.arrays())


def test_a_seed_of_numpy_is_a_seed(tmp_path: Path) -> None:
    seed: Any = np.int64(3)
    of_numpy = securefl.simulate("quickstart", rounds=1, seed=seed, seeded=True, out=tmp_path / "a")
    of_python = securefl.simulate("quickstart", rounds=1, seed=3, seeded=True, out=tmp_path / "b")
    np.testing.assert_equal(of_numpy.arrays(), of_python.arrays())
    for wrong in (-1, 0.5, "3", None):
        seed = wrong
        with pytest.raises(securefl.ConfigError, match=r"^seed: is .*, expected a whole number from 0 on"):
            securefl.simulate("quickstart", seed=seed, out=tmp_path / "c")


def test_an_error_of_ones_own_function_is_raised(tmp_path: Path) -> None:
    def fail(_record: securefl.RoundRecord) -> None:
        raise RuntimeError("no plot")

    with pytest.raises(RuntimeError, match="no plot"):
        securefl.simulate("quickstart", rounds=2, out=tmp_path / "run", on_round=fail)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert "stopped by RuntimeError in round 0" in summary["reason"]


def test_a_failed_simulation_leaves_the_summary_of_its_resumption(tmp_path: Path) -> None:
    def fail(record: securefl.RoundRecord) -> None:
        if record.round == 1:
            raise RuntimeError("no plot")

    failed = securefl.Federation("quickstart", rounds=3, out=tmp_path / "run", on_round=fail)
    with pytest.raises(RuntimeError, match="no plot"):
        failed.run()
    securefl.simulate("quickstart", rounds=3, out=tmp_path / "run", resume=True)
    summary = (tmp_path / "run" / "summary.json").read_text()
    failed.stop()
    assert (tmp_path / "run" / "summary.json").read_text() == summary


def test_a_path_is_quoted_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "run--seed-5"
    folder.mkdir()
    (folder / "file").touch()
    with pytest.raises(securefl.ConfigError, match=r"choose another out=") as caught:
        securefl.simulate("quickstart", out=folder)
    assert caught.value.path == str(folder)


def test_a_name_with_a_dot_is_no_attribute() -> None:
    assert not hasattr(securefl, "base.text")
    assert not hasattr(securefl, "no.such")


@pytest.mark.live
def test_live_an_error_of_ones_own_function_ends_a_run_with_its_summary(tmp_path: Path) -> None:
    def fail(_record: securefl.RoundRecord) -> None:
        raise RuntimeError("no plot")

    with pytest.raises(RuntimeError, match="no plot"):
        securefl.run(
            securefl.load("quickstart", SMALL), broker="embedded", out=tmp_path / "run", on_round=fail
        )
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["reason"] == "stopped by RuntimeError; what was written stays"
    assert (summary["aborted"], len(summary["rounds"])) == (True, 1)
    assert multiprocessing.active_children() == []


def test_a_directory_serves_one_simulation_at_a_time(tmp_path: Path) -> None:
    with securefl.Federation("quickstart", rounds=3, out=tmp_path / "run") as first:
        first.step()
        for second in (securefl.simulate, securefl.Federation):
            with pytest.raises(securefl.ConfigError) as caught:
                second("quickstart", rounds=3, out=tmp_path / "run", resume=True)
            assert str(caught.value) == (
                f"out: {tmp_path / 'run'} is in use: another simulation runs there (process {os.getpid()})"
                " (wait until it ends, or choose another out=)"
            )
    rest = securefl.simulate("quickstart", rounds=3, out=tmp_path / "run", resume=True)
    assert len(rest) == 3
    assert not list((tmp_path / "run").glob(".*lock"))


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"resume": True}, "resume: needs the directory of the simulation (add out=DIRECTORY)"),
        ({"site": "ward"}, "site: 'ward' does not name a site (write module:name, as in mysite:Site)"),
    ],
)
def test_errors_name_arguments_of_python(arguments: dict[str, Any], error: str) -> None:
    with pytest.raises(securefl.ConfigError) as caught:
        securefl.simulate("quickstart", **arguments)
    assert str(caught.value) == error
    assert caught.value.path == next(iter(arguments))


@pytest.mark.parametrize(
    ("module", "name", "near"),
    [
        (securefl, "Medain", "securefl.rules.Median"),
        (securefl, "simulat", "simulate"),
        (securefl.rules, "Medain", "Median"),
        (securefl.attacks, "Bakdoor", "Backdoor"),
        (securefl.sections, "Agregation", "Aggregation"),
    ],
)
def test_a_misspelt_name_is_refused_with_the_name_that_it_stands_for(
    module: ModuleType, name: str, near: str
) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(module, name)
    assert str(caught.value) == f"{module.__name__} has no attribute {name!r} (did you mean {near}?)"
    assert not hasattr(module, "__wrapped__")


def test_a_task_ends_with_an_error_that_no_future_carries(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise StopIteration

    monkeypatch.setattr("securefl._runs.run", stopped)
    with pytest.raises(RuntimeError, match="on_round raised StopIteration"):
        asyncio.run(asyncio.wait_for(securefl.run_async("quickstart"), 60))


def test_a_federation_steps_to_the_bits_of_a_simulation(tmp_path: Path) -> None:
    whole = securefl.simulate("quickstart", rounds=3, seeded=True, out=tmp_path / "whole")
    federation = securefl.Federation("quickstart", rounds=3, seeded=True, out=tmp_path / "steps")
    assert (federation.rounds, federation.ended) == ((), False)
    with pytest.raises(securefl.ConfigError, match="does not exist"):
        federation.result.arrays()
    first = federation.step()
    assert first is not None
    assert first.update_norm == whole.rounds[0].update_norm
    assert "1 round so far" in repr(federation.result)
    assert [record.round for record in federation] == [1, 2]
    assert (federation.ended, federation.step()) == (True, None)
    result = federation.stop()
    assert (result.path / "summary.json").exists()
    assert result.summary.outcome == whole.summary.outcome
    np.testing.assert_equal(result.arrays(), whole.arrays())


def test_a_federation_is_stopped_and_resumed(tmp_path: Path) -> None:
    whole = securefl.simulate("quickstart", rounds=3, seeded=True, out=tmp_path / "whole")
    with securefl.Federation("quickstart", rounds=3, seeded=True, out=tmp_path / "part") as federation:
        federation.step()
        assert repr(federation) == f"<Federation quickstart: 1 of 3 rounds, in {tmp_path / 'part'}>"
    stopped = federation.stop()
    assert f"stopped by the caller; to go on: resume it in {tmp_path / 'part'}" in repr(stopped)
    assert (federation.step(), len(stopped)) == (None, 1)
    rest = securefl.Federation("quickstart", rounds=3, seeded=True, out=tmp_path / "part", resume=True)
    assert len(rest.rounds) == 1
    np.testing.assert_equal(rest.run().arrays(), whole.arrays())


def test_an_error_closes_a_federation_and_leaves_it_to_be_resumed(tmp_path: Path) -> None:
    def fail(record: securefl.RoundRecord) -> None:
        if record.round == 1:
            raise RuntimeError("no plot")

    out = tmp_path / "run"
    federation = securefl.Federation("quickstart", rounds=3, seeded=True, out=out, on_round=fail)
    federation.step()
    with pytest.raises(RuntimeError, match="no plot"):
        federation.step()
    assert (federation.ended, federation.step(), len(federation.rounds)) == (True, None, 2)
    assert "stopped by RuntimeError in round 1; to go on: resume it in" in repr(federation.stop())
    rest = securefl.Federation("quickstart", rounds=3, seeded=True, out=out, resume=True)
    assert [record.round for record in rest] == [1, 2]


def test_missed_expectations_are_shown(tmp_path: Path) -> None:
    result = securefl.simulate("quickstart", rounds=1, out=tmp_path / "run")
    assert re.search(r", accuracy 0\.\d+, \d expectations? missed, in ", repr(result))


def test_a_table_of_no_rounds_is_empty(tmp_path: Path) -> None:
    assert len(securefl.Federation("quickstart", out=tmp_path / "run").result.frame()) == 0


def test_options_are_the_same_in_both_forms_of_a_call() -> None:
    def options(function: object) -> dict[str, object]:
        found = inspect.signature(function).parameters  # type: ignore[arg-type]
        return {name: one.default for name, one in found.items() if name not in {"self", "scenario"}}

    assert options(securefl.Federation.__init__) == options(securefl.simulate)
    assert RunArguments.__annotations__.keys() == options(securefl.run).keys() - {"cancelled"}


def test_a_hook_must_be_a_function(tmp_path: Path) -> None:
    hook: Any = 3
    with pytest.raises(securefl.ConfigError, match=r"^on_round: is 3, expected a function"):
        securefl.simulate("quickstart", on_round=hook, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_rounds_as_a_table(simulated: securefl.RunResult) -> None:
    table = simulated.frame()
    assert list(table.index) == [0, 1]
    assert list(table["survivors"]) == [12, 12]
    assert table["accuracy"].iloc[-1] == simulated.accuracy


def test_without_pandas(simulated: securefl.RunResult, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(securefl.ConfigError, match="pip install pandas"):
        simulated.frame()


def test_an_unfinished_folder_is_not_overwritten(simulated: securefl.RunResult) -> None:
    with pytest.raises(securefl.ConfigError, match="exists and is not empty"):
        securefl.simulate(simulated.scenario, out=simulated.path)


def test_a_run_without_protection_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    plain = securefl.load("quickstart", SMALL | {"secure_sum.kind": "plain", "behaviours": []})
    with pytest.raises(securefl.ConfigError, match="protects nothing: the server would see every update"):
        securefl.run(plain, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_verbose_prints_a_line_a_round(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    securefl.simulate(securefl.load("quickstart", SMALL), out=tmp_path / "run", verbose=True)
    assert "round 1: accuracy" in capsys.readouterr().out


def test_a_plan_is_a_scenario() -> None:
    found = securefl.plan(parties=12, rounds=3)
    made = securefl.scenario_from_plan(found)
    assert made.parties == 12
    assert made.stop.rounds == 3
    assert securefl.scenario_from_plan(found, row=len(found.rows) - 1).parties == 12
    with pytest.raises(securefl.ConfigError, match="parties"):
        securefl.plan(parties=2)


@pytest.mark.live
def test_live_audited_and_with_the_bits_of_the_simulation(
    simulated: securefl.RunResult, tmp_path: Path
) -> None:
    seen: list[int] = []
    live = securefl.run(
        simulated.scenario,
        broker="embedded",
        out=tmp_path / "live",
        on_round=lambda record: seen.append(record.round),
    )
    assert (len(live), seen) == (2, [0, 1])
    assert live.arrays().keys() == simulated.arrays().keys()
    report = securefl.audit(live.path)
    assert report.exit_code == 0
    with pytest.raises(securefl.ConfigError, match="p99"):
        securefl.audit(live.path, colluders=["p99"])


@pytest.mark.live
def test_a_script_without_a_guard_is_told_in_one_line(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import securefl\nsecurefl.run('quickstart', broker='embedded', rounds=1)\n")
    ended = subprocess.run(
        [sys.executable, script], cwd=tmp_path, check=False, capture_output=True, text=True
    )
    assert ended.returncode != 0
    assert 'securefl.run: put the call under if __name__ == "__main__":' in ended.stderr
    assert ended.stderr.count("Traceback") <= 1


@pytest.mark.live
def test_runs_beside_other_tasks(tmp_path: Path) -> None:
    async def both() -> tuple[securefl.RunResult, int]:
        turns = 0
        scenario = securefl.load("quickstart", SMALL)
        running = asyncio.create_task(
            securefl.run_async(scenario, broker="embedded", out=tmp_path / "run", rounds=1)
        )
        while not running.done():
            turns += 1
            await asyncio.wait([running], timeout=0.01)
        return running.result(), turns

    result, turns = asyncio.run(both())
    assert len(result) == 1
    assert turns > 1


@pytest.mark.live
def test_a_run_is_cancelled_twice_and_before_it_starts(tmp_path: Path) -> None:
    async def cancelled() -> None:
        scenario = securefl.load("quickstart", SMALL)
        task = asyncio.create_task(securefl.run_async(scenario, broker="embedded", out=tmp_path / "run"))
        for _ in range(2):
            await asyncio.sleep(0)
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert multiprocessing.active_children() == []
    assert "by its caller" in (tmp_path / "run" / "summary.json").read_text()


@pytest.mark.live
@pytest.mark.parametrize("level", ["", "loud"])
def test_a_level_that_is_none_is_no_level(
    level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECUREFL_LOG_LEVEL", level)
    assert len(securefl.run("quickstart", broker="embedded", rounds=1, out=tmp_path / "run")) == 1


@pytest.mark.live
def test_a_cancelled_run_ends_with_a_summary(tmp_path: Path) -> None:
    out = tmp_path / "run"

    async def cancelled() -> None:
        first = asyncio.Event()
        loop = asyncio.get_running_loop()

        def note(_record: securefl.RoundRecord) -> None:
            loop.call_soon_threadsafe(first.set)

        task = asyncio.create_task(
            securefl.run_async(
                securefl.load("quickstart", SMALL),
                rounds=1000,
                broker="embedded",
                out=out,
                on_round=note,
            )
        )
        await first.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert "by its caller" in (out / "summary.json").read_text()
    assert multiprocessing.active_children() == []
