"""Header sentences on ``[clustering]``, ``[leakage]`` and ``[groups]``."""

from collections.abc import Iterator

from securefl.base import header, text
from securefl.methods import clustering, feasibility, privacy
from securefl.methods.clustering import odds
from securefl.scenario import Scenario


def on_clusters(scenario: Scenario, limits: feasibility.DerivedLimits) -> Iterator[header.Sentence]:
    """Yield the sentences on participants, clusters and dropouts."""
    sums, table, again = scenario.secure_sum, scenario.clustering, scenario.clustering.reclusterings
    some = "" if limits.participants == scenario.parties else f", {limits.participants} per round"
    shares = scenario.data.shares
    copies = (
        "" if shares in {None, scenario.parties} else f"they hold {shares} shares of data, and copies of them"
    )
    yield header.run(f"{scenario.parties} parties{some}", copies)
    what = "trainings" if clustering.works_of(table) > 1 else "reclusterings"
    times = f", {again} {what} per round" if again > 1 else ""
    opened = f"{text.count(sums.threshold, 'member')} open a sum of at least {sums.min_survivors}"
    yield header.run(f"{_layout(limits.cluster_sizes)}{times}", opened)
    steps = f"{clustering.steps_of(scenario)} + {privacy.noise_of(scenario)} of noise"
    ring = f"{limits.max_cluster_size} members x ({steps}) steps < 2^{limits.ring_bits - 1}"
    yield header.run(more=f"ring 2^{limits.ring_bits}: {ring}")
    if scenario.model.by_sites:
        seeded = "Python's, numpy's and torch's are seeded around each call of a site; not seeded: its own"
        others = "generators, making a site apart, os.urandom, hash order, threads, GPU"
        yield header.seed("also sites' generators", f"{seeded} {others}")
    yield from _on_atoms(scenario) if table.atoms > 1 else ()
    yield _on_dropouts(scenario, limits)
    if scenario.encoding.clip != "none" and scenario.encoding.range < scenario.encoding.clip:
        bounds = f"{scenario.encoding.range:g} is below clip {scenario.encoding.clip:g}"
        yield header.tolerance(
            "ENCODING RANGE BELOW CLIP", f"{bounds}; coordinates of honest updates may be cut off"
        )


def _on_dropouts(scenario: Scenario, limits: feasibility.DerivedLimits) -> header.Sentence:
    table, least, fewest = (
        scenario.clustering,
        scenario.secure_sum.min_survivors,
        min(limits.tolerated_dropouts),
    )
    resting, again = scenario.parties - limits.participants, table.reclusterings
    kept = odds.all_within(limits.cluster_sizes, fewest + 1, lambda size: size - least, resting)
    if table.atoms > 1:
        kept = odds.clusters_kept(clustering.planned_atoms(scenario), fewest + 1, least, scenario.parties)
    lost = text.percent(odds.once_in(1 - kept, again))
    several = f"{text.count(fewest + 1, 'random dropout')} cost"
    more = f"{several}{'' if fewest else 's'} a whole cluster with probability {lost} a round"
    if again > 1:
        more += " and then others of its members, which may cascade"
    short = " or ".join(map(str, sorted(set(limits.tolerated_dropouts))))
    short += f" dropout{'' if short == '1' else 's'} per cluster"
    if limits.quorum is not None:
        largest = max(clustering.atom_sizes(scenario.parties, table.atoms))
        short += f" ({(limits.participants - limits.quorum) // largest} in total)"
        more += f"; a certificate needs {limits.quorum} signatures"
    return header.tolerance(short, more)


def _on_atoms(scenario: Scenario) -> Iterator[header.Sentence]:
    sums, sizes = scenario.secure_sum, clustering.atom_sizes(scenario.parties, scenario.clustering.atoms)
    f, byzantine = sums.colluders_per_cluster, scenario.aggregation.byzantine
    honest = f"{min(sizes) - f} honest beside f = {f}; a dropout loses its atom"
    yield header.server(
        f"each sum has at least {min(sizes)} parties (atoms)",
        f"{_show_sizes(sizes)} for the whole run, {honest}",
    )
    if sums.colluders:
        held = text.percent(feasibility.p_atoms_held(scenario))
        yield header.server(more=f"no atom has more than f = {f} colluders with probability {held}")
    if byzantine:
        mates = text.percent(odds.tail(scenario.parties - 1, byzantine, max(sizes) - 1, 1))
        yield header.tolerance(more=f"a party has a Byzantine atom mate in the run with probability {mates}")


def on_leakage(scenario: Scenario, limits: feasibility.DerivedLimits) -> Iterator[header.Sentence]:
    """Yield the sentences on information that the sums of a round, or on one model, reveal together."""
    table, atoms = scenario.clustering, scenario.clustering.atoms > 1
    again, same_work = table.reclusterings, clustering.works_of(table) == 1
    if min(limits.cluster_sizes) == 1:
        yield header.server(
            "SERVER SEES EVERY UPDATE", "clusters of 1 have no secure sum; set clustering.size >= 2"
        )
    if table.fixed:
        yield header.server("CLUSTERS ARE FIXED", "the operator of the server chooses them")
    enough, all_at = feasibility.all_exposed_at(scenario), feasibility.leaks_all_at(scenario)
    if atoms and same_work and all_at is not None and again >= max(all_at, 2):
        determine = f"{all_at} random reclusterings as a rule determine the sum of each atom"
        yield header.server(more=f"{determine}; this run makes {again}")
    if again > 1 and enough is not None and again >= enough:
        determine = f"{enough} random reclusterings as a rule determine every update"
        yield header.server("SUMS EXPOSE UPDATES", f"{determine}; this run makes {again}")
    if scenario.leakage.mode == "report":
        yield header.server("LEAKAGE IS ONLY REPORTED", "parties open sums that exceed the leakage limits")
        return
    least = clustering.leakage_colluders(scenario) + scenario.secure_sum.k_anonymity
    if again > 1 and same_work and not atoms:
        of = f"of fewer than {least} parties (k = {scenario.secure_sum.k_anonymity})"
        yield header.server(more=f"reclusterings stay closed that would determine a sum {of}")
    if scenario.secure_sum.server == "active" and not (
        table.fixed or atoms or scenario.privacy.unit != "none"
    ):
        rounds = 0 if all_at is None else -(-all_at // again)
        if 0 < rounds <= scenario.stop.rounds:
            how = f"{text.count(rounds, 'round')} on one model determine updates that stay the same; accounts"
            evaded = "refuse shares for them, a change of one bit evades that (use atoms, noise)"
            yield header.server("REPEATED MODEL EXPOSES", f"{how} {evaded}")


def _layout(sizes: tuple[int, ...]) -> str:
    """Return the number of clusters with their sizes."""
    if len(set(sizes)) == 1:
        return f"{text.count(len(sizes), 'cluster')} of {sizes[0]}"
    return f"{len(sizes)} clusters ({_show_sizes(sizes)})"


def _show_sizes(sizes: tuple[int, ...]) -> str:
    return ", ".join(f"{sizes.count(size)} of {size}" for size in sorted(set(sizes), reverse=True))


def on_groups(scenario: Scenario, _limits: feasibility.DerivedLimits) -> Iterator[header.Sentence]:
    """Yield the sentences on task groups; none with one model."""
    groups, sums, size = scenario.groups, scenario.secure_sum, scenario.clustering.size
    if groups.count == 1:
        return
    if groups.warmup:
        last = groups.warmup + (groups.count - 2) * groups.pace
        late = "" if last < scenario.stop.rounds else "GROUPS COMPLETE AFTER THE RUN"
        splits = (
            f"then a split every {text.count(groups.pace, 'round')}, until round {last} has {groups.count}"
        )
        yield header.end(late, f"one model for {text.count(groups.warmup, 'round')}, {splits} groups")
    if not clustering.hides_groups(groups):
        waits = f"public in each round; clusters lie inside groups, and one of fewer than {size} waits"
        yield header.run(f"{groups.count} open groups", waits)
        return
    least, unheard = sums.colluders_per_cluster + sums.k_anonymity, feasibility.unheard(scenario)
    opened = f"counts by group, then sums of groups with {least} or more members"
    sizes = ", ".join(map(str, clustering.group_sizes(scenario)[:8]))
    lost = f"updates are lost, {unheard:.0%} on average, for groups of {sizes} parties"
    short = f"{groups.count} hidden groups (lose {100 * unheard:.0f} %)"
    yield header.run(short, f"a cluster, the same in all rounds, opens {opened}; other {lost}")
