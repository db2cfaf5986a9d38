"""Member's part of one attempt of a CrypTen sum (data flow, steps 7 and 9).

::

    advertise -> Advertised -> on_key_list -> Listed -> submit -> Submitted -> seed_for

A share of the sum is sent before the freeze under a blind, the stream of a secret seed to which the advert
commits; the seed is released after it. Without the blind a server could declare a member missing after
receiving its share, and open the sums of two attempts that differ by one member.

All listed members are needed to open; if one drops out before the freeze, another attempt follows.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from securefl.base import crypto
from securefl.base.arrays import Ring, expect
from securefl.base.entropy import Entropy
from securefl.base.errors import PeerError, UsageError
from securefl.base.ids import SERVER, PartyId
from securefl.methods import encoding
from securefl.protocol import messages
from securefl.protocol.secure_sum import evidence, removal
from securefl.protocol.secure_sum.adverts import read_key_list
from securefl.protocol.secure_sum.crypten import ports
from securefl.protocol.secure_sum.crypten.zeros import ZeroShares
from securefl.protocol.secure_sum.setup import Setup, self_mask_key

NO_SHARES: Final = crypto.digest("no shares")
"""``KeyAdvert.shares_root`` if members share no secrets."""


@dataclass(frozen=True, slots=True)
class Advertised:
    """Phase that waits for the key list."""

    setup: Setup
    me: int
    pair: crypto.KeyPair = field(repr=False)
    box: crypto.KeyPair = field(repr=False)
    seed: bytes = field(repr=False)
    noise: bytes = field(repr=False)
    advert: messages.KeyAdvert


@dataclass(frozen=True, slots=True)
class Listed:
    """Phase that waits for the update."""

    setup: Setup
    me: int
    seed: bytes = field(repr=False)
    noise: bytes = field(repr=False)
    listed: tuple[int, ...]
    """Ascending; a rank of the computation is an index into it."""
    zeros: ZeroShares = field(repr=False)
    context: bytes
    lists_digest: bytes


@dataclass(frozen=True, slots=True)
class Submitted:
    """Phase after the blinded share is sent. Only the blind's seed remains."""

    setup: Setup
    me: int
    seed: bytes = field(repr=False)
    sharers: frozenset[int]
    lists_digest: bytes
    listed: frozenset[int] = frozenset()
    """Members that export a part of the sum."""
    input_digest: bytes = b""

    def summed_members(self, _survivors: Collection[PartyId]) -> tuple[int, ...]:
        """Return all members: each exports a part of the sum."""
        return tuple(sorted(self.listed))


MemberPhase = Advertised | Listed | Submitted


def advertise(setup: Setup, me: PartyId, entropy: Entropy) -> tuple[Advertised, messages.KeyAdvert]:
    """Draw fresh keys and a blind's seed; publish the keys and the seed's hash (protocol.md, step 3)."""
    index = setup.index(me)
    # Entropy names are those of masking: with a seed, both kinds have the same removable noise.
    pair = crypto.KeyPair.generate(entropy.child("mask key"))
    box = crypto.KeyPair.generate(entropy.child("box key"))
    seed = entropy.child("self-mask seed").draw(32)
    advert = messages.KeyAdvert(
        mask_key=pair.public,
        box_key=box.public,
        seed_digest=setup.seed_digest(index, seed),
        shares_root=NO_SHARES,
    )
    noise = removal.noise_secret(entropy) if setup.components else b""
    return Advertised(setup, index, pair, box, seed, noise, advert), advert


def on_key_list(
    phase: Advertised,
    message: messages.KeyList,
    roster: crypto.Roster,
) -> Listed:
    """Check the relayed adverts and agree on keys with every listed member.

    Raises:
        PeerError: honest members would not have signed the list, or this member's advert is missing.
    """
    setup, me = phase.setup, phase.me
    adverts, key_list = read_key_list(setup, message.adverts, roster)
    if adverts.get(me) != phase.advert:
        raise PeerError(SERVER, f"sends a key list of {setup.describe()} without this member's own key")
    context = setup.keys_context(key_list)
    keys = {
        index: _pair_key(phase, index, advert.mask_key, context)
        for index, advert in adverts.items()
        if index != me
    }
    zeros = ZeroShares(me, keys)
    lists = setup.lists_digest(key_list, frozenset(adverts))
    return Listed(setup, me, phase.seed, phase.noise, tuple(adverts), zeros, context, lists)


def submit(
    phase: Listed, encoded: Ring, engine: ports.Engine, without: int = 0
) -> tuple[Submitted, tuple[messages.MaskedInput, messages.Receipt]]:
    """Share an encoded update (ring words, (d,), not changed); export the blinded share of the sum.

    Removable noise is added as far as a sum of all listed members needs it. ``without`` first components are
    left out (0 unless the member deviates).
    """
    setup = phase.setup
    expect(encoded, "encoded update", encoding.ring_dtype(setup.ring_bits), (setup.length,))
    words = encoded.copy()
    if setup.removable is not None:
        components = removal.components_from(setup.removable, setup.instance, phase.me, phase.noise, 0)
        for component in islice(components, without, setup.removable.dropouts(len(phase.listed))):
            words += component
    names = [setup.members[index] for index in phase.listed]
    share = engine.share_of_sum(names, phase.listed.index(phase.me), phase.zeros, words)
    crypto.add_masks(share, [(self_mask_key(phase.seed, phase.context), 1)])
    messages_out = evidence.input_with_receipt(setup, phase.me, share, phase.lists_digest)
    listed, stated = frozenset(phase.listed), evidence.stated_input(messages_out[1])
    return Submitted(setup, phase.me, phase.seed, listed, phase.lists_digest, listed, stated), messages_out


def seed_for(phase: Submitted, survivors: Collection[PartyId]) -> messages.InstanceSeed:
    """Return the seed of this member's blind.

    The caller has checked the survivor set, the certificate and the ledger, and calls this once per update.

    Raises:
        UsageError: not all of the sum's members survive, so it must not open.
    """
    setup, i = phase.setup, phase.setup.instance
    if not {setup.members[index] for index in phase.sharers} <= set(survivors):
        raise UsageError(
            f"cannot compute {setup.describe()}: a member on its key list is not a survivor; repeat it"
            " with the survivors"
        )
    return messages.InstanceSeed(
        reclustering=i.reclustering, cluster=i.cluster, attempt=i.attempt, seed=phase.seed
    )


def _pair_key(phase: Advertised, other: int, public: bytes, context: bytes) -> bytes:
    low, high = sorted((phase.me, other))
    try:
        (key,) = phase.pair.agree(public, context, f"pairwise zero {low} {high}")
    except crypto.BadKeyError as error:
        raise PeerError(phase.setup.members[other], f"advertised a bad key ({error})") from error
    return key
