"""Header lines on leakage, DP-SGD, privacy noise, its checks, and who holds which samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from securefl.base import text
from securefl.methods import clustering, feasibility, robust
from securefl.scenario import Data, Normalise, Scenario


def on_leakage(scenario: Scenario) -> Iterator[str]:
    """Yield a line on exposure where it is to be expected, and one on what parties do about it."""
    again, enough = scenario.clustering.reclusterings, feasibility.all_exposed_at(scenario)
    atoms = scenario.clustering.atoms > 1
    if atoms and again > 1 and clustering.works_of(scenario.clustering) == 1:
        yield from _on_atoms(scenario)
    if again > 1 and enough is not None and again >= enough:
        participants = clustering.participants_of(scenario)
        clusters = len(clustering.cluster_sizes(participants, scenario.clustering.size))
        yield (
            f"LEAKAGE: {enough} random reclusterings of {participants} parties into {clusters} clusters as a"
            f" rule give away every update, and this run makes {again}"
        )
    yield from _on_repeats(scenario)
    if scenario.leakage.mode == "report":
        yield "LEAKAGE IS ONLY REPORTED: parties release sums that cross the published limits"
        return
    colluders, k = clustering.leakage_colluders(scenario), scenario.secure_sum.k_anonymity
    who = f"fewer than {colluders + k} parties (k = {k} and {text.count(colluders, 'colluder')})"
    if again > 1 and clustering.works_of(scenario.clustering) == 1 and not atoms:
        yield (
            f"leakage: no combination of a round's sums may tell about {who}; reclusterings that would cross"
            " that stay closed"
        )
    if scenario.leakage.leverage < 1:
        yield f"leakage: no party's leverage may be above {scenario.leakage.leverage:g}"


def on_metrics(scenario: Scenario) -> Iterator[str]:
    """Yield a line on what metrics of the same samples tell of single sites over rounds and runs."""
    evaluation = scenario.evaluation
    if not evaluation.metrics:
        return
    if scenario.privacy.unit != "none":
        yield f"metrics: with noise of their own, {evaluation.noise:g} times that of updates, in one account"
    elif evaluation.repeats == "accept":
        yield (
            "METRICS OF THE SAME SAMPLES are summed in other clusters each round and run: COUNTS OF SINGLE"
            ' SITES MAY FOLLOW (evaluation.repeats = "accept")'
        )
    else:
        yield (
            "metrics: without noise, summed over atoms that each party's account keeps over all runs; nothing"
            " below an atom follows, but a change at a single site shows between two sums of its atom"
        )


def _on_repeats(scenario: Scenario) -> Iterator[str]:
    """Yield a line on a server that gives parties the same model again (docs/adr/0043)."""
    enough, again = feasibility.leaks_all_at(scenario), scenario.clustering.reclusterings
    if scenario.secure_sum.server == "curious" or scenario.clustering.fixed or enough is None:
        return
    rounds = -(-enough // again)
    if rounds <= scenario.stop.rounds:
        what = "the sum of each atom" if scenario.clustering.atoms > 1 else "each of them"
        yield (
            "repeated model: where updates stay the same while the server repeats a model, the sums of"
            f" {text.count(rounds, 'round')} as a rule determine {what}; small batches, or noise, blur them"
        )
        noisy, sheltered = scenario.privacy.unit != "none", scenario.clustering.atoms > 1
        if scenario.leakage.mode == "veto" and not noisy and not sheltered:
            yield (
                "repeated model: by their accounts parties give no shares that far; A SERVER THAT CHANGES ONE"
                " BIT OF THE MODEL EVADES THAT, and only clustering.atoms or noise withstands it"
            )


def _on_atoms(scenario: Scenario) -> Iterator[str]:
    enough = feasibility.leaks_all_at(scenario)
    if enough is not None and scenario.clustering.reclusterings >= enough:
        yield (
            f"leakage: {enough} random reclusterings as a rule give away the sum of each atom, and this run"
            f" makes {scenario.clustering.reclusterings}; further ones give away no more"
        )


LARGE_DELTA = 1e-2


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
        if scenario.clustering.reclusterings > 1 and clustering.works_of(scenario.clustering) == 1:
            yield (
                f"noise is added once and opened {scenario.clustering.reclusterings} times: the exposure is"
                " taken as 1, as if the noisy update itself were public"
            )


def _chance(scenario: Scenario) -> str:
    """The chance that the premise of shared noise fails in a run, and what keeps that true."""
    sums = scenario.secure_sum
    if not clustering.rests_on_chance(scenario):
        return f"and these are all that there are (q = {sums.colluders})"
    worst, planned = clustering.p_shares_fail(scenario), clustering.p_shares_fail(scenario, scenario.parties)
    fails = f"which fails in this run with probability {text.percent(worst)}"
    if scenario.clustering.fixed:
        return fails
    return (
        f"{fails} at most, {text.percent(planned)} if everybody is always there; there is"
        " no round with fewer than"
        f" {clustering.fewest_present(scenario)} parties, and no cluster of more than"
        f" {clustering.max_cluster_size(scenario)}:"
        " whoever is left over sits the round out"
    )


def on_checks(scenario: Scenario) -> Iterator[str]:
    """Yield lines of the header."""
    match scenario.checks.kind:
        case "corrected":
            yield (
                f"checks: sums that do not look like the agreed noise are left out; any honest one of a round"
                f" with probability at most {100 * scenario.checks.alpha:g} %"
            )
            yield _on_evidence(scenario)
        case "published":
            yield (
                "checks: norm and KS test as published (Xiang et al., algorithm 2); they leave out an honest"
                " upload in 1 of 19 to 1 of 15, and more where signals agree"
            )
        case "none":
            return


def _on_evidence(scenario: Scenario) -> str:
    byzantine = scenario.aggregation.byzantine
    named = f"honest, it is ever named with probability at most {100 * scenario.checks.alpha:g} % in all"
    match feasibility.evidence_of(scenario):
        case "uploads":
            return f"evidence over rounds: of each party; {named}"
        case "clusters":
            return f"evidence over rounds: of each fixed cluster as a whole; {named}"
        case "presence":
            return f"evidence over rounds: of each party, given at most {byzantine} Byzantine; {named}"
        case "none":
            why = "atoms keep company together" if byzantine else "aggregation.byzantine = 0"
            return f"evidence over rounds: of no single party ({why})"


_SCORED = {
    "sum": "its share n_i / n of the sum",
    "mean": "its mean",
    "normalised": "its mean at the gradient's length",
}


def on_server_data(scenario: Scenario, clusters: int, p_clean: float) -> Iterator[str]:
    """The server's own data, and their use.

    Args:
        scenario: the whole.
        clusters: per reclustering.
        p_clean: probability that the largest of them has no Byzantine member.
    """
    rule, held = scenario.aggregation.rule, f"server data: {_held(scenario.data)}"
    match rule:
        case robust.ZenoPlusPlus():
            yield f"{held}; a gradient on {rule.batch} of them for every reclustering"
            yield (
                "zeno++: accepts a cluster if -eta <gradient, g> - rho ||g||^2 >= -eta eps,"
                f" with eta = {rule.eta:g}, rho = {rule.rho:g}, eps = {rule.eps:g};"
                f" g ({rule.scale}) is {_SCORED[rule.scale]}"
            )
            if rule.eps:
                yield (
                    "zeno++: eps has the scale of a squared gradient and does not shrink with it, so that"
                    " harmful clusters pass as the model learns; eps = 0 has no scale"
                )
        case robust.FlTrust():
            yield f"{held}; the server trains on them as a party does, once a round"
        case robust.InnerProduct():
            yield f"{held}; a gradient on all of them once a round"
            yield from _on_inner_product(rule, scenario, clusters, p_clean)
        case _:
            if rule.server_data != "none":
                yield f"{held}; for {rule.name}"
            elif scenario.data.server_holds_some:
                yield f"{held}, and this rule has no use for them"


def on_shares(scenario: Scenario) -> Iterator[str]:
    """That parties hold copies of each other's samples, and what that means for an epsilon."""
    shares = scenario.data.shares
    if shares is not None and shares < scenario.parties:
        line = f"data: {scenario.parties} parties hold {text.count(shares, 'share')}, and copies of them"
        if scenario.privacy.unit != "none":
            line += "; an epsilon is of what one party releases, and several release the same record"
        yield line


def _held(data: Data) -> str:
    if data.server_per_class:
        held = f"{text.count(data.server_per_class, 'training sample')} of each class"
    else:
        held = f"{100 * data.server_fraction:g} % of the training samples"
    return held if data.server_set is None else f"{held} of {data.server_set}, and the parties keep theirs"


def _on_inner_product(
    rule: robust.InnerProduct, scenario: Scenario, clusters: int, p_clean: float
) -> Iterator[str]:
    chosen = f"{robust.places(rule.gamma, clusters)} of {text.count(clusters, 'cluster')}"
    how = "its scores alone" if rule.select == "per-round" else "what their members have earned so far"
    if rule.half_life is not None:
        as_good = f"{robust.rounds_remembered(rule.half_life):.3g}"
        how += f", of which half is left after {rule.half_life:g} rounds: as telling as a sum over {as_good}"
    yield f"inner-product: selects {chosen} a round (gamma = {rule.gamma:g}) by {how}, however bad they are"
    if scenario.aggregation.byzantine and rule.gamma > p_clean + 1e-9:
        yield (
            f"inner-product: gamma = {rule.gamma:g} is a share of clusters, and each is clean with"
            f" probability {text.percent(p_clean)} only"
        )
    bounded = any(isinstance(step, robust.NormClipping) for step in scenario.aggregation.pre_aggregation)
    if scenario.aggregation.byzantine and not bounded:
        yield (
            "inner-product: who lies about its length is selected at that length;"
            " norm-clipping as pre_aggregation bounds it"
        )
