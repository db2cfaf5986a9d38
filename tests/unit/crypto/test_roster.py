from __future__ import annotations

from dataclasses import replace

import pytest

from securefl.base.crypto.identity import Identity, PublicIdentity
from securefl.base.crypto.roster import Roster
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import ConfigError, PeerError
from securefl.base.ids import SERVER, PartyId

A, B, C = PartyId("a"), PartyId("b"), PartyId("c")


def public(name: PartyId, seed: int = 1) -> PublicIdentity:
    return Identity.generate(name, InsecureSeededEntropy(seed).child(name)).public


def roster(*names: PartyId) -> Roster:
    return Roster(public(SERVER), {name: public(name) for name in names})


def test_lookups() -> None:
    members = roster(B, A)
    assert members[A] == members.member("a") == members.parties[A] == public(A)
    assert members[SERVER] == members.member("server") == members.server == public(SERVER)
    assert list(members) == [A, B, SERVER]
    assert list(members.parties) == [A, B]
    assert len(members) == 3
    assert SERVER in members
    assert SERVER not in members.parties
    assert C not in members


@pytest.mark.parametrize("name", ["c", "", "A", "*"])
def test_unknown_senders_are_at_fault_themselves(name: str) -> None:
    with pytest.raises(PeerError) as caught:
        roster(A).member(name)
    assert caught.value.culprit == name
    with pytest.raises(KeyError):
        roster(A)[PartyId(name)]


def test_the_digest_depends_on_content_and_not_on_order() -> None:
    assert roster(A, B).digest() == roster(B, A).digest()
    assert roster(A, B) == roster(B, A)
    assert hash(roster(A, B)) == hash(roster(B, A))
    assert len(roster(A).digest()) == 32


def test_the_digest_covers_every_field() -> None:
    base, other = public(A), public(A, seed=2)
    parties = [
        {A: base},
        {A: replace(base, verify_key=other.verify_key)},
        {A: replace(base, seal_key=other.seal_key)},
        {B: replace(base, name=B)},
        {A: base, B: public(B)},
    ]
    digests = {Roster(public(SERVER), members).digest() for members in parties}
    digests.add(Roster(public(SERVER, seed=2), {A: base}).digest())
    assert len(digests) == 6
    assert roster(A) != Roster(public(SERVER, seed=2), {A: base})


def test_a_roster_does_not_change_with_the_mapping_it_was_made_of() -> None:
    parties = {A: public(A)}
    members = Roster(public(SERVER), parties)
    parties[B] = public(B)
    assert list(members) == [A, SERVER]


def test_wrong_names_are_refused() -> None:
    with pytest.raises(ConfigError, match="server"):
        Roster(public(A), {B: public(B)})
    with pytest.raises(ConfigError, match="lists no party"):
        Roster(public(SERVER), {})
    with pytest.raises(ConfigError, match="holds the key of another party, 'b'"):
        Roster(public(SERVER), {A: public(B)})
    with pytest.raises(ConfigError, match="is not a valid party name"):
        Roster(public(SERVER), {SERVER: public(SERVER, seed=2)})


def test_shared_keys_are_refused_with_their_holders() -> None:
    for field in ("verify_key", "seal_key"):
        twin = replace(public(B), **{field: getattr(public(A), field)})
        with pytest.raises(ConfigError, match="parties share one key: a, b"):
            Roster(public(SERVER), {A: public(A), B: twin})
        twin = replace(public(A), **{field: getattr(public(SERVER), field)})
        with pytest.raises(ConfigError, match="a, server"):
            Roster(public(SERVER), {A: twin})


def test_one_key_for_both_purposes_is_refused() -> None:
    both = replace(public(A), seal_key=public(A).verify_key)
    with pytest.raises(ConfigError, match="parties share one key: a"):
        Roster(public(SERVER), {A: both})


def test_weak_keys_are_refused() -> None:
    for weak in (replace(public(A), seal_key=bytes(32)), replace(public(A), verify_key=b"\x01" + bytes(31))):
        with pytest.raises(ConfigError, match="low order"):
            Roster(public(SERVER), {A: weak})
