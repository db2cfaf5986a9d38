"""Trials: methods on drawn problems without a federation, and their figure files (ADR 0026).

A file lists methods and points, the axes of an experiment.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
import numpy as np
from msgspec import Meta

from securefl import scenario
from securefl.base import crypto, sums
from securefl.base.arrays import F64
from securefl.base.errors import ConfigError, UsageError
from securefl.lab.experiments import experiment, provenance, reading, record
from securefl.lab.experiments.claims import AnyClaim, Text
from securefl.methods import attacks, robust
from securefl.methods.task_groups import (
    Adversary,
    DrawnProblem,
    Kind,
    Outlier,
    ProblemSetup,
    Settings,
    SmallestGroup,
    TrimmedShare,
    descend,
    draw,
    halves,
    matched_distance,
    near_truth,
    nearest_distance,
    random_models,
    recovery_rate,
    reversed_mean,
    split,
    three_stage,
)

REVERSED = 10.0
"""Factor on the reversed honest mean in the plain attack on the smallest group."""
ALIE_Z = 1.0
Start = Literal["near", "random", "split", "halves"]
Against = Literal["outliers", "smallest-group", "alie", "nobody"]
Share = Annotated[float, Meta(ge=0, lt=0.5)]
_METRICS: Final = """\
Entries are means over the trials of the *matched* distance: estimates and true parameters are matched
one to one, at the least total distance. Behind it stand, where it differs, the paper's metric as its
authors' code has it, the mean distance to the *nearest* true parameter (it hides a group that two models
share and one that nobody learned), and, where it is below 100 %, the share of honest machines in their
own group.
"""


class Common(scenario.FileTable, frozen=True, kw_only=True):
    """Settings that all figures share (``_trials.toml``)."""

    title: Text
    chosen: tuple[Text, ...] = ()
    byzantine: Share
    trim: Share
    noise: scenario.PositiveReal
    norm: scenario.PositiveReal
    byzantine_norm: scenario.PositiveReal
    points: scenario.Positive
    rate: scenario.PositiveReal
    iterations: scenario.Positive
    near: scenario.PositiveReal
    """Distance of the start from the truth, as a share of the separation."""


class Method(scenario.FileTable, frozen=True, kw_only=True):
    """Line of the plot."""

    label: experiment.Label
    rule: scenario.Rule | None = None
    """Default: the trimmed mean of ``trim``."""
    start: Start = "near"
    cluster: scenario.Positive = 1
    """Machines in the sums of a start by ``split`` or ``halves``."""
    stages: Literal["one", "three", "three-oracle"] = "one"
    """Algorithm 1, or the Three-Stage baseline by k-means or oracle centroids."""
    against: Against = "outliers"
    baseline: bool = False


class Point(scenario.FileTable, frozen=True, kw_only=True):
    """Point at which all methods are run."""

    groups: scenario.Positive
    machines: scenario.Positive
    dimension: scenario.Positive
    points: scenario.Positive | None = None
    fewest: scenario.Positive | None = None
    """Fewest points of a machine, from which unequal counts are drawn up."""


class Size(scenario.FileTable, frozen=True, kw_only=True):
    """One scale."""

    trials: scenario.Positive
    points: Annotated[tuple[Point, ...], Meta(min_length=1)]


class TrialSheet(scenario.FileTable, frozen=True, kw_only=True):
    """One figure."""

    panel: Annotated[str, Meta(pattern=r"^[0-9a-z-]{1,12}$")]
    title: Text
    claim: Text
    settings: Text
    chosen: tuple[Text, ...] = ()
    findings: str = ""
    ours: bool = False
    """True if not in the paper."""
    axis: Literal["dimension", "groups"] = "dimension"
    kind: Kind = "regression"
    methods: Annotated[tuple[Method, ...], Meta(min_length=1)]
    scale: Annotated[dict[experiment.ScaleName, Size], Meta(min_length=1)]
    claims: tuple[AnyClaim, ...] = ()
    """Claims about labels ``<method> @ <axis>`` and the matched distance; smaller is better."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One seed at one point."""

    setup: ProblemSetup
    common: Common
    number: int

    def run(self, methods: Sequence[Method]) -> Iterator[tuple[Method, record.SeedRecord]]:
        """Run the methods in turn on the same data and the same start near the truth, if any.

        ``nearest`` is the mean distance to the nearest truth, which is the paper's metric. ``matched`` is
        that under the best one-to-one matching, ``recovered`` the share of honest machines in their own
        group.
        """
        setup = self.setup
        key = (self.number, setup.groups, setup.machines, setup.dimension, setup.points)
        drawn = draw(setup, np.random.default_rng((*key, 0)))
        near = near_truth(drawn, self.common.near, np.random.default_rng((*key, 1)))
        minimisers: F64 | None = None
        for method in methods:
            rng = np.random.default_rng((*key, 2))
            begun = time.process_time()
            if method.stages != "one" and minimisers is None:
                minimisers = drawn.problem.minimisers()
            models, choice = self._models(method, drawn, near, minimisers, rng)
            values = {
                "nearest": round(nearest_distance(models, drawn.truth), 5),
                "matched": round(matched_distance(models, drawn.truth), 5),
                "recovered": round(recovery_rate(choice, drawn.labels, ~drawn.byzantine, setup.groups), 5),
            }
            seconds = round(time.process_time() - begun, 2)
            yield (
                method,
                record.SeedRecord(
                    seed=self.number,
                    accuracies=(values["matched"],),
                    values=values,
                    seconds=seconds,
                    commit=provenance.commit(),
                ),
            )

    def _models(
        self, method: Method, drawn: DrawnProblem, near: F64, minimisers: F64 | None, rng: np.random.Generator
    ) -> tuple[F64, np.ndarray[tuple[int, ...], np.dtype[np.intp]]]:
        common, groups = self.common, self.setup.groups
        settings = Settings(
            rule=TrimmedShare(common.trim) if method.rule is None else method.rule,
            rate=common.rate,
            iterations=common.iterations,
        )
        problem, liars, adversary = drawn.problem, drawn.byzantine, _adversary(method)
        if method.stages != "one":
            oracle = drawn.truth if method.stages == "three-oracle" else None
            staged = three_stage(
                problem, groups, common.trim, settings, rng, liars, adversary, oracle, minimisers
            )
            return staged.descent.models, staged.groups
        start = near
        if method.start == "random":
            start = random_models(self.setup, rng)
        elif method.start == "split":
            start = split(problem, groups, settings, rng, liars, adversary, cluster=method.cluster)
        elif method.start == "halves":
            start = halves(problem, groups, settings, rng, liars, adversary, cluster=method.cluster)
        done = descend(problem, start, settings, liars, adversary)
        return done.models, done.choice


@dataclass(frozen=True, slots=True)
class TrialJob:
    """One method in one trial, stored under a digest of its inputs."""

    trial: Trial
    method: Method
    folder: Path
    rounds: int = 1
    draws: str = ""

    @property
    def seed(self) -> int:
        """Number of the trial."""
        return self.trial.number

    @property
    def stem(self) -> str:
        """Stem of its file."""
        return trial_key(self.trial, self.method)

    def check_device(self) -> None:
        """Accept any device: trials run on the CPU."""

    def read_finished(self) -> record.SeedRecord | None:
        """Return an earlier result, if it is readable."""
        try:
            return msgspec.json.decode(self._result.read_bytes(), type=record.SeedRecord)
        except (OSError, msgspec.DecodeError):
            return None

    def forget(self) -> None:
        """Delete an earlier result."""
        self._result.unlink(missing_ok=True)

    def measure(self, on_round: Callable[[int], None]) -> record.SeedRecord:
        """Run the trial and keep the result."""
        outcome = self.again()
        record.write_result(self._result, record.encode(outcome))
        on_round(1)
        return outcome

    def again(self) -> record.SeedRecord:
        """Run the trial and keep nothing."""
        ((_, outcome),) = self.trial.run([self.method])
        return outcome

    @property
    def _result(self) -> Path:
        return self.folder / f"{self.stem}.json"


@dataclass(frozen=True, slots=True)
class Trials:
    """Figure file with shared settings."""

    path: Path
    common: Common
    sheet: TrialSheet
    joint: str = " @ "
    measures: str = "matched distance to the true parameters"

    @property
    def study(self) -> experiment.Study:
        """Shared settings in words."""
        common = self.common
        settings = (
            f"Unless said otherwise: {common.byzantine:.0%} Byzantine machines, whose data come from a"
            f" parameter of norm {common.byzantine_norm:g} and who take loss and gradient at 3 times the"
            f" models; noise {common.noise:.4g}; {common.points} points a machine; learning rate"
            f" {common.rate:g}, {common.iterations} iterations; trimmed share {common.trim:.0%}; start"
            f" {common.near:g} of the separation away from the truth.\n"
        )
        about = f"{_METRICS}\n{settings}"
        return experiment.Study(
            title=common.title, about=about, chosen=common.chosen, datasets=(experiment.UNNAMED,)
        )

    @property
    def item(self) -> experiment.Item:
        """The figure."""
        sheet = self.sheet
        return experiment.Item(kind="figure", number=sheet.panel, title=sheet.title, ours=sheet.ours)

    def whole(self) -> experiment.Experiment:
        """Return it as an experiment."""
        sheet = self.sheet
        points = {self.at(point): None for size in sheet.scale.values() for point in size.points}
        name = "dimension d" if sheet.axis == "dimension" else "groups k"
        return experiment.Experiment(
            title=sheet.title,
            claim=sheet.claim,
            settings=sheet.settings,
            chosen=sheet.chosen,
            findings=sheet.findings,
            shows="lines",
            last=1,
            axes=(
                experiment.Dimension(
                    name="method",
                    choices=tuple(
                        experiment.Choice(label=m.label, baseline=m.baseline) for m in sheet.methods
                    ),
                ),
                experiment.Dimension(name=name, choices=tuple(experiment.Choice(label=at) for at in points)),
            ),
            scale={
                scale: experiment.RunScale(scenario="", keep={name: tuple(map(self.at, size.points))})
                for scale, size in sheet.scale.items()
            },
            items=(self.item,),
            claims=sheet.claims,
        )

    def has(self, _place: experiment.Place) -> bool:
        """Return True: each method is run at each point."""
        return True

    def draws_at(self, scale: experiment.ScaleName) -> int:
        """Return the trials of a cell."""
        return self.sheet.scale[scale].trials

    def setup(self, point: Point) -> ProblemSetup:
        """Return the setup of a point's trials."""
        common = self.common
        return ProblemSetup(
            groups=point.groups,
            machines=point.machines,
            points=point.points or common.points,
            dimension=point.dimension,
            byzantine=common.byzantine,
            noise=common.noise,
            norm=common.norm,
            byzantine_norm=common.byzantine_norm,
            fewest=point.fewest,
            kind=self.sheet.kind,
        )

    def at(self, point: Point) -> str:
        """Return the point's label on the axis."""
        return f"d = {point.dimension}" if self.sheet.axis == "dimension" else f"k = {point.groups}"

    def job(
        self, scale: experiment.ScaleName, place: experiment.Place, number: int, folder: Path
    ) -> TrialJob:
        """Return one trial of a cell."""
        label, at = place
        point = next(point for point in self.sheet.scale[scale].points if self.at(point) == at)
        method = next(method for method in self.sheet.methods if method.label == label)
        return TrialJob(Trial(self.setup(point), self.common, number), method, folder)

    def key(self, scale: experiment.ScaleName) -> str:
        """Return a digest (32 hex digits) of the inputs of a figure's verdicts."""
        sheet = self.sheet
        parts = (self.common, sheet.methods, sheet.claims, sheet.scale[scale])
        encoded = (msgspec.json.encode(one, order="sorted") for one in parts)
        return crypto.digest("trials", record.FORMAT, sheet.kind, *encoded).hex()[:32]

    def with_shown_values(self, cell: record.CellRecord) -> record.CellRecord:
        """Return the cell with its table text."""

        def mean(name: str) -> float:
            return sums.ordered_sum(seed.values[name] for seed in cell.seeds) / len(cell.seeds)

        matched, nearest, recovered = map(mean, ("matched", "nearest", "recovered"))
        deviation = cell.deviation(1)
        shown = f"{matched:.3f}" + ("" if deviation is None else f" ± {deviation:.3f}")
        if abs(matched - nearest) >= 0.0005:
            shown += f" ({nearest:.3f})"
        if recovered < 0.9995:
            shown += f", {recovered:.1%}"
        return msgspec.structs.replace(cell, text=shown)


def trial_key(trial: Trial, method: Method) -> str:
    """Return a digest (32 hex digits) of the inputs of an outcome, without labels."""
    common = msgspec.structs.replace(trial.common, title="-", chosen=())
    plain = msgspec.structs.replace(method, label="-", baseline=False)
    setup = msgspec.json.encode(trial.setup, order="sorted")
    rest = (msgspec.json.encode(one, order="sorted") for one in (common, plain))
    return crypto.digest("trial", record.FORMAT, setup, *rest, trial.number).hex()[:32]


def read_trials(folder: Path) -> tuple[Trials, ...]:
    """Read all figure files of a paper in order.

    Raises:
        ConfigError: a file is refused, a claim names an unknown cell, points share a place or cannot be
            drawn, or a rule needs server data.
    """
    common = reading.read_section(folder / "_trials.toml", Common)
    found = []
    for path in sorted(folder.glob("*.toml")):
        if path.name.startswith("_"):
            continue
        sheet = reading.read_section(path, TrialSheet)
        if sheet.panel != path.stem:
            raise reading.name_error(path, "panel", sheet.panel)
        trials = Trials(path, common, sheet)
        _check(trials)
        labels = [cell.label for cell in trials.whole().cells(trials.joint)]
        if len({method.label for method in sheet.methods}) < len(sheet.methods):
            raise ConfigError(f"{path}, methods", "two methods have the same label", "rename one of them")
        reading.check_labels(path, labels, sheet.claims)
        found.append(trials)
    return tuple(sorted(found, key=lambda one: (one.sheet.ours, one.sheet.panel)))


def _check(trials: Trials) -> None:
    for place, method in enumerate(trials.sheet.methods):
        if method.rule is not None and robust.needs_server_gradient(method.rule):
            raise ConfigError(
                f"{trials.path}, methods.{place}.rule",
                "needs data of the server, which belong to no group",
                "choose a rule without server data",
            )
    for scale, size in trials.sheet.scale.items():
        places = list(map(trials.at, size.points))
        if len(set(places)) < len(places):
            reason = f"has a point twice: {', '.join(places)}"
            raise ConfigError(f"{trials.path}, scale.{scale}.points", reason, "remove one of them")
        for place, point in enumerate(size.points):
            try:
                trials.setup(point)
            except UsageError as error:
                raise ConfigError(f"{trials.path}, scale.{scale}.points.{place}", str(error)) from error


def _adversary(method: Method) -> Adversary | None:
    match method.against:
        case "outliers":
            return Outlier()
        case "smallest-group":
            return SmallestGroup(reversed_mean(REVERSED))
        case "alie":
            return SmallestGroup(lambda known: attacks.alie(known, ALIE_Z))
        case "nobody":
            return None
