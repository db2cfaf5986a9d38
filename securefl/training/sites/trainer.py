"""Users' site as a party's local training, with checks of its results."""

import inspect
import numbers
from collections.abc import Awaitable, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np

from securefl import scenario
from securefl.base import foreign, loops
from securefl.base.arrays import F32, F64
from securefl.base.entropy import Entropy
from securefl.base.errors import ConfigError, UsageError
from securefl.methods import server_optimisers
from securefl.methods.metrics import MetricError, beyond_range, said_by
from securefl.training import models
from securefl.training.sites import transfer
from securefl.training.sites.columns import ColumnSite
from securefl.training.sites.layout import Layout, SiteError, is_count
from securefl.training.sites.log import SiteLog
from securefl.training.sites.site import Delta, Metrics, RoundContext, Site

NO_METRICS = scenario.SiteEvaluation()
PLAIN = scenario.Training()
ResultT = TypeVar("ResultT")


class SiteEvaluated(NamedTuple):
    """A site's evaluation of the received model."""

    received: Metrics | None
    """Numbers by name; None if the site did not evaluate."""
    metric_values: F64 | None
    """Declared metrics as words f64 ``(w,)``, zeros if they cannot be counted; None if none are declared."""
    notes: tuple[str, ...] = ()
    """Reasons why metrics were dropped."""
    samples: int = 0
    """Evaluated samples, if they can be counted."""


class SiteFit(NamedTuple):
    """Result of one training."""

    update: F64
    """f64 ``(d,)``, finite."""
    samples: int
    metrics: Metrics
    received: Metrics | None
    """Metrics of the received model, or None."""
    metric_values: F64 | None = None
    """Declared metrics as words f64 ``(w,)``, or None."""
    notes: tuple[str, ...] = ()
    """Reasons why metrics were dropped."""


class SiteTrainer:
    """Training at a site, with the interface of :class:`securefl.training.rounds.ShardTrainer`.

    Args:
        site: called from one thread at a time.
        planned: largest number of rounds.
        training: with ``dp_sgd``, steps on the site's records replace ``fit``.

    Raises:
        ConfigError: metrics are declared, and the site does not evaluate; or record-level privacy is required
            of a site with its own training.
    """

    def __init__(
        self,
        site: Site,
        layout: Layout,
        planned: int,
        log: SiteLog,
        evaluation: scenario.SiteEvaluation = NO_METRICS,
        training: scenario.Training = PLAIN,
    ) -> None:
        if evaluation.metrics and getattr(site, "evaluate", None) is None:
            names = ", ".join(metric.name for metric in evaluation.metrics)
            reason = f"the scenario declares {names}, but the site has no evaluate"
            raise ConfigError("--site", reason, "add a method evaluate that returns (samples, metrics)")
        self._site = site
        self._layout = layout
        self._given = layout.views if getattr(site, "keeps_nothing", False) else layout.arrays
        self._printed = getattr(site, "output", lambda: "")
        self._column_counts = site.column_counts if isinstance(site, ColumnSite) else {}
        self._planned = planned
        self._log = log
        self._evaluation = evaluation
        self._declared = site.samples
        self._steps = (
            transfer.record_steps(site, training.batch_size, training.dp_sgd) if training.dp_sgd else None
        )

    def update(
        self, round_: int, params: F32, carry: F64 | None, entropy: Entropy, samples: int | None = None
    ) -> F64:
        """Return the update of this round's training from ``params``, f32 ``(d,)``: f64 ``(d,)``, finite.

        If metrics are declared, the words of the site's evaluation of ``params`` follow: f64 ``(d + w,)``.
        The ``carry`` starts per-example momentum with record-level privacy, else None. ``entropy`` gives the
        site's seed; ``samples`` limits the samples that it uses.

        Raises:
            SiteError: the site raised any exception, or returned an unusable result.
            UsageError: a bug of ours.
        """
        if carry is not None and self._steps is None:
            raise UsageError("carry must be None: a site keeps no momentum of single examples")
        seed = int.from_bytes(entropy.draw(8), "big") >> 1
        context = RoundContext(round_, self._planned, seed, samples)
        try:
            found = self.fit(params, context, entropy, carry)
        except Exception as error:
            self._log.log_failure(round_, error)
            raise
        else:
            self._log.log_training(round_, found.samples, found.metrics, found.received, found.notes)
            if self._column_counts:
                self._log.log_counts(round_, self._column_counts)
        finally:
            self._log.log_output(round_, self._printed())
        return (
            found.update
            if found.metric_values is None
            else np.concatenate((found.update, found.metric_values))
        )

    def fit(self, params: F32, context: RoundContext, entropy: Entropy, carry: F64 | None = None) -> SiteFit:
        """Evaluate, if the site can, and train once from ``params``, f32 ``(d,)``.

        A failing evaluation or metric costs metrics only. ``entropy`` and ``carry`` are for record-level
        privacy, as for :meth:`update`.

        Raises:
            SiteError: as for :meth:`update`.
        """
        if self._steps is not None:
            with models.seeded_generators(context.seed):
                return self._step(self._steps, params, carry, entropy)
        try:
            judged = self.evaluate(params, context)
            update, used, metrics, notes = self._fit(params, context)
        except BaseException as error:
            raise _site_error(error) from error
        return SiteFit(update, used, metrics, judged.received, judged.metric_values, (*judged.notes, *notes))

    def _named_parameters(self, params: F32) -> dict[str, F32]:
        """Return the model by name, as in a model file."""
        return server_optimisers.prepare_arrays(self._given(params))

    def _step(self, steps: transfer.RecordSteps, params: F32, carry: F64 | None, entropy: Entropy) -> SiteFit:
        carried = None if carry is None else self._layout.views(carry)
        update = self._layout.vector(steps.step(self._layout.views(params), carried, entropy), "a step gave")
        return SiteFit(update, self._declared, {"failed": float(steps.failed)}, None)

    def evaluate(self, params: F32, context: RoundContext) -> SiteEvaluated:
        """Return the site's evaluation of a model, f32 ``(d,)``; an empty one with a note if it fails."""
        evaluate = getattr(self._site, "evaluate", None)
        if evaluate is None:
            return SiteEvaluated(None, None)
        nothing = np.zeros(self._evaluation.words) if self._evaluation.metrics else None
        try:
            with models.seeded_generators(context.seed):
                samples, found = _evaluation_of(
                    _await_result(evaluate(self._named_parameters(params), context))
                )
            # Only declared metrics may be tables.
            numbers_only = {name: value for name, value in found.items() if not _is_table(value)}
            received, notes = _metrics(numbers_only, "evaluate")
        except BaseException as error:
            return SiteEvaluated(None, nothing, (f"no metrics: {_site_error(error)}",))
        counted = int(samples) if is_count(samples) else 0  # type: ignore[call-overload]  # a count
        if nothing is None or (is_count(samples) and not samples):
            return SiteEvaluated(received, nothing, notes, counted)
        try:
            metrics = said_by(self._evaluation, samples, found)
            beyond = beyond_range(self._evaluation, received)
            return SiteEvaluated(received, metrics, (*notes, *beyond), counted)
        except BaseException as error:
            # One sample count applies to all metrics.
            return SiteEvaluated(received, nothing, (*notes, f"no metrics counted: {_site_error(error)}"))

    def _fit(self, params: F32, context: RoundContext) -> tuple[F64, int, Metrics, tuple[str, ...]]:
        with models.seeded_generators(context.seed):
            result = _await_result(self._site.fit(self._named_parameters(params), context))
        if not (isinstance(result, tuple) and len(result) == 3):
            raise SiteError(f"fit returned {_kind(result)}, expected (parameters, samples, metrics)")
        arrays, used, metrics = result
        if not is_count(used):
            raise SiteError(f"fit returned {used!r} samples, expected a whole number")
        if used > self._declared:
            reason = f"fit trained on {used} samples, and the party has declared {self._declared}"
            raise SiteError(f"{reason}: its weight would be wrong")
        if isinstance(arrays, Delta):
            update = self._layout.vector(arrays.arrays, "fit returned a change with")
        else:
            update = self._layout.vector(arrays, "fit returned")
            update -= params
        try:
            return update, int(used), *_metrics(metrics, "fit")
        except BaseException as error:
            return update, int(used), {}, (f"no metrics: {_site_error(error)}",)


def _site_error(error: BaseException) -> SiteError:
    """Return a site's exception of any class as one line.

    UsageError, StopIteration and CancelledError have a meaning of their own here.

    Raises:
        KeyboardInterrupt: the user interrupted the run.
    """
    if isinstance(error, SiteError):
        return error
    if isinstance(error, SystemExit):
        return SiteError(f"exits with {error.code!r} in place of returning")
    if isinstance(error, MetricError):
        return SiteError(str(error))
    foreign.pass_interrupt(error)
    return SiteError(foreign.describe(error))


def _await_result(result: ResultT | Awaitable[ResultT]) -> ResultT:
    if not inspect.isawaitable(result):
        return result

    async def wait() -> ResultT:
        return await result

    return loops.run_coroutine(wait())


def _evaluation_of(result: object) -> tuple[object, Mapping[str, Any]]:
    if not (isinstance(result, tuple) and len(result) == 2):
        raise SiteError(f"evaluate returned {_kind(result)}, expected (samples, metrics)")
    samples, found = result
    if not isinstance(found, Mapping):
        raise SiteError(_no_mapping(found, "evaluate"))
    return samples, found


def _metrics(found: Any, who: str) -> tuple[Metrics, tuple[str, ...]]:
    """Return the metrics that are numbers, and a note on each other one."""
    if not isinstance(found, Mapping):
        raise SiteError(_no_mapping(found, who))
    kept, notes = dict[str, float](), list[str]()
    for name, value in found.items():
        try:
            kept[str(name)] = _number(name, value, who)
        except BaseException as error:
            notes.append(f"metric dropped: {_site_error(error)}")
    return kept, tuple(notes)


def _number(name: object, value: Any, who: str) -> float:
    """Return one metric as a float; truth values are rejected."""
    is_truth = isinstance(value, bool | np.bool_)
    if is_truth or not (isinstance(value, numbers.Real) or _is_scalar(value)):
        raise SiteError(f"{who} returned the metric {name} = {value!r}, expected a number")
    return float(value.item() if hasattr(value, "item") else value)


def _no_mapping(found: object, who: str) -> str:
    return f"{who} returned metrics of type {type(found).__name__}, expected numbers by name"


def _is_table(value: Any) -> bool:
    return bool(getattr(value, "ndim", 0)) or isinstance(value, list | tuple)


def _is_scalar(value: Any) -> bool:
    """Return True for an array or a tensor of one real number, as losses often are."""
    return getattr(value, "ndim", None) == 0 and not isinstance(value.item(), bool | complex | str | bytes)


def _kind(result: object) -> str:
    return f"{len(result)} things" if isinstance(result, tuple) else type(result).__name__
