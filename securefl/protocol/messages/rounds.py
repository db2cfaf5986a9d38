"""Messages of a round: hello, announce, reveal, freeze, certify, release (protocol.md, steps 1, 2, 6 to 9).

The server relays signed frames, so it can withhold but not forge them. ``Place.attempt`` is the draw.
"""

from typing import Annotated, Literal

from msgspec import Meta

from securefl.protocol.messages import base
from securefl.protocol.messages.crypten import InstanceSeed

AtomSeed = Annotated[bytes, Meta(max_length=32 + 2 * base.MAX_PARTIES)]
"""Seed of 32 bytes with labels of kept atoms, a statement of such atoms, or nothing."""
MILLION = 1_000_000
MAX_GROUPS = 64
SEATS = 1024
"""Seats per slot in the counts of hidden groups; each member takes one at random."""
NO_GROUP = -1
MAX_VALUES = 16
ValueName = Annotated[str, Meta(min_length=1, max_length=32)]
MAX_RUN_ID = 256
MAX_STATED = 64
"""Most rounds in one hello (the latest)."""


class Invite(base.Message, frozen=True, kw_only=True):
    """Invitation to a round, or to another draw of its nonces."""

    model_digest: base.Digest
    config_digest: base.Digest
    excluded: Annotated[tuple[base.Name, ...], Meta(max_length=base.MAX_PARTIES)] = ()
    """Parties that withheld a nonce in an earlier draw."""


class ValuedInvite(Invite, frozen=True, kw_only=True):
    """Invitation with announced values, which its model digest covers."""

    values: Annotated[dict[ValueName, float], Meta(min_length=1, max_length=MAX_VALUES)]
    """By feature, such as the clip of ``privacy.clip``."""


class ModelAnnounce(base.Message, frozen=True, kw_only=True):
    """Global model of this round, little-endian float32."""

    params: Annotated[bytes, Meta(max_length=base.MAX_VECTOR)]


class BestModel(base.Message, frozen=True, kw_only=True):
    """Model to keep, sent at the end; the place names the round that began with it."""

    params: Annotated[bytes, Meta(max_length=base.MAX_VECTOR)]
    """Little-endian float32."""


class Limits(base.Message, frozen=True, kw_only=True):
    """Conditions of a party for releasing shares."""

    min_survivors: Annotated[int, Meta(ge=1, le=base.MAX_CLUSTER)]
    k_anonymity: Annotated[int, Meta(ge=1, le=base.MAX_CLUSTER)]
    leakage: Literal["veto", "report"]
    colluders: Annotated[int, Meta(ge=0, le=base.MAX_PARTIES)]
    """Assumed colluders in a combination of sums."""
    leverage: Annotated[int, Meta(ge=1, le=MILLION)]
    """In millionths."""


class Hello(base.Message, frozen=True, kw_only=True):
    """Signed participation of a party, with its limits, sample count and nonce commitment."""

    samples: Annotated[int, Meta(ge=1, le=2**31)]
    model_digest: base.Digest
    config_digest: base.Digest
    commitment: base.Digest
    limits: Limits
    atom_seed: AtomSeed = b""
    """Seed of the run's atoms from a party that knows it; before, the atoms that it keeps from earlier runs
    (:func:`securefl.methods.clustering.statement_of`).
    """
    group: Annotated[int, Meta(ge=-1, lt=MAX_GROUPS)] = NO_GROUP
    leader: Annotated[bytes, Meta(max_length=8)] = b""
    """Session of the followed server; no other may relay this."""


class RoundOfRun(base.Message, frozen=True, kw_only=True):
    """Round of a run that the server has led."""

    run: Annotated[str, Meta(min_length=1, max_length=MAX_RUN_ID)]
    round: Annotated[int, Meta(ge=0, lt=2**31)]


class StatingHello(Hello, frozen=True, kw_only=True):
    """:class:`Hello` with statements about earlier rounds."""

    unreleased: Annotated[tuple[RoundOfRun, ...], Meta(min_length=1, max_length=MAX_STATED)]
    """Rounds in which the sender took part, but released nothing and never will."""


class Announce(base.Message, frozen=True, kw_only=True):
    """Signed hellos of all participants."""

    hellos: Annotated[tuple[base.SignedFrame, ...], Meta(max_length=base.MAX_PARTIES)]


class Reveal(base.Message, frozen=True, kw_only=True):
    """Nonce that the sender's hello committed to."""

    nonce: base.Key


class Reveals(base.Message, frozen=True, kw_only=True):
    """Signed nonces of all announced parties; none may be missing."""

    reveals: Annotated[tuple[base.SignedFrame, ...], Meta(max_length=base.MAX_PARTIES)]


class InstanceAttempt(base.Message, frozen=True, kw_only=True):
    """Attempt of an instance that counts."""

    reclustering: Annotated[int, Meta(ge=0)]
    cluster: Annotated[int, Meta(ge=0)]
    attempt: Annotated[int, Meta(ge=0, le=8)]


class Freeze(base.Message, frozen=True, kw_only=True):
    """Global survivor set, and every survivor's receipts in the recipient's instances."""

    survivors: Annotated[tuple[base.Name, ...], Meta(max_length=base.MAX_PARTIES)]
    attempts: Annotated[tuple[InstanceAttempt, ...], Meta(max_length=base.MAX_PARTIES)]
    """Retried instances; all others are at attempt 0."""
    receipts: Annotated[tuple[base.SignedFrame, ...], Meta(max_length=base.MAX_PARTIES)]


class BindingFreeze(Freeze, frozen=True, kw_only=True):
    """Freeze of a verified round, which commits to every sum before any opens."""

    commitments: Annotated[tuple[base.Digest, ...], Meta(max_length=base.MAX_PARTIES)]
    """Commitment to each instance that may be opened, by reclustering and cluster."""


class Endorse(base.Message, frozen=True, kw_only=True):
    """Endorsement of one model, configuration, assignment and survivor set."""

    statement: base.Digest
    """Digest of :func:`securefl.protocol.round.shared.statement.round_statement`."""
    lists: base.Digest
    """Hash of the sender's own key and share lists."""
    ledger_head: base.Digest


class Certificate(base.Message, frozen=True, kw_only=True):
    """More than (N + q) / 2 signed endorsements of one statement, for N parties on the roster."""

    endorsements: Annotated[tuple[base.SignedFrame, ...], Meta(max_length=base.MAX_PARTIES)]


class Release(base.Message, frozen=True, kw_only=True):
    """Shares of a party for every instance, sealed to the server's key. Sent once per round.

    With hidden groups it is sent twice: for the counts, and for the slots that may be opened.
    """

    sealed: Annotated[bytes, Meta(min_length=60, max_length=base.MAX_VECTOR)]


class SlotCounts(base.Message, frozen=True, kw_only=True):
    """Opened seats of a cluster's survivors, for hidden groups."""

    seats: Annotated[
        tuple[Annotated[int, Meta(ge=0, lt=MAX_GROUPS * SEATS)], ...], Meta(max_length=base.MAX_CLUSTER)
    ]
    """One per survivor, ascending; seat s is in slot s // SEATS."""


class InstanceShares(base.Message, frozen=True, kw_only=True):
    """Shares inside ``Release``: one per member of an instance, of its seed or of its key, never both."""

    reclustering: Annotated[int, Meta(ge=0)]
    cluster: Annotated[int, Meta(ge=0)]
    attempt: Annotated[int, Meta(ge=0, le=8)]
    seed_shares: Annotated[tuple[tuple[int, base.Share], ...], Meta(max_length=base.MAX_CLUSTER)]
    """(member index, share of its self-mask seed) of each survivor."""
    key_shares: Annotated[tuple[tuple[int, base.Share], ...], Meta(max_length=base.MAX_CLUSTER)]
    """(member index, share of its mask key) of each dropout."""
    noise_shares: Annotated[tuple[tuple[int, base.Share], ...], Meta(max_length=base.MAX_CLUSTER)] = ()
    """(member index, share of a noise secret) of each survivor, unless all noise is needed; the number of
    dropouts selects the secret.
    """


class ReleasedShares(base.Message, frozen=True, kw_only=True):
    """Plaintext of ``Release.sealed``."""

    instances: Annotated[tuple[InstanceShares | InstanceSeed, ...], Meta(max_length=base.MAX_PARTIES)]
