"""Tables and plots of the reconstruction audit."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from securefl.base.ids import PartyId
from securefl.lab.audit import estimates, exhibits
from securefl.lab.audit.openings import Exposed
from securefl.lab.audit.recorded import Recorded

_HIGHEST = 2.0
"""Larger errors are drawn here."""
_DIGITS = 9
"""Digits of errors; the rest is rounding."""


@dataclass(frozen=True, slots=True)
class Attacked:
    """Ledger and estimates of one update version."""

    one: Exposed
    system: estimates.System
    found: estimates.Estimated

    @property
    def exposed(self) -> frozenset[PartyId]:
        """Parties that the ledger exposes to the server and assumed colluders."""
        return frozenset(self.one.pooled.exposed)


def reconstruction_exhibits(
    recorded: Recorded, attacked: Sequence[Attacked], together: Sequence[estimates.Estimated]
) -> tuple[exhibits.Exhibit, ...]:
    """Return errors by leverage, reclusterings and rounds, and all versions."""
    return (
        _against_leverage(attacked),
        *_against_r(recorded, attacked),
        *_against_rounds(together),
        _table(attacked),
    )


def _against_leverage(attacked: Sequence[Attacked]) -> exhibits.AuditPlot:
    points = sorted(
        (float(1 - p**2), float(e))
        for done in attacked
        for p, e in zip(done.found.predicted, done.found.error, strict=True)
    )[:: max(1, sum(len(done.system.parties) for done in attacked) // 1500)]
    axis = tuple(k / 100 for k in range(101))
    return exhibits.AuditPlot(
        title="Error of the reconstruction by leverage",
        x_name="leverage",
        y_name="error / error of the prior",
        curves=(
            exhibits.Curve(
                label="one update of one party",
                x=tuple(x for x, _ in points),
                y=tuple(min(y, _HIGHEST) for _, y in points),
                dots=True,
            ),
            exhibits.Curve(
                label="sqrt(1 - leverage), if updates differ equally",
                x=axis,
                y=tuple(float(np.sqrt(1 - x)) for x in axis),
                predicted=True,
            ),
        ),
        x_range=(0.0, 1.02),
        y_range=(0.0, _HIGHEST),
        note=(
            "0: recovered; 1: no better than the prior. Errors above 2 are drawn at 2. Estimates are bad for"
            " parties in a sum with an outlier."
        ),
    )


def _against_r(recorded: Recorded, attacked: Sequence[Attacked]) -> Iterator[exhibits.AuditPlot]:
    most = recorded.scenario.clustering.reclusterings
    if most < 2 or recorded.scenario.clustering.new_work:
        return
    axis = range(1, most + 1)
    found = [[estimates.estimate(done.system, below=r) for done in attacked] for r in axis]
    yield exhibits.AuditPlot(
        title="Error of the reconstruction by number of reclusterings",
        x_name="reclusterings R",
        y_name="error / error of the prior",
        curves=tuple(
            exhibits.Curve(
                label=label,
                x=tuple(map(float, axis)),
                y=tuple(float(np.median(np.concatenate([getattr(e, kind) for e in some]))) for some in found),
                predicted=kind == "predicted",
            )
            for label, kind in (
                ("measured, median of all updates", "error"),
                ("predicted by leverage", "predicted"),
            )
        ),
    )


def _against_rounds(together: Sequence[estimates.Estimated]) -> Iterator[exhibits.AuditPlot]:
    if len(together) < 2:
        return
    axis = tuple(float(k) for k in range(1, len(together) + 1))
    yield exhibits.AuditPlot(
        title="Differencing over rounds: error of a party's mean update",
        x_name="update versions together",
        y_name="error / error of the prior",
        curves=(
            exhibits.Curve(
                label="median of the parties", x=axis, y=tuple(float(np.median(e.error)) for e in together)
            ),
            exhibits.Curve(label="best party", x=axis, y=tuple(float(e.error.min()) for e in together)),
            exhibits.Curve(
                label="if updates never changed",
                x=axis,
                y=tuple(float(np.median(e.predicted)) for e in together),
                predicted=True,
            ),
        ),
        note="The sums of all rounds are treated as sums of the same updates; changes act as noise.",
    )


def _table(attacked: Sequence[Attacked]) -> exhibits.Table:
    return exhibits.Table(
        title="By update version",
        columns=(
            "round",
            "work",
            "updates",
            "exposed",
            "recovered",
            "median error",
            "by leverage",
            "best",
        ),
        rows=tuple(
            (
                done.one.opened.version.round,
                done.one.opened.version.work,
                len(done.system.parties),
                len(done.exposed.intersection(done.system.parties)),
                sum(done.found.recovered),
                round(float(np.median(done.found.error)), _DIGITS),
                round(float(np.median(done.found.predicted)), _DIGITS),
                round(float(done.found.error.min()), _DIGITS),
            )
            for done in attacked
        ),
        note="Errors are fractions of the prior's error. Colluders are not counted: they know their updates.",
    )
