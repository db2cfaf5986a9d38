"""Limits between the fields of a scenario (protocol.md, Parameters): rejection of infeasible ones."""

from typing import Literal

from securefl.base import text
from securefl.base.errors import ConfigError
from securefl.methods import attacks, privacy
from securefl.methods.clustering import (
    largest_cluster,
    max_cluster_size,
    participants_of,
    planned_sizes,
    steps_of,
)
from securefl.methods.feasibility import derived, secure_sum
from securefl.methods.feasibility.aggregation import check_aggregation, check_weighting
from securefl.methods.feasibility.atoms import check_atoms
from securefl.methods.feasibility.data import check_data
from securefl.methods.feasibility.dp_checks import check_checks
from securefl.methods.feasibility.leakage import check_leakage
from securefl.methods.feasibility.local_method import check_local_method
from securefl.methods.feasibility.metrics import check_metrics
from securefl.methods.feasibility.secure_sum import check_crypten
from securefl.methods.feasibility.sites import check_sites
from securefl.methods.feasibility.task_groups import check_groups
from securefl.methods.feasibility.validation import check_validation, check_verification
from securefl.scenario import Scenario

MAX_STEPS = 2**53 - 1
"""Largest magnitude of an encoded coordinate: float64 represents every integer up to it."""

MAX_CLUSTER = 1_024
"""Largest number of members of a cluster: the limit of lists in a message."""


def check(scenario: Scenario) -> derived.DerivedLimits:
    """Raise a ConfigError for a scenario whose numbers do not fit together; otherwise derive its limits."""
    _check_population(scenario)
    check_clustering(scenario)
    check_groups(scenario)
    _check_largest(scenario)
    sizes = planned_sizes(scenario)
    secure_sum.check_secure_sum(scenario, sizes)
    check_crypten(scenario, min(sizes))
    check_validation(scenario, sizes)
    check_verification(scenario)
    check_leakage(scenario)
    ring_bits = _choose_ring(scenario, max_cluster_size(scenario))
    check_aggregation(scenario, len(sizes))
    check_weighting(scenario)
    _check_odds_and_ends(scenario)
    if scenario.model.by_sites:
        check_sites(scenario)
    else:
        check_data(scenario)
    attacks.check_behaviours(scenario)
    check_local_method(scenario)
    privacy.check_privacy(scenario)
    check_checks(scenario)
    check_metrics(scenario, ring_bits)
    check_deadlines(scenario)
    return derived.derive(scenario, sizes, ring_bits)


def check_deadlines(scenario: Scenario) -> None:
    """Raise a ConfigError if inputs would be submitted too late."""
    submit, training = scenario.deadlines.submit, scenario.deadlines.training
    if submit is not None and submit >= training:
        raise ConfigError(
            "deadlines.submit",
            f"parties send updates after {submit:g} s, and the server waits {training:g} s only",
            "lower it, or raise deadlines.training",
        )


def check_clustering(scenario: Scenario) -> None:
    """Raise a ConfigError for atoms and fixed clusters that contradict a field or protect no party."""
    check_atoms(scenario)
    clustering, drawn = scenario.clustering, scenario.participation
    if not clustering.fixed:
        return
    if scenario.leakage.mode == "veto":
        raise ConfigError(
            "clustering.fixed",
            "the operator of the server chooses fixed clusters, and can place a party among colluders",
            'leave it out, or set leakage.mode = "report" for experiments (printed in every header)',
        )
    if clustering.reclusterings > 1:
        raise ConfigError(
            "clustering.reclusterings",
            f"clusters are fixed, so {clustering.reclusterings} reclusterings would sum"
            " the same updates again",
            "set it to 1, or leave out clustering.fixed",
        )
    for name in ("count", "fraction"):
        if getattr(drawn, name) is not None:
            raise ConfigError(
                f"participation.{name}",
                "a draw of participants would break fixed clusters",
                "leave it out, or leave out clustering.fixed",
            )


def _check_population(scenario: Scenario) -> None:
    parties, participants, size = scenario.parties, participants_of(scenario), scenario.clustering.size
    drawn = scenario.participation
    if drawn.count is not None and drawn.fraction is not None:
        raise ConfigError("participation.fraction", "count is given too", "give one of them")
    if participants > parties:
        raise ConfigError(
            "participation.count",
            f"is {participants}, more than the {parties} parties",
            "raise parties",
        )
    if participants < size:
        raise ConfigError(
            "clustering.size",
            f"is {size}, but only {text.count(participants, 'party takes', 'parties take')} part",
            f"{secure_sum.remedy(scenario, 'clustering.size')}, or let more parties take part",
        )


def _check_largest(scenario: Scenario) -> None:
    largest = largest_cluster(scenario)
    if largest > MAX_CLUSTER:
        raise ConfigError(
            "clustering.size",
            f"clusters of {scenario.clustering.size} grow to {largest} members if some parties are absent, "
            f"more than {MAX_CLUSTER}",
            f"at most {(MAX_CLUSTER + 1) // 2}",
        )


def largest_sum(scenario: Scenario, members: int) -> int:
    """Return the largest coordinate of a sum of ``members`` members, noise included, in steps."""
    return members * (steps_of(scenario) + privacy.noise_of(scenario))


def _choose_ring(scenario: Scenario, members: int) -> Literal[32, 64]:
    """Return the narrowest ring in which no sum wraps: members x (steps + noise) < 2^(bits - 1)."""
    steps, wanted, noise = steps_of(scenario), scenario.encoding.ring_bits, privacy.noise_of(scenario)
    size = f"range {scenario.encoding.range:g} at scale_bits {scenario.encoding.scale_bits} is {steps} steps"
    if noise:
        size += f", with noise {steps + noise}"
    if not 1 <= steps <= MAX_STEPS - noise:
        raise ConfigError("encoding.range", f"{size}, outside 1 to 2^53 - 1", "change range or scale_bits")
    reached = largest_sum(scenario, members)
    if wanted != 64 and reached < 1 << 31 and scenario.secure_sum.validated is None:
        return 32
    if wanted == 32:
        raise ConfigError(
            "encoding.ring_bits",
            f"32 bits are too few: {size}, and the sum of {members} members reaches {reached}, above 2^31",
            "set it to 64 or auto, or a smaller range or scale_bits",
        )
    # MAX_CLUSTER * MAX_STEPS < 2^63: 64 bits always suffice.
    return 64


def _check_odds_and_ends(scenario: Scenario) -> None:
    stop, training = scenario.stop, scenario.training
    for field, given in (("batch_fraction", training.batch_fraction), ("steps", training.steps)):
        if given is not None and training.dp_sgd is not None:
            raise ConfigError(
                f"training.{field}",
                "DP-SGD takes one step per round",
                "leave it out, and set batch_size",
            )
    for index, claim in enumerate(scenario.expect):
        path = f"expect.{index}"
        if claim.metric == "epsilon" and scenario.privacy.unit == "none":
            raise ConfigError(
                f"{path}.metric",
                "there is no differential privacy, so no epsilon",
                "leave it out, or give [privacy]",
            )
        if claim.metric == "backdoor_success" and attacks.backdoor_of(scenario.behaviours) is None:
            raise ConfigError(f"{path}.metric", "no behaviour is a backdoor", "leave it out")
        if claim.at_least is None and claim.at_most is None:
            raise ConfigError(path, f"{claim.metric} has no bound", "set at_least, at_most or both")
        if claim.at_least is not None and claim.at_most is not None and claim.at_least > claim.at_most:
            raise ConfigError(
                f"{path}.at_least", f"{claim.at_least:g} is above at_most = {claim.at_most:g}", "swap them"
            )
        goal, target = claim.at_least, None if stop.metric else stop.target
        if claim.metric == "accuracy" and goal is not None and target is not None and goal > target:
            raise ConfigError(
                "stop.target",
                f"the run stops at {target:g}, before the expected accuracy of {goal:g}",
                f"set it to at least {goal:g}, or expect less",
            )
