"""Member's part of one attempt of a pairwise-mask sum (Bonawitz et al. 2017, double masking; steps 7 and 9).

A wrong message raises ``PeerError`` and changes nothing. A phase holds no secret that later ones do not
need::

    advertise -> Advertised -> on_key_list -> Boxed -> on_box_list -> Ready -> mask -> Submitted -> shares_for
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from securefl.base import crypto
from securefl.base.arrays import Ring, expect
from securefl.base.entropy import Entropy
from securefl.base.errors import PeerError, UsageError
from securefl.base.ids import SERVER, PartyId
from securefl.methods import encoding
from securefl.protocol import messages, wire
from securefl.protocol.secure_sum import evidence, removal
from securefl.protocol.secure_sum.adverts import read_key_list
from securefl.protocol.secure_sum.setup import Setup, self_mask_key, share_kinds, share_leaf


@dataclass(frozen=True, slots=True)
class DealtShares:
    """Shares of one member's secrets."""

    shares: tuple[messages.SharePair, ...] = field(repr=False)
    digests: tuple[tuple[bytes, ...], ...]
    """By holder, in the order of :func:`securefl.protocol.secure_sum.setup.share_kinds`."""
    root: bytes


def deal(setup: Setup, owner: int, secrets: Sequence[bytes], entropy: Entropy) -> DealtShares:
    """Split secrets of 32 bytes for any ``setup.threshold`` members."""
    kinds, count = share_kinds(setup.components), len(setup.members)
    by_kind = [
        crypto.split(secret, setup.threshold, count, entropy.child(f"{kind} shares"))
        for kind, secret in zip(kinds, secrets, strict=True)
    ]
    digest = setup.share_digester()
    digests = tuple(
        tuple(digest(owner, holder, kind, of[holder]) for kind, of in zip(kinds, by_kind, strict=True))
        for holder in range(count)
    )
    leaves = [share_leaf(*each) for each in digests]
    shares = tuple(
        messages.SharePair(seed_share=seed, key_share=key, path=path, noise_shares=tuple(noise))
        for (seed, key, *noise), path in zip(
            zip(*by_kind, strict=True), crypto.merkle_paths(leaves), strict=True
        )
    )
    return DealtShares(shares, digests, crypto.merkle_root(leaves))


def is_dealt(
    setup: Setup,
    owner: int,
    holder: int,
    pair: messages.SharePair,
    root: bytes,
    digest: Callable[[int, int, str, bytes], bytes],
) -> bool:
    """Return True if ``pair`` holds the shares for ``holder`` to which ``owner`` committed by ``root``.

    ``digest`` is ``setup.share_digester()``, reused over calls.
    """
    kinds = share_kinds(setup.components)
    shares = (pair.seed_share, pair.key_share, *pair.noise_shares)
    if len(shares) != len(kinds):
        return False
    leaf = share_leaf(
        *(digest(owner, holder, kind, share) for kind, share in zip(kinds, shares, strict=True))
    )
    return crypto.merkle_verify(root, leaf, holder, len(setup.members), pair.path)


class BadBoxError(PeerError):
    """Box that differs from its sealer's advert, or that the server altered."""


@dataclass(frozen=True, slots=True)
class Advertised:
    """Phase that waits for the key list."""

    setup: Setup
    me: int
    mask: crypto.KeyPair = field(repr=False)
    box: crypto.KeyPair = field(repr=False)
    seed: bytes = field(repr=False)
    noise: bytes = field(repr=False)
    """First secret of removable noise; empty without any."""
    dealt: DealtShares
    advert: messages.KeyAdvert


@dataclass(frozen=True, slots=True)
class Boxed:
    """Phase that waits for the boxes of the others."""

    setup: Setup
    me: int
    mask: crypto.KeyPair = field(repr=False)
    openers: Mapping[int, bytes] = field(repr=False)
    """Keys of the boxes sealed to this member, by sealer."""
    seed: bytes = field(repr=False)
    noise: bytes = field(repr=False)
    own: messages.SharePair = field(repr=False)
    adverts: Mapping[int, messages.KeyAdvert]
    key_list: bytes


@dataclass(frozen=True, slots=True)
class Ready:
    """Phase with all masks that waits for the update."""

    setup: Setup
    me: int
    terms: tuple[tuple[bytes, crypto.Sign], ...] = field(repr=False)
    """Keys and signs of all masks."""
    noise: bytes = field(repr=False)
    held: Mapping[int, messages.SharePair] = field(repr=False)
    """By owner, its own too."""
    lists_digest: bytes


@dataclass(frozen=True, slots=True)
class Submitted:
    """Phase after the masked input is sent. Only the shares held for others remain."""

    setup: Setup
    me: int
    held: Mapping[int, messages.SharePair] = field(repr=False)
    lists_digest: bytes
    input_digest: bytes = b""

    @property
    def sharers(self) -> frozenset[int]:
        """Members that share masks, including itself."""
        return frozenset(self.held)

    def summed_members(self, survivors: Collection[PartyId]) -> tuple[int, ...]:
        """Return the surviving sharers, ascending."""
        return tuple(i for i in sorted(self.held) if self.setup.members[i] in survivors)


MemberPhase = Advertised | Boxed | Ready | Submitted


def advertise(setup: Setup, me: PartyId, entropy: Entropy) -> tuple[Advertised, messages.KeyAdvert]:
    """Draw fresh keys, a self-mask seed and their shares; publish keys and hashes (protocol.md, step 3)."""
    index = setup.index(me)
    mask = crypto.KeyPair.generate(entropy.child("mask key"))
    box = crypto.KeyPair.generate(entropy.child("box key"))
    seed = entropy.child("self-mask seed").draw(32)
    noise = removal.noise_secret(entropy) if setup.components else b""
    secrets = removal.secret_chain(noise, setup.components)
    dealt = deal(setup, index, (seed, mask.private, *secrets), entropy)
    advert = messages.KeyAdvert(
        mask_key=mask.public,
        box_key=box.public,
        seed_digest=setup.seed_digest(index, seed),
        shares_root=dealt.root,
        noise_digests=tuple(setup.noise_digest(index, n, secret) for n, secret in enumerate(secrets)),
    )
    return Advertised(setup, index, mask, box, seed, noise, dealt, advert), advert


def on_key_list(
    phase: Advertised, message: messages.KeyList, roster: crypto.Roster, entropy: Entropy
) -> tuple[Boxed, messages.ShareBoxes]:
    """Check the relayed adverts and seal each listed member its shares (step 4).

    Raises:
        PeerError: honest members would not have signed the list, or this member's advert is missing.
    """
    setup = phase.setup
    adverts, key_list = read_key_list(setup, message.adverts, roster)
    if adverts.get(phase.me) != phase.advert:
        raise PeerError(SERVER, f"sends a key list of {setup.describe()} without this member's own key")
    context = setup.keys_context(key_list)
    boxes = []
    openers: dict[int, bytes] = {}
    for holder, advert in adverts.items():
        if holder != phase.me:
            sealer, openers[holder] = _box_keys(phase, holder, advert, context)
            plaintext = wire.encode(phase.dealt.shares[holder])
            boxes.append(
                (holder, crypto.seal_box(sealer, plaintext, context, entropy.child("box nonce", holder)))
            )
    own = phase.dealt.shares[phase.me]
    boxed = Boxed(setup, phase.me, phase.mask, openers, phase.seed, phase.noise, own, adverts, key_list)
    return boxed, messages.ShareBoxes(boxes=tuple(boxes), share_digests=phase.dealt.digests)


def on_box_list(phase: Boxed, message: messages.BoxList) -> Ready:
    """Open the boxes sealed to this member and derive all masks (step 5).

    Raises:
        BadBoxError: a box does not open or does not hold the advertised shares; complain about its culprit.
        PeerError: the list itself is invalid.
    """
    setup, context = phase.setup, phase.setup.keys_context(phase.key_list)
    boxes = dict(message.boxes)
    strangers = boxes.keys() - (phase.adverts.keys() - {phase.me})
    if strangers or len(boxes) != len(message.boxes):
        raise PeerError(SERVER, f"sends a share list of {setup.describe()} with a member twice or unknown")
    sharers = frozenset(boxes) | {phase.me}
    if len(sharers) < setup.min_survivors:
        raise PeerError(
            SERVER, f"sends a share list of {setup.describe()} with fewer than min_survivors members"
        )
    held = {phase.me: phase.own}
    terms: list[tuple[bytes, crypto.Sign]] = [(self_mask_key(phase.seed, context), 1)]
    digest = setup.share_digester()
    for owner in sorted(boxes):
        held[owner] = _open_shares(phase, owner, boxes[owner], context, digest)
        shared = pairwise_key(phase.mask, phase.adverts[owner].mask_key, phase.me, owner, context)
        terms.append((shared, pairwise_sign(phase.me, owner)))
    lists = setup.lists_digest(phase.key_list, sharers)
    return Ready(setup, phase.me, tuple(terms), phase.noise, held, lists)


def mask(
    phase: Ready, encoded: Ring, without: int = 0
) -> tuple[Submitted, messages.MaskedInput, messages.Receipt]:
    """Mask an encoded update (ring words, shape (d,), not changed) and add all removable noise.

    ``without`` first noise components are left out (0 unless the member deviates).
    """
    setup = phase.setup
    expect(encoded, "encoded update", encoding.ring_dtype(setup.ring_bits), (setup.length,))
    masked = encoded.copy()
    if setup.removable is not None:
        components = removal.components_from(setup.removable, setup.instance, phase.me, phase.noise, 0)
        for component in islice(components, without, None):
            masked += component
    crypto.add_masks(masked, phase.terms)
    vector, receipt = evidence.input_with_receipt(setup, phase.me, masked, phase.lists_digest)
    submitted = Submitted(setup, phase.me, phase.held, phase.lists_digest, evidence.stated_input(receipt))
    return submitted, vector, receipt


def shares_for(phase: Submitted, survivors: Collection[PartyId]) -> messages.InstanceShares:
    """Return, per member, the share of its seed (survivor) or of its mask key (dropout), never both.

    For each survivor also the share of the secret of superfluous noise. The caller has checked the survivor
    set, the certificate and the ledger, and calls this once per update.

    Raises:
        UsageError: fewer than ``min_survivors`` of the sharing members survive.
    """
    setup, i = phase.setup, phase.setup.instance
    alive = {owner for owner in phase.held if setup.members[owner] in survivors}
    if len(alive) < setup.min_survivors:
        raise UsageError(
            f"cannot release shares of {setup.describe()}: min_survivors is {setup.min_survivors},"
            f" found {len(alive)} survivors"
        )
    return messages.InstanceShares(
        reclustering=i.reclustering,
        cluster=i.cluster,
        attempt=i.attempt,
        seed_shares=tuple((o, phase.held[o].seed_share) for o in sorted(alive)),
        key_shares=tuple((o, phase.held[o].key_share) for o in sorted(phase.held.keys() - alive)),
        noise_shares=tuple(
            (o, phase.held[o].noise_shares[number])
            for number in setup.superfluous(len(alive))
            for o in sorted(alive)
        ),
    )


def pairwise_key(own: crypto.KeyPair, public: bytes, one: int, other: int, context: bytes) -> bytes:
    """Return the stream key that two members share; raise PeerError if the public key has low order."""
    low, high = sorted((one, other))
    try:
        (key,) = own.agree(public, context, f"pairwise mask {low} {high}")
    except crypto.BadKeyError as error:
        raise PeerError(f"member {other}", f"advertised a bad mask key ({error})") from error
    return key


def pairwise_sign(me: int, other: int) -> crypto.Sign:
    """Return the sign of a mask at ``me``: the lower number adds, the higher subtracts."""
    return 1 if me < other else -1


def _box_keys(
    phase: Advertised, other: int, advert: messages.KeyAdvert, context: bytes
) -> tuple[bytes, bytes]:
    to, back = f"share box {phase.me} to {other}", f"share box {other} to {phase.me}"
    try:
        sealer, opener = phase.box.agree(advert.box_key, context, to, back)
    except crypto.BadKeyError as error:
        reason = f"key list of {phase.setup.describe()} holds a bad box key ({error})"
        raise PeerError(SERVER, reason) from error
    return sealer, opener


def _open_shares(
    phase: Boxed, owner: int, box: bytes, context: bytes, digest: Callable[[int, int, str, bytes], bytes]
) -> messages.SharePair:
    setup, name = phase.setup, phase.setup.members[owner]
    try:
        pair = wire.decode_struct(
            messages.SharePair, crypto.open_box(phase.openers[owner], box, context), name
        )
    except (crypto.BoxError, PeerError) as error:
        raise BadBoxError(name, "its share box does not open") from error
    root = phase.adverts[owner].shares_root
    if not is_dealt(setup, owner, phase.me, pair, root, digest):
        raise BadBoxError(name, "its shares are not the advertised ones")
    return pair
