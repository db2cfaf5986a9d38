"""Dealer's part of a validated sum, and its reading by members (ADR 0024, step 3).

The dealer deals the tuples of every check, and seals each member its part under a fresh key. It answers once
per attempt, and sees no message between members, no share and no verdict.
"""

from collections.abc import Mapping, Sequence

from securefl.base import crypto, text
from securefl.base.entropy import Entropy
from securefl.base.errors import PeerError
from securefl.base.ids import SERVER, Instance, PartyId, RunId
from securefl.protocol import kernel, wire
from securefl.protocol.messages import DealRequest, Deals, Dealt, KeyAdvert, OwnerDeal
from securefl.protocol.secure_sum.setup import key_list_digest
from securefl.protocol.secure_sum.validated import dealing, shares

_LABEL = "deal"


def answer(
    request: DealRequest,
    place: kernel.Place,
    roster: crypto.Roster,
    run: RunId,
    projections: int,
    entropy: Entropy,
) -> tuple[Dealt, ...]:
    """Answer a request for one attempt, if its adverts are those of members.

    Raises:
        PeerError: the request does not follow from honest members' adverts.
    """
    members = tuple(PartyId(name) for name in request.members)
    if list(members) != sorted(set(members)) or not set(members) <= roster.parties.keys():
        raise PeerError(SERVER, "requests triples for members that are not in the roster")
    adverts: dict[int, KeyAdvert] = {}
    frames: dict[int, bytes] = {}
    for frame in request.adverts:
        delivery = wire.open_relayed(frame, roster, run, SERVER, SERVER)
        if delivery.place != place or not isinstance(delivery.message, KeyAdvert):
            raise PeerError(SERVER, "requests triples with something else than keys of this attempt")
        if delivery.sender not in members or members.index(delivery.sender) in adverts:
            raise PeerError(SERVER, f"requests triples with a second or foreign key of {delivery.sender}")
        index = members.index(delivery.sender)
        adverts[index], frames[index] = delivery.message, frame
    if len(adverts) < shares.LEAST_MEMBERS:
        raise PeerError(
            SERVER,
            f"requests triples for {text.count(len(adverts), 'member')}, fewer than {shares.LEAST_MEMBERS}",
        )
    box_keys = {index: adverts[index].box_key for index in sorted(adverts)}
    instance = Instance(run, *place)
    try:
        return deal_attempt(instance, members, box_keys, key_list_digest(frames), projections, entropy)
    except crypto.BadKeyError as error:
        raise PeerError(SERVER, f"requests triples with a bad key ({error})") from error


def deal_attempt(
    instance: Instance,
    members: Sequence[PartyId],
    box_keys: Mapping[int, bytes],
    key_list: bytes,
    projections: int,
    entropy: Entropy,
) -> tuple[Dealt, ...]:
    """Deal for all checks of one attempt.

    ``box_keys`` are by index into ``members``. A member that saw adverts of another digest than ``key_list``
    cannot open its box.

    Raises:
        BadKeyError: a box key of low order.
        UsageError: fewer than 3 members.
    """
    listed = sorted(box_keys)
    parts: dict[int, list[OwnerDeal]] = {member: [] for member in listed}
    for owner in listed:
        evaluators = shares.others_of(owner, listed)
        names = [members[index] for index in evaluators]
        context = dealing.deal_context(instance, members[owner], names, projections)
        requests = dealing.requests_of(len(evaluators), projections)
        deals = dealing.deal(context, len(evaluators), requests, entropy.child("check", owner))
        for member, part in zip(evaluators, deals, strict=True):
            parts[member].append(OwnerDeal(owner=owner, seed=part.seed, correction=part.correction))
    messages = []
    for member in listed:
        pair = crypto.KeyPair.generate(entropy.child("box", member))
        context = _box_context(instance, key_list, member)
        key = crypto.shared_key(pair.private, box_keys[member], _LABEL, context)
        plain = wire.encode(Deals(checks=tuple(parts[member])))
        box = crypto.seal_box(key, plain, context, entropy.child("box nonce", member))
        messages.append(Dealt(member=member, key=pair.public, box=box))
    return tuple(messages)


def read_deal(
    message: Dealt,
    instance: Instance,
    members: Sequence[PartyId],
    listed: Sequence[int],
    key_list: bytes,
    projections: int,
    me: int,
    box: crypto.KeyPair,
    dealer: PartyId,
) -> dict[int, dealing.Tuples]:
    """Return this member's tuples by owner.

    Raises:
        PeerError: of the dealer: another member's box, one that does not open, or other checks than due.
    """
    if message.member != me:
        raise PeerError(dealer, f"sends triples of member {message.member} to member {me}")
    context = _box_context(instance, key_list, me)
    try:
        key = crypto.shared_key(box.private, message.key, _LABEL, context)
        plain = crypto.open_box(key, message.box, context)
    except (crypto.BadKeyError, crypto.BoxError) as error:
        raise PeerError(dealer, "its triples cannot be decrypted") from error
    deals = {part.owner: part for part in wire.decode_struct(Deals, plain, dealer).checks}
    if sorted(deals) != [index for index in listed if index != me]:
        raise PeerError(dealer, "sends triples for other checks than those of this member")
    tuples = {}
    for owner, part in deals.items():
        evaluators = shares.others_of(owner, listed)
        names = [members[index] for index in evaluators]
        tuples[owner] = dealing.Tuples(
            dealing.Deal(part.seed, part.correction),
            evaluators.index(me),
            dealing.deal_context(instance, members[owner], names, projections),
            dealing.requests_of(len(evaluators), projections),
            dealer,
        )
    return tuples


def _box_context(instance: Instance, key_list: bytes, member: int) -> bytes:
    return crypto.digest("deal box", *instance, key_list, member)
