"""Weighing of declared sample counts in a round, and where they were cut (docs/weighting.md)."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from securefl.base.ids import PartyId
from securefl.runtime import transcript
from securefl.runtime.report import text


@dataclass(frozen=True, slots=True)
class Weighing:
    """The counts of those who took part, against the cap of the round."""

    cap: int
    """U: the declared count that weighs 1."""
    parties: int
    truncated: int
    """Parties that declared more than the cap."""
    most: PartyId
    """Who declared most; the first by name."""
    declared: int
    share: float
    """Its part of the weight of all who took part, in (0, 1]."""

    def to_json(self) -> dict[str, transcript.JsonValue]:
        """For rows of ``metrics.jsonl``."""
        return {
            "cap": self.cap,
            "parties": self.parties,
            "truncated": self.truncated,
            "most": {"party": self.most, "declared": self.declared, "share": round(self.share, 6)},
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Weighing:
        """The object that :meth:`to_json` made this of.

        Raises:
            KeyError, TypeError: not such an object.
        """
        most = row["most"]
        return cls(
            row["cap"], row["parties"], row["truncated"], most["party"], most["declared"], most["share"]
        )


def weighing(counts: Mapping[PartyId, int], drawn: Collection[PartyId], cap: int | None) -> Weighing | None:
    """The weights of the counts; None where all weigh the same, or nobody was drawn.

    Args:
        counts: declared by everybody who was there.
        drawn: who took part.
        cap: of the round.
    """
    if cap is None or not drawn:
        return None
    names = sorted(drawn)
    weights = {name: min(counts[name], cap) for name in names}
    most = max(names, key=lambda name: counts[name])
    return Weighing(
        cap,
        len(names),
        sum(counts[name] > cap for name in names),
        most,
        counts[most],
        weights[most] / math.fsum(weights.values()),
    )


def weighing_lines(found: Weighing | None) -> Iterator[str]:
    """For people: of the last round."""
    if found is None:
        return
    if found.truncated:
        above = f"{found.truncated} of {found.parties} parties declared more"
        yield f"sample counts were truncated at {found.cap:,}: {above}"
    else:
        yield f"no sample count was truncated: the largest allowed is {found.cap:,}"
    said = f"{text.printable(found.most, 32)} declared the largest count, {found.declared:,} samples"
    yield f"{said}, and had {text.percent(found.share)} of the weight"
