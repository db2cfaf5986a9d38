"""Limits between ``[privacy]`` and other tables: rejection of settings that would break the guarantee.

Checks that need the model's size or an accountant are in ``mechanism.py`` and ``settling.py``.
"""

from securefl.base.errors import ConfigError
from securefl.base.sums import exact_sum
from securefl.methods import clustering
from securefl.scenario import (
    MAX_COMPONENTS,
    Behaviour,
    DpSgd,
    NoClip,
    NoNoise,
    Privacy,
    Scenario,
    SparseEnergy,
    Training,
    UpdateAttack,
)

MAX_NOISE = 57_408
"""Largest draw of privacy noise, steps: 14 standard deviations of at most 4096, and 64."""


def noise_of(scenario: Scenario) -> int:
    """Return the most that privacy noise adds to a coordinate, steps; proofs that sums do not wrap use it."""
    return 0 if scenario.privacy.unit == "none" else MAX_NOISE * (1 + components_of(scenario))


def components_of(scenario: Scenario) -> int:
    """Return the number of dropouts for which a party adds removable noise (dropout-exact), else 0."""
    if scenario.privacy.unit == "none" or scenario.privacy.placement != "dropout-exact":
        return 0
    return planned_of(scenario) - scenario.secure_sum.min_survivors


def planned_of(scenario: Scenario) -> int:
    """Return the number of members of the largest planned cluster."""
    return max(clustering.planned_sizes(scenario))


def forgoes_privacy(behaviour: Behaviour) -> bool:
    """Return True if a party with this behaviour breaks the assumptions of its own guarantee."""
    return isinstance(behaviour, NoNoise | NoClip | SparseEnergy | UpdateAttack)


def check_privacy(scenario: Scenario) -> None:
    """Raise a ConfigError if privacy settings contradict each other or the rest of the scenario."""
    if scenario.training.dp_sgd is not None:
        _check_dp_sgd(scenario, scenario.training.dp_sgd)
    _check_clip(scenario)
    if scenario.privacy.unit == "none":
        for index, behaviour in enumerate(scenario.behaviours):
            if isinstance(behaviour, NoNoise | SparseEnergy):
                raise ConfigError(
                    f"behaviours.{index}.kind",
                    f"{behaviour.kind} needs privacy noise, and the scenario adds none",
                    "set privacy.unit",
                )
        return
    _check_amount(scenario)
    _check_placement(scenario)
    if scenario.privacy.unit == "record":
        _check_record(scenario)
    else:
        _check_party(scenario)


def _check_dp_sgd(scenario: Scenario, dp: DpSgd) -> None:
    plain, training = Training(), scenario.training
    # A server that trains for a rule (FLTrust) uses plain SGD, even if parties use DP-SGD.
    if scenario.aggregation.rule.server_data != "training":
        for field in ("epochs", "learning_rate", "momentum", "weight_decay"):
            if getattr(training, field) != getattr(plain, field):
                raise ConfigError(
                    f"training.{field}",
                    "DP-SGD takes one step per round, with the server's learning rate",
                    "leave it out; see server_optimiser and training.dp_sgd.momentum",
                )
    if dp.momentum and dp.carry == "off":
        raise ConfigError("training.dp_sgd.momentum", "has no effect without carry", 'set carry = "global"')
    if dp.carry != "off" and not dp.momentum:
        raise ConfigError(
            "training.dp_sgd.carry", "has no effect with momentum = 0", "set momentum, as in 0.1"
        )
    if dp.carry == "global" and not scenario.server_optimiser.scales_updates:
        raise ConfigError(
            "training.dp_sgd.carry",
            f"steps of server_optimiser.type = {scenario.server_optimiser.name} are not multiples of updates",
            'set server_optimiser.type = "sgd", or carry = "off"',
        )
    if dp.carry == "own" and scenario.clustering.size > 1:
        raise ConfigError(
            "training.dp_sgd.carry",
            "momentum from a party's own upload would need noise of its own: clusters hide uploads in sums",
            'set carry = "global", or clustering.size = 1',
        )


def _check_amount(scenario: Scenario) -> None:
    privacy = scenario.privacy
    if (privacy.epsilon is None) == (privacy.multiplier is None):
        raise ConfigError(
            "privacy.epsilon",
            "neither it nor multiplier is given" if privacy.epsilon is None else "multiplier is given too",
            "give exactly one of privacy.epsilon and privacy.multiplier",
        )
    if privacy.transfer is not None and not scenario.server_optimiser.scales_updates:
        raise ConfigError(
            "privacy.transfer",
            f"steps of server_optimiser.type = {scenario.server_optimiser.name} do not grow with updates",
            'leave it out, or set server_optimiser.type = "sgd"',
        )
    if privacy.releases is not None and privacy.budget is None:
        raise ConfigError("privacy.releases", "has no effect without privacy.budget", "leave it out")
    if privacy.releases == 0:
        raise ConfigError("privacy.releases", "is 0: parties could not take part", "set at least 1")


def _check_placement(scenario: Scenario) -> None:
    sums, again = scenario.secure_sum, scenario.clustering.reclusterings
    if scenario.privacy.placement == "local":
        return
    # The secure sum ensures h = min_survivors - f >= k >= 1.
    if again > 1 and clustering.works_of(scenario.clustering) == 1:
        raise ConfigError(
            "privacy.placement",
            f"{again} reclusterings would open the same update {again} times, each with a share of the noise",
            'set placement = "local", reclusterings = 1, or new_work = true',
        )
    tolerated = components_of(scenario)
    if tolerated > MAX_COMPONENTS:
        raise ConfigError(
            "secure_sum.min_survivors",
            f"{tolerated} tolerated dropouts are more than the {MAX_COMPONENTS} that this noise supports",
            f"set it to at least {sums.min_survivors + tolerated - MAX_COMPONENTS}, or"
            ' privacy.placement = "threshold"',
        )
    skippers = exact_sum(len(b.parties) or b.count for b in scenario.behaviours if isinstance(b, NoNoise))
    if skippers > sums.colluders:
        raise ConfigError(
            "secure_sum.colluders",
            f"is {sums.colluders}, fewer than the {skippers} of all parties that add no noise",
            f'set it to at least {skippers}, or privacy.placement = "local"',
        )


def _check_record(scenario: Scenario) -> None:
    if scenario.training.dp_sgd is None:
        raise ConfigError(
            "training.dp_sgd",
            "is missing: plain SGD does not bound the influence of a record",
            'add [training.dp_sgd], or set privacy.unit = "party"',
        )
    if scenario.weighting.mode != "ignore":
        raise ConfigError(
            "weighting.mode",
            f"{scenario.weighting.mode} lets the weight of an update depend on the number of records",
            'set mode = "ignore"',
        )
    records, batch = scenario.privacy.records, scenario.training.batch_size
    if records is not None and batch > records:
        raise ConfigError(
            "training.batch_size",
            f"is {batch}, more than privacy.records = {records}",
            f"set it to at most {records}",
        )


def _check_party(scenario: Scenario) -> None:
    privacy = scenario.privacy
    if scenario.encoding.clip == "none":
        raise ConfigError(
            "encoding.clip",
            "is none: the influence of a party on a sum is unbounded",
            "set a number, as in clip = 1.0",
        )
    if privacy.records is not None:
        raise ConfigError("privacy.records", "has no effect with privacy.unit = party", "leave it out")
    check_delta(scenario.privacy, scenario.parties)


def _check_clip(scenario: Scenario) -> None:
    clip = scenario.privacy.clip
    if clip is None:
        return
    if scenario.privacy.unit != "party":
        raise ConfigError(
            "privacy.clip", "clips whole updates, which needs party level", 'set privacy.unit = "party"'
        )
    if scenario.encoding.clip != 1.0:
        reason = f"is {scenario.encoding.clip}, but privacy.clip scales updates to a norm of 1"
        raise ConfigError("encoding.clip", reason, "leave it out, and give privacy.clip.initial")
    if not clip.minimum <= clip.initial <= clip.maximum:
        reason = f"{clip.initial:g} is outside minimum = {clip.minimum:g} and maximum = {clip.maximum:g}"
        raise ConfigError("privacy.clip.initial", reason, "set a value between them")
    if scenario.secure_sum.validated is not None:
        reason = "cannot be combined with privacy.clip"
        raise ConfigError("secure_sum.validate", reason, "leave one of them out")


def check_delta(privacy: Privacy, units: int) -> float:
    """Return the scenario's delta for ``units`` units (records of the smallest party, or parties).

    Raises:
        ConfigError: it is not below 1 / ``units``.
    """
    wanted = privacy.delta
    delta = float(units) ** -1.1 if wanted == "auto" else wanted
    if not delta < 1 / units:
        unit = privacy.unit
        raise ConfigError(
            "privacy.delta",
            f"is {delta:g}, but must be below 1 / {units} {'records' if unit == 'record' else 'parties'}: a"
            f" larger one would allow the release of a random {unit}",
            f"set it below {1 / units:.3g}" if units > 1 else f"use more than one {unit}",
        )
    return delta
