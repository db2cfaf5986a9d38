"""Tables and plots of the exposure audit."""

from collections.abc import Sequence

from securefl.lab.audit import openings
from securefl.lab.audit.exhibits import AuditHeatMap, AuditPlot, Curve, Exhibit, Table
from securefl.lab.audit.exposure_theory import Expectation
from securefl.lab.audit.recorded import Recorded
from securefl.runtime import report

_ROWS = 100
_COLUMNS = 60


def exhibits(
    recorded: Recorded, versions: Sequence[openings.Exposed], theory: Expectation | None
) -> tuple[Exhibit, ...]:
    """Return exposed parties by R, leverages, and all update versions."""
    shown: list[Exhibit] = []
    if theory is not None:
        shown.append(_against_r(recorded, versions, theory))
    if versions:
        shown += [_leverages(recorded, versions), _table(recorded, versions)]
    return tuple(shown)


def _against_r(recorded: Recorded, versions: Sequence[openings.Exposed], theory: Expectation) -> AuditPlot:
    axis = tuple(float(r) for r in range(1, theory.most + 1))
    named = f"with {report.list_of(sorted(recorded.colluders), 3)}" if recorded.colluders else ""
    curves = [
        Curve(label="predicted, server alone", x=axis, y=theory.alone, predicted=True),
        Curve(label=f"predicted, with {theory.colluders} colluders", x=axis, y=theory.pooled, predicted=True),
    ]
    if theory.atoms < theory.participants:
        label = "predicted, atoms with a known sum"
        curves.append(Curve(label=label, x=axis, y=theory.determined, predicted=True))
    if not recorded.scenario.clustering.new_work and versions:
        curves.append(_measured_curve("measured, server alone", recorded, versions, pooled=False))
        if named:
            curves.append(_measured_curve(f"measured, {named}", recorded, versions, pooled=True))
    return AuditPlot(
        title="Exposed parties by number of reclusterings of one update",
        x_name="reclusterings R",
        y_name="exposed parties",
        curves=tuple(curves),
        y_range=(0.0, float(theory.participants)),
        note=(
            f"Predicted: mean of {theory.draws} random draws of {theory.participants} parties in"
            f" {theory.clusters} clusters, without dropouts. SHARE's bound: R >= {theory.share_bound};"
            f" estimate: R* = {theory.estimate}. Measured: mean over the rounds of this run, from the first R"
            " reclusterings."
        ),
    )


def _measured_curve(
    label: str, recorded: Recorded, versions: Sequence[openings.Exposed], *, pooled: bool
) -> Curve:
    most, prime = recorded.scenario.clustering.reclusterings, openings.prime_of(recorded)
    means = []
    for below in range(1, most + 1):
        total = 0
        for one in versions:
            ledger = one.opened.ledger(prime, below)
            colluders = recorded.colluders.intersection(ledger.parties)
            if pooled and colluders and len(colluders) < len(ledger.parties):
                ledger = ledger.without(colluders)
            total += len(ledger.exposed)
        means.append(total / len(versions))
    return Curve(label=label, x=tuple(float(r) for r in range(1, most + 1)), y=tuple(means))


def _leverages(recorded: Recorded, versions: Sequence[openings.Exposed]) -> AuditHeatMap:
    shown, parties = versions[:_COLUMNS], recorded.parties[:_ROWS]
    table = [dict(zip(one.ledger.parties, one.leverage.tolist(), strict=True)) for one in shown]
    left_out = len(versions) > _COLUMNS or len(recorded.parties) > _ROWS
    works = any(one.opened.version.work for one in versions)
    names = tuple(
        f"{one.opened.version.round}/{one.opened.version.work}" if works else str(one.opened.version.round)
        for one in shown
    )
    values = tuple(tuple(row.get(party) or None for party in parties) for row in table)
    rows, columns = ("round / work" if works else "round", names), ("party", tuple(parties))
    if len(parties) <= len(shown):
        rows, columns, values = columns, rows, tuple(zip(*values, strict=True))
    return AuditHeatMap(
        title="Leverage: part of a party's update that the sums of one version contain",
        row_name=rows[0],
        column_name=columns[0],
        rows=rows[1],
        columns=columns[1],
        values=values,
        note=(
            "1/h for a party in one sum of h parties with noise, 1 for a party that is exposed"
            + (" or colludes" if recorded.colluders else "")
            + ". Empty: in no sum. Noise that is added once hides a party with 1 / leverage of its variance."
            + (f" Shown: the first {_ROWS} parties and {_COLUMNS} versions." if left_out else "")
        ),
    )


def _table(recorded: Recorded, versions: Sequence[openings.Exposed]) -> Table:
    rows = []
    for one in versions:
        ledger, support = one.ledger, one.support
        smallest = (
            None
            if support is None
            else str(len(support.parties))
            if support.exact
            else "<= " + str(len(support.parties))
        )
        rows.append(
            (
                one.opened.version.round,
                one.opened.version.work,
                len(ledger.parties),
                len(ledger.openings),
                ledger.echelon.rank,
                ledger.kernel_dimension,
                len(one.alone.exposed),
                len(one.pooled.exposed),
                smallest,
                float(
                    max(
                        (
                            v
                            for v, p in zip(one.leverage, ledger.parties, strict=True)
                            if p not in recorded.colluders
                        ),
                        default=0.0,
                    )
                ),
            )
        )
    return Table(
        title="Leakage ledger by update version",
        columns=(
            "round",
            "work",
            "parties",
            "sums",
            "rank",
            "dimensions left",
            "exposed",
            "with colluders",
            "least support",
            "highest leverage",
        ),
        rows=tuple(rows),
        note=(
            "Dimensions left: independent changes of the updates that change no sum. Least support: smallest"
            " number of parties in a combination of sums."
        ),
    )
