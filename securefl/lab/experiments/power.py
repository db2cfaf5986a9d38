"""Power of the checks: failure rates of honest and deviating sums (``docs/results/checks.md``)."""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from securefl.base.arrays import I64
from securefl.base.entropy import Entropy, InsecureSeededEntropy
from securefl.lab.experiments import deviations
from securefl.lab.experiments.provenance import commit
from securefl.methods import privacy

FORMAT: Final = 1
ALPHA: Final = 0.01
"""Joint significance level of all checks on a sum."""
_BATCHES: Final = "DP-SGD at record level: sigma = 0.8 for a record, 16 of which may point the same way."
SETTINGS: Final = (
    deviations.PowerSetting(dim=25_450, members=5),
    deviations.PowerSetting(dim=25_450, members=20),
    deviations.PowerSetting(dim=25_450, members=5, multiplier=0.05, note=_BATCHES),
    deviations.PowerSetting(dim=25_450, members=1, multiplier=0.05, note=_BATCHES),
    deviations.PowerSetting(dim=1_000, members=5),
    deviations.PowerSetting(dim=100_000, members=5),
)
PUBLISHED: Final = ("published norm", "published KS", "published pair")
ALL: Final = "all checks"
"""All checks of a run, without the projection."""


class PowerRow(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Failure rates of each check on one kind of sum."""

    deviation: str
    honest: bool
    failed: dict[str, int]


class PowerBlock(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rows of one setting."""

    dim: int
    members: int
    multiplier: float
    note: str
    allowance: float
    rows: tuple[PowerRow, ...]


class PowerRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whole measurement."""

    format: int
    trials: int
    seed: int
    alpha: float
    std: float
    """Standard deviation of a party's noise, steps."""
    blocks: tuple[PowerBlock, ...]
    commit: str = ""
    """Commit that measured; empty if unknown."""


def measure_power(
    trials: int,
    seed: int,
    settings: Sequence[deviations.PowerSetting],
    on_trial: Callable[[deviations.PowerSetting, deviations.Deviation], None],
) -> PowerRecord:
    """Check ``trials`` sums of each kind in each setting; equal seeds give equal records.

    ``on_trial`` is called after each sum.
    """
    root = InsecureSeededEntropy(seed)
    blocks = []
    for setting in settings:
        here = root.child(setting.dim, setting.members, str(setting.multiplier))
        rows = tuple(
            _row(setting, deviation, trials, here.child(deviation.name), on_trial)
            for deviation in deviations.DEVIATIONS
            if setting.members >= deviation.fewest
        )
        blocks.append(
            PowerBlock(
                dim=setting.dim,
                members=setting.members,
                multiplier=setting.multiplier,
                note=setting.note,
                allowance=setting.plan(ALPHA).null(setting.members).allowance / setting.spread,
                rows=rows,
            )
        )
    return PowerRecord(
        format=FORMAT,
        trials=trials,
        seed=seed,
        alpha=ALPHA,
        std=deviations.STD,
        blocks=tuple(blocks),
        commit=commit(),
    )


def kinds(setting: deviations.PowerSetting) -> int:
    """Return the number of rows of a setting."""
    return sum(setting.members >= deviation.fewest for deviation in deviations.DEVIATIONS)


def failures(
    values: I64, before: I64, setting: deviations.PowerSetting, plan: privacy.CheckPlan
) -> dict[str, bool]:
    """Return by name if a sum fails each check: the published pair at its own levels, ours at theirs.

    The projection is tested separately, at the level of one of ours, against ``before``.

    Args:
        values: sum, i64 ``(d,)``, steps.
        before: sum of the last round with the same deviation.
        setting: of the sum.
        plan: of the checks.
    """
    published = privacy.first_stage(values.astype(np.float64), setting.spread)
    judged = privacy.check_sums([privacy.OpenedSum(values, setting.members)], plan)[0]
    null, level = plan.null(setting.members), plan.alpha / len(privacy.CHECKS)
    along = privacy.projection(values, before.astype(np.float64), null, level)
    return {
        PUBLISHED[0]: not published.norm.ok,
        PUBLISHED[1]: not published.distribution.ok,
        PUBLISHED[2]: not published.ok,
        **{check.check: not check.ok for check in judged.checks},
        ALL: not judged.ok,
        along.check: not along.ok,
    }


def _row(
    setting: deviations.PowerSetting,
    deviation: deviations.Deviation,
    trials: int,
    entropy: Entropy,
    on_trial: Callable[[deviations.PowerSetting, deviations.Deviation], None],
) -> PowerRow:
    plan = setting.plan(ALPHA)
    failed: dict[str, int] = {}
    for trial in range(trials):
        here = entropy.child(trial)
        fixed, before, now = (here.child(name) for name in ("fixed", "before", "now"))
        last, values = (deviation.make(setting, fixed, fresh) for fresh in (before, now))
        for check, bad in failures(values, last, setting, plan).items():
            failed[check] = failed.get(check, 0) + bad
        on_trial(setting, deviation)
    return PowerRow(deviation=deviation.name, honest=deviation.honest, failed=failed)
