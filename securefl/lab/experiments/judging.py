"""Rulings on all claims of a paper as one family of tests (ADR 0066)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from securefl.lab.experiments.claims import AnyClaim, labels_of
from securefl.lab.experiments.exhibits import Exhibit
from securefl.lab.experiments.record import CellRecord, Record
from securefl.lab.experiments.verdicts import ClaimVerdict, decide_claims, judge

_OTHER_SAMPLES: Final = "the auxiliary samples are not the paper's"


@dataclass(frozen=True, slots=True)
class Rulings:
    """Rulings on the claims of a record."""

    verdicts: tuple[ClaimVerdict, ...] = ()
    unjudged: tuple[str, ...] = ()


NOT_JUDGED = Rulings()
_Test = tuple[frozenset[str], ClaimVerdict]
"""Simulations of a claim, and its evidence without words."""


def rulings_of(known: Sequence[Exhibit], records: Sequence[Record]) -> Mapping[str, Rulings]:
    """Return rulings on all claims of a paper by the stem of their record.

    Claims are one family: the rulings on a record depend on all ``records``. Claims with the same evidence
    from the same simulations are one test, such as of an item at two scales with equal settings.
    """
    found = {
        record.stem: (record, _evidence(exhibit, record))
        for exhibit in known
        for record in records
        if (record.kind, record.number) == (exhibit.item.kind, exhibit.item.number)
    }
    tests = {_test_of(record, verdict): verdict for record, one in found.values() for verdict in one.verdicts}
    ruled = dict(zip(tests, decide_claims([*tests.values()]), strict=True))
    return {
        stem: replace(
            one,
            verdicts=tuple(
                _with_ruling(verdict, ruled[_test_of(record, verdict)]) for verdict in one.verdicts
            ),
        )
        for stem, (record, one) in found.items()
    }


def _with_ruling(verdict: ClaimVerdict, test: ClaimVerdict) -> ClaimVerdict:
    return msgspec.structs.replace(verdict, ruling=test.ruling)


def _test_of(record: Record, verdict: ClaimVerdict) -> _Test:
    runs = {cell.label: cell.scenario or f"{record.stem}: {cell.label}" for cell in record.cells}
    bare = msgspec.structs.replace(verdict, says="", numbers="", comparison="", labels=())
    return frozenset(runs[label] for label in verdict.labels), bare


def _evidence(exhibit: Exhibit, record: Record) -> Rulings:
    sheet = exhibit.sheet
    claims = (*sheet.claims, *exhibit.item.claims_about(record.dataset))
    cells = {
        cell.label: {seed.seed: seed.accuracies for seed in cell.seeds if seed.accuracies}
        for cell in record.cells
        if any(seed.accuracies for seed in cell.seeds)
    }
    # tabulate writes this note.
    if exhibit.item.auxiliary is not None and f", not {exhibit.item.auxiliary.place}" in record.note:
        return Rulings(unjudged=tuple(f"{claim.says} ({_OTHER_SAMPLES})" for claim in claims))
    judged = [claim for claim in claims if labels_of(claim) <= cells.keys()]
    verdicts = (judge(claim, cells, sheet.last, record.rounds) for claim in judged)
    return Rulings(
        tuple(msgspec.structs.replace(one, ours=one.ours or exhibit.item.ours) for one in verdicts),
        tuple(_why_unjudged(claim, record.cells) for claim in claims if claim not in judged),
    )


def _why_unjudged(claim: AnyClaim, cells: Sequence[CellRecord]) -> str:
    run = {cell.label: cell for cell in cells}
    lacking = sorted(label for label in labels_of(claim) if label not in run or not run[label].seeds)
    label = next(iter(lacking), min(labels_of(claim)))
    why = "is refused" if label in run else "is not run at this scale"
    return f"{claim.says} ({label!r} {why})"


def ruling_lines(rulings: Rulings) -> Iterator[str]:
    """Yield a line for each claim."""
    yield from map(str, rulings.verdicts)
    yield from (f"not judged: {line}" for line in rulings.unjudged)
