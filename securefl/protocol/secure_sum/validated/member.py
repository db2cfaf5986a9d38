"""Member's part of a validated sum, message by message, up to the exported share (ADR 0024).

A wrong message raises ``PeerError`` and changes nothing. The export is the sum of the member's shares of all
accepted updates, with its share of zero and its blind. Freeze and release are those of the CrypTen sum.
"""

from dataclasses import replace

import msgspec
import numpy as np

from securefl.base import crypto
from securefl.base.arrays import Ring, expect
from securefl.base.entropy import Entropy
from securefl.base.errors import PeerError, UsageError
from securefl.base.ids import SERVER, PartyId
from securefl.methods import privacy
from securefl.protocol import messages, wire
from securefl.protocol.secure_sum import evidence
from securefl.protocol.secure_sum.adverts import read_key_list
from securefl.protocol.secure_sum.crypten import member
from securefl.protocol.secure_sum.crypten.peers import Peers
from securefl.protocol.secure_sum.crypten.zeros import ZeroShares
from securefl.protocol.secure_sum.setup import Setup, self_mask_key
from securefl.protocol.secure_sum.validated import phases, sketch
from securefl.protocol.secure_sum.validated.check import check_zeros
from securefl.protocol.secure_sum.validated.dealer import read_deal
from securefl.protocol.secure_sum.validated.relayed import accepted_of
from securefl.protocol.secure_sum.validated.shares import (
    LEAST_MEMBERS,
    UpdateShare,
    others_of,
    release_share,
    share_context,
    split,
    words_of,
)
from securefl.protocol.secure_sum.validated.validation import SHARE_NUMBER, Validation, validated_lists


def advertise(
    setup: Setup, me: PartyId, validation: Validation, tests: tuple[privacy.NormTest, ...], entropy: Entropy
) -> tuple[phases.Advertised, messages.KeyAdvert]:
    """Draw fresh keys, the seed of a blind and a sketch nonce; publish keys and commitments.

    ``tests`` are by member number, since weights differ.
    """
    if len(tests) != len(setup.members) or {test.projections for test in tests} != {validation.projections}:
        raise UsageError(
            f"tests must have one norm test of {validation.projections} projections for each of"
            f" {len(setup.members)} members, found {len(tests)}"
        )
    if setup.ring_bits != 64 or setup.removable is not None:
        raise UsageError(
            "validated sums must have ring_bits = 64 and no removable noise, found ring_bits ="
            f" {setup.ring_bits}"
        )
    base, plain = member.advertise(setup, me, entropy)
    nonce = entropy.child("sketch nonce").draw(sketch.NONCE_BYTES)
    advert = msgspec.structs.replace(plain, shares_root=sketch.nonce_commitment(nonce, setup.instance, me))
    return phases.Advertised(replace(base, advert=advert), validation, tests, nonce), advert


def on_key_list(
    phase: phases.Advertised, message: messages.KeyList, roster: crypto.Roster
) -> phases.Gathering:
    """Check the relayed adverts and agree on all keys.

    Raises:
        PeerError: honest members would not have signed the list, it has fewer than 3 members, or this
            member's advert is missing.
    """
    base = phase.base
    listed = member.on_key_list(base, message, roster)
    setup, me = listed.setup, listed.me
    if len(listed.listed) < LEAST_MEMBERS:
        raise PeerError(
            SERVER, f"sends a key list of {setup.describe()} with fewer than {LEAST_MEMBERS} members"
        )
    adverts, key_list = read_key_list(setup, message.adverts, roster)
    box_keys = {i: (setup.members[i], a.box_key) for i, a in adverts.items() if i != me}
    checks = {}
    for owner in box_keys:
        evaluators = tuple(others_of(owner, listed.listed))
        context = crypto.digest("check", listed.context, owner)
        lines = {i: named for i, named in box_keys.items() if i != owner}
        zeros = {i: _zero_key(phase, i, adverts[i], context) for i in lines}
        checks[owner] = phases.CheckLines(
            evaluators, Peers(me, base.box, lines, context), check_zeros(zeros, evaluators, me)
        )
    core = phases.Core(
        listed,
        phase.validation,
        phase.tests,
        phase.nonce,
        base.box,
        key_list,
        {index: advert.shares_root for index, advert in adverts.items()},
        Peers(me, base.box, box_keys, crypto.digest("update shares", listed.context)),
        checks,
    )
    return phases.Gathering(core)


def share_update(phase: phases.Gathering, encoded: Ring, entropy: Entropy) -> phases.Step:
    """Share an encoded update (u64 ring words, (d,), not changed) among the others.

    Raises:
        UsageError: it was shared before, or has another dtype or shape.
    """
    core = phase.core
    expect(encoded, "encoded update", np.uint64, (core.setup.length,))
    if phase.shared:
        raise UsageError(
            f"cannot share an update in {core.setup.describe()}: it was already shared in this attempt"
        )
    me, context = core.listed.me, core.listed.context
    shares = split(encoded.view(np.uint64), me, core.listed.listed, context, entropy)
    boxes = []
    for holder, share in shares.items():
        plain = wire.encode(messages.UpdateShareBox(seed=share.seed, words=share.words))
        box = core.lines.seal(holder, SHARE_NUMBER, plain, entropy.child("share nonce", holder))
        boxes.append(messages.PeerBox(peer=holder, number=SHARE_NUMBER, box=box))
    return _gather(replace(phase, shared=True), *boxes)


def on_share(phase: phases.Gathering, message: messages.PeerBox) -> phases.Step:
    """Store one other member's share of its update, or complain about an unusable one.

    Raises:
        PeerError: not of a listed member, or a second one.
    """
    core, owner = phase.core, message.peer
    if owner not in core.others or message.number != SHARE_NUMBER:
        raise PeerError(
            SERVER, f"relays message {message.number} of member {owner}, which is not a share for this member"
        )
    name, me, context = core.setup.members[owner], core.listed.me, core.listed.context
    if owner in phase.words:
        raise PeerError(name, f"shares its update twice in {core.setup.describe()}")
    try:
        plain = wire.decode_struct(
            messages.UpdateShareBox, core.lines.open(owner, SHARE_NUMBER, message.box), name
        )
        share = UpdateShare(plain.seed, plain.words)
        words = words_of(share, core.setup.length, context, owner, me, name)
    except PeerError as error:
        return phases.Step(phases.Spoiled(core.setup), accused=PeerError(name, error.reason))
    stated = share.digest(share_context(context, owner, me))
    return _gather(
        replace(phase, words={**phase.words, owner: words}, digests={**phase.digests, owner: stated})
    )


def on_deal(phase: phases.Gathering, message: messages.DealtTo, roster: crypto.Roster) -> phases.Step:
    """Store the triples, or complain about an unusable deal.

    Raises:
        PeerError: of the server: a second one, or not signed by the dealer for this attempt.
    """
    core, dealer = phase.core, phase.core.validation.dealer
    setup, listed = core.setup, core.listed
    delivery = wire.open_relayed(message.frame, roster, setup.instance.run, SERVER, SERVER)
    dealt = delivery.message
    if delivery.sender != dealer or delivery.place != setup.place or not isinstance(dealt, messages.Dealt):
        raise PeerError(SERVER, f"relays something else than the dealer's triples for {setup.describe()}")
    if phase.tuples is not None:
        raise PeerError(
            dealer, f"sends random values (triples) again for {setup.describe()}; the first ones are used"
        )
    try:
        tuples = read_deal(
            dealt,
            setup.instance,
            setup.members,
            listed.listed,
            core.key_list,
            core.validation.projections,
            listed.me,
            core.box,
            dealer,
        )
    except PeerError as error:
        return phases.Step(phases.Spoiled(setup), accused=PeerError(dealer, error.reason))
    return _gather(replace(phase, tuples=tuples))


def on_verdicts(phase: phases.Judged, message: messages.Verdicts, roster: crypto.Roster) -> phases.Step:
    """Export the blinded share of the sum of the updates accepted by all their evaluators.

    Raises:
        PeerError: verdicts are missing or altered, or too few members are accepted to open their sum.
    """
    core = phase.core
    setup, listed, validation = core.setup, core.listed, core.validation
    accepted, own = accepted_of(setup, listed.listed, message.verdicts, roster, listed.me)
    if own != phase.verdict:
        raise PeerError(SERVER, f"relays a verdict that this member did not give in {setup.describe()}")
    shortage = validation.shortage(len(accepted), setup.min_survivors)
    if shortage:
        raise PeerError(SERVER, f"continues {setup.describe()}, although {shortage}")
    if not isinstance(listed.zeros, ZeroShares):
        raise UsageError(
            "cannot compute a validated sum: its shares of zero must come from pairwise keys (ZeroShares)"
        )
    share = release_share(phase.words, accepted, listed.zeros.arithmetic(setup.length))
    crypto.add_masks(share, [(self_mask_key(listed.seed, listed.context), 1)])
    lists = validated_lists(listed.lists_digest, accepted)
    messages_out = evidence.input_with_receipt(setup, listed.me, share, lists)
    sharers, stated = frozenset(listed.listed), evidence.stated_input(messages_out[1])
    submitted = member.Submitted(setup, listed.me, listed.seed, accepted, lists, sharers, stated)
    return phases.Step(submitted, messages_out)


def _gather(phase: phases.Gathering, *earlier: messages.PeerBox) -> phases.Step:
    core = phase.core
    if not phase.shared or phase.tuples is None or phase.words.keys() != set(core.others):
        return phases.Step(phase, earlier)
    fields: list[bytes | int] = []
    for owner in sorted(phase.digests):
        fields += [owner, phase.digests[owner]]
    held = messages.Held(
        lists=core.listed.lists_digest, shares=crypto.digest("shares held", core.listed.context, *fields)
    )
    return phases.Step(phases.Holding(core, phase.words, phase.tuples), (*earlier, held))


def _zero_key(phase: phases.Advertised, other: int, advert: messages.KeyAdvert, context: bytes) -> bytes:
    low, high = sorted((phase.base.me, other))
    try:
        (key,) = phase.base.pair.agree(advert.mask_key, context, f"check zero {low} {high}")
    except crypto.BadKeyError as error:
        raise PeerError(phase.setup.members[other], f"sends a bad key ({error})") from error
    return key
