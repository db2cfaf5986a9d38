"""Header lines on who holds which samples: several parties the same ones, or the server its own."""

from __future__ import annotations

from collections.abc import Iterator

from securefl.config.aggregation import FlTrust, InnerProduct, NormClipping, ZenoPlusPlus
from securefl.config.data import Data
from securefl.config.rules import places, rounds_remembered
from securefl.config.scenario import Scenario
from securefl.config.wording import count, percent

_SCORED = {
    "sum": "its share n_i / n of the sum",
    "mean": "its mean",
    "normalised": "its mean at the gradient's length",
}


def on_server_data(scenario: Scenario, clusters: int, p_clean: float) -> Iterator[str]:
    """What the server holds and what for.

    Args:
        scenario: the whole.
        clusters: per reclustering.
        p_clean: probability that the largest of them has no Byzantine member.
    """
    rule, held = scenario.aggregation.rule, f"server data: {_held(scenario.data)}"
    match rule:
        case ZenoPlusPlus():
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
        case FlTrust():
            yield f"{held}; the server trains on them as a party does, once a round"
        case InnerProduct():
            yield f"{held}; a gradient on all of them once a round"
            yield from _on_inner_product(rule, scenario, clusters, p_clean)
        case _:
            if scenario.data.server_holds_some:
                yield f"{held}, and this rule has no use for them"


def on_shares(scenario: Scenario) -> Iterator[str]:
    """That parties hold copies of each other's samples, and what that means for an epsilon."""
    shares = scenario.data.shares
    if shares is not None and shares < scenario.parties:
        line = f"data: {scenario.parties} parties hold {count(shares, 'share')}, and copies of them"
        if scenario.privacy.unit != "none":
            line += "; an epsilon is of what one party releases, and several release the same record"
        yield line


def _held(data: Data) -> str:
    if data.server_per_class:
        held = f"{count(data.server_per_class, 'training sample')} of each class"
    else:
        held = f"{100 * data.server_fraction:g} % of the training samples"
    return held if data.server_set is None else f"{held} of {data.server_set}, and the parties keep theirs"


def _on_inner_product(rule: InnerProduct, scenario: Scenario, clusters: int, p_clean: float) -> Iterator[str]:
    chosen = f"{places(rule.gamma, clusters)} of {count(clusters, 'cluster')}"
    how = "its scores alone" if rule.select == "per-round" else "what their members have earned so far"
    if rule.half_life is not None:
        as_good = f"{rounds_remembered(rule.half_life):.3g}"
        how += f", of which half is left after {rule.half_life:g} rounds: as telling as a sum over {as_good}"
    yield f"inner-product: selects {chosen} a round (gamma = {rule.gamma:g}) by {how}, however bad they are"
    if scenario.aggregation.byzantine and rule.gamma > p_clean + 1e-9:
        yield (
            f"inner-product: gamma = {rule.gamma:g} is a share of clusters, and each is clean with"
            f" probability {percent(p_clean)} only"
        )
    bounded = any(isinstance(step, NormClipping) for step in scenario.aggregation.pre_aggregation)
    if scenario.aggregation.byzantine and not bounded:
        yield (
            "inner-product: who lies about its length is selected at that length;"
            " norm-clipping as pre_aggregation bounds it"
        )
