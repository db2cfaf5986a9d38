"""Weights of declared sample counts (docs/weighting.md)."""

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
    """Counts of a round's participants, against its cap."""

    cap: int
    """Declared count that weighs 1."""
    parties: int
    truncated: int
    most: PartyId
    """Party with the largest declared count, first by name."""
    declared: int
    share: float
    """Its part in the weight of all participants, in (0, 1]."""

    def to_json(self) -> dict[str, transcript.JsonValue]:
        """Return the content for rows of ``metrics.jsonl``."""
        return {
            "cap": self.cap,
            "parties": self.parties,
            "truncated": self.truncated,
            "most": {"party": self.most, "declared": self.declared, "share": round(self.share, 6)},
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Weighing:
        """Return the object of :meth:`to_json`.

        Raises:
            KeyError, TypeError: not such an object.
        """
        most = row["most"]
        return cls(
            row["cap"], row["parties"], row["truncated"], most["party"], most["declared"], most["share"]
        )


def weighing(counts: Mapping[PartyId, int], drawn: Collection[PartyId], cap: int | None) -> Weighing | None:
    """Return the weights of the counts; None if all are equal, or no party was drawn."""
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
    """Yield lines on the last round."""
    if found is None:
        return
    if found.truncated:
        above = f"{found.truncated} of {found.parties} parties declared more"
        yield f"sample counts were truncated at {found.cap:,}: {above}"
    else:
        yield f"no sample count was truncated: the largest allowed is {found.cap:,}"
    sentence = f"{text.printable(found.most, 32)} declared the largest count, {found.declared:,} samples"
    yield f"{sentence}, and had {text.percent(found.share)} of the weight"
