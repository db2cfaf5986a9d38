"""Privacy checks before a run."""

import math
from collections.abc import Callable

from securefl.base import crypto
from securefl.base.errors import ConfigError
from securefl.base.ids import SERVER, RunId
from securefl.methods import feasibility, privacy
from securefl.protocol.round import RunPlan, is_spent
from securefl.runtime.process.local_setup import LocalSetup
from securefl.scenario import Scenario
from securefl.training import data, models


def length_of(scenario: Scenario, shard: data.Shard, seed: int) -> int:
    """Return d, the number of trained parameters of the scenario's model on such data.

    Raises:
        ConfigError: the data fit no such model.
    """
    module = models.model_of(scenario, shard.input_shape, shard.classes, seed, tokens=shard.tokens)
    return models.dimension(module)


def declared_length(scenario: Scenario, seed: int) -> int:
    """Return d from the declared shape of the data; without it if sites train.

    Raises:
        ConfigError: the shape is not declared, or has no such model.
    """
    shape, classes = scenario.data.declared_shape, scenario.data.class_count
    if scenario.model.by_sites:
        shape, classes = (), 0
    if shape is None or classes is None:
        field = "data.shape" if shape is None else "data.classes"
        reason = "is missing: the model's size depends on it"
        raise ConfigError(field, reason, "declare it, or give the file of any party as --data")
    return models.dimension(models.model_of(scenario, shape, classes, seed))


def settle_setup(scenario: Scenario, stage: LocalSetup, run: RunId, seed: int, *, seeded: bool) -> RunPlan:
    """Return the plan of a local run with privacy settled by its shards.

    With ``seeded`` noise no epsilon holds.

    Raises:
        ConfigError: batch, delta, budget or noise do not fit; dp_accounting is missing.
    """
    if not seeded:
        privacy.need_dp_accounting()
    if scenario.model.by_sites:
        length = models.dimension(models.model_of(scenario, (), 0, seed))
    else:
        length = length_of(scenario, data.load_shard(stage.shards[SERVER]), seed)
    settled = privacy.settle(scenario, length, min(stage.samples.values(), default=None))
    plan = RunPlan(run, settled, feasibility.check(settled), crypto.read_roster(stage.roster_file), length)
    if not seeded:
        privacy.check_budget(settled, length)
    return plan


def check_own_privacy(plan: RunPlan, records: int, *, trusted: bool) -> None:
    """Check a party's privacy in a settled scenario, for its number of records.

    It is ``trusted`` if this machine's launcher settled it, or nothing is guaranteed anyway.

    Raises:
        ConfigError: ``records`` is below the scenario's assumption, or the releases exceed the budget;
            dp_accounting is missing.
    """
    reckoned = plan.scenario.privacy.records
    if plan.scenario.privacy.unit == "record" and reckoned is not None and records < reckoned:
        raise ConfigError(
            "privacy.records",
            f"this party has {records} records, fewer than {reckoned}: each would be used more often than "
            "the noise covers",
            f"settle the scenario with {records}, or do not join this run",
        )
    if not trusted:
        privacy.check_budget(plan.scenario, plan.length)


def own_releases(
    plan: RunPlan,
    budget: float | None,
    spent: float,
    accounted: Callable[[privacy.Unit], float] | None = None,
) -> int | None:
    """Return the number of releases that a party's budget allows in this run; None without one.

    Epsilons of runs are added (basic composition), for any noise. A ``budget`` replaces the scenario's.
    Earlier runs on these data outside the account ``spent`` epsilon; ``accounted`` returns that of the
    account's runs by unit.

    Raises:
        ConfigError: the scenario has no privacy or no budget, or less than one round's epsilon is left;
            dp_accounting is missing.
    """
    path = "--budget" if budget is not None else "--spent"
    mechanism, limit = plan.mechanism, plan.scenario.privacy.budget if budget is None else budget
    if mechanism is None:
        if budget is None and not spent:
            return None
        raise ConfigError(path, "cannot be enforced: the scenario has no [privacy]", "leave this run")
    if limit is None:
        if not spent:
            return None
        raise ConfigError(path, "the scenario has no privacy.budget to count against", "give --budget, too")
    earlier = 0.0 if accounted is None else accounted(mechanism.unit)
    if budget is None and not spent and not earlier:
        return None
    if earlier:
        path = "--account"
    if math.isinf(earlier):
        whole = "without noise" if mechanism.unit == "record" else "without noise that hides a whole party"
        reason = f"earlier runs released updates {whole}: no epsilon can hold any more"
        raise ConfigError(path, reason, "do not join this run, or join with other data and another key")
    left = limit - spent - earlier
    if not left > 0:
        remedy = "do not join this run" if budget is not None else "do not join, or give a larger --budget"
        raise ConfigError(path, f"epsilon {spent + earlier:.4g} of {limit:g} is spent", remedy)
    allowed = privacy.allowed_releases(mechanism, left, privacy.planned_releases(plan.scenario), path)
    if is_spent(plan, 0, allowed):
        reason = f"only epsilon {left:.4g} is left, less than one round spends"
        raise ConfigError(path, reason, "do not join this run")
    return allowed
