"""Limits of ``[leakage]``: rejection of sums that parties would never release, or could not judge.

Numbers show what is certain, or typical; the ledger decides for a draw.
"""

import math

from securefl.base.errors import ConfigError
from securefl.methods import clustering
from securefl.methods.feasibility.atoms import leaks_all_at
from securefl.scenario import Scenario

MOST_SEARCHED = 3
"""``leakage.support.IN_A_ROUND``: size of combinations of parties up to which all are searched."""
SEARCH_BUDGET = 1_000_000
"""Beyond, the largest number of sets of one party fewer that is searched (``leakage.support.searchable``)."""
MOST_COLLUDERS = 2
"""``leakage.leverage.MOST_COLLUDERS``, in overlapping sums."""
LEVERAGE_BUDGET = 100_000_000
"""``leakage.leverage.BUDGET``."""


def all_exposed_at(scenario: Scenario) -> int | None:
    """Return R*: reclusterings that typically reveal every update; None if no number of them does."""
    if clustering.works_of(scenario.clustering) > 1 or scenario.clustering.atoms > 1:
        return None
    return leaks_all_at(scenario)


def check_leakage(scenario: Scenario) -> None:
    """Raise a ConfigError for limits that no round keeps, and reclusterings that would never be opened."""
    if scenario.leakage.mode == "report":
        return
    _check_single_sums(scenario)
    atoms, least = (
        scenario.clustering.atoms,
        clustering.leakage_colluders(scenario) + scenario.secure_sum.k_anonymity,
    )
    if 1 < atoms < least:
        raise ConfigError(
            "leakage.colluders",
            f"the sum of an atom of {atoms} can become known, and besides"
            f" {clustering.leakage_colluders(scenario)}"
            f" colluders k = {scenario.secure_sum.k_anonymity} honest members must remain in it",
            f"clustering.atoms of at least {least}",
        )
    again = scenario.clustering.reclusterings
    if again == 1 or clustering.works_of(scenario.clustering) > 1:
        return
    enough = all_exposed_at(scenario)
    if enough is not None and again >= enough:
        participants = clustering.participants_of(scenario)
        clusters = len(clustering.cluster_sizes(participants, scenario.clustering.size))
        raise ConfigError(
            "clustering.reclusterings",
            f"{enough} random reclusterings of {participants} parties into {clusters} clusters usually "
            f"reveal every update, so parties would not open all {again} sums",
            f'at most {enough - 1}, new_work = true, or leakage.mode = "report" for experiments',
        )
    _check_searchable(scenario)


def _check_single_sums(scenario: Scenario) -> None:
    colluders, sums, leakage = clustering.leakage_colluders(scenario), scenario.secure_sum, scenario.leakage
    if not sums.colluders_per_cluster <= colluders <= sums.colluders:
        raise ConfigError(
            "leakage.colluders",
            f"{colluders} colluders, but secure_sum.colluders_per_cluster is {sums.colluders_per_cluster} and"
            f" secure_sum.colluders is {sums.colluders}",
            "set a number between these two",
        )
    if sums.min_survivors < colluders + sums.k_anonymity:
        raise ConfigError(
            "secure_sum.min_survivors",
            f"is {sums.min_survivors}, but k = {sums.k_anonymity} honest members must remain in each sum"
            f" besides {colluders} colluders (leakage.colluders; by default q if sums share an update)",
            f"set it to at least {colluders + sums.k_anonymity}, or a smaller leakage.colluders",
        )
    honest = sums.min_survivors - colluders
    if leakage.leverage * honest < 1:
        raise ConfigError(
            "leakage.leverage",
            f"is {leakage.leverage:g}, but one sum of {sums.min_survivors} parties with {colluders} colluders"
            f" already gives 1 / {honest}",
            f"set it to at least {1 / honest:.3g}, or more secure_sum.min_survivors",
        )


def _check_searchable(scenario: Scenario) -> None:
    colluders, parties = clustering.leakage_colluders(scenario), clustering.participants_of(scenario)
    size = colluders + scenario.secure_sum.k_anonymity - 1
    if (
        scenario.clustering.atoms == 1
        and size > MOST_SEARCHED
        and math.comb(parties, size - 1) > SEARCH_BUDGET
    ):
        raise ConfigError(
            "clustering.reclusterings",
            f"{parties} parties are too many to check that sums of one update reveal no sum of {size}",
            f"set it to 1, new_work = true, or leakage.colluders + secure_sum.k_anonymity to at most"
            f" {MOST_SEARCHED + 1}",
        )
    if scenario.leakage.leverage < 1 and colluders > MOST_COLLUDERS:
        raise ConfigError(
            "leakage.leverage",
            f"cannot be computed for {colluders} colluders and several reclusterings",
            f"set leakage.colluders to at most {MOST_COLLUDERS}, reclusterings = 1, or leave it out",
        )
    if scenario.leakage.leverage < 1 and math.comb(parties, colluders) * parties**2 > LEVERAGE_BUDGET:
        raise ConfigError(
            "leakage.leverage",
            f"takes too long to compute for {parties} parties and {colluders} colluders",
            "set a smaller leakage.colluders or participation, reclusterings = 1, or leave it out",
        )


def check_new_work(scenario: Scenario, samples: int) -> None:
    """Raise a ConfigError for new work that would repeat one update, in a run that must not expose any party.

    The works of a round differ in the order of samples only. In one batch of all samples, all sums hold one
    update, while the ledger counts a version for each. (Privacy noise is drawn and accounted for in each
    work.) ``samples`` is the number of samples of a party, the smallest if several are known.
    """
    if (
        clustering.works_of(scenario.clustering) == 1
        or scenario.leakage.mode == "report"
        or scenario.privacy.unit != "none"
    ):
        return
    batch = clustering.batch_size_of(scenario.training, samples)
    if batch >= samples:
        field = "batch_size" if scenario.training.batch_fraction is None else "batch_fraction"
        raise ConfigError(
            f"training.{field}",
            f"a batch of {batch} holds all {samples} samples of a party, so that its new work is the same"
            " update in each reclustering, and sums of several give it away",
            "smaller batches, clustering.new_work = false, privacy noise, or"
            ' leakage.mode = "report" for experiments',
        )
