"""Header lines of a run: everything that follows from its scenario, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from securefl.base import text
from securefl.methods import attacks, feasibility, privacy
from securefl.methods.clustering import (
    MAX_DRAWS,
    atom_sizes,
    hides_groups,
    odds,
    steps_of,
    tells_groups,
    works_of,
)
from securefl.runtime.report import header_privacy, header_sums
from securefl.runtime.report.header_verified import on_verification
from securefl.scenario import Behaviour, FalseCount, Poisoning, Scenario, UpdateAttack, Weighting


def scenario_header(scenario: Scenario, limits: feasibility.DerivedLimits) -> tuple[str, ...]:
    """Lines that a reader of a run should know before it starts.

    Args:
        scenario: a feasible one.
        limits: what :func:`securefl.methods.feasibility.limits.check` derived from it.
    """
    return (
        *_on_clusters(scenario, limits),
        *header_sums.on_crypten(scenario.secure_sum),
        *_on_privacy(scenario, limits),
        *header_privacy.on_noise(scenario),
        *header_privacy.on_metrics(scenario),
        *header_sums.on_validation(scenario),
        *on_verification(scenario, limits),
        *header_privacy.on_checks(scenario),
        *_on_robustness(scenario, limits),
        *header_privacy.on_shares(scenario),
        _on_times(scenario),
        *header_privacy.on_server_data(scenario, limits.clusters, limits.p_clean),
        *_on_attacks(scenario.behaviours, scenario.parties, scenario.stop.rounds),
        *_on_behaviours(scenario),
        *_on_seeds(scenario),
    )


def _on_seeds(scenario: Scenario) -> Iterator[str]:
    """Yield the lines on the randomness of sites that is controlled, and on the rest."""
    if scenario.model.by_sites:
        yield "seeds: Python's, numpy's and torch's default generators are seeded around each call of a site"
        yield "not seeded: a site's own generators, making a site apart, os.urandom, hash order, threads, GPU"


def _on_clusters(scenario: Scenario, limits: feasibility.DerivedLimits) -> Iterator[str]:
    plan, sizes, again = scenario.secure_sum, limits.cluster_sizes, scenario.clustering.reclusterings
    shown = " and ".join(f"{sizes.count(size)} of {size}" for size in sorted(set(sizes), reverse=True))
    times = f", {again} reclusterings a round" if again > 1 else ""
    yield (
        f"clusters: {shown} {'member' if sizes == (1,) else 'members'}{times};"
        f" {text.count(plan.threshold, 'member')} {'opens' if plan.threshold == 1 else 'open'} a sum,"
        f" at least {plan.min_survivors} are in it"
    )
    if scenario.clustering.atoms > 1:
        yield from header_sums.on_atoms(scenario, limits.tolerated_dropouts)
    else:
        yield _on_dropouts(scenario, limits)
    yield from header_sums.on_groups(scenario)
    if works_of(scenario.clustering) > 1:
        yield (
            f"new work: parties train {again} times a round, all within deadlines.training, and no two sums"
            " hold the same update, so that none follows exactly from several of them; but a party's updates"
            " resemble each other (they are the same if a batch holds all of its samples), and what they have"
            " in common can be estimated from enough sums"
        )
    if limits.quorum is not None:
        spare = (limits.participants - limits.quorum) // max(
            atom_sizes(scenario.parties, scenario.clustering.atoms)
        )
        stands = text.count(spare, "dropout")
        yield f"certificate: {limits.quorum} signatures, so that a round stands {stands} in all"
    noise = privacy.noise_of(scenario)
    steps = f"({steps_of(scenario)} + {noise} of noise) steps" if noise else f"{steps_of(scenario)} steps"
    yield (
        f"ring: 2^{limits.ring_bits} ({limits.max_cluster_size} members at most x {steps}"
        f" < 2^{limits.ring_bits - 1})"
    )


def _on_times(scenario: Scenario) -> str:
    submit = scenario.submit_seconds
    if submit is None:
        return "times: an input leaves when its training has ended, which shows (deadlines.submit hides it)"
    return f"times: every input leaves {submit:g} s after the draw, however long its training took"


def _on_dropouts(scenario: Scenario, limits: feasibility.DerivedLimits) -> str:
    plan, sizes, again = scenario.secure_sum, limits.cluster_sizes, scenario.clustering.reclusterings
    fewest = min(limits.tolerated_dropouts)
    meeting = 1 - odds.all_within(
        sizes, fewest + 1, lambda size: size - plan.min_survivors, scenario.parties - limits.participants
    )
    lost = odds.once_in(meeting, again)
    return (
        f"dropouts: a cluster tolerates {_range(limits.tolerated_dropouts)};"
        f" {text.count(fewest + 1, 'random dropout')} {'costs' if fewest == 0 else 'cost'} a whole cluster"
        f" with probability {text.percent(lost)} a round"
        + (" and then its members in every reclustering, which may cascade" if again > 1 else "")
    )


def _on_privacy(scenario: Scenario, limits: feasibility.DerivedLimits) -> Iterator[str]:
    plan = scenario.secure_sum
    if min(limits.cluster_sizes) == 1:
        yield "NO SECURE SUM: the server sees every update"
    if scenario.clustering.fixed:
        yield "CLUSTERS ARE FIXED: whoever starts the run chooses them"
    yield from header_privacy.on_leakage(scenario)
    if plan.colluders:
        yield _on_collusion(scenario, limits)
    else:
        yield "collusion: none assumed (q = 0)"
    if scenario.encoding.clip != "none" and scenario.encoding.range < scenario.encoding.clip:
        yield (
            f"encoding: range {scenario.encoding.range:g} is below clip {scenario.encoding.clip:g},"
            " so that an honest coordinate may saturate"
        )


def _on_collusion(scenario: Scenario, limits: feasibility.DerivedLimits) -> str:
    plan, clustering = scenario.secure_sum, scenario.clustering
    who = f"collusion: {plan.colluders} of {scenario.parties} parties with the server"
    if tells_groups(scenario.groups):
        if limits.p_alone_in_run:
            return f"{who}; THEY CAN NAME THE GROUP OF A PARTY AND FILL ITS CLUSTER, and learn its update"
        return (
            f"{who}, and all of them may name the group of one party: every opened sum holds"
            f" {plan.min_survivors - plan.colluders} honest updates or more all the same"
        )
    held = odds.all_within(
        limits.cluster_sizes,
        plan.colluders,
        lambda _size: plan.colluders_per_cluster,
        scenario.parties - limits.participants,
    )
    at_once, in_run = text.percent(limits.p_alone_per_opening), text.percent(limits.p_alone_in_run)
    openings = f"{scenario.stop.rounds} x {clustering.reclusterings} openings"
    if clustering.atoms > 1:
        over = f"{at_once} per opening, and in its atom, which sums may determine, {in_run} for the whole run"
    elif clustering.fixed:
        over = f"{at_once} for the whole run, as long as nobody chose the clusters"
    elif plan.server == "curious":
        over = f"{at_once} per opening, {in_run} in {openings}"
    else:
        over = f"{at_once} per draw, {in_run} in the {MAX_DRAWS} draws each of {openings}"
    alone = f"a given party is alone among them with probability {over}"
    fewest = plan.threshold if plan.kind == "masking" else plan.min_survivors
    if plan.server == "active" and clustering.atoms == 1 and fewest < plan.min_survivors - 1:
        alone = (
            f"whoever has {fewest} of them or more as cluster mates is alone with them, who hold"
            f" shares enough to open its update, and the server chooses who is announced: {alone}"
        )
    elif plan.server == "active" and clustering.atoms == 1:
        alone = (
            f"whoever has {plan.min_survivors - 1} of them or more as cluster mates is alone with them once"
            f" the server loses the others' inputs, and it chooses who is announced: {alone}"
        )
    return (
        f"{who}; {alone}; every cluster has at most f = {plan.colluders_per_cluster} of them with probability"
        f" {text.percent(held)} per assignment"
    )


def _on_robustness(scenario: Scenario, limits: feasibility.DerivedLimits) -> Iterator[str]:
    plan = scenario.aggregation
    steps = [*plan.pre_aggregation, plan.rule]
    rule = ", then ".join(str(type(step).__struct_config__.tag) for step in steps)
    judged, grouped = (
        len(feasibility.judged_together(scenario, limits.cluster_sizes)),
        scenario.groups.count > 1,
    )
    if grouped:
        some = f"about {judged}" if hides_groups(scenario.groups) else f"{judged}"
        yield (
            f"rule: {rule} on each group's sums by themselves; the smallest group has {some}, of which it"
            f" withstands {limits.breakdown} with Byzantine members"
        )
    else:
        clusters = text.count(judged, "cluster")
        yield f"rule: {rule} on {clusters} withstands {limits.breakdown} with Byzantine members"
    if plan.byzantine and scenario.weighting.mode == "passthrough":
        yield (
            "weights: declared sample counts are believed, so that one liar can outweigh everybody;"
            ' weighting.mode = "truncate" or "ignore" bounds what a lie buys'
        )
    yield from _on_weights(scenario.weighting)
    if plan.byzantine:
        yield (
            f"claim: {plan.claim}, {plan.byzantine} Byzantine; a cluster of {max(limits.cluster_sizes)} is"
            f" clean with probability {text.percent(limits.p_clean)}, at most {limits.breakdown} of"
            f" {judged} are spoiled with probability {text.percent(limits.p_rule_holds)} per assignment"
            + (", if chance puts them into groups, and not they themselves" if grouped else "")
        )
    byzantine = [behaviour for behaviour in scenario.behaviours if attacks.is_byzantine(behaviour)]
    named = {name for behaviour in byzantine for name in behaviour.parties}
    shown = len(named) + sum(behaviour.count for behaviour in byzantine)
    if plan.claim != "none" and shown > plan.byzantine:
        yield f"claim: {shown} parties are Byzantine, more than the {plan.byzantine} reckoned with"


def _on_weights(weighting: Weighting) -> Iterator[str]:
    if weighting.alpha is not None:
        yield (
            f"weights: whatever is declared, {weighting.alpha:g} of the parties of a round weigh"
            f" {weighting.alpha_star:g} of all at most, before anybody drops out"
        )
    if weighting.use == "truncated":
        yield "weights: honest parties train on no more samples than they weigh for"


def _on_behaviours(scenario: Scenario) -> Iterator[str]:
    last = scenario.stop.rounds - 1
    for behaviour in scenario.behaviours:
        if behaviour.rounds and min(behaviour.rounds) > last:
            yield f"behaviours: {behaviour.kind} never acts, the last round is {last}"
        if attacks.is_of_server(behaviour) and scenario.secure_sum.server == "curious":
            yield f"behaviours: {behaviour.kind} by a server held to be curious: nothing need stop it"


def _range(values: tuple[int, ...]) -> str:
    low, high = min(values), max(values)
    return text.count(high, "dropout") if low == high else f"{low} or {text.count(high, 'dropout')}"


def _on_attacks(behaviours: Sequence[Behaviour], parties: int, rounds: int) -> Iterator[str]:
    """Yield what the header of a run says of attacks.

    Args:
        behaviours: of the scenario, checked.
        parties: of the scenario.
        rounds: of the scenario, at most.
    """
    for attack in behaviours:
        size = len(attack.parties) or attack.count
        facts = [f"{attack.kind} by {size} {'party' if size == 1 else 'parties'}"]
        if isinstance(attack, FalseCount):
            yield f"attack: {facts[0]}, {attack.samples:,} samples declared"
        if not isinstance(attack, Poisoning):
            continue
        if isinstance(attack, attacks.Alie) and attack.z is None:
            facts.append(f"z = {attacks.alie_z(parties, size):.3g}")
        if isinstance(attack, UpdateAttack) and attack.actors is not None:
            where = (
                "in the fewest clusters" if attack.placement == "concentrate" else "over the most clusters"
            )
            facts.append(f"{attack.actors} at a time, {where}")
        if attack.honest_until:
            facts.append(f"honest before round {attacks.first_round(attack, rounds)}")
        yield f"attack: {', '.join(facts)}"
        if attacks.is_omniscient(attack):
            yield f"OMNISCIENT: {attack.kind} knows what all honest parties trained, as no real attacker does"
