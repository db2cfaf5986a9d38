"""Header lines on DP-SGD and privacy noise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from securefl.config.presence import fewest_present, shares_fail_in_run
from securefl.config.privacy import Normalise
from securefl.config.scenario import Scenario
from securefl.config.sizes import max_cluster_size, rests_on_chance, works_of
from securefl.config.wording import percent

LARGE_DELTA = 1e-2
"""Deltas above it are warned of."""


def on_delta(delta: float, unit: Literal["record", "party"]) -> Iterator[str]:
    """Warn of a delta with which an epsilon says little: that of ``auto`` falls with units ^ -1.1 only."""
    if delta <= LARGE_DELTA:
        return
    units = "records of the party with the fewest" if unit == "record" else "parties"
    yield (
        f"LARGE DELTA: with a probability of up to {delta:.2g} more is told than epsilon allows; state a"
        f" smaller privacy.delta (plan --delta; more noise), or have more {units}"
        " ('auto' is their number ^ -1.1)"
    )


def on_noise(scenario: Scenario) -> Iterator[str]:
    """Yield what a checked scenario tells before the model's size and the parties' data are known."""
    privacy, dp, sums = scenario.privacy, scenario.training.dp_sgd, scenario.secure_sum
    if dp is not None:
        bound = "brought to length 1" if isinstance(dp.bound, Normalise) else f"clipped to {dp.norm:g}"
        mixed = f", mixed with the last {'own upload' if dp.carry == 'own' else 'global step'}"
        yield (
            f"training: one step of DP-SGD a round, {dp.sampler} batches of {scenario.training.batch_size};"
            f" each example's gradient{mixed if dp.momentum else ''} is {bound}"
        )
    if privacy.unit == "none":
        if dp is not None:
            yield "DP-SGD WITHOUT NOISE: bounded gradients alone hide nothing"
        if privacy.epsilon is not None:
            yield (
                f"privacy.epsilon = {privacy.epsilon:g} IS NOT KEPT: nobody adds noise without a privacy.unit"
                ' (unit = "record" or "party")'
            )
        return
    if privacy.unit == "record" and scenario.data.shares is not None:
        yield "privacy unit: parties hold copies of each other's records; a guarantee is for one party's copy"
    if privacy.unit == "record":
        yield (
            f"privacy unit: one record of a party, {privacy.relation}; how many records a party declares,"
            " and that it takes part, is public"
        )
    else:
        yield f"privacy unit: all data of one party, {privacy.relation}; that it takes part is public"
    if privacy.placement != "local":
        f, h = sums.colluders_per_cluster, sums.min_survivors - sums.colluders_per_cluster
        how = f"1 / h of the variance, h = min_survivors - f = {sums.min_survivors} - {f} = {h}"
        if privacy.placement == "dropout-exact":
            how = (
                "noise for every tolerated dropout, and the survivors' shares take out what dropouts do not"
                f" need: s survivors keep 1 / (s - f) each, f = {f}"
            )
        yield (
            f"noise: {privacy.law}, shared: a party adds {how}. It rests on at most f of a party's cluster"
            f" mates colluding or adding none, {_chance(scenario)}"
        )
    else:
        yield f"noise: {privacy.law}, local: every upload carries all of it (h = 1), whatever the others add"
        if scenario.clustering.reclusterings > 1 and works_of(scenario) == 1:
            yield (
                f"noise is added once and opened {scenario.clustering.reclusterings} times: the exposure is"
                " taken as 1, as if the noisy update itself were public"
            )


def _chance(scenario: Scenario) -> str:
    """How likely the premise of shared noise fails in a run, and what keeps that true."""
    sums = scenario.secure_sum
    if not rests_on_chance(scenario):
        return f"and these are all that there are (q = {sums.colluders})"
    worst, planned = shares_fail_in_run(scenario), shares_fail_in_run(scenario, scenario.parties)
    fails = f"which fails in this run with probability {percent(worst)}"
    if scenario.clustering.fixed:
        return fails
    return (
        f"{fails} at most, {percent(planned)} if everybody is always there; there is no round with fewer than"
        f" {fewest_present(scenario)} parties, and no cluster of more than {max_cluster_size(scenario)}:"
        " whoever is left over sits the round out"
    )
