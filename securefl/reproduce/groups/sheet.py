"""Figure files of trials: which methods are run on which drawn problems, and what is claimed of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from securefl.config.aggregation import Rule
from securefl.config.rules import needs_server_gradient
from securefl.config.section import Positive, PositiveReal, Section
from securefl.errors import ConfigError, UsageError
from securefl.groups.generate import Kind, Setup
from securefl.reproduce.figure import AnyClaim, Label, ScaleName, Text
from securefl.reproduce.shelf import ALL, TRIALS, check_labels, read_section

Start = Literal["near", "random", "split", "halves"]
Against = Literal["outliers", "smallest-group", "alie", "nobody"]
Share = Annotated[float, Meta(ge=0, lt=0.5)]


class Common(Section, frozen=True, kw_only=True):
    """What all figures of the paper share (``_trials.toml``)."""

    title: Text
    chosen: tuple[Text, ...] = ()
    byzantine: Share
    trim: Share
    noise: PositiveReal
    norm: PositiveReal
    byzantine_norm: PositiveReal
    points: Positive
    rate: PositiveReal
    iterations: Positive
    near: PositiveReal
    """Distance of the start from the truth, as a share of the separation."""


class Method(Section, frozen=True, kw_only=True):
    """One line of the plot."""

    label: Label
    rule: Rule | None = None
    """Of the groups; the trimmed mean of ``trim`` where none is given."""
    start: Start = "near"
    cluster: Positive = 1
    """Machines in the sums that a start by ``split`` or ``halves`` looks at."""
    stages: Literal["one", "three", "three-oracle"] = "one"
    """Algorithm 1, or the Three-Stage baseline by k-means or by oracle centroids."""
    against: Against = "outliers"
    baseline: bool = False


class Point(Section, frozen=True, kw_only=True):
    """Where all methods are run."""

    groups: Positive
    machines: Positive
    dimension: Positive
    points: Positive | None = None
    fewest: Positive | None = None
    """Fewest points of a machine; unequal counts are drawn from there up."""


class Size(Section, frozen=True, kw_only=True):
    """One scale."""

    trials: Positive
    points: Annotated[tuple[Point, ...], Meta(min_length=1)]


class Sheet(Section, frozen=True, kw_only=True):
    """One figure."""

    panel: Annotated[str, Meta(pattern=r"^[0-9a-z-]{1,12}$")]
    title: Text
    claim: Text
    settings: Text
    chosen: tuple[Text, ...] = ()
    findings: str = ""
    ours: bool = False
    """Whether the paper has no such figure."""
    axis: Literal["dimension", "groups"] = "dimension"
    kind: Kind = "regression"
    methods: Annotated[tuple[Method, ...], Meta(min_length=1)]
    scale: Annotated[dict[ScaleName, Size], Meta(min_length=1)]
    claims: tuple[AnyClaim, ...] = ()
    """Of labels ``<method> @ <axis>``, and of the matched distance, smaller being better."""


@dataclass(frozen=True, slots=True)
class Trials:
    """A figure file with what it shares."""

    paper: str
    path: Path
    common: Common
    sheet: Sheet

    def setup(self, point: Point) -> Setup:
        """What a point's trials are drawn from."""
        common = self.common
        return Setup(
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
        """The point's place on the axis."""
        return f"d = {point.dimension}" if self.sheet.axis == "dimension" else f"k = {point.groups}"

    def size(self, scale: ScaleName) -> Size:
        """The scale.

        Raises:
            ConfigError: the figure has none of this name.
        """
        if scale not in self.sheet.scale:
            there = ", ".join(self.sheet.scale)
            raise ConfigError("--scale", f"figure {self.sheet.panel} has no {scale!r} scale", there)
        return self.sheet.scale[scale]


def cell_label(method: str, at: str) -> str:
    """What claims call a method at a point."""
    return f"{method} @ {at}"


def trial_papers(root: Path) -> tuple[str, ...]:
    """The papers whose figures are trials."""
    return tuple(sorted(path.parent.name for path in root.glob(f"*/{TRIALS}")))


def read_trials(root: Path, paper: str) -> tuple[Trials, ...]:
    """All figure files of a paper, in the order of their panels.

    Raises:
        ConfigError: a file is refused; a claim names what is run at no scale; two points share a place, or
            one cannot be drawn; a rule asks for the server's data.
    """
    folder = root / paper
    common = read_section(folder / TRIALS, Common)
    found = []
    for path in sorted(folder.glob("*.toml")):
        if path.name.startswith("_"):
            continue
        sheet = read_section(path, Sheet)
        if sheet.panel != path.stem:
            raise ConfigError(f"{path}, panel", f"is {sheet.panel!r}, and the file is called {path.name}")
        trials = Trials(paper, path, common, sheet)
        _check(trials)
        labels: list[str] = []
        for size in sheet.scale.values():
            places = [trials.at(point) for point in size.points]
            if len(set(places)) < len(places):
                raise ConfigError(f"{path}, scale", f"two points lie at one place of {', '.join(places)}")
            labels += [cell_label(method.label, place) for method in sheet.methods for place in places]
        check_labels(path, list(dict.fromkeys(labels)), sheet.claims)
        if len({method.label for method in sheet.methods}) < len(sheet.methods):
            raise ConfigError(f"{path}, methods", "two methods have the same label")
        found.append(trials)
    return tuple(sorted(found, key=lambda one: (one.sheet.ours, one.sheet.panel)))


def _check(trials: Trials) -> None:
    """Refuse here what would stop a run in the middle."""
    for place, method in enumerate(trials.sheet.methods):
        if method.rule is not None and needs_server_gradient(method.rule):
            raise ConfigError(
                f"{trials.path}, methods.{place}.rule",
                "the server's own data have no group",
                "a rule without server data",
            )
    for scale, size in trials.sheet.scale.items():
        for place, point in enumerate(size.points):
            try:
                trials.setup(point)
            except UsageError as error:
                raise ConfigError(f"{trials.path}, scale.{scale}.points.{place}", str(error)) from error


def choose_trials(there: tuple[Trials, ...], wanted: tuple[str, ...]) -> tuple[Trials, ...]:
    """Those that ``wanted`` names: panels, figures (``1``: its panels) or ``all``.

    Raises:
        ConfigError: there is no such panel.
    """
    chosen: set[str] = set()
    for name in wanted:
        panels = [one.sheet.panel for one in there]
        named = {p for p in panels if name in {p, ALL} or re.fullmatch(re.escape(name) + "[a-z]", p)}
        if not named:
            raise ConfigError("--figure", f"there is no figure {name!r}", f"{', '.join(panels)}, or {ALL}")
        chosen |= named
    return tuple(one for one in there if one.sheet.panel in chosen)
