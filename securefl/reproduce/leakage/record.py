"""What is kept of a sweep: by setting and number of reclusterings, what every draw revealed, as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from securefl.errors import ConfigError
from securefl.report.figures import Series, Sweep
from securefl.reproduce.leakage.draws import Found, look
from securefl.reproduce.leakage.noise import Accounting, honest, relative_exposure, spent
from securefl.reproduce.leakage.sweep import Setting
from securefl.reproduce.leakage.sweep import Sweep as SweepFile
from securefl.reproduce.provenance import commit

FORMAT = 1


class CellRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One setting at one R; the lists have an entry per draw."""

    reclusterings: int
    counted: tuple[float, ...]
    """Share of the parties that are in the opened sums."""
    exposed: tuple[float, ...]
    """Share of those, colluders apart, whose updates are determined."""
    once: tuple[float, ...]
    """Largest leverage."""
    fresh: tuple[float, ...]
    """Largest exposure under fresh noise in each opening."""
    exposure: float | None = None
    """Where noise is accounted for: mu^2 sigma^2 of the draw that is worst (:mod:`.noise`)."""
    epsilon: float | None = None
    """Of that draw, over the whole run."""

    @property
    def seen(self) -> tuple[float, ...]:
        """``exposed`` in the draws that open anything."""
        return tuple(share for share, some in zip(self.exposed, self.counted, strict=True) if some)

    @property
    def spent(self) -> tuple[float, ...]:
        """``epsilon``, if there is one."""
        return () if self.epsilon is None else (self.epsilon,)

    @property
    def mean(self) -> float | None:
        """Of :attr:`seen`; None where nothing is ever opened."""
        return sum(self.seen) / len(self.seen) if self.seen else None


class RowRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One setting."""

    label: str
    threshold: int
    """R*."""
    cells: tuple[CellRecord, ...]


class SweepRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One sweep."""

    format: int
    name: str
    title: str
    claim: str
    draws: int
    rows: tuple[RowRecord, ...]
    commit: str = ""
    """That drew; empty: not known."""


def run_sweep(sweep: SweepFile, on_row: Callable[[int, RowRecord], None]) -> SweepRecord:
    """Draw all cells; ``on_row`` is told of every row as it is finished, with its number from 0."""
    rows = []
    for number, setting in enumerate(sweep.settings()):
        cells = []
        for reclusterings in sweep.columns(setting):
            found = [look(setting, reclusterings, seed) for seed in range(sweep.draws)]
            cells.append(
                CellRecord(
                    reclusterings=reclusterings,
                    counted=tuple(round(one.counted, 4) for one in found),
                    exposed=tuple(round(one.exposed, 4) for one in found),
                    once=tuple(round(one.once, 4) for one in found),
                    fresh=tuple(round(one.fresh, 4) for one in found),
                    **_accounted(setting, sweep.accounting, reclusterings, found),
                )
            )
        rows.append(RowRecord(label=setting.label(), threshold=setting.threshold, cells=tuple(cells)))
        on_row(number, rows[-1])
    return SweepRecord(
        format=FORMAT,
        name=sweep.name,
        title=sweep.title,
        claim=" ".join(sweep.claim.split()),
        draws=sweep.draws,
        rows=tuple(rows),
        commit=commit(),
    )


def _accounted(
    setting: Setting, accounting: Accounting | None, reclusterings: int, found: Sequence[Found]
) -> dict[str, float]:
    if accounting is None or setting.noise is None:
        return {}
    h = honest(setting.size, setting.colluders)
    exposure = max(relative_exposure(setting.noise, h, once=one.once, fresh=one.fresh) for one in found)
    works = reclusterings if setting.work == "new" else 1
    return {"exposure": round(exposure, 4), "epsilon": round(spent(accounting, exposure, works), 3)}


def read_sweep_records(folder: Path) -> tuple[SweepRecord, ...]:
    """All sweeps that were run into a folder, by name.

    Raises:
        ConfigError: one of the files cannot be read or is no such record.
    """
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            found.append(msgspec.json.decode(path.read_bytes(), type=SweepRecord))
        except OSError as error:
            raise ConfigError(str(path), f"cannot be read: {error.strerror}") from error
        except msgspec.DecodeError as error:
            raise ConfigError(str(path), f"holds no sweep: {error}", "remove it and run it again") from error
    return tuple(found)


def plot_of(record: SweepRecord) -> Sweep:
    """The share of exposed parties over R, or epsilon where it is accounted for; a line per setting."""
    columns = sorted({cell.reclusterings for row in record.rows for cell in row.cells})
    spends = any(cell.epsilon is not None for row in record.rows for cell in row.cells)
    common, lines = _common(record), []
    for row in record.rows:
        label = ", ".join(part for part in row.label.split(", ") if part not in common)
        by_column = {cell.reclusterings: cell.spent if spends else cell.seen for cell in row.cells}
        values = tuple(by_column.get(column, ()) for column in columns)
        lines.append(Series(label if spends else f"{label} (R* = {row.threshold})", values))
    drawn = "the worst of them" if spends else "bars from lowest to highest"
    return Sweep(
        title=record.title + "".join(f", {part}" for part in common),
        notes=(record.claim, f"{record.draws} draws; {drawn}"),
        column_name="reclusterings R of one update",
        columns=tuple(map(str, columns)),
        lines=tuple(lines),
        value_name="epsilon of the run" if spends else "exposed parties (share)",
        logarithmic=spends,
    )


def _common(record: SweepRecord) -> tuple[str, ...]:
    """What the labels of all rows say, where there are several."""
    first, *others = (row.label.split(", ") for row in record.rows)
    return tuple(part for part in first if others and all(part in other for other in others))
