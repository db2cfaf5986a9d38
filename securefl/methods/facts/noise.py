"""Header sentences on ``[privacy]`` that need neither the model's size nor the parties' data."""

from collections.abc import Iterator
from typing import Final, Literal

from securefl.base import header, text
from securefl.methods import clustering, feasibility
from securefl.scenario import Scenario

LARGE_DELTA: Final = 1e-2


def on_delta(delta: float, unit: Literal["record", "party"]) -> Iterator[header.Sentence]:
    """Yield a warning for a delta that makes epsilon weak: ``auto`` only decreases with units ^ -1.1."""
    if delta > LARGE_DELTA:
        units = "records of the party with the fewest" if unit == "record" else "parties"
        remedy = f"state a smaller privacy.delta, or have more {units} ('auto' is their number ^ -1.1)"
        yield header.limits("LARGE DELTA", f"epsilon may fail with chance {text.chance(delta)}; {remedy}")


def on_noise(scenario: Scenario, limits: feasibility.DerivedLimits) -> Iterator[header.Sentence]:
    """Yield the sentences on the unit of privacy, and on the noise with its assumptions."""
    privacy, sums, again = scenario.privacy, scenario.secure_sum, scenario.clustering.reclusterings
    if privacy.unit == "none":
        if scenario.training.dp_sgd is not None:
            yield header.privacy("DP-SGD WITHOUT NOISE", "clipped gradients alone protect no record")
        if privacy.epsilon is not None:
            kept = f"EPSILON {privacy.epsilon:g} IS NOT ENFORCED"
            yield header.privacy(kept, 'no party adds noise without privacy.unit = "record" or "party"')
        yield header.privacy("none, no noise is added")
        return
    record = privacy.unit == "record"
    of = "one record of a party" if record else "all data of one party"
    public = "participation and the number of records are" if record else "participation is"
    yield header.privacy(more=f"privacy unit: {of}, {privacy.relation}; {public} public")
    if record and scenario.data.shares is not None:
        yield header.limits("EPSILON PER COPY", "parties hold copies of each other's records")
    if privacy.placement == "local":
        opened = f"; {again} openings of it count as its publication" if again > 1 else ""
        added = f"{privacy.law}, local: every upload carries all of its noise (h = 1){opened}"
        yield header.limits("epsilon holds whatever other parties do", added)
        return
    f, h = sums.colluders_per_cluster, sums.min_survivors - sums.colluders_per_cluster
    how = f"1 / h of the variance, h = min_survivors - f = {sums.min_survivors} - {f} = {h}"
    if privacy.placement == "dropout-exact":
        how = f"noise for every tolerated dropout; of s survivors each keeps 1 / (s - {f})"
    fails, chance = "", f"there are no other colluders (q = {sums.colluders})"
    if clustering.rests_on_chance(scenario):
        fails = f" (risk {text.chance(limits.p_shares_fail)})"
        planned = text.percent(clustering.p_shares_fail(scenario, scenario.parties))
        least, most = clustering.fewest_present(scenario), clustering.max_cluster_size(scenario)
        chance = (
            f"{planned} if all are present; rounds have {least} parties or more, clusters {most} or fewer"
        )
    added = f"{privacy.law}, shared: a party adds {how}; {chance}"
    yield header.limits(f"epsilon if <= {f} dishonest parties per cluster{fails}", added)
