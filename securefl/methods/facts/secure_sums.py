"""Header sentences on ``[secure_sum]``: server, colluders, CrypTen, validated sums, verified rounds."""

from collections.abc import Iterator

from securefl.base import header, text
from securefl.methods import clustering, feasibility, privacy
from securefl.methods.clustering import odds
from securefl.scenario import Scenario


def on_collusion(scenario: Scenario, limits: feasibility.DerivedLimits) -> Iterator[header.Sentence]:
    """Yield the sentences on the adversary of the sums, and its odds."""
    plan, f, submit = scenario.secure_sum, scenario.secure_sum.colluders_per_cluster, scenario.submit_seconds
    if min(limits.cluster_sizes) > 1:
        of = f"at most {plan.colluders} of {text.count(scenario.parties, 'party', 'parties')} collude"
        colluding = of if plan.colluders else "without colluding parties"
        yield header.server(f"{plan.server}, {colluding}", f"q = {plan.colluders}")
    when = "when its training ends, which shows (deadlines.submit hides it)"
    sent = when if submit is None else f"{submit:g} s after the draw"
    yield header.server(more=f"an input is sent {sent}")
    if not plan.colluders:
        return
    if clustering.tells_groups(scenario.groups):
        alone = "COLLUDERS CAN NAME A PARTY'S GROUP AND FILL ITS CLUSTER" if limits.p_alone_in_run else ""
        honest = max(plan.min_survivors - plan.colluders, 1)
        yield header.server(alone, f"q colluders may name one group; a sum holds {honest} honest updates")
        return
    where = f"{scenario.stop.rounds} x {scenario.clustering.reclusterings} openings"
    if scenario.clustering.atoms > 1:
        where = "its atom"
    elif plan.server == "active":
        fewest, last = plan.threshold, plan.min_survivors - 1
        how = "once the server loses the inputs of others"
        if plan.kind == "masking" and fewest < last:
            last, how = fewest, "who hold enough shares"
        mates = f"{last} colluders as cluster mates is alone with them, {how}"
        yield header.server(more=f"a party with {mates}; the server chooses who is announced")
        where = f"{clustering.MAX_DRAWS} draws each of {where}"
    if scenario.clustering.fixed:
        where = "the whole run, as long as nobody chose the clusters"
    at_once, in_run = text.percent(limits.p_alone_per_opening), text.percent(limits.p_alone_in_run)
    over = f"its party is alone among colluders with {at_once} at once, {in_run} in {where}"
    exposed = f"an update is exposed: chance {text.chance(limits.p_alone_in_run)}"
    yield header.server(exposed if limits.p_alone_in_run else "colluders expose no update", over)
    resting = scenario.parties - limits.participants
    held = text.percent(odds.all_within(limits.cluster_sizes, plan.colluders, lambda _size: f, resting))
    yield header.server(more=f"every cluster has at most f = {f} colluders with {held} per assignment")


def on_crypten(scenario: Scenario, _limits: feasibility.DerivedLimits) -> Iterator[header.Sentence]:
    """Yield the sentences on CrypTen's shares; none for other sums."""
    if scenario.secure_sum.kind == "crypten":
        lost = f"{scenario.secure_sum.max_attempts} attempts; a dropout after the freeze loses a cluster"
        yield header.run("CrypTen", lost)


def on_validation(scenario: Scenario, _limits: feasibility.DerivedLimits) -> Iterator[header.Sentence]:
    """Yield the sentences on validated sums: the odds of rejection, and the leakage."""
    wanted, test = scenario.secure_sum.validated, feasibility.norm_test_of(scenario)
    if wanted is None or test is None:
        return
    weight = "" if scenario.weighting.mode == "ignore" else " x weight"
    refused = f"{privacy.HONEST_SHARE:g} of it is refused with probability {wanted.failure:g} at most"
    passed = privacy.accepted_at(test, privacy.ATTACK_FACTOR)
    taken = f"{privacy.ATTACK_FACTOR:g} times it is accepted with {passed:.1g} at most"
    yield header.tolerance(f"norm limit {wanted.norm:g}{weight}", f"{refused}, {taken}")
    bits = clustering.participants_of(scenario) * scenario.clustering.reclusterings * scenario.stop.rounds
    learnt = f"the dealer with one evaluator learns {wanted.projections} projections of each update"
    framed = f"a deviating evaluator frames, admits, spoils, or reveals {bits:,} bits in the run at most"
    yield header.server(more=f"refusals are public; {learnt}; {framed}")


def on_verification(scenario: Scenario, limits: feasibility.DerivedLimits) -> Iterator[header.Sentence]:
    """Yield the sentences on verified rounds: verifiers, odds, and the remaining choices of a server."""
    plan, f = scenario.secure_sum, scenario.secure_sum.colluders_per_cluster
    if not plan.verified:
        if plan.server == "active":
            yield header.server(
                "ROUNDS ARE NOT VERIFIED", "the server can choose the model; set secure_sum.verify"
            )
        return
    members, needed = clustering.committee_size(scenario), clustering.attests_needed
    asked = feasibility.openers_asked(scenario, clustering.max_cluster_size(scenario))
    who = "all parties" if plan.verification == "all" else f"a committee of {members}"
    attest = f"{min(f + 1, asked)} of a cluster and {needed(scenario, members)} for the step must attest"
    yield header.server("rounds verified", f"{asked} members repeat an opening, {who} the step; {attest}")
    fails = clustering.committee_failure(scenario)
    how = f"with probability {text.percent(fails)} in the run" if fails else "never"
    yield header.server(more=f"colluders suffice to attest a model of the server's choice {how}")
    chosen = "whether a round counts (1 bit a round), and the last round"
    yield header.server(
        more=f"left to the server: {chosen}; more than f = {f} colluders choose their sum last"
    )
    if limits.breakdown < min(plan.colluders, limits.clusters):
        several = text.count(limits.breakdown + 1, "colluder")
        of = text.count(limits.clusters, "cluster")
        rule = f"{scenario.aggregation.rule.name} tolerates {limits.breakdown} of {of}"
        yield header.limits(
            f"SERVER AND {several.upper()} CAN CHOOSE THE MODEL", f"{rule}, q = {plan.colluders}"
        )
    million = feasibility.proofs_of(scenario, limits.ring_bits, 1_000_000)
    most = feasibility.most_parameters(scenario, limits.ring_bits)
    size = f"{million.openings / 1e6:,.0f} MB openings and {million.steps / 1e6:,.0f} MB steps a round"
    fit = f"models have at most {most:,} parameters"
    yield header.end(more=f"verifiers receive {size} for a million parameters; {fit}")
