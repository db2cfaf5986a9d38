"""Header sentences on ``[aggregation]``, ``[weighting]`` and behaviours: rule, claim, attackers."""

from collections.abc import Iterator, Mapping
from typing import Final

from securefl.base import header, sums, text
from securefl.methods import attacks, clustering, feasibility
from securefl.scenario import Behaviour, FalseCount, Poisoning, Scenario, ServerData, UpdateAttack

MEDIAN_NEEDS: Final = 3
"""Smallest number of clusters for which a median tolerates a Byzantine one."""

_USES: Final[Mapping[ServerData, str]] = {
    "none": "this rule does not use them",
    "all": "a gradient on all of them once a round",
    "training": "the server trains on them as a party does, once a round",
}


def on_rule(scenario: Scenario, limits: feasibility.DerivedLimits) -> Iterator[header.Sentence]:
    """Yield the sentences on the clusters that the rule tolerates, and on the claim."""
    plan, judged = scenario.aggregation, len(feasibility.judged_together(scenario, limits.cluster_sizes))
    rule = ", ".join(step.name for step in (*plan.pre_aggregation, plan.rule))
    about = "about " if clustering.hides_groups(scenario.groups) else ""
    where = f"{about}{text.count(judged, 'cluster')}{' per group' if scenario.groups.count > 1 else ''}"
    if limits.breakdown:
        yield header.tolerance(
            f"{rule}: {limits.breakdown} of {where} may be Byzantine", "with dishonest members"
        )
    else:
        remedy = "use median" if judged >= MEDIAN_NEEDS else f"use median and {MEDIAN_NEEDS} clusters"
        yield header.tolerance(f"no Byzantine cluster ({remedy})", f"{rule} tolerates none of {where}")
    shown = sums.exact_sum(one.members for one in scenario.behaviours if attacks.is_byzantine(one))
    if plan.claim != "none" and shown > plan.byzantine:
        claimed = f"aggregation.byzantine expects {plan.byzantine} at most"
        yield header.faults(f"BYZANTINE PARTIES: {shown}, EXPECTED: {plan.byzantine}", claimed)
    if plan.byzantine:
        chance = ", if chance assigns them to groups" if scenario.groups.count > 1 else ""
        clean = f"a cluster of {max(limits.cluster_sizes)} is clean with {text.percent(limits.p_clean)}"
        who = text.count(plan.byzantine, "Byzantine party", "Byzantine parties")
        holds = f"the rule tolerates {who}"
        if limits.p_rule_holds < 1:
            holds += f" with chance {text.chance(limits.p_rule_holds)}"
        if not limits.p_rule_holds:
            holds = f"RULE FAILS with {who}"
        yield header.limits(holds, f"{plan.claim} claim; {clean}{chance}")


def on_weights(scenario: Scenario, _limits: feasibility.DerivedLimits) -> Iterator[header.Sentence]:
    """Yield the sentences on declared sample counts."""
    weighting = scenario.weighting
    if scenario.aggregation.byzantine and weighting.mode == "passthrough":
        remedy = 'weighting.mode = "truncate" or "ignore" bounds its weight'
        yield header.limits(
            "SAMPLE COUNTS ARE TRUSTED", f"a false count can outweigh all other parties; {remedy}"
        )
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
        yield header.faults(f"OMNISCIENT ATTACK {omniscient}", knows)
    late = [one.kind for one in shown if one.rounds and min(one.rounds) > last]
    if late:
        late_kinds = ", ".join(dict.fromkeys(late))
        yield header.faults(
            f"AFTER THE LAST ROUND: {text.count(len(late), 'fault')}",
            f"{late_kinds}; the last round is {last}",
        )
    servers = dict.fromkeys(one.kind.rpartition(":")[2] for one in shown if attacks.is_of_server(one))
    for number in dict.fromkeys(len(who) for who in parties.values() if who):
        kinds = [kind for kind, who in parties.items() if len(who) == number]
        each = " each" if len(kinds) > 1 else ""
        yield header.faults(f"{', '.join(kinds)} by {text.count(number, 'party', 'parties')}{each}")
    if servers:
        curious = scenario.secure_sum.server == "curious"
        unopposed = (
            "the scenario assumes a curious server: the protocol need not prevent this" if curious else ""
        )
        yield header.faults(f"by the server: {', '.join(servers)}", unopposed)
    details = "; ".join(filter(None, (_details(one, scenario) for one in shown)))
    if details:
        yield header.faults(more=details)


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
