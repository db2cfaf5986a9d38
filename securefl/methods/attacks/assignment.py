"""Names of the parties, and assignment of behaviours to them."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from msgspec.structs import replace

from securefl.base import sums
from securefl.base.errors import ConfigError
from securefl.base.ids import SERVER, PartyId
from securefl.methods.attacks import needs
from securefl.scenario import (
    Behaviour,
    DataAttack,
    Drop,
    FalseCount,
    Kill,
    NoClip,
    Phase,
    Poisoning,
    Scenario,
    ServerBehaviour,
    UpdateAttack,
)

_DRAW_DOMAIN = b"securefl/1 behaviours\n"


@lru_cache(maxsize=32)
def party_names(parties: int) -> tuple[PartyId, ...]:
    """Return the names ``p00``, ``p01``, ...: with as many digits as the last one, at least 2."""
    width = max(2, len(str(parties - 1)))
    return tuple(PartyId(f"p{index:0{width}d}") for index in range(parties))


def behaviours_of(scenario: Scenario, seed: int) -> Mapping[PartyId, tuple[Behaviour, ...]]:
    """Return behaviours by actor, in the scenario's order; actors without any are absent.

    :func:`securefl.methods.feasibility.limits.check` must accept the scenario. The server's name is SERVER.
    Values that follow from the whole scenario are filled in: the coalition in ``parties``, ``rounds`` without
    those in which an adaptive attack is honest, ALIE's ``z``. Behaviours with a ``count`` go to parties
    without a named behaviour or an earlier count, in the order of SHA-256 over the public seed and the name.
    """
    named = {name for behaviour in scenario.behaviours for name in behaviour.parties}
    free = [party for party in party_names(scenario.parties) if party not in named]
    free.sort(key=lambda party: hashlib.sha256(_DRAW_DOMAIN + f"{seed} {party}".encode()).digest())
    behaviours_by_party: dict[PartyId, tuple[Behaviour, ...]] = {}
    for behaviour in (_without_honest_rounds(b, scenario.stop.rounds) for b in scenario.behaviours):
        if is_of_server(behaviour):
            actors = [SERVER]
        elif behaviour.parties:
            actors = [PartyId(name) for name in behaviour.parties]
        else:
            actors, free = free[: behaviour.count], free[behaviour.count :]
        shown = _written_out(behaviour, actors, scenario.parties)
        for actor in actors:
            behaviours_by_party[actor] = (*behaviours_by_party.get(actor, ()), shown)
    return behaviours_by_party


def _written_out(behaviour: Behaviour, actors: Sequence[PartyId], parties: int) -> Behaviour:
    if not isinstance(behaviour, UpdateAttack):
        return behaviour
    return replace(behaviour.settle(parties, len(actors)), parties=tuple(sorted(actors)), count=0)


def silence(behaviours: Sequence[Behaviour], round_: int) -> Phase | None:
    """Return the phase of a round at which an actor with these behaviours goes silent, or None."""
    for behaviour in behaviours:
        if isinstance(behaviour, Drop | Kill) and (not behaviour.rounds or round_ in behaviour.rounds):
            return behaviour.phase
    return None


def _without_honest_rounds(behaviour: Behaviour, rounds: int) -> Behaviour:
    """Return the behaviour with the rounds of an adaptive attack filled in."""
    if not isinstance(behaviour, Poisoning) or not behaviour.honest_until:
        return behaviour
    start = needs.first_round(behaviour, rounds)
    return replace(behaviour, rounds=tuple(r for r in behaviour.rounds or range(rounds) if r >= start))


def is_of_server(behaviour: Behaviour) -> bool:
    """Return True if the server is the actor, not a party."""
    return isinstance(behaviour, ServerBehaviour)


def is_byzantine(behaviour: Behaviour) -> bool:
    """Return True if the behaviour changes a party's contribution, which a rule must tolerate."""
    return isinstance(behaviour, Poisoning | FalseCount)


def check_behaviours(scenario: Scenario) -> None:
    """Reject behaviours that have no actor, contradict each other or have no effect.

    Raises:
        ConfigError: naming ``behaviours.<index>.<field>``.
    """
    names = set(party_names(scenario.parties))
    for index, behaviour in enumerate(scenario.behaviours):
        _check_actors(behaviour, f"behaviours.{index}", names, scenario.parties)
    named = {name for behaviour in scenario.behaviours for name in behaviour.parties}
    drawn = sums.exact_sum(behaviour.count for behaviour in scenario.behaviours)
    if len(named) + drawn > scenario.parties:
        raise ConfigError(
            "behaviours",
            f"{len(named)} named and {drawn} drawn parties misbehave: more than the {scenario.parties} "
            "parties",
            "lower a count, or raise parties",
        )
    for index, behaviour in enumerate(scenario.behaviours):
        _check_fields(behaviour, f"behaviours.{index}", scenario)
    for path in needs.differing_backdoors(scenario.behaviours):
        reason = "differs from the first backdoor: a run measures one success rate"
        raise ConfigError(path, reason, "give all backdoors the same target and size")
    for path, reason in _clashes(scenario):
        raise ConfigError(path, reason, "leave one out, or give them different rounds")


def _check_actors(behaviour: Behaviour, path: str, names: set[PartyId], parties: int) -> None:
    if isinstance(behaviour, ServerBehaviour):
        if behaviour.parties or behaviour.count:
            field = "parties" if behaviour.parties else "count"
            raise ConfigError(
                f"{path}.{field}",
                f"{behaviour.kind} is a fault of the server, not of parties",
                "leave it out",
            )
        behaviour.check(path, names)
        return
    if behaviour.parties and behaviour.count:
        raise ConfigError(f"{path}.count", "parties and count are both given", "give one of them")
    if not behaviour.parties and not behaviour.count:
        raise ConfigError(
            f"{path}.parties",
            f"{behaviour.kind} is assigned to no party",
            'give parties = ["p00"] or count = 1',
        )
    unknown = sorted(set(behaviour.parties) - names)
    if unknown:
        first, last = party_names(parties)[0], party_names(parties)[-1]
        raise ConfigError(f"{path}.parties", f"{unknown[0]} is not a party", f"parties are {first} to {last}")
    if len(set(behaviour.parties)) < len(behaviour.parties):
        raise ConfigError(f"{path}.parties", "names a party twice", "name each once")


def _check_fields(behaviour: Behaviour, path: str, scenario: Scenario) -> None:
    """Reject settings without effect."""
    if isinstance(behaviour, NoClip) and scenario.encoding.clip == "none":
        raise ConfigError(
            f"{path}.kind",
            'no-clip has no effect with encoding.clip = "none"',
            "set encoding.clip to a number",
        )
    if isinstance(behaviour, Poisoning) and behaviour.honest_until:
        start = needs.first_round(behaviour, scenario.stop.rounds)
        if max(behaviour.rounds or (scenario.stop.rounds - 1,)) < start:
            raise ConfigError(
                f"{path}.honest_until",
                f"{behaviour.kind} is honest until round {start}, after its last round",
                "lower it, or name later rounds",
            )
    if isinstance(behaviour, Poisoning):
        behaviour.check(path, scenario.parties)
    if isinstance(behaviour, FalseCount) and behaviour.rounds:
        raise ConfigError(f"{path}.rounds", "a false count holds for the whole run", "leave it out")


def _clashes(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Yield path and reason of behaviours that one actor cannot combine."""
    shown = [_without_honest_rounds(behaviour, scenario.stop.rounds) for behaviour in scenario.behaviours]
    for later, second in enumerate(shown):
        for first in shown[:later]:
            shared = set(first.parties) & set(second.parties)
            same_actor = bool(shared) or (is_of_server(first) and is_of_server(second))
            if not same_actor or _family(first) != _family(second) or not _meet(first, second):
                continue
            who = min(shared, default=SERVER)
            yield (
                f"behaviours.{later}.kind",
                f"{who} cannot have {first.kind} and {second.kind} in the same round",
            )


def _family(behaviour: Behaviour) -> str:
    """Return the family of a behaviour; an actor has at most one of a family in a round."""
    families = {"server": ServerBehaviour, "silence": Drop | Kill, "data": DataAttack, "update": UpdateAttack}
    return next((name for name, kinds in families.items() if isinstance(behaviour, kinds)), behaviour.kind)


def _meet(first: Behaviour, second: Behaviour) -> bool:
    """Return True if both may act in one round.

    Poisoned data of one kind are all of a party's data.
    """
    if (
        isinstance(first, DataAttack)
        and isinstance(second, DataAttack)
        and not needs.same_poison(first, second)
    ):
        return True
    return not first.rounds or not second.rounds or bool(set(first.rounds) & set(second.rounds))
