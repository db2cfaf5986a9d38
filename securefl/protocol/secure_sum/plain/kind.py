"""Plain sums, for simulations and tests only: the server reads every update. They open like masked sums."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import ClassVar, Final

from securefl import scenario
from securefl.base import crypto, sums
from securefl.base.arrays import Ring, expect
from securefl.base.entropy import Entropy
from securefl.base.errors import PeerError
from securefl.base.ids import SERVER, PartyId
from securefl.methods import encoding
from securefl.protocol import messages
from securefl.protocol.secure_sum import evidence, port, removal
from securefl.protocol.secure_sum.adverts import read_key_list
from securefl.protocol.secure_sum.collecting import (
    CollectingInputs,
    CollectingKeys,
    Lost,
    ServerPhase,
    end_key_step,
)
from securefl.protocol.secure_sum.setup import Setup

NOTHING: Final = bytes(32)


class PlainSums(port.SecureSum):
    """Unprotected sums: every observer can read their parts."""

    simulated_only: ClassVar[bool] = True

    @property
    def member(self) -> port.MemberEnd:
        return _Member()

    @property
    def server(self) -> port.ServerEnd:
        return _Server()


def sums_of(_scenario: scenario.Scenario, _length: int) -> PlainSums:
    """Return the kind."""
    return PlainSums()


@dataclass(frozen=True, slots=True)
class Present:
    """Phase that waits for the member list."""

    setup: Setup
    me: int
    noise: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Among:
    """Phase with the known members, before and after sending the update."""

    setup: Setup
    me: int
    noise: bytes = field(repr=False)
    sharers: frozenset[int]
    lists_digest: bytes
    sent: bool = False
    input_digest: bytes = b""

    def summed_members(self, survivors: Collection[PartyId]) -> tuple[int, ...]:
        """Return the surviving members, ascending."""
        return tuple(i for i in sorted(self.sharers) if self.setup.members[i] in survivors)


class _Member(port.MemberEnd):
    def advertise(
        self, setup: Setup, me: PartyId, _weights: Mapping[PartyId, float], entropy: Entropy
    ) -> tuple[port.MemberPhase, messages.KeyAdvert]:
        index, noise = setup.index(me), removal.noise_secret(entropy) if setup.components else b""
        # No keys are agreed: these only have to differ.
        mask, box = (crypto.digest("plain", name, *setup.instance, index) for name in ("mask key", "box key"))
        secrets = removal.secret_chain(noise, setup.components)
        digests = tuple(setup.noise_digest(index, n, secret) for n, secret in enumerate(secrets))
        root = crypto.digest("no shares")
        advert = messages.KeyAdvert(
            mask_key=mask, box_key=box, seed_digest=root, shares_root=root, noise_digests=digests
        )
        return Present(setup, index, noise), advert

    def receive(
        self, phase: port.MemberPhase, message: messages.SumToMember, roster: crypto.Roster, _entropy: Entropy
    ) -> port.MemberStep:
        if not isinstance(message, messages.KeyList) or not isinstance(phase, Present):
            raise PeerError(SERVER, f"sends {type(message).__name__} at the wrong time")
        adverts, key_list = read_key_list(phase.setup, message.adverts, roster)
        lists = phase.setup.lists_digest(key_list, frozenset(adverts))
        return port.MemberStep(Among(phase.setup, phase.me, phase.noise, frozenset(adverts), lists))

    def submit(
        self, phase: port.MemberPhase, encoded: Ring, _entropy: Entropy, without: int
    ) -> port.MemberStep | None:
        if not isinstance(phase, Among) or phase.sent:
            return None
        setup = phase.setup
        expect(encoded, "encoded update", encoding.ring_dtype(setup.ring_bits), (setup.length,))
        words = encoded.copy()
        if setup.removable is not None:
            components = removal.components_from(setup.removable, setup.instance, phase.me, phase.noise, 0)
            for component in islice(components, without, None):
                words += component
        messages_out = evidence.input_with_receipt(setup, phase.me, words, phase.lists_digest)
        return port.MemberStep(
            replace(phase, sent=True, input_digest=evidence.stated_input(messages_out[1])), messages_out
        )

    def awaits_update(self, phase: port.MemberPhase) -> bool:
        return isinstance(phase, Among) and not phase.sent

    def input_sent(self, phase: port.MemberPhase) -> port.InputSent | None:
        return phase if isinstance(phase, Among) and phase.sent else None

    def release(self, phase: port.InputSent, survivors: Collection[PartyId]) -> port.Opening:
        setup, i = phase.setup, phase.setup.instance
        alive = sums.exact_sum(setup.members[index] in survivors for index in phase.sharers)
        chain = removal.secret_chain(port.own(phase, Among).noise, setup.components)
        secret = next((chain[number] for number in setup.superfluous(alive)), NOTHING)
        return messages.InstanceSeed(
            reclustering=i.reclustering, cluster=i.cluster, attempt=i.attempt, seed=secret
        )


class _Server(port.ServerEnd):
    def close(self, phase: ServerPhase, _max_attempts: int) -> port.Closed:
        keys = port.own(phase, CollectingKeys)
        found = end_key_step(keys)
        if isinstance(found, Lost):
            return port.Closed(found)
        adverts, key_list, message = found
        lists = keys.setup.lists_digest(key_list, frozenset(adverts))
        sharers = frozenset(adverts)
        inputs = CollectingInputs(keys.setup, adverts, key_list, lists, sharers, frames=keys.frames)
        messages_out = tuple((keys.setup.members[i], message) for i in adverts)
        return port.Closed(inputs, "training", vectors=True, outgoing=messages_out)

    def check_release(
        self, phase: CollectingInputs, survivors: frozenset[PartyId], holder: PartyId, release: port.Opening
    ) -> None:
        setup, index = phase.setup, phase.setup.index(holder)
        if not isinstance(release, messages.InstanceSeed):
            raise PeerError(holder, f"releases shares of another kind of sum in {setup.describe()}")
        right = release.seed == NOTHING
        for number in setup.superfluous(len(phase.alive(survivors))):
            stated = phase.adverts[index].noise_digests[number]
            right = setup.noise_digest(index, number, release.seed) == stated
        if not right:
            raise PeerError(holder, f"released a wrong seed share in {setup.describe()}")

    def recover_secrets(
        self, phase: CollectingInputs, survivors: frozenset[PartyId], releases: Mapping[PartyId, port.Opening]
    ) -> evidence.OpenedSecrets:
        setup = phase.setup
        alive = phase.alive(survivors)
        seeds = {
            name: item.seed for name, item in releases.items() if isinstance(item, messages.InstanceSeed)
        }
        if setup.superfluous(len(alive)) and (late := [i for i in alive if setup.members[i] not in seeds]):
            raise PeerError(setup.members[late[0]], "has not released the shares that remove its noise")
        return evidence.OpenedSecrets({}, noise={setup.index(name): seed for name, seed in seeds.items()})

    def unmask(self, total: Ring, fixed: evidence.FixedSum, secrets: evidence.OpenedSecrets) -> None:
        evidence.remove_noise(total, fixed, secrets)
