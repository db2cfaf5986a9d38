"""Canaries: records, or whole updates, that a fair coin puts in or leaves out, to see whether it shows.

A canary moves one coordinate of its party's update by all that its unit may move (a Dirac gradient): nobody's
noise on other coordinates matters then, and no other unit could be easier to find. Where and how often it
does so is drawn as for any record, so that the guarantee that holds for every record holds for it.
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
    """The canaries of one party; none for a party that hosts none."""

    place: slice
    """Which of all canaries are this party's."""
    present: npt.NDArray[np.bool_]
    """What their coins said, ``(c,)``. The server must not know."""

    def __repr__(self) -> str:
        return f"Flock({self.present.size} canaries)"


class Host:
    """Puts the canaries of one party into its updates, and remembers what these were without.

    Args:
        flock: of this party.
        coordinates: which one each canary of any party moves, i64 ``(m,)``.
        scenario: settled, with privacy.
        mechanism: of ``scenario``.
        entropy: of the sampling of canaries.
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
        """By round and local work: what the update was at all canaries' coordinates, f64 ``(m,)``, before
        canaries came in. Whoever looks for them may know it: the guarantee holds against those who do."""
        self._coordinates = coordinates
        self._event = mechanism.event
        self._size = canary_size(scenario)
        self._entropy = entropy

    def plant(self, update: F64, occasion: UpdateId) -> F64:
        """The update with whatever canaries are present and drawn; the same again for the same occasion.

        At party level the canary is all that a host sends: itself or zeros.
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
    """The shift of a canary's coordinate, parameters' own unit: the bound on what one unit adds.

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
    """The same federation, with canaries in the updates of ``hosts``.

    Args:
        federation: with privacy.
        hosts: parties that keep to the protocol.
        count: of canaries, as near as it can be had: no more than coordinates, or than the records that hosts
            have; at party level one for each.
        entropy: of coins, coordinates and sampling; independent of what the server knows.

    Returns:
        The federation, and its canaries.

    Raises:
        ConfigError: no privacy, or a sampler other than Poisson's: in a batch of fixed size a canary that is
            left out makes room for another record.
        UsageError: no hosts, or parties that are not there.
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
    """Which one each canary moves, i64 ``(m,)``, all different."""
    hosts: Mapping[PartyId, Host]
    """All parties, hosts of none included."""
    mechanism: privacy.Mechanism


def _shuffle_coordinates(length: int, entropy: Entropy) -> I64:
    """A uniform order of coordinates, but for ties of 64-bit words."""
    words = np.frombuffer(entropy.draw(8 * length), dtype="<u8")
    return np.argsort(words, kind="stable")
