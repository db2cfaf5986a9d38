"""Verification of an opened sum by repeating it from the server's proof (ADR 0044)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from securefl.base import crypto
from securefl.base.arrays import Ring
from securefl.base.errors import PeerError
from securefl.base.ids import SERVER, PartyId
from securefl.protocol import messages, wire
from securefl.protocol.secure_sum import evidence, port
from securefl.protocol.secure_sum.adverts import read_key_list
from securefl.protocol.secure_sum.setup import Setup


@dataclass(frozen=True, slots=True)
class Repeatable:
    """A member's knowledge of its cluster's sum before it opens."""

    setup: Setup
    lists_digest: bytes
    sharers: frozenset[int]
    alive: tuple[int, ...]
    added: tuple[int, ...]


def repeatable(sent: port.InputSent, survivors: Sequence[PartyId] | frozenset[PartyId]) -> Repeatable:
    """Return a submitted member's knowledge of a sum, for later verification."""
    setup, added = sent.setup, sent.summed_members(survivors)
    alive = tuple(i for i in sorted(sent.sharers) if setup.members[i] in survivors)
    sharers = frozenset(added) if setup.everyone else sent.sharers
    return Repeatable(setup, sent.lists_digest, sharers, alive, added)


def repeatable_from(
    sums: port.SecureSum,
    setup: Setup,
    survivors: Collection[PartyId],
    proof: messages.OpeningProof,
    roster: crypto.Roster,
) -> Repeatable:
    """Return a member's knowledge of its cluster's sum from proof and certified survivors, for an audit.

    It holds if the certified commitment covers it, which :func:`repeat_opening` checks.

    Raises:
        PeerError: the proof's adverts and receipts do not match.
    """
    adverts, key_list = read_key_list(setup, proof.adverts, roster)
    receipts = [
        wire.open_relayed(frame, roster, setup.instance.run, SERVER, SERVER) for frame in proof.receipts
    ]
    added = tuple(sorted({setup.index(one.sender) for one in receipts}))
    lists = {one.message.lists_digest for one in receipts if isinstance(one.message, messages.VectorReceipt)}
    absent = sorted(set(adverts).difference(added))
    # Receipts decide whether a member that advertised but sent no vector had shared masks.
    for shared in (some for size in range(len(absent), -1, -1) for some in combinations(absent, size)):
        sharers = frozenset((*added, *shared))
        alive = tuple(i for i in sorted(sharers) if setup.members[i] in survivors)
        if lists == {sums.lists_digest(setup, key_list, sharers, alive)}:
            return Repeatable(setup, next(iter(lists)), sharers, alive, added)
    raise PeerError(SERVER, f"proves {setup.describe()} with receipts of other lists than its adverts make")


@dataclass(frozen=True, slots=True)
class ProvenVectors:
    """Vectors of a proof, parsed once."""

    views: Mapping[int, memoryview] = field(repr=False)
    """Ring words in little endian."""
    digests: Mapping[int, bytes]


def proven_vectors(known: Repeatable, raw: bytes) -> ProvenVectors:
    """Split the vectors of a proof, and hash each of them.

    Raises:
        PeerError: not one vector of the right length for each added member.
    """
    setup = known.setup
    size = setup.length * setup.ring_bits // 8
    if len(raw) != size * len(known.added):
        raise PeerError(SERVER, f"proves {setup.describe()} with vectors of another length")
    whole = memoryview(raw)
    views = {index: whole[n * size : (n + 1) * size] for n, index in enumerate(known.added)}
    return ProvenVectors(
        views, {index: evidence.input_digest(setup, index, view) for index, view in views.items()}
    )


def opening_contents(
    setup: Setup,
    sharers: Collection[int],
    plain: bytes,
    frames: tuple[Sequence[bytes], Sequence[bytes]],
    vectors: Mapping[int, bytes],
) -> bytes:
    """Return the digest, signed by the server, of all contents of an opening's proof.

    It includes the verifier's knowledge, so that an auditor needs no other source. ``plain`` is the encoded
    ``Opened``, whose random seeds prevent guessing. ``frames`` are adverts and receipts, ``vectors`` digests.
    """
    adverts, receipts = frames
    fields: list[bytes | int] = []
    for index in sorted(vectors):
        fields += [index, vectors[index]]
    return crypto.digest(
        "opening contents",
        *setup.instance,
        crypto.digest("members", *setup.members),
        crypto.digest("sharers", *sorted(sharers)),
        crypto.digest("opened", plain),
        crypto.digest("adverts", *adverts),
        crypto.digest("receipts", *receipts),
        *fields,
    )


def repeat_opening(
    sums: port.SecureSum,
    known: Repeatable,
    commitment: bytes,
    proof: messages.OpeningProof,
    opened: messages.Opened,
    vectors: ProvenVectors,
    roster: crypto.Roster,
) -> Ring:
    """Return the ring sum, (d,), that follows from the values fixed before opening.

    ``commitment`` is certified, ``opened`` the sealed part of the proof.

    Raises:
        PeerError: of the server: values differ from the fixed ones or are missing. With a secret that
            contradicts an advert it has no sum to prove.
    """
    setup = known.setup
    try:
        return _repeat_sum(sums, known, commitment, proof, opened, vectors, roster)
    except PeerError as error:
        if error.culprit == SERVER:
            raise
        what = f"proves {setup.describe()} with what no sum follows from: {error.culprit} {error.reason}"
        raise PeerError(SERVER, what) from error


def _repeat_sum(
    sums: port.SecureSum,
    known: Repeatable,
    commitment: bytes,
    proof: messages.OpeningProof,
    opened: messages.Opened,
    vectors: ProvenVectors,
    roster: crypto.Roster,
) -> Ring:
    setup = known.setup
    adverts, key_list = read_key_list(setup, proof.adverts, roster)
    if sums.lists_digest(setup, key_list, known.sharers, known.alive) != known.lists_digest:
        raise PeerError(SERVER, f"proves {setup.describe()} with other adverts than were listed")
    inputs = _stated_digests(known, proof, roster)
    if evidence.commitment_of(setup, known.lists_digest, inputs) != commitment:
        raise PeerError(SERVER, f"proves {setup.describe()} with other inputs than were certified")
    for index, found in vectors.digests.items():
        if found != inputs[index]:
            raise PeerError(
                SERVER, f"proves {setup.describe()} with another vector of {setup.members[index]}"
            )
    fixed = evidence.FixedSum(setup, adverts, key_list, known.sharers, known.alive)
    secrets = evidence.OpenedSecrets(dict(opened.seeds), dict(opened.keys), dict(opened.noise))
    return sums.server.sum_of(fixed, secrets, lambda index: vectors.views[index])


def _stated_digests(
    known: Repeatable, proof: messages.OpeningProof, roster: crypto.Roster
) -> dict[int, bytes]:
    setup, inputs = known.setup, dict[int, bytes]()
    for frame in proof.receipts:
        delivery = wire.open_relayed(frame, roster, setup.instance.run, SERVER, SERVER)
        message = delivery.message
        if delivery.place != setup.place or not isinstance(message, messages.VectorReceipt):
            raise PeerError(SERVER, f"proves {setup.describe()} with something else than its receipts")
        if message.lists_digest != known.lists_digest:
            raise PeerError(SERVER, f"proves {setup.describe()} with receipts of other lists")
        inputs[setup.index(delivery.sender)] = message.input_digest
    if tuple(sorted(inputs)) != known.added or len(proof.receipts) != len(known.added):
        raise PeerError(SERVER, f"proves {setup.describe()} without one receipt for each vector")
    return inputs
