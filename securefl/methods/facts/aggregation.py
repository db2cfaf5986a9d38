"""Sentences on ``[aggregation]``, ``[weighting]`` and behaviours: the rule, its claim, the attackers."""

from collections.abc import Iterator, Mapping
from typing import Final

from securefl.base import header, sums, text
from securefl.methods import attacks, clustering, feasibility
from securefl.scenario import Behaviour, FalseCount, Poisoning, Scenario, ServerData, UpdateAttack

_USES: Final[Mapping[ServerData, str]] = {
    "none": "this rule does not use them",
    "all": "a gradient on all of them once a round",
    "training": "the server trains on them as a party does, once a round",
}


def on_rule(scenario: Scenario, limits: feasibility.DerivedLimits) -> Iterator[header.Sentence]:
    """Yield the sentences on the clusters that the rule withstands, and on the claim."""
    plan, judged = scenario.aggregation, len(feasibility.judged_together(scenario, limits.cluster_sizes))
    rule = ", ".join(step.name for step in (*plan.pre_aggregation, plan.rule))
    about = "about " if clustering.hides_groups(scenario.groups) else ""
    where = f"{about}{judged} a group" if scenario.groups.count > 1 else f"{judged} clusters"
    yield header.tolerance(f"{rule} withstands {limits.breakdown} of {where}", "with Byzantine members")
    shown = sums.exact_sum(one.members for one in scenario.behaviours if attacks.is_byzantine(one))
    if plan.claim != "none" and shown > plan.byzantine:
        yield header.behaviours(f"BYZANTINE: {shown}, CLAIMED: {plan.byzantine}")
    if plan.byzantine:
        chance = ", if chance assigns them to groups" if scenario.groups.count > 1 else ""
        clean = f"a cluster of {max(limits.cluster_sizes)} is clean with {text.percent(limits.p_clean)}"
        holds = f"{plan.byzantine} Byzantine: {text.percent(limits.p_rule_holds)}"
        withstood = f"probability that the rule withstands them ({plan.claim} claim)"
        yield header.tolerance(holds, f"{withstood}; {clean}{chance}")


def on_weights(scenario: Scenario, _limits: feasibility.DerivedLimits) -> Iterator[header.Sentence]:
    """Yield the sentences on declared sample counts."""
    weighting = scenario.weighting
    if scenario.aggregation.byzantine and weighting.mode == "passthrough":
        remedy = 'weighting.mode = "truncate" or "ignore" bounds its weight'
        yield header.tolerance("COUNTS TRUSTED", f"one liar can outweigh all others; {remedy}")
    if weighting.alpha is not None:
        most = f"{weighting.alpha:g} of the parties of a round weigh {weighting.alpha_star:g} of all at most"
        yield header.tolerance(more=f"{most}, before dropouts, whatever they declare")


def on_server_data(scenario: Scenario, limits: feasibility.DerivedLimits) -> Iterator[header.Sentence]:
    """Yield the sentences on the server's own data, and those of the rule."""
    data, used = scenario.data, scenario.aggregation.rule.server_data
    if used != "none" or data.server_holds_some:
        held = f"{100 * data.server_fraction:g} % of the training samples"
        if data.server_per_class:
            held = f"{text.count(data.server_per_class, 'training sample')} of each class"
        apart = "" if data.server_set is None else f" of {data.server_set}, and the parties keep theirs"
        use = _USES.get(used, f"a gradient on {used} of them for every reclustering")
        yield header.tolerance(more=f"server data: {held}{apart}; {use}")
    yield from scenario.aggregation.rule.facts(scenario.aggregation, limits.p_clean)


def on_behaviours(scenario: Scenario, _limits: feasibility.DerivedLimits) -> Iterator[header.Sentence]:
    """Yield the sentences on all behaviours together."""
    shown, last = scenario.behaviours, scenario.stop.rounds - 1
    parties: dict[str, set[str]] = {}
    for number, one in enumerate(shown):
        drawn = (f"{number}.{place}" for place in range(one.count))
        parties.setdefault(one.kind, set()).update(one.parties or drawn)
    omniscient = ", ".join(dict.fromkeys(one.kind for one in shown if attacks.is_omniscient(one)))
    if omniscient:
        knows = "it knows all honest updates, as no real attacker does"
        yield header.behaviours(f"OMNISCIENT {omniscient}", knows)
    late = [one.kind for one in shown if one.rounds and min(one.rounds) > last]
    if late:
        kinds = ", ".join(dict.fromkeys(late))
        yield header.behaviours(f"NEVER ACT: {len(late)}", f"{kinds}; the last round is {last}")
    servers = dict.fromkeys(one.kind.rpartition(":")[2] for one in shown if attacks.is_of_server(one))
    for kind, who in parties.items():
        if who:
            yield header.behaviours(f"{kind} by {len(who)}")
    if servers:
        curious = scenario.secure_sum.server == "curious"
        unopposed = "by a server assumed curious: nothing has to stop it" if curious else ""
        yield header.behaviours(f"server {', '.join(servers)}", unopposed)
    details = "; ".join(filter(None, (_details(one, scenario) for one in shown)))
    if details:
        yield header.behaviours(more=details)


def _details(one: Behaviour, scenario: Scenario) -> str:
    facts = [f"{one.samples:,} samples declared"] if isinstance(one, FalseCount) else []
    if isinstance(one, attacks.ALIE) and one.z is None:
        facts.append(f"z = {attacks.alie_z(scenario.parties, one.members):.3g}")
    if isinstance(one, UpdateAttack) and one.actors is not None:
        where = "in the fewest clusters" if one.placement == "concentrate" else "over the most clusters"
        facts.append(f"{one.actors} at a time, {where}")
    if isinstance(one, Poisoning) and one.honest_until:
        facts.append(f"honest before round {attacks.first_round(one, scenario.stop.rounds)}")
    return f"{one.kind} by {one.members}: {', '.join(facts)}" if facts else ""
