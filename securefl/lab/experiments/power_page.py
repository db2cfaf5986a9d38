"""Markdown page of a power table."""

import math
from collections.abc import Iterator, Sequence

from securefl.lab.experiments import power
from securefl.methods import privacy

_INTRODUCTION = """\
# What the checks of opened sums see

Made by `securefl dp power --out docs/results` from `checks.json` beside it; do not edit it. The checks
are explained in [checks.md](../checks.md).

Each number is the share of sums, in percent, that failed a check. A *spread* is the standard deviation of
the noise in one coordinate of a sum, sqrt(n) s; the *allowance* is the norm that the members' signals may
have together. Honest signals all point the same way and use up the allowance, unless the row says
otherwise; deviations come on top.

- `norm`, `KS`, `pair`: the published first stage (Xiang et al. 2023, algorithm 2) at its own levels,
  applied to the sum with the variance of n noises. It has no allowance for a signal.
- The columns up to `all`: our checks, at {each:.2g} each, so that all together (`all`) fail an honest sum
  with probability {alpha:g} at most. `all` is what a run does (`checks.kind = "corrected"`).
- `projection`: at the level of one check, **in no run and not in `all`**. It knows the sum of the round
  before, in which the same happened with fresh noise.
"""

_CONCLUSION = """\
## What this means

**Seen:** members that add no or too little noise, and members that are counted but not in the sum (noise
floor, magnitudes); finished uploads that are scaled; energy on up to some hundred coordinates (maximum,
tail counts); constant shifts beyond the allowance (coordinates).

**Not seen, by any check on one sum:**

- *Noise of the agreed law without a signal*, and any signal within the allowance, whatever it points at:
  they are what honest parties send. So is -10 x one's signal, where that is little against the noise.
- *A dense vector* of a norm up to about 2 (2d)^(1/4) spreads (30 at d = 25,450), far above the allowance:
  the noise hides it. The robust rule behind the checks has to deal with it.
- *Sorted noise*: a member draws its noise as agreed and puts the values in the order of a direction of
  its choice. The sum has exactly the coordinates that it should have, and a vector of the noise's whole
  norm along that direction. **No check of a run sees it.** `projection` does, if it knows the direction
  (here because the attack pulled the same way a round before) and the allowance is small. Whoever changes
  the direction every round, or uses other coordinates every round, passes that too.

**Not told:** which member it was. A failed sum says that its members together left the plan.

The published pair also rejects honest sums: about one in twenty by design, about half or more of those whose
signal is a constant shift, and at record level up to all of them where gradients point the same way. It
sees energy on few coordinates only by their part in the norm.
"""

_SHORT = {power.PUBLISHED[0]: "norm", power.PUBLISHED[1]: "KS", power.PUBLISHED[2]: "pair", power.ALL: "all"}


def power_page(record: power.PowerRecord) -> str:
    """Return the page."""
    checks = len(privacy.CHECKS)
    lines = [
        _INTRODUCTION.format(each=record.alpha / checks, alpha=record.alpha),
        f"{record.trials} sums for each row, seed {record.seed}: a share is known to"
        f" {_margin(record.trials):.0f} percentage points or better (95 %). Noise: Skellam, {record.std:g}"
        " steps for each party.",
        "",
    ]
    for block in record.blocks:
        lines += _block(block, record.trials)
    return "\n".join(lines) + "\n" + _CONCLUSION


def _block(block: power.PowerBlock, trials: int) -> Iterator[str]:
    parties = "1 party" if block.members == 1 else f"{block.members} parties"
    yield f"## d = {block.dim:,}, sums of {parties}"
    yield ""
    yield (
        f"{block.note} An allowance of {block.allowance:.2f} spreads against a noise norm of"
        f" {math.sqrt(block.dim):.0f}."
    )
    yield ""
    names = list(block.rows[0].failed)
    yield from _table(
        ["", *(_SHORT.get(name, name) for name in names)],
        [[row.deviation, *(_percent(row, name, trials) for name in names)] for row in block.rows],
    )
    yield ""


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|---|{'--:|' * (len(head) - 1)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _percent(row: power.PowerRow, check: str, trials: int) -> str:
    share = 100 * row.failed[check] / trials
    return f"{share:.1f}" if row.honest else f"{share:.0f}"


def _margin(trials: int) -> float:
    return 98 / math.sqrt(trials)
