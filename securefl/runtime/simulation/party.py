"""One party of a simulation."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice

from securefl import scenario
from securefl.base.arrays import F64, Ring
from securefl.base.entropy import Entropy
from securefl.base.errors import UsageError
from securefl.base.ids import PartyId
from securefl.methods import clustering
from securefl.protocol import secure_sum
from securefl.protocol.round import (
    EncodedUpdate,
    RunPlan,
    UpdateId,
    decode_own_upload,
    draw_seat,
    group_to_name,
    has_carry,
    instance_entropy,
    make_upload,
    nonce_entropy,
    party_entropy,
    slot_uploads,
    update_entropy,
)
from securefl.runtime import misbehaviour


class SimulatedParty:
    """Party that draws nonces and encodes updates as its process would.

    ``samples`` is the declared count. ``hidden`` replaces ``root``, the root of the run's randomness, for
    rounding and noise.
    """

    def __init__(
        self,
        name: PartyId,
        behaviour: misbehaviour.PartyBehaviour,
        samples: int,
        root: Entropy,
        hidden: Entropy | None = None,
    ) -> None:
        self.name = name
        self.samples = samples
        self._behaviour = behaviour
        self._own = party_entropy(root, name)
        self._hidden = party_entropy(hidden or root, name)
        self._last: EncodedUpdate | None = None
        self._beyond: dict[tuple[int, int], int] = {}

    def planting(self, plant: Callable[[F64, UpdateId], F64]) -> SimulatedParty:
        """Return the party with updates changed by ``plant`` before all else."""
        seams = self._behaviour.seams
        twin = copy.copy(self)
        twin._behaviour = replace(
            self._behaviour,
            seams=replace(seams, update=lambda update, at: seams.update(plant(update, at), at)),
        )
        return twin

    def nonce(self, round_: int, draw: int) -> bytes:
        """Return the nonce of a draw, 32 bytes."""
        return nonce_entropy(self._own, round_, draw).draw(32)

    def answer(self, plan: RunPlan, round_: int, preferred: int | None) -> int:
        """Return the task group that the party names; ``preferred`` is None if no loss was finite."""
        return group_to_name(plan, round_, preferred, self._own)

    def silence(self, round_: int) -> tuple[scenario.Phase, bool] | None:
        """Return the phase of a dropout in this round, with True for a kill; None without one."""
        for behaviour in self._behaviour.behaviours:
            if isinstance(behaviour, scenario.Drop | scenario.Kill) and behaviour.acts(round_):
                return behaviour.phase, isinstance(behaviour, scenario.Kill)
        return None

    def spoils_shares(self, round_: int) -> bool:
        """Return True if the party releases wrong shares in this round."""
        return any(isinstance(b, scenario.WrongShare) and b.acts(round_) for b in self._behaviour.behaviours)

    def encode(self, plan: RunPlan, occasion: UpdateId, update: F64, weight: float) -> EncodedUpdate:
        """Return the encoding that the party would mask and send for the trained ``update``, f64 (d,).

        Repeated calls with one ``update`` give the same bits if its entropy is seeded.

        Raises:
            UsageError: a bug, or an attack that cannot be encoded.
        """
        entropy = update_entropy(self._hidden, occasion.round, occasion.work)
        upload = make_upload(plan, occasion, update, weight, entropy, self._behaviour.seams)
        if has_carry(plan, "own"):
            self._last = upload
        self._beyond = {at: n for at, n in self._beyond.items() if at[0] == occasion.round}
        self._beyond[occasion.round, occasion.work] = upload.saturated
        return upload

    def beyond(self, round_: int) -> int:
        """Return the number of coordinates beyond the encoding's range in a round's updates."""
        return sum(many for (number, _), many in self._beyond.items() if number == round_)

    def uploads(
        self, plan: RunPlan, round_: int, upload: EncodedUpdate, group: int
    ) -> tuple[EncodedUpdate, ...]:
        """Return the uploads of an update: itself, or with hidden groups counts and slots."""
        if not clustering.hides_groups(plan.scenario.groups):
            return (upload,)
        return slot_uploads(plan, upload, draw_seat(update_entropy(self._hidden, round_), group))

    def kept_noise(self, setup: secure_sum.Setup, survivors: int) -> Iterator[Ring]:
        """Yield the components of its removable noise that a sum keeps, ring words (d,).

        ``setup`` is the sum's at its first attempt; ``survivors`` includes this party.
        """
        if setup.removable is None:
            return
        own = instance_entropy(self._own, setup.place)
        secret, index = secure_sum.noise_secret(own), setup.index(self.name)
        components = secure_sum.components_from(setup.removable, setup.instance, index, secret, 0)
        without = self._behaviour.seams.left_out_components(setup.certain, setup.place.round)
        yield from islice(components, without, setup.removable.dropouts(survivors))

    def momentum_start(self, plan: RunPlan, weight: float) -> F64:
        """Return the momentum's start after the last :meth:`encode` was opened, f64 (d,).

        Raises:
            UsageError: nothing was encoded, or the scenario has no such momentum.
        """
        if self._last is None:
            raise UsageError(
                f"cannot resume an upload of {self.name}: it has encoded none yet; encode an update first"
            )
        return decode_own_upload(plan, self._last, weight)
