"""Roster: names and pinned public keys of all participants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from types import MappingProxyType

from securefl.base.crypto.identity import Identity, PublicIdentity
from securefl.base.crypto.labels import digest
from securefl.base.entropy import Entropy
from securefl.base.errors import ConfigError, PeerError
from securefl.base.ids import DEALER, SERVER, PartyId, is_name

_REMEDY = "run keygen for each party"


def make_identities(
    names: Iterable[PartyId], entropy: Entropy, *, with_dealer: bool = False
) -> tuple[dict[PartyId, Identity], Roster]:
    """Generate all keys in one process, for local runs, tests and simulations only.

    Args:
        names: of the parties.
        entropy: each identity draws from its own child.
        with_dealer: also make the dealer of validated sums.

    Returns:
        All identities by name, and their roster.
    """
    parties = tuple(names)
    roles = (SERVER, DEALER) if with_dealer else (SERVER,)
    made = {name: Identity.generate(name, entropy.child("identity", name)) for name in (*parties, *roles)}
    dealer = made[DEALER].public if with_dealer else None
    return made, Roster(made[SERVER].public, {name: made[name].public for name in parties}, dealer)


class Roster(Mapping[PartyId, PublicIdentity]):
    """Public identities of parties, server and dealer by name.

    Iterates over the parties' names in order, then server and dealer. Immutable. The parties sign its digest.

    Raises:
        ConfigError: no server, no parties, a name that does not match its entry, or a key that is repeated or
            has low order.
    """

    def __init__(
        self,
        server: PublicIdentity,
        parties: Mapping[PartyId, PublicIdentity],
        dealer: PublicIdentity | None = None,
    ) -> None:
        for role, name, identity in (("server", SERVER, server), ("dealer", DEALER, dealer)):
            if identity is not None and identity.name != name:
                raise ConfigError(
                    f"roster.{role}", f"has a key named {identity.name!r}", f"its name must be {name!r}"
                )
        if DEALER in parties:
            raise ConfigError(
                f"roster.parties.{DEALER}",
                "is the dealer, which cannot be a party",
                "give the dealer a roster entry of its own",
            )
        if not parties:
            raise ConfigError("roster.parties", "lists no party", "add the .pub file of at least one party")
        for name, party in parties.items():
            if not is_name(name):
                raise ConfigError(
                    f"roster.parties.{name}",
                    "is not a valid party name",
                    "use a-z, 0-9, - and _, at most 32 characters",
                )
            if party.name != name:
                raise ConfigError(
                    f"roster.parties.{name}",
                    f"holds the key of another party, {party.name!r}",
                    "list each party under its own name",
                )
        for member in (server, *parties.values(), *((dealer,) if dealer else ())):
            if member.has_weak_key():
                raise ConfigError(
                    f"roster.{member.name}",
                    "has a weak public key (low order), which protects nothing",
                    _REMEDY,
                )
        self._server = server
        self._dealer = dealer
        self._parties = MappingProxyType({name: parties[name] for name in sorted(parties)})
        self._refuse_shared_keys()

    @property
    def server(self) -> PublicIdentity:
        """The server."""
        return self._server

    @property
    def dealer(self) -> PublicIdentity | None:
        """Dealer of validated sums; None without one."""
        return self._dealer

    @property
    def parties(self) -> Mapping[PartyId, PublicIdentity]:
        """Parties in the order of their names."""
        return self._parties

    def member(self, name: str) -> PublicIdentity:
        """Return the public identity of a sender.

        Raises:
            PeerError: the roster has no such name.
        """
        try:
            return self[PartyId(name)]
        except KeyError:
            raise PeerError(name, "is not a member of the roster") from None

    def digest(self) -> bytes:
        """Return the SHA-256 over names and keys in order of iteration (32 bytes)."""
        return self._digest

    def __getitem__(self, name: PartyId) -> PublicIdentity:
        if name == DEALER and self._dealer is not None:
            return self._dealer
        return self._server if name == SERVER else self._parties[name]

    def __iter__(self) -> Iterator[PartyId]:
        yield from self._parties
        yield SERVER
        if self._dealer is not None:
            yield DEALER

    def __len__(self) -> int:
        return len(self._parties) + 1 + (self._dealer is not None)

    def __eq__(self, other: object) -> bool:
        return self._digest == other._digest if isinstance(other, Roster) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._digest)

    def __repr__(self) -> str:
        return f"Roster({len(self._parties)} parties, {self._digest.hex()[:16]})"

    @cached_property
    def _digest(self) -> bytes:
        fields: list[bytes | str] = []
        for member in self.values():
            fields += (member.name, member.verify_key, member.seal_key)
        return digest("roster", *fields)

    def _refuse_shared_keys(self) -> None:
        # A holder of one key under two names would vote twice in a certificate.
        keys = Counter(key for member in self.values() for key in (member.verify_key, member.seal_key))
        shared = {key for key, count in keys.items() if count > 1}
        holders = [member.name for member in self.values() if {member.verify_key, member.seal_key} & shared]
        if holders:
            raise ConfigError(
                "roster",
                f"parties share one key: {', '.join(holders)}",
                _REMEDY,
            )
