"""Identities and rosters that tests share: the same seed gives the same keys, so they are made once."""

from __future__ import annotations

from functools import cache, lru_cache

from securefl.base.crypto.identity import Identity, PublicIdentity
from securefl.base.crypto.roster import Roster
from securefl.base.entropy import Entropy, InsecureSeededEntropy
from securefl.base.ids import DEALER, SERVER, PartyId


@cache
def seeded_identities(
    names: tuple[PartyId, ...], seed: int, with_dealer: bool = False
) -> tuple[dict[PartyId, Identity], Roster]:
    """As :func:`identities_of`, with seeded entropy. Not to be changed: all tests share them."""
    return identities_of(names, InsecureSeededEntropy(seed), with_dealer)


def identities_of(
    names: tuple[PartyId, ...], root: Entropy, with_dealer: bool = False
) -> tuple[dict[PartyId, Identity], Roster]:
    """Identities of the parties ``names``, the server and a dealer; the roster remembers what it checked."""
    roles = (SERVER, DEALER) if with_dealer else (SERVER,)
    made = {name: Identity.generate(name, root.child("identity", name)) for name in (*names, *roles)}
    server, *parties = (remembering(made[name].public) for name in (SERVER, *names))
    dealer = remembering(made[DEALER].public) if with_dealer else None
    return made, Roster(server, {party.name: party for party in parties}, dealer)


def remembering(public: PublicIdentity) -> PublicIdentity:
    return _Remembering(public.name, public.verify_key, public.seal_key)


class _Remembering(PublicIdentity):
    """A signature holds for certain bytes or it does not: in one process, once checked is enough.

    Each frame to everybody is checked by every party of a test's world, and relayed ones again.
    """

    def verify(self, message: bytes, signature: bytes) -> bool:
        return _holds(self, message, signature)


@lru_cache(maxsize=100_000)
def _holds(signer: _Remembering, message: bytes, signature: bytes) -> bool:
    return PublicIdentity.verify(signer, message, signature)
