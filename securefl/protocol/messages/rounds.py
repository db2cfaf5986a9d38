"""Messages of a round: hello, announce, reveal; freeze, certify, release (protocol.md, 1, 2, 6 to 9).

Lists of what parties said are relayed as the exact frames that the parties signed, so that the server can
withhold but not invent. ``Place.round`` numbers the round; ``Place.attempt`` numbers the draw of nonces.
"""

from typing import Annotated, Literal

from msgspec import Meta

from securefl.protocol.messages import base
from securefl.protocol.messages.crypten import InstanceSeed

AtomSeed = Annotated[bytes, Meta(max_length=32 + 2 * base.MAX_PARTIES)]
"""A seed of 32 bytes with labels of kept atoms, a statement of such atoms, or nothing."""
MILLION = 1_000_000
MAX_GROUPS = 64
SEATS = 1024
"""Places in the count of each slot of hidden groups, of which a member takes one at random."""
NO_GROUP = -1
MAX_VALUES = 16
"""Values in one invitation."""
ValueName = Annotated[str, Meta(min_length=1, max_length=32)]
MAX_RUN_ID = 256
"""Characters of a run id in a statement."""
MAX_STATED = 64
"""Rounds that one hello states something about: the latest ones."""


class Invite(base.Message, frozen=True, kw_only=True):
    """Server to all: say hello for this round (or for another draw of its nonces)."""

    model_digest: base.Digest
    config_digest: base.Digest
    excluded: Annotated[tuple[base.Name, ...], Meta(max_length=base.MAX_PARTIES)] = ()
    """Parties that withheld a nonce in an earlier draw of this round."""


class ValuedInvite(Invite, frozen=True, kw_only=True):
    """An invitation with values that round features announce; its model digest covers them."""

    values: Annotated[dict[ValueName, float], Meta(min_length=1, max_length=MAX_VALUES)]
    """Values by the name of their feature, as the clip of ``privacy.clip``."""


class ModelAnnounce(base.Message, frozen=True, kw_only=True):
    """Server to all: the global model of this round, little-endian float32."""

    params: Annotated[bytes, Meta(max_length=base.MAX_VECTOR)]


class BestModel(base.Message, frozen=True, kw_only=True):
    """Server to all, at the end: the model to keep. The place names the round that began with it."""

    params: Annotated[bytes, Meta(max_length=base.MAX_VECTOR)]
    """As in :class:`ModelAnnounce`."""


class Limits(base.Message, frozen=True, kw_only=True):
    """Demands of a party before it releases anything; part of its signed hello."""

    min_survivors: Annotated[int, Meta(ge=1, le=base.MAX_CLUSTER)]
    k_anonymity: Annotated[int, Meta(ge=1, le=base.MAX_CLUSTER)]
    leakage: Literal["veto", "report"]
    colluders: Annotated[int, Meta(ge=0, le=base.MAX_PARTIES)]
    """Of the parties in a combination of sums."""
    leverage: Annotated[int, Meta(ge=1, le=MILLION)]
    """The most, in millionths."""


class Hello(base.Message, frozen=True, kw_only=True):
    """Party to server: I take part; my limits, my sample count, and a commitment to a nonce."""

    samples: Annotated[int, Meta(ge=1, le=2**31)]
    model_digest: base.Digest
    config_digest: base.Digest
    commitment: base.Digest
    limits: Limits
    atom_seed: AtomSeed = b""
    """The seed of the run's atoms, from a party that knows it (``round.shared.atom_seed``); before, the atoms
    that the party keeps from earlier runs (:func:`securefl.methods.clustering.statement_of`)."""
    group: Annotated[int, Meta(ge=-1, lt=MAX_GROUPS)] = NO_GROUP
    """The task group that the party is in, where groups are open."""
    leader: Annotated[bytes, Meta(max_length=8)] = b""
    """The session of the server that it follows: no other one may relay this."""


class RoundOfRun(base.Message, frozen=True, kw_only=True):
    """A round of a run that the server at hand has led."""

    run: Annotated[str, Meta(min_length=1, max_length=MAX_RUN_ID)]
    round: Annotated[int, Meta(ge=0, lt=2**31)]


class StatingHello(Hello, frozen=True, kw_only=True):
    """A :class:`Hello` with statements about earlier rounds; a party without any sends a plain one."""

    unreleased: Annotated[tuple[RoundOfRun, ...], Meta(min_length=1, max_length=MAX_STATED)]
    """Rounds in which the sender took part, has released nothing, and never will."""


class Announce(base.Message, frozen=True, kw_only=True):
    """Server to all: everybody who said hello, as they signed it."""

    hellos: Annotated[tuple[base.SignedFrame, ...], Meta(max_length=base.MAX_PARTIES)]


class Reveal(base.Message, frozen=True, kw_only=True):
    """Party to server: the nonce that its hello committed to."""

    nonce: base.Key


class Reveals(base.Message, frozen=True, kw_only=True):
    """Server to all: every announced party's nonce, as signed. None may be missing."""

    reveals: Annotated[tuple[base.SignedFrame, ...], Meta(max_length=base.MAX_PARTIES)]


class InstanceAttempt(base.Message, frozen=True, kw_only=True):
    """The attempt of an instance that counts."""

    reclustering: Annotated[int, Meta(ge=0)]
    cluster: Annotated[int, Meta(ge=0)]
    attempt: Annotated[int, Meta(ge=0, le=8)]


class Freeze(base.Message, frozen=True, kw_only=True):
    """Server to one party: the global survivor set, and what the survivors of its instances submitted."""

    survivors: Annotated[tuple[base.Name, ...], Meta(max_length=base.MAX_PARTIES)]
    attempts: Annotated[tuple[InstanceAttempt, ...], Meta(max_length=base.MAX_PARTIES)]
    """One entry per instance that was retried; all others stand at attempt 0."""
    receipts: Annotated[tuple[base.SignedFrame, ...], Meta(max_length=base.MAX_PARTIES)]
    """The signed ``Receipt`` of every survivor in each of the recipient's instances."""


class BindingFreeze(Freeze, frozen=True, kw_only=True):
    """A freeze where sums are verified: it fixes every sum of the round before anything opens."""

    commitments: Annotated[tuple[base.Digest, ...], Meta(max_length=base.MAX_PARTIES)]
    """One for each instance that may be opened, by reclustering and cluster
    (:func:`securefl.protocol.secure_sum.evidence.commitment_of`)."""


class Endorse(base.Message, frozen=True, kw_only=True):
    """Party to server: I saw this model, configuration, assignment and survivor set, and no other."""

    statement: base.Digest
    """:func:`securefl.protocol.round.shared.statement.round_statement`."""
    lists: base.Digest
    """Hash of the sender's own key and share lists in all its instances."""
    ledger_head: base.Digest


class Certificate(base.Message, frozen=True, kw_only=True):
    """Server to all: more than (N + q) / 2 endorsements of one statement, as signed. N counts the roster."""

    endorsements: Annotated[tuple[base.SignedFrame, ...], Meta(max_length=base.MAX_PARTIES)]


class Release(base.Message, frozen=True, kw_only=True):
    """Party to server: its shares for every instance, sealed to the server's key. Sent once per round.

    With hidden groups twice: for the counts, and for the slots that may be opened.
    """

    sealed: Annotated[bytes, Meta(min_length=60, max_length=base.MAX_VECTOR)]


class SlotCounts(base.Message, frozen=True, kw_only=True):
    """Server to one party: the seats of its cluster's survivors in the counts of hidden groups, as opened."""

    seats: Annotated[
        tuple[Annotated[int, Meta(ge=0, lt=MAX_GROUPS * SEATS)], ...], Meta(max_length=base.MAX_CLUSTER)
    ]
    """Ascending, one for each survivor; seat s is in slot s // SEATS."""


class InstanceShares(base.Message, frozen=True, kw_only=True):
    """Inside ``Release``: one share per member of one instance, of its seed or of its key, never both.

    Where noise is removable, and not all of it is needed, also one of a noise secret of each survivor.
    """

    reclustering: Annotated[int, Meta(ge=0)]
    cluster: Annotated[int, Meta(ge=0)]
    attempt: Annotated[int, Meta(ge=0, le=8)]
    seed_shares: Annotated[tuple[tuple[int, base.Share], ...], Meta(max_length=base.MAX_CLUSTER)]
    """(member index, share of its self-mask seed), for the survivors."""
    key_shares: Annotated[tuple[tuple[int, base.Share], ...], Meta(max_length=base.MAX_CLUSTER)]
    """(member index, share of its mask key), for the dropped."""
    noise_shares: Annotated[tuple[tuple[int, base.Share], ...], Meta(max_length=base.MAX_CLUSTER)] = ()
    """(member index, share of the noise secret that the dropouts number), for the survivors."""


class ReleasedShares(base.Message, frozen=True, kw_only=True):
    """The plaintext of ``Release.sealed``."""

    instances: Annotated[tuple[InstanceShares | InstanceSeed, ...], Meta(max_length=base.MAX_PARTIES)]
    """Seeds where sums are CrypTen's."""
