"""Canaries: records, or whole updates, that a fair coin includes or omits, to test whether it shows.

A canary moves one coordinate of its party's update by the bound of its unit (a Dirac gradient). So noise
elsewhere does not matter, and no other unit is easier to find. It is sampled like any record, so that each
record's guarantee holds for it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from securefl.base.arrays import F64, I64
from securefl.base.entropy import Entropy
from securefl.base.errors import ConfigError, UsageError
from securefl.base.ids import PartyId
from securefl.methods import privacy
from securefl.protocol.round import UpdateId
from securefl.runtime.simulation.federation import SimulatedFederation
from securefl.scenario import Scenario
from securefl.training import dpsgd


@dataclass(frozen=True, slots=True, eq=False)
class Flock:
    """Canaries of one party, perhaps none."""

    place: slice
    """Indices of this party's canaries among all."""
    present: npt.NDArray[np.bool_]
    """Results of their coins, ``(c,)``, secret from the server."""

    def __repr__(self) -> str:
        return f"Flock({self.present.size} canaries)"


class Host:
    """Host that adds one party's canaries to its updates, and keeps the values without them.

    ``coordinates`` has the coordinate of each canary of any party, i64 ``(m,)``. ``scenario`` is settled,
    with privacy and ``mechanism``. ``entropy`` samples canaries.
    """

    def __init__(
        self,
        flock: Flock,
        coordinates: I64,
        scenario: Scenario,
        mechanism: privacy.Mechanism,
        entropy: Entropy,
    ) -> None:
        self.flock = flock
        self.without: dict[tuple[int, int], F64] = {}
        """By round and local training: values at all canaries' coordinates without canaries, f64 ``(m,)``. A
        distinguisher may know them: the guarantee holds even then.
        """
        self._coordinates = coordinates
        self._event = mechanism.event
        self._size = canary_size(scenario)
        self._entropy = entropy

    def plant(self, update: F64, occasion: UpdateId) -> F64:
        """Return the update with its present and sampled canaries; deterministic in the update's id.

        At party level a host sends only its canary, or zeros.
        """
        key = occasion.round, occasion.work
        flock, event = self.flock, self._event
        planted = update.copy()
        drawn = np.ones(flock.present.size, dtype=np.bool_)
        if event.unit == "record":
            rows = dpsgd.draw_batch("poisson", event.records, event.batch, self._entropy.child(*key))
            drawn = np.isin(np.arange(drawn.size), rows)
        elif drawn.size:
            planted[:] = 0
        self.without[key] = planted[self._coordinates]
        planted[self._coordinates[flock.place]] += self._size * (drawn & flock.present)
        return planted


def canary_size(scenario: Scenario) -> float:
    """Return the shift of a canary's coordinate, in the parameters' unit: the bound of one privacy unit.

    Raises:
        UsageError: a scenario without such a bound.
    """
    dp, clip = scenario.training.dp_sgd, scenario.encoding.clip
    if scenario.privacy.unit == "record" and dp is not None:
        return dp.norm / scenario.training.batch_size
    if scenario.privacy.unit == "party" and clip != "none":
        return clip
    raise UsageError(
        'cannot bound what one unit adds: set encoding.clip (unit "party") or training.dp_sgd (unit "record")'
    )


def plant(
    federation: SimulatedFederation, hosts: Collection[PartyId], count: int, entropy: Entropy
) -> tuple[SimulatedFederation, Planted]:
    """Return the federation, which has privacy, with canaries in the updates of ``hosts``; and the canaries.

    Hosts follow the protocol. There are about ``count`` canaries: at most one per coordinate and record of
    the hosts; at party level one per host. The ``entropy`` of coins, coordinates and sampling must be
    independent of the server's knowledge.

    Raises:
        ConfigError: no privacy, or another sampler than Poisson's: in a batch of fixed size an omitted canary
            makes room for another record.
        UsageError: no hosts, or unknown parties.
    """
    plan, mechanism = federation.plan, federation.plan.mechanism
    if mechanism is None:
        raise ConfigError(
            "privacy.unit", "is none: canaries test a privacy guarantee", "set it to record or party"
        )
    if mechanism.event.sampler not in {"poisson", "none"}:
        raise ConfigError(
            "training.dp_sgd.sampler",
            f"canaries need Poisson sampling, not {mechanism.event.sampler}",
            "set it to poisson",
        )
    names = sorted(hosts)
    if not names or not set(names) <= federation.parties.keys():
        raise UsageError(f"hosts of canaries must be 1 or more parties of the federation, found {names}")
    each = 1 if mechanism.unit == "party" else min(mechanism.event.records, -(-count // len(names)))
    each = min(each, plan.length // len(names))
    if each < 1:
        raise UsageError(
            f"hosts must be at most {plan.length}, one per parameter of the model, found {len(names)}"
        )
    coordinates = _shuffle_coordinates(plan.length, entropy.child("coordinates"))[: each * len(names)]
    found: dict[PartyId, Host] = {}
    for name in federation.parties:
        own, mine = entropy.child("host", name), each if name in names else 0
        start = names.index(name) * each if mine else 0
        coins = np.unpackbits(np.frombuffer(own.child("coins").draw(-(-each // 8)), dtype=np.uint8))
        flock = Flock(slice(start, start + mine), coins[:mine].astype(np.bool_))
        found[name] = Host(flock, coordinates, plan.scenario, mechanism, own.child("sampling"))
    parties = {name: party.planting(found[name].plant) for name, party in federation.parties.items()}
    return replace(federation, parties=parties), Planted(coordinates, found, mechanism)


class Planted(NamedTuple):
    """All canaries of a federation."""

    coordinates: I64
    """Coordinate of each canary, i64 ``(m,)``, all different."""
    hosts: Mapping[PartyId, Host]
    """All parties, those without canaries included."""
    mechanism: privacy.Mechanism


def _shuffle_coordinates(length: int, entropy: Entropy) -> I64:
    """Return a uniform order of coordinates, except for ties of 64-bit words."""
    words = np.frombuffer(entropy.draw(8 * length), dtype="<u8")
    return np.argsort(words, kind="stable")
