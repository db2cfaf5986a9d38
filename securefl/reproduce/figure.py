"""The figure file: which curves a panel of a paper has, and what the paper claims of them.

A figure file is TOML beside the scenarios that it starts from (``scenarios/papers/<paper>/``). Nothing in it
is code: a curve is a scenario and changes to it, and a claim is one of a few kinds that
:mod:`securefl.reproduce.judging` can decide. ``docs/adr/0011`` says why.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from securefl.config.section import NonNegativeReal, Positive, PositiveReal, Section

ScaleName = Literal["desk", "paper"]
Measure = Literal["final", "unrest"]
Text = Annotated[str, Meta(min_length=1)]
Label = Annotated[str, Meta(min_length=1, max_length=40)]
Labels = Annotated[tuple[Text, ...], Meta(min_length=1)]
"""Of curves; that there are such curves is checked with the file as a whole."""
Margin = Annotated[float, Meta(ge=-1, le=1e6)]
Overrides = tuple[str, ...]
"""As for ``--set``: ``"path=value"`` each (:mod:`securefl.config.overrides`)."""


class Scale(Section, frozen=True, kw_only=True):
    """One size at which the panel can be drawn. The scenario's description goes under the plot."""

    scenario: Annotated[str, Meta(pattern=r"^_[a-z0-9-]+\.toml$")]
    """Name of the scenario file, beside the figure file, that all curves start from."""
    overrides: Overrides = ()


class Curve(Section, frozen=True, kw_only=True):
    """One line of the plot."""

    label: Label
    overrides: Overrides = ()
    baseline: bool = False
    """Drawn apart, as what the others are compared with."""


class Claim(Section, tag_field="kind", frozen=True, kw_only=True):
    """What the paper says, and how to decide it.

    ``final``: mean accuracy over the figure's ``last`` rounds. ``unrest``: mean change of accuracy from one
    round to the next in the second half of the rounds.
    """

    says: Text
    """The claim in our words."""
    curves: Labels
    measure: Measure = "final"
    ours: bool = False
    """Whether it is not the paper's claim but ours; it does not count for the panel's verdict."""


class Trend(Claim, frozen=True, kw_only=True):
    """Goes one way along ``curves``, in their order."""

    curves: Annotated[tuple[Text, ...], Meta(min_length=2)]
    tolerance: NonNegativeReal = 0.005
    """How far a step may go the other way."""
    margin: PositiveReal = 0.01
    """How far first and last must be apart at least."""


class Increasing(Trend, tag="increasing", frozen=True, kw_only=True):
    """Each curve is above the one before it."""


class Decreasing(Trend, tag="decreasing", frozen=True, kw_only=True):
    """Each curve is below the one before it."""


class Above(Claim, tag="above", frozen=True, kw_only=True):
    """Every one of ``curves`` is above every one of ``than``, by more than ``margin``."""

    than: Labels
    margin: Margin = 0.005
    """Below 0: so much the other way is a tie, and counts too."""


class Below(Claim, tag="below", frozen=True, kw_only=True):
    """Every one of ``curves`` is below every one of ``than``, by more than ``margin``."""

    than: Labels
    margin: Margin = 0.005
    """Below 0: so much the other way is a tie, and counts too."""


class Within(Claim, tag="within", frozen=True, kw_only=True):
    """Every one of ``curves`` is at most ``distance`` away from ``of``."""

    of: Text
    distance: PositiveReal


class AtLeast(Claim, tag="at-least", frozen=True, kw_only=True):
    """Every one of ``curves`` reaches ``value``."""

    value: float


class AtMost(Claim, tag="at-most", frozen=True, kw_only=True):
    """None of ``curves`` exceeds ``value``."""

    value: float


AnyClaim = Increasing | Decreasing | Above | Below | Within | AtLeast | AtMost


class Figure(Section, frozen=True, kw_only=True):
    """One panel."""

    panel: Annotated[str, Meta(pattern=r"^[0-9]{1,2}[a-z]?$")]
    title: Text
    claim: Text
    """What the paper says about the panel, in our words."""
    settings: Text
    """What the paper gives of its settings, and where."""
    chosen: tuple[Text, ...] = ()
    """What the paper does not give, or gives twice, and what is taken here."""
    ours: tuple[Text, ...] = ()
    """What is shown here that the paper does not show."""
    findings: str = ""
    """What was found at desk scale, where the verdicts alone do not explain it."""
    last: Positive = 5
    """Rounds at the end whose mean accuracy is the final one."""
    scale: Annotated[dict[ScaleName, Scale], Meta(min_length=1)]
    overrides: Overrides = ()
    """Of all curves at all scales."""
    curves: Annotated[tuple[Curve, ...], Meta(min_length=1)]
    claims: tuple[AnyClaim, ...] = ()
