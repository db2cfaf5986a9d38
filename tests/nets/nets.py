"""The nets by name: each returns the lines of one seeded run, or of its refusal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

from securefl.base.errors import SecureflError
from securefl.base.ids import SERVER
from securefl.scenario import statistics_round
from tests.nets.accounts import ACCOUNTS
from tests.nets.features import FEATURES, KILLS, KILLS_IN, PLACES, Feature, learn, measured, parity, samples
from tests.nets.sites import SITES
from tests.simulation.world import Op, scenario

Lines = list[str]
KILLED = (
    "base",
    "checks on fixed clusters",
    "trust",
    "release budget",
    "metric stops",
    "momentum",
    "excluded party",
    "carried momentum",
)
"""Features whose state a server has to take up again."""
NAMES_OF_ACTIVE = {"Freeze": "BindingFreeze", "Announce": "ChainedAnnounce"}


def run(feature: Feature, place: str, *ops: Op) -> Lines:
    """Return the trace of a feature in a federation; one line where the scenario is refused."""
    parties, settings = PLACES[place]
    around = nullcontext() if feature.around is None else feature.around()
    options = {
        "train": learn,
        "samples": samples,
        "choose": parity,
        **feature.options,
        "ops": [*feature.options.get("ops", ()), *ops],
    }
    try:
        made = scenario(
            feature.parties.get(place, parties),
            **{
                "rounds": str(feature.rounds),
                **settings,
                **feature.settings,
                **feature.more.get(place, {}),
            },
        )
        if made.statistics.features:
            made = statistics_round(made)
        world = feature.kind(made, length=feature.length, **options)
    except SecureflError as error:
        return [f"scenario Refused {error}"]
    world.measured = measured
    feature.prepare(world)
    with around:
        return world.trace()


def killed(name: str, place: str, who: str, kind: str, nth: int) -> Lines:
    """Return the trace of a feature's run whose server is killed once."""
    feature = FEATURES[name]
    named = NAMES_OF_ACTIVE.get(kind, kind) if place == "verified" and who == SERVER else kind
    return run(replace(feature, rounds=max(feature.rounds, 3)), place, Op("restart", who, named, nth))


def _all() -> Iterator[tuple[str, Callable[[], Lines]]]:
    for name, feature in FEATURES.items():
        for place in feature.places:
            yield f"{name}, {place}", partial(run, feature, place)
    for name in KILLED:
        for place in FEATURES[name].places:
            kills = (*KILLS, *KILLS_IN[place]) if name == "base" else KILLS[-3:-1]
            for when, who, kind, nth in kills:
                yield f"{name}, {place}, killed: {when}", partial(killed, name, place, who, kind, nth)


NETS: Mapping[str, Callable[[], Lines]] = {**dict(_all()), **ACCOUNTS, **SITES}
"""All nets that are the same on every machine."""
