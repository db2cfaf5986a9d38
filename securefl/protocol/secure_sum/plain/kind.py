"""Plain sums behind the port, for simulations and tests only: the server reads every update.

A sum opens as a masked one does: whoever has submitted is in it, and ``threshold`` members have to release.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import ClassVar, Final

from securefl.base.arrays import Ring, expect
from securefl.base.crypto import Roster, digest
from securefl.base.entropy import Entropy
from securefl.base.errors import PeerError
from securefl.base.ids import SERVER, PartyId
from securefl.base.sums import exact_sum
from securefl.methods.encoding import ring_dtype
from securefl.protocol.messages import (
    InstanceSeed,
    KeyAdvert,
    KeyList,
    SumToMember,
)
from securefl.protocol.secure_sum.adverts import read_key_list
from securefl.protocol.secure_sum.collecting import (
    CollectingInputs,
    CollectingKeys,
    Lost,
    ServerPhase,
    listed,
)
from securefl.protocol.secure_sum.evidence import (
    FixedSum,
    OpenedSecrets,
    input_with_receipt,
    remove_noise,
    stated_input,
)
from securefl.protocol.secure_sum.port import (
    Closed,
    InputSent,
    MemberEnd,
    MemberPhase,
    MemberStep,
    Opening,
    SecureSum,
    ServerEnd,
    own,
)
from securefl.protocol.secure_sum.removal import components_from, noise_secret, secret_chain
from securefl.protocol.secure_sum.setup import Setup
from securefl.scenario import Scenario

NOTHING: Final = bytes(32)
"""What a member releases where there is no noise to take out."""


class PlainSums(SecureSum):
    """Sums whose parts anybody reads who sees them."""

    simulated_only: ClassVar[bool] = True

    @property
    def member(self) -> MemberEnd:
        """See :class:`securefl.protocol.secure_sum.port.SecureSum`."""
        return _Member()

    @property
    def server(self) -> ServerEnd:
        """See :class:`securefl.protocol.secure_sum.port.SecureSum`."""
        return _Server()


def sums_of(_scenario: Scenario, _length: int) -> PlainSums:
    """Return the kind; it needs to know nothing."""
    return PlainSums()


@dataclass(frozen=True, slots=True)
class Present:
    """Said that it takes part; waiting for the list of all who do."""

    setup: Setup
    me: int
    noise: bytes = field(repr=False)
    """The first secret of removable noise; empty where there is none."""


@dataclass(frozen=True, slots=True)
class Among:
    """Knows who takes part; waiting for the update, and then for the freeze."""

    setup: Setup
    me: int
    noise: bytes = field(repr=False)
    sharers: frozenset[int]
    lists_digest: bytes
    sent: bool = False
    input_digest: bytes = b""

    def added(self, survivors: Collection[PartyId]) -> tuple[int, ...]:
        """Members whose vectors the sum adds up: those that survive."""
        return tuple(i for i in sorted(self.sharers) if self.setup.members[i] in survivors)


class _Member(MemberEnd):
    def advertise(
        self, setup: Setup, me: PartyId, _weights: Mapping[PartyId, float], entropy: Entropy
    ) -> tuple[MemberPhase, KeyAdvert]:
        index, noise = setup.index(me), noise_secret(entropy) if setup.components else b""
        # Nobody agrees on anything by these keys: they only have to differ.
        mask, box = (digest("plain", name, *setup.instance, index) for name in ("mask key", "box key"))
        secrets = secret_chain(noise, setup.components)
        digests = tuple(setup.noise_digest(index, n, secret) for n, secret in enumerate(secrets))
        root = digest("no shares")
        advert = KeyAdvert(
            mask_key=mask, box_key=box, seed_digest=root, shares_root=root, noise_digests=digests
        )
        return Present(setup, index, noise), advert

    def receive(
        self, phase: MemberPhase, message: SumToMember, roster: Roster, _entropy: Entropy
    ) -> MemberStep:
        if not isinstance(message, KeyList) or not isinstance(phase, Present):
            raise PeerError(SERVER, f"sends {type(message).__name__} out of turn")
        adverts, key_list = read_key_list(phase.setup, message.adverts, roster)
        lists = phase.setup.lists_digest(key_list, frozenset(adverts))
        return MemberStep(Among(phase.setup, phase.me, phase.noise, frozenset(adverts), lists))

    def submit(self, phase: MemberPhase, encoded: Ring, _entropy: Entropy, without: int) -> MemberStep | None:
        if not isinstance(phase, Among) or phase.sent:
            return None
        setup = phase.setup
        expect(encoded, "encoded update", ring_dtype(setup.ring_bits), (setup.length,))
        words = encoded.copy()
        if setup.removable is not None:
            components = components_from(setup.removable, setup.instance, phase.me, phase.noise, 0)
            for component in islice(components, without, None):
                words += component
        said = input_with_receipt(setup, phase.me, words, phase.lists_digest)
        return MemberStep(replace(phase, sent=True, input_digest=stated_input(said[1])), said)

    def awaits_update(self, phase: MemberPhase) -> bool:
        return isinstance(phase, Among) and not phase.sent

    def sent(self, phase: MemberPhase) -> InputSent | None:
        return phase if isinstance(phase, Among) and phase.sent else None

    def release(self, phase: InputSent, survivors: Collection[PartyId]) -> Opening:
        setup, i = phase.setup, phase.setup.instance
        alive = exact_sum(setup.members[index] in survivors for index in phase.sharers)
        chain = secret_chain(own(phase, Among).noise, setup.components)
        secret = next((chain[number] for number in setup.superfluous(alive)), NOTHING)
        return InstanceSeed(reclustering=i.reclustering, cluster=i.cluster, attempt=i.attempt, seed=secret)


class _Server(ServerEnd):
    def close(self, phase: ServerPhase, _max_attempts: int) -> Closed:
        keys = own(phase, CollectingKeys)
        found = listed(keys)
        if isinstance(found, Lost):
            return Closed(found)
        adverts, key_list, message = found
        lists = keys.setup.lists_digest(key_list, frozenset(adverts))
        sharers = frozenset(adverts)
        inputs = CollectingInputs(keys.setup, adverts, key_list, lists, sharers, frames=keys.frames)
        said = tuple((keys.setup.members[i], message) for i in adverts)
        return Closed(inputs, "training", vectors=True, said=said)

    def check_release(
        self, phase: CollectingInputs, survivors: frozenset[PartyId], holder: PartyId, release: Opening
    ) -> None:
        setup, index = phase.setup, phase.setup.index(holder)
        if not isinstance(release, InstanceSeed):
            raise PeerError(holder, f"releases what sums of another kind open with, in {setup.describe()}")
        right = release.seed == NOTHING
        for number in setup.superfluous(len(phase.alive(survivors))):
            stated = phase.adverts[index].noise_digests[number]
            right = setup.noise_digest(index, number, release.seed) == stated
        if not right:
            raise PeerError(holder, f"released a wrong seed share in {setup.describe()}")

    def recovered(
        self, phase: CollectingInputs, survivors: frozenset[PartyId], releases: Mapping[PartyId, Opening]
    ) -> OpenedSecrets:
        setup = phase.setup
        alive = phase.alive(survivors)
        seeds = {name: item.seed for name, item in releases.items() if isinstance(item, InstanceSeed)}
        if setup.superfluous(len(alive)) and (late := [i for i in alive if setup.members[i] not in seeds]):
            raise PeerError(setup.members[late[0]], "has not released what takes its noise out")
        return OpenedSecrets({}, noise={setup.index(name): seed for name, seed in seeds.items()})

    def unmask(self, total: Ring, fixed: FixedSum, secrets: OpenedSecrets) -> None:
        remove_noise(total, fixed, secrets)
