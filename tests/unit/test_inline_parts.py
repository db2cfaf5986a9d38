"""Rules and attacks that a notebook or a function defines."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import securefl
from securefl.sections import Aggregation

RULE = """
import numpy as np, securefl

class Half(securefl.Rule, frozen=True, kw_only=True):
    share: float = {share}

    def withstands(self, clusters):
        return 0

    def aggregate(self, stack):
        kept = np.ones(stack.clusters, dtype=bool)
        return securefl.AggregationResult(self.share * stack.means.mean(axis=0), kept)

class Backwards(securefl.UpdateAttack, frozen=True, kw_only=True):
    def craft(self, update, before, entropy):
        return -update
"""
SMALL = {"stop.rounds": 2, "expect": [], "training.epochs": 1, "behaviours": []}


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Module ``__main__`` of a notebook: it has no file."""
    main = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    run_cell(main, share=0.5)
    return main


def run_cell(main: ModuleType, share: float) -> None:
    exec(RULE.format(share=share), vars(main))  # noqa: S102 - a cell of a notebook


def local_rule() -> securefl.Rule:
    class Local(securefl.Rule, frozen=True, kw_only=True):
        def withstands(self, clusters: int) -> int:
            return 0

        def aggregate(self, stack: securefl.ClusterMeans) -> securefl.AggregationResult:
            return securefl.AggregationResult(stack.means[0].copy(), np.arange(stack.clusters) == 0)

    return Local()


def with_rule(rule: object) -> securefl.Scenario:
    return securefl.load("quickstart", SMALL | {"aggregation": {"rule": rule}})


def test_parts_of_a_notebook_are_simulated(notebook: ModuleType, tmp_path: Path) -> None:
    attack = notebook.Backwards(parties=("p03",))
    scenario = securefl.with_overrides(with_rule(notebook.Half()), {"behaviours": [attack]})
    with securefl.Federation(scenario, seeded=True, out=tmp_path / "stopped") as federation:
        federation.step()
    resumed = securefl.simulate(scenario, seeded=True, out=tmp_path / "stopped", resume=True)
    whole = securefl.simulate(scenario, seeded=True, out=tmp_path / "whole")
    honest = securefl.simulate(
        securefl.with_overrides(scenario, {"behaviours": []}), seeded=True, out=tmp_path / "honest"
    )
    np.testing.assert_equal(resumed.arrays(), whole.arrays())
    assert whole.rounds[0].update_norm != honest.rounds[0].update_norm
    assert 'type = "__main__:Half"' in (whole.path / "scenario.toml").read_text()


def test_a_class_of_a_function_is_simulated(tmp_path: Path) -> None:
    rule = local_rule()
    scenario = securefl.with_overrides(with_rule(rule), {"parties": 9})
    assert type(scenario.aggregation.rule) is type(rule)
    assert securefl.with_overrides(scenario, ["stop.rounds=1"]).aggregation.rule == rule
    result = securefl.simulate(scenario, rounds=1, out=tmp_path / "run")
    assert len(result.rounds[0].rejected) == len(result.rounds[0].sums) - 1


def test_a_scenario_keeps_its_class_when_a_cell_runs_again(notebook: ModuleType) -> None:
    scenario = with_rule(old := notebook.Half())
    run_cell(notebook, share=0.25)
    kept = securefl.with_overrides(scenario, {"stop.rounds": 3}).aggregation.rule
    assert type(kept) is type(old)
    replaced = securefl.with_overrides(scenario, {"aggregation.rule": notebook.Half()}).aggregation.rule
    assert type(replaced) is notebook.Half
    assert replaced == notebook.Half(share=0.25)


def test_a_class_at_hand_is_checked_like_an_imported_one() -> None:
    class Bare(securefl.Rule, frozen=True, kw_only=True):
        def withstands(self, clusters: int) -> int:
            return 0

    reason = rf"aggregation.rule.type: {__name__}:Bare lacks aggregate \(define aggregate\)"
    with pytest.raises(securefl.ConfigError, match=reason):
        with_rule(Bare())


@pytest.mark.parametrize("kind", ["notebook", "function", "cell that ran again"])
def test_a_run_with_processes_refuses_them_in_one_line(
    kind: str, notebook: ModuleType, tmp_path: Path
) -> None:
    rule = local_rule() if kind == "function" else notebook.Half()
    scenario = securefl.Scenario(name="wards", parties=12, aggregation=Aggregation(rule=rule))
    if kind == "cell that ran again":
        run_cell(notebook, share=0.5)
    with pytest.raises(securefl.ConfigError) as refused:
        securefl.run(scenario, out=tmp_path / "run")
    name = f"{__name__}:Local" if kind == "function" else "__main__:Half"
    assert str(refused.value) == (
        f"{name}: cannot be imported by the processes of a run"
        " (put the class into a module and import it; simulations take it as it is)"
    )
    assert not (tmp_path / "run").exists()
