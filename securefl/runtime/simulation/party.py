"""One party of a simulation: its data, its misbehaviour and its randomness are those of a run."""

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
    """Draws nonces and encodes updates as the process of this party would.

    Args:
        name: of the party.
        behaviour: how it deviates.
        samples: declared sample count.
        root: the root of the run's randomness.
        hidden: instead of ``root`` for rounding and noise.
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
        """Declared sample count."""
        self._behaviour = behaviour
        self._own = party_entropy(root, name)
        self._hidden = party_entropy(hidden or root, name)
        self._last: EncodedUpdate | None = None
        self._beyond: dict[tuple[int, int], int] = {}

    def planting(self, plant: Callable[[F64, UpdateId], F64]) -> SimulatedParty:
        """The same party, whose updates ``plant`` changes before anything else does (audits by canaries)."""
        seams = self._behaviour.seams
        twin = copy.copy(self)
        twin._behaviour = replace(
            self._behaviour,
            seams=replace(seams, update=lambda update, at: seams.update(plant(update, at), at)),
        )
        return twin

    def nonce(self, round_: int, draw: int) -> bytes:
        """The nonce of a draw, 32 bytes."""
        return nonce_entropy(self._own, round_, draw).draw(32)

    def answer(self, plan: RunPlan, round_: int, preferred: int | None) -> int:
        """The task group that it names, having chosen; None for no model of finite loss."""
        return group_to_name(plan, round_, preferred, self._own)

    def silence(self, round_: int) -> tuple[scenario.Phase, bool] | None:
        """The moment when it is to fall silent in this round, and whether for good; None when it is not."""
        for behaviour in self._behaviour.behaviours:
            if isinstance(behaviour, scenario.Drop | scenario.Kill) and behaviour.acts(round_):
                return behaviour.phase, isinstance(behaviour, scenario.Kill)
        return None

    def spoils_shares(self, round_: int) -> bool:
        """Whether it releases wrong shares in this round."""
        return any(isinstance(b, scenario.WrongShare) and b.acts(round_) for b in self._behaviour.behaviours)

    def encode(self, plan: RunPlan, occasion: UpdateId, update: F64, weight: float) -> EncodedUpdate:
        """The encoding that it would mask and send once training has ended in ``update``, f64 (d,).

        It may be asked again for the same occasion, and gives the same bits for the same ``update`` where its
        entropy is seeded.

        Raises:
            UsageError: a bug, or an attack beyond what can be encoded.
        """
        entropy = update_entropy(self._hidden, occasion.round, occasion.work)
        upload = make_upload(plan, occasion, update, weight, entropy, self._behaviour.seams)
        if has_carry(plan, "own"):
            self._last = upload
        self._beyond = {at: n for at, n in self._beyond.items() if at[0] == occasion.round}
        self._beyond[occasion.round, occasion.work] = upload.saturated
        return upload

    def beyond(self, round_: int) -> int:
        """Return the number of coordinates beyond the encoding's range in the updates of a round."""
        return sum(many for (number, _), many in self._beyond.items() if number == round_)

    def uploads(
        self, plan: RunPlan, round_: int, upload: EncodedUpdate, group: int
    ) -> tuple[EncodedUpdate, ...]:
        """The uploads of an update: itself, or with hidden groups counts and slots."""
        if not clustering.hides_groups(plan.scenario.groups):
            return (upload,)
        return slot_uploads(plan, upload, draw_seat(update_entropy(self._hidden, round_), group))

    def kept_noise(self, setup: secure_sum.Setup, survivors: int) -> Iterator[Ring]:
        """Yield the components of its removable noise that a sum of so many survivors keeps, ring words (d,).

        Args:
            setup: of the sum, at its first attempt.
            survivors: how many, itself included.
        """
        if setup.removable is None:
            return
        own = instance_entropy(self._own, setup.place)
        secret, index = secure_sum.noise_secret(own), setup.index(self.name)
        components = secure_sum.components_from(setup.removable, setup.instance, index, secret, 0)
        without = self._behaviour.seams.without(setup.certain, setup.place.round)
        yield from islice(components, without, setup.removable.dropouts(survivors))

    def momentum_start(self, plan: RunPlan, weight: float) -> F64:
        """The momentum's start after the last :meth:`encode` was opened, f64 (d,).

        Raises:
            UsageError: it has encoded nothing, or a scenario does not ask for this.
        """
        if self._last is None:
            raise UsageError(
                f"cannot resume an upload of {self.name}: it has encoded none yet; encode an update first"
            )
        return decode_own_upload(plan, self._last, weight)
