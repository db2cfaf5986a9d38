"""Header lines on atoms, task groups, CrypTen and validated sums."""

from __future__ import annotations

from collections.abc import Iterator

from securefl.base import text
from securefl.methods import feasibility, privacy
from securefl.methods.clustering import (
    atom_sizes,
    atoms_per_cluster,
    group_sizes,
    hides_groups,
    odds,
    participants_of,
    planned_atoms,
)
from securefl.protocol.round import choices_due, told_epsilon
from securefl.scenario import Scenario, SecureSum

_RATES = (0.01, 0.05, 0.1)
"""Dropout rates that the header speaks of."""


def on_atoms(scenario: Scenario, tolerated: tuple[int, ...]) -> Iterator[str]:
    """Yield lines of the header."""
    sums, again = scenario.secure_sum, scenario.clustering.reclusterings
    clusters, sizes = planned_atoms(scenario), atom_sizes(scenario.parties, scenario.clustering.atoms)
    shown = " and ".join(f"{sizes.count(size)} of {size}" for size in sorted(set(sizes), reverse=True))
    yield (
        f"atoms: {shown} parties for the whole run, at least"
        f" {atoms_per_cluster(scenario.clustering)} in a cluster, only opened"
        f" together; nothing below {min(sizes)} parties, {min(sizes) - sums.colluders_per_cluster}"
        f" honest ones beside f = {sums.colluders_per_cluster}, is ever determined"
    )
    if sums.colluders:
        yield (
            f"atoms: none has more than f = {sums.colluders_per_cluster} of {sums.colluders} colluders with"
            f" probability {text.percent(feasibility.p_atoms_held(scenario))}, drawn once for the run"
        )
    if scenario.aggregation.byzantine:
        dirty = odds.tail(scenario.parties - 1, scenario.aggregation.byzantine, max(sizes) - 1, 1)
        yield (
            "atoms: a party has a Byzantine atom mate, and so no clean cluster in the whole run, with"
            f" probability {text.percent(dirty)}"
        )
    fewest = min(tolerated)
    kept = odds.clusters_kept(clusters, fewest + 1, sums.min_survivors, scenario.parties)
    yield (
        f"dropouts: each takes its atom along, in all reclusterings; a cluster tolerates"
        f" {text.count(fewest, 'dropout')}; {text.count(fewest + 1, 'random dropout')}"
        f" {'costs' if fewest == 0 else 'cost'} a whole cluster with probability"
        f" {text.percent(odds.once_in(1 - kept, again))} a round"
        + (" and then its atoms in every reclustering, which may cascade" if again > 1 else "")
    )
    distinct = set(clusters)

    def lost(rate: float) -> float:
        return 1 - min(odds.cluster_kept_at(atoms, rate, sums.min_survivors) for atoms in distinct)

    rates = "; ".join(
        f"{100 * rate:g} %: {text.percent(1 - (1 - rate) ** max(sizes))} and {text.percent(lost(rate))}"
        for rate in _RATES
    )
    yield f"dropouts: by dropout rate, a given atom and a given cluster are lost in a round at {rates}"


def _on_choices(scenario: Scenario) -> str:
    groups, told = scenario.groups, told_epsilon(scenario)
    if groups.choice_epsilon is None or told is None:
        return (
            "groups: EACH CHOICE TELLS WHICH MODEL FITS A PARTY'S DATA BEST, and nothing bounds what a server"
            " that made models to ask with would learn (groups.choice_epsilon)"
        )
    times = choices_due(groups, scenario.stop.rounds - 1)
    true = privacy.truth_probability(groups.choice_epsilon, groups.count)
    return (
        f"groups: named by randomised response, epsilon {groups.choice_epsilon:g} each, the"
        " true one of"
        f" {groups.count} with {true:.0%}; {text.count(times, 'time')} in the run, kept between:"
        f" epsilon {told:g}"
        " in all, pure, of all data of a party"
    )


def on_groups(scenario: Scenario) -> Iterator[str]:
    """Yield lines of the header."""
    groups, sums = scenario.groups, scenario.secure_sum
    if groups.count == 1:
        return
    if groups.warmup:
        last = groups.warmup + (groups.count - 2) * groups.pace
        every = "round" if groups.pace == 1 else f"{groups.pace} rounds"
        again = f", and one of them again every {every}, until in round {last} there are {groups.count}"
        late = f": LATER THAN THE RUN'S {scenario.stop.rounds} ROUNDS"
        yield (
            f"groups: all learn one model for {text.count(groups.warmup, 'round')}; then it is parted"
            + (again if groups.count > 2 else " in two")
            + ("" if last < scenario.stop.rounds else late)
        )
    if not hides_groups(scenario.groups):
        yield (
            f"groups: {groups.count}, told to everybody in each round; clusters lie inside groups, and one"
            f" of fewer than {scenario.clustering.size} waits"
        )
        yield _on_choices(scenario)
        return
    least = sums.colluders_per_cluster + sums.k_anonymity
    yield (
        f"groups: {groups.count}, hidden; each cluster opens how many of its members are in which group, and"
        f" then the sums of groups with {least} or more of them; the others' updates are lost"
    )
    sizes = group_sizes(scenario)
    spoken = f"{', '.join(map(str, sizes[:-1]))} and {sizes[-1]} parties"
    yield (
        "groups: clusters stay for the whole run, as their counts would else give groups away; whose group"
        f" has fewer than {least} in its cluster is not learned from: in clusters of"
        f" {scenario.clustering.size} that is {feasibility.unheard(scenario):.0%} of all updates on"
        " average, for groups"
        f" of {spoken if len(sizes) <= 8 else f'about {sizes[-1]} parties'}"
    )


def on_crypten(secure_sum: SecureSum) -> Iterator[str]:
    """Header lines on how the sums are computed; none for masking."""
    sums = secure_sum
    if sums.kind != "crypten":
        return
    yield (
        "sums: CrypTen's arithmetic shares; all members on a key list open its sum. One missing before the"
        f" freeze means another attempt without it ({sums.max_attempts} in all), one silent after it a lost"
        " cluster"
    )


def on_validation(scenario: Scenario) -> Iterator[str]:
    """Header lines on validation: what is refused at which odds, and who would learn what."""
    wanted, test = scenario.secure_sum.validated, feasibility.norm_test_of(scenario)
    if wanted is None or test is None:
        return
    times = "" if scenario.weighting.mode == "ignore" else " times the weight of its party"
    passed = privacy.accepted_at(test, privacy.ATTACK_FACTOR)
    yield (
        f"validated sums: norm {wanted.norm:g}{times}; an update of up to {privacy.HONEST_SHARE:g} of"
        " that norm is"
        f" refused with probability {wanted.failure:g} or less, one of {privacy.ATTACK_FACTOR:g} times"
        " that norm or"
        f" more is accepted with probability {passed:.1g} or less"
    )
    yield (
        f"  told to all: who was refused. The dealer and one evaluator together would learn"
        f" {wanted.projections} projections of each update"
    )
    bits = participants_of(scenario) * scenario.clustering.reclusterings * scenario.stop.rounds
    yield (
        "  not stopped: an evaluator that deviates can frame, admit a friend, or spoil the sum; and make who"
        f" is refused tell one bit of its choice about each update, {bits:,} in the run at most, to its"
        " cluster and the server"
    )
