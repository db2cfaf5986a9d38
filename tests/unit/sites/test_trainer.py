"""A site as local training: what it is given, and what of its answers is taken."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import UsageError
from securefl.scenario.evaluation import Metric, SiteEvaluation
from securefl.training.sites.layout import Layout, SiteError
from securefl.training.sites.log import SiteLog
from securefl.training.sites.site import Delta, RoundContext
from securefl.training.sites.trainer import SiteTrainer
from tests.foreign_errors import all_errors

LAYOUT = Layout({"a": (2, 3), "b": (), "c.d": (4,)})
NOTHING: dict[str, float] = {}
PARAMS = np.arange(11, dtype=np.float32)
ENTROPY = InsecureSeededEntropy(3)


def site(fit: Callable[..., Any], samples: Any = 5, **more: Any) -> Any:
    return SimpleNamespace(samples=samples, parameters=lambda: LAYOUT.arrays(PARAMS), fit=fit, **more)


def trainer(fit: Callable[..., Any], log: Path | None = None, **more: Any) -> SiteTrainer:
    return SiteTrainer(site(fit, **more), LAYOUT, 7, SiteLog(log))


def update(of: SiteTrainer, **more: Any) -> Any:
    return of.update(2, PARAMS, more.pop("carry", None), ENTROPY.child("update"), **more)


def test_a_site_gets_copies_of_its_own_and_the_update_is_the_difference() -> None:
    seen: list[Any] = []

    def fit(parameters: Any, context: RoundContext) -> Any:
        seen.append(({name: array.copy() for name, array in parameters.items()}, context))
        for array in parameters.values():
            np.add(array, 1, out=array)
        return parameters, 5, {"loss": 1}

    before = PARAMS.copy()
    made = update(trainer(fit), samples=3)
    assert made.dtype == np.float64
    np.testing.assert_array_equal(made, np.ones(11))
    np.testing.assert_array_equal(PARAMS, before)
    ((arrays, context),) = seen
    np.testing.assert_array_equal(arrays["a"], [[0, 1, 2], [3, 4, 5]])
    np.testing.assert_array_equal(arrays["b"], 6)
    np.testing.assert_array_equal(arrays["c.d"], [7, 8, 9, 10])
    assert (context.number, context.planned, context.samples) == (2, 7, 3)
    assert 0 <= context.seed < 2**63


def test_a_change_is_taken_as_it_is() -> None:
    """Digits that parameters of float32 would have swallowed."""
    tiny = {name: np.full(shape, 1e-12) for name, shape in LAYOUT.shapes.items()}
    np.testing.assert_array_equal(update(trainer(lambda *_: (Delta(tiny), 5, {}))), np.full(11, 1e-12))


def test_seeds_differ_by_round_and_follow_from_the_entropy_alone() -> None:
    seeds: list[int] = []

    def fit(parameters: Any, context: RoundContext) -> Any:
        seeds.append(context.seed)
        return parameters, 5, {}

    of = trainer(fit)
    for label in ("one", "one", "two"):
        of.update(0, PARAMS, None, ENTROPY.child(label))
    assert seeds[0] == seeds[1] != seeds[2]


def test_tables_that_nobody_declared_stay_out_of_the_log_and_fail_nothing() -> None:
    """A metric that is taken out of a scenario must not stop its sites' training."""

    def evaluate(_parameters: Any, _context: RoundContext) -> Any:
        return 3, {"loss": 0.5, "hits": np.eye(2), "bins": [1, 2]}

    found = trainer(lambda p, _: (p, 5, {}), evaluate=evaluate).fit(PARAMS, RoundContext(0, 1, 0), ENTROPY)
    assert (found.received, found.metric_values) == ({"loss": 0.5}, None)


def test_coroutines_are_awaited() -> None:
    async def fit(parameters: Any, _context: RoundContext) -> Any:
        return parameters, 5, {}

    async def evaluate(_parameters: Any, _context: RoundContext) -> Any:
        return 2, {"rmse": 0.5}

    found = trainer(fit, evaluate=evaluate).fit(PARAMS, RoundContext(0, 1, 0), InsecureSeededEntropy(1))
    assert found.received == {"rmse": 0.5}
    np.testing.assert_array_equal(found.update, np.zeros(11))

    async def notebook() -> Any:
        return trainer(fit, evaluate=evaluate).fit(PARAMS, RoundContext(0, 1, 0), InsecureSeededEntropy(1))

    assert asyncio.run(notebook()).received == {"rmse": 0.5}


def arrays(**changed: Any) -> dict[str, Any]:
    return {**LAYOUT.arrays(PARAMS), **changed}


def without(name: str) -> dict[str, Any]:
    return {other: array for other, array in arrays().items() if other != name}


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (None, "fit returned NoneType, expected (parameters, samples, metrics)"),
        ((arrays(), 5), "fit returned 2 things, expected (parameters, samples, metrics)"),
        (([1.0], 5, {}), "fit returned list, expected arrays by name"),
        ((without("b"), 5, {}), "fit returned no array b, but a, c.d"),
        ((arrays(e=np.ones(2)), 5, {}), "fit returned e, which the model does not have: it has a, b, c.d"),
        ((arrays(a=np.ones((3, 2))), 5, {}), "fit returned a of shape (3, 2), expected (2, 3)"),
        (
            (arrays(a=np.ones((2, 3), np.int32)), 5, {}),
            "fit returned a of dtype int32, expected floating-point numbers",
        ),
        ((arrays(b=np.float32("nan")), 5, {}), "fit returned b with numbers that are not finite"),
        (
            (Delta(arrays(b=np.float64("inf"))), 5, {}),
            "fit returned a change with b with numbers that are not",
        ),
        (
            (arrays(), 6, {}),
            "fit trained on 6 samples, and the party has declared 5: its weight would be wrong",
        ),
        ((arrays(), -1, {}), "fit returned -1 samples, expected a whole number"),
        ((arrays(), 2.5, {}), "fit returned 2.5 samples, expected a whole number"),
        ((arrays(), True, {}), "fit returned True samples, expected a whole number"),
        ((arrays(), float("nan"), {}), "fit returned nan samples, expected a whole number"),
        ((arrays(), float("inf"), {}), "fit returned inf samples, expected a whole number"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(returned: Any, said: str, tmp_path: Path) -> None:
    log = tmp_path / "p00.site.jsonl"
    with pytest.raises(SiteError) as refused:
        update(trainer(lambda *_: returned, log))
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    (line,) = map(json.loads, log.read_text().splitlines())
    assert said in line["error"]


def test_numbers_of_numpy_are_numbers() -> None:
    metrics = {"a": np.float32(0.5), "b": np.array(2.0), "c": torch.tensor(3.0, requires_grad=True)}
    found = trainer(lambda p, _: (p, np.int64(4), metrics)).fit(
        PARAMS, RoundContext(0, 1, 0), InsecureSeededEntropy(1)
    )
    assert (found.samples, found.metrics) == (4, {"a": 0.5, "b": 2.0, "c": 3.0})


def test_the_log_keeps_metrics_and_tracebacks_and_is_its_owners(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "p00.site.jsonl"

    def fails(_parameters: Any, context: RoundContext) -> Any:
        raise RuntimeError(f"no cohort for round {context.number}")

    update(trainer(lambda p, _: (p, 5, {"loss": float("inf")}), log, evaluate=lambda *_: (3, {"auc": 0.75})))
    with pytest.raises(SiteError, match="RuntimeError: no cohort for round 2"):
        update(trainer(fails, log))
    good, bad = map(json.loads, log.read_text().splitlines())
    assert good == {"round": 2, "samples": 5, "metrics": {"loss": None}, "received": {"auc": 0.75}}
    line = fails.__code__.co_firstlineno + 1
    assert bad["error"] == f"test_trainer.py:{line} in fails: RuntimeError: no cohort for round 2"
    assert "in fails" in bad["traceback"]
    assert log.stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.geteuid() == 0 and not Path("/dev/full").exists(), reason="no full device")
def test_a_full_disk_costs_the_log_and_not_the_round(tmp_path: Path) -> None:
    log = tmp_path / "full"
    log.symlink_to("/dev/full")
    np.testing.assert_array_equal(update(trainer(lambda p, _: (p, 5, {}), log)), np.zeros(11))


def test_a_site_that_exits_ends_no_party(tmp_path: Path) -> None:
    with pytest.raises(SiteError, match="exits with 3 in place of returning"):
        update(trainer(lambda *_: sys.exit(3), tmp_path / "log"))
    assert "SystemExit" in (tmp_path / "log").read_text()


def test_nothing_is_carried() -> None:
    with pytest.raises(UsageError):
        update(trainer(lambda p, _: (p, 5, {})), carry=np.zeros(11))


def test_a_log_is_its_owners_alone(tmp_path: Path) -> None:
    former = os.umask(0)
    try:
        for path in (tmp_path / "log", tmp_path / "new" / "log"):
            SiteLog(path).log_training(0, 5, {}, None)
            assert path.stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(former)


def raising(error: BaseException, what: str) -> SiteTrainer:
    """A trainer whose site raises in ``what``: fit, evaluate, or a coroutine of that name."""

    def fit(parameters: Any, _context: RoundContext) -> Any:
        if what == "fit":
            raise error
        return parameters, 5, {}

    async def async_fit(_parameters: Any, _context: RoundContext) -> Any:
        raise error

    def evaluate(_parameters: Any, _context: RoundContext) -> Any:
        raise error

    async def async_evaluate(_parameters: Any, _told: RoundContext) -> Any:
        raise error

    judge = {"evaluate": evaluate, "async evaluate": async_evaluate}.get(what)
    more: dict[str, Any] = {} if judge is None else {"evaluate": judge}
    return trainer(async_fit if what == "async fit" else fit, **more)


@pytest.mark.parametrize("what", ["fit", "async fit"])
def test_an_exception_of_any_class_is_a_site_error(what: str) -> None:
    """In a worker thread, where a KeyboardInterrupt is the site's own."""
    for error in all_errors():
        found = raised_in_a_thread(raising(error, what))
        assert isinstance(found, SiteError), (type(error), type(found))
        assert "\n" not in str(found)
        assert type(error).__name__ in str(found) or isinstance(error, SystemExit | SiteError)


@pytest.mark.parametrize("what", ["evaluate", "async evaluate"])
def test_an_evaluation_may_raise_anything(what: str, tmp_path: Path) -> None:
    """Likewise; the training counts, and the site's log has the line."""
    for number, error in enumerate(all_errors()):
        of, log = raising(error, what), tmp_path / f"{number}"
        of._log.path = log
        assert raised_in_a_thread(of) is None, type(error)
        (line,) = map(json.loads, log.read_text().splitlines())
        assert line["notes"][0].startswith("no metrics: ")
        assert line["metrics"] == {}


def raised_in_a_thread(of: SiteTrainer) -> BaseException | None:
    found: list[BaseException] = []

    def train() -> None:
        try:
            update(of)
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    return found[0] if found else None


def test_an_interrupt_of_the_user_passes() -> None:
    """Ctrl-C in ``simulate``, which trains in the main thread."""
    with pytest.raises(KeyboardInterrupt):
        update(raising(KeyboardInterrupt(), "fit"))


def test_an_answer_that_raises_as_it_is_read() -> None:
    class Trap(dict[str, Any]):
        def items(self) -> Any:
            raise GeneratorExit

    with pytest.raises(SiteError, match="GeneratorExit"):
        update(trainer(lambda _parameters, _told: (Trap(arrays()), 5, {})))
    found = trainer(lambda parameters, _told: (parameters, 5, Trap())).fit(
        PARAMS, RoundContext(0, 1, 0), ENTROPY
    )
    line = Trap.items.__code__.co_firstlineno + 1
    assert found.notes == (f"no metrics: test_trainer.py:{line} in items: GeneratorExit",)


LOSS = SiteEvaluation(metrics=(Metric(name="loss", kind="mean", upper=8.0),), repeats="accept")


def judged(evaluate: Callable[..., Any], metrics: Any = NOTHING, used: Any = 5) -> Any:
    """A training that moves every parameter by 1, behind this evaluation."""

    def fit(parameters: Any, _context: RoundContext) -> Any:
        return {name: array + 1 for name, array in parameters.items()}, used, metrics

    made = SiteTrainer(site(fit, evaluate=evaluate), LAYOUT, 7, SiteLog(None), LOSS)
    return made.fit(PARAMS, RoundContext(0, 7, 0), InsecureSeededEntropy(1))


@pytest.mark.parametrize(
    ("result", "note"),
    [
        ((32, {"loss": True}), "expected numbers"),
        ((32, {"loss": np.True_}), "expected numbers"),
        ((32, {"loss": "1.0"}), "expected numbers"),
        ((32, {"loss": float("nan")}), "a loss that is NaN or infinite"),
        ((32, {}), "gave no metric loss"),
        ((32.5, {"loss": 1.0}), "tested on 32.5 samples"),
        ((True, {"loss": 1.0}), "tested on True samples"),
        ((-1, {"loss": 1.0}), "tested on -1 samples"),
        ((float("nan"), {"loss": 1.0}), "tested on nan samples"),
        ((32, None), "metrics of type NoneType"),
        (None, "returned NoneType"),
    ],
)
def test_an_evaluation_that_fails_costs_its_metrics_only(result: Any, note: str) -> None:
    found = judged(lambda *_: result)
    np.testing.assert_array_equal(found.update, np.ones(11))
    np.testing.assert_array_equal(found.metric_values, np.zeros(2))
    assert note in " ".join(found.notes)


def test_an_evaluation_may_have_no_samples() -> None:
    for samples in (0, 0.0, np.int64(0)):
        found = judged(lambda *_, n=samples: (n, {"loss": 0.0}))
        np.testing.assert_array_equal(found.metric_values, np.zeros(2))
        assert found.notes == ()
        assert found.received == {"loss": 0.0}


def test_metrics_that_are_not_declared_cost_nothing() -> None:
    found = judged(lambda *_: (32.0, {"loss": 4.0, "early_stop": True, "name": "x", "auc": 0.5}))
    np.testing.assert_array_equal(found.metric_values, [32.0, 16.0])
    assert found.received == {"loss": 4.0, "auc": 0.5}
    assert [note.split(" = ")[0] for note in found.notes] == [
        f"metric dropped: evaluate returned the metric {name}" for name in ("early_stop", "name")
    ]


@pytest.mark.parametrize("metrics", [None, [1], {"auc": "high"}, {"auc": True}, {"auc": np.True_}])
def test_metrics_of_a_training_cost_nothing(metrics: Any) -> None:
    found = judged(lambda *_: (32, {"loss": 4.0}), metrics, 5.0)
    np.testing.assert_array_equal(found.update, np.ones(11))
    assert (found.samples, type(found.samples), found.metrics) == (5, int, {})
    assert len(found.notes) == 1


def test_a_tensor_with_a_gradient_is_a_declared_metric() -> None:
    loss = torch.tensor(4.0, requires_grad=True)
    np.testing.assert_array_equal(judged(lambda *_: (32, {"loss": loss})).metric_values, [32.0, 16.0])


def test_dropped_metrics_are_in_the_sites_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    update(trainer(lambda p, _: (p, 5, {"auc": "high"}), log))
    (line,) = map(json.loads, log.read_text().splitlines())
    assert line["notes"] == ["metric dropped: fit returned the metric auc = 'high', expected a number"]
