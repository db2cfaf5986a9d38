"""Draws of clusters and dropouts, and the updates that opened sums determine."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from securefl.base.entropy import Entropy, InsecureSeededEntropy
from securefl.base.ids import PartyId
from securefl.lab.experiments import noise
from securefl.lab.experiments.experiment import Place
from securefl.lab.experiments.record import SeedRecord
from securefl.lab.experiments.sweep import Sweep, SweepSetting
from securefl.methods import clustering, leakage, privacy

LEAST_SURVIVORS = 2
"""Fewest survivors of an opened cluster: a sum of one is an update."""


@dataclass(frozen=True, slots=True)
class Found:
    """Knowledge of server and colluders after a draw."""

    counted: float
    """Share of parties in opened sums; 0 if a cascade of dropouts left none."""
    exposed: float
    """Share of counted honest parties with determined updates."""
    once: float
    """Largest leverage: exposure under noise added once, from 1 / h to 1."""
    fresh: float
    """Largest sum of 1 / h over a party's openings: exposure under fresh noise in each."""


def look(setting: SweepSetting, reclusterings: int, seed: int) -> Found:
    """Draw clusters, dropouts and colluders, and analyse the opened sums.

    Draws with one seed agree in them, up to the smaller number of each.
    """
    entropy = InsecureSeededEntropy(seed).child("leakage", setting.parties, setting.size)
    names = tuple(PartyId(f"p{number:04d}") for number in range(setting.parties))
    drawn = _drawn(setting, reclusterings, names, entropy)
    silent = {name for name in names if _chance(entropy, "dropout", name) < setting.dropout}
    instances = {(r, j): cluster for r, row in enumerate(drawn.clusters) for j, cluster in enumerate(row)}
    arrived = {key: set(members) - silent for key, members in instances.items()}
    survivors = clustering.survivor_set(instances, arrived, LEAST_SURVIVORS, drawn.atoms)
    order = sorted(names, key=lambda name: _chance(entropy, "colluder", name))
    colluders = survivors.intersection(order[: setting.colluders])
    if len(survivors) <= len(colluders):
        return Found(0.0, 0.0, 0.0, 0.0)
    prime = leakage.draw_prime(entropy.child("prime"))
    ledgers = leakage.plan_ledgers(drawn, survivors, 0, prime, new_work=setting.work == "new")
    works = [_exposure_counts(ledger.without(colluders), survivors - colluders) for ledger in ledgers]
    # Maximum over the works, each with its own update.
    return Found(len(survivors) / len(names), *map(max, zip(*works, strict=True)))


def draw_cell(sweep: Sweep, place: Place) -> tuple[tuple[SeedRecord, ...], dict[str, float]]:
    """Make all draws of a cell.

    With noise accounting also return the worst draw's ``exposure`` (mu^2 sigma^2,
    :mod:`securefl.lab.experiments.noise`) and ``epsilon`` over the run.

    Raises:
        ConfigError: dp_accounting is needed and missing.
    """
    setting, reclusterings = sweep.at(place)
    found, draws = zip(*_draws(setting, reclusterings, sweep.draws), strict=True)
    if sweep.accounting is None or setting.noise is None:
        return draws, {}
    h = noise.honest(setting.size, setting.colluders)
    exposure = max(noise.relative_exposure(setting.noise, h, once=one.once, fresh=one.fresh) for one in found)
    works = reclusterings if setting.work == "new" else 1
    epsilon = noise.spent(sweep.accounting, exposure, works)
    return draws, {"exposure": round(exposure, 4), "epsilon": round(epsilon, 3)}


def _draws(setting: SweepSetting, reclusterings: int, count: int) -> Iterator[tuple[Found, SeedRecord]]:
    for seed in range(count):
        begun = time.process_time()
        one = look(setting, reclusterings, seed)
        yield (
            one,
            SeedRecord(
                seed=seed,
                accuracies=(round(one.exposed, 4),) if one.counted else (),
                values={
                    name: round(getattr(one, name), 4) for name in ("counted", "exposed", "once", "fresh")
                },
                seconds=round(time.process_time() - begun, 6),
            ),
        )


def _drawn(
    setting: SweepSetting, reclusterings: int, names: tuple[PartyId, ...], entropy: Entropy
) -> clustering.Assignment:
    seed = entropy.child("clusters").draw(32)
    if setting.atoms == 1:
        return clustering.draw_assignment(seed, names, len(names), setting.size, reclusterings)
    atoms = clustering.form_atoms(entropy.child("atoms").draw(32), names, setting.atoms)
    per_cluster = setting.size // setting.atoms
    return clustering.draw_unions(
        seed, atoms, per_cluster, reclusterings, fewest=1, wanted=len(names), largest=len(names)
    )


def _exposure_counts(ledger: leakage.LeakageLedger, others: frozenset[PartyId]) -> tuple[float, float, float]:
    rows = ledger.matrix
    counts = rows.sum(axis=1)
    hidden = [column for column, name in enumerate(ledger.parties) if name in others]
    once = float(leakage.leverages(ledger)[hidden].max())
    fresh = max(privacy.fresh_exposure(counts[rows[:, column] == 1].tolist()) for column in hidden)
    return len(ledger.exposed & others) / len(others), once, fresh


def _chance(entropy: Entropy, purpose: str, name: PartyId) -> float:
    return int.from_bytes(entropy.child(purpose, name).draw(7), "big") / 2**56
