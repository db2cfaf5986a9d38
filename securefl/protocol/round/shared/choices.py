"""Open choices of task groups: their rounds and answers (docs/adr/0041).

An open choice is a release: the server makes the models, and asks which fits best. With
``groups.choice_epsilon`` a party answers by randomised response in a few fixed rounds, whose epsilons add up,
and keeps the answer between them.
"""

from collections.abc import Iterator
from typing import NamedTuple

from securefl.base import entropy, header, text
from securefl.methods import privacy
from securefl.protocol.round.server.group_start import model_count
from securefl.protocol.round.shared.groups import random_group
from securefl.protocol.round.shared.plan import RunPlan
from securefl.protocol.round.shared.randomness import group_entropy
from securefl.scenario import Groups, Scenario, tells_groups


class LastChoice(NamedTuple):
    """Last answer of a party."""

    choices_made: int = 0
    """Those missed while away count and are not made up for."""
    group: int = 0


NO_CHOICE = LastChoice()


def choices_due(groups: Groups, round_: int) -> int:
    """Return the choices due up to a round, inclusive.

    One when a further model starts, and ``groups.choices`` once all models exist.
    """
    partings = groups.count - 2 if groups.warmup else 0
    since = round_ - groups.warmup - partings * groups.pace
    if since >= 0:
        return partings + min(since + 1, groups.choices)
    return 0 if round_ < groups.warmup else 1 + (round_ - groups.warmup) // groups.pace


def is_choosing(plan: RunPlan, round_: int, kept: LastChoice) -> bool:
    """Return True if a party chooses in a round, not repeats its last group."""
    if model_count(plan, round_) == 1:
        return False
    return plan.scenario.groups.choice_epsilon is None or kept.choices_made < choices_due(
        plan.scenario.groups, round_
    )


def group_to_name(plan: RunPlan, round_: int, preferred: int | None, own: entropy.Entropy) -> int:
    """Return the group that a party names: its best model's, random if none is finite."""
    there, epsilon = model_count(plan, round_), plan.scenario.groups.choice_epsilon
    if preferred is None:
        return random_group(own, round_, there)
    if epsilon is None:
        return preferred
    return privacy.randomised_response(
        preferred, there, epsilon, group_entropy(own, round_).child("response")
    )


def choices_epsilon(scenario: Scenario) -> float | None:
    """Return the pure epsilon of a party's group choices in a run; None: unbounded."""
    groups = scenario.groups
    if groups.choice_epsilon is None:
        return None
    return groups.choice_epsilon * choices_due(groups, scenario.stop.rounds - 1)


def choice_sentences(scenario: Scenario) -> Iterator[header.Sentence]:
    """Yield the sentence on the leakage of open choices; none if groups are hidden."""
    groups, epsilon = scenario.groups, choices_epsilon(scenario)
    if not tells_groups(groups):
        return
    if groups.choice_epsilon is None or epsilon is None:
        reveals = "each reveals which model fits a party's data best; groups.choice_epsilon bounds that"
        yield header.privacy("GROUP CHOICES ARE NOT PRIVATE", reveals)
        return
    true = privacy.truth_probability(groups.choice_epsilon, groups.count)
    times = text.count(choices_due(groups, scenario.stop.rounds - 1), "time")
    each = f"{times} in the run, epsilon {groups.choice_epsilon:g} each, the true group with {true:.0%}"
    yield header.privacy(f"group choices: pure epsilon {epsilon:g}, of all data of a party", each)
