from __future__ import annotations

from itertools import product

import pytest
from Crypto.Hash import SHA256
from Crypto.Protocol import DH
from Crypto.Protocol.KDF import HKDF
from hypothesis import given, settings
from hypothesis import strategies as st

from securefl.base.crypto.agreement import BadKeyError, KeyPair, check_public, derive_key, shared_key
from securefl.base.crypto.labels import encode
from securefl.base.entropy import InsecureSeededEntropy, OsEntropy
from securefl.base.errors import UsageError
from tests.looped import looped
from tests.tiers import examples

KEY = st.binary(min_size=32, max_size=32)


@given(KEY, KEY, st.text(st.characters(codec="utf-8"), max_size=8), st.binary(max_size=40))
@settings(max_examples=examples(50))
def test_both_ends_agree_and_a_second_implementation_too(
    one: bytes, other: bytes, label: str, context: bytes
) -> None:
    ours, theirs = KeyPair.from_private(one), KeyPair.from_private(other)
    key = shared_key(ours.private, theirs.public, label, context)
    assert key == shared_key(theirs.private, ours.public, label, context)

    def kdf(secret: bytes) -> bytes:
        derived = HKDF(secret, 32, b"", SHA256, context=encode("securefl/1", label, context))
        assert isinstance(derived, bytes)
        return derived

    private = DH.import_x25519_private_key(one)
    public = DH.import_x25519_public_key(theirs.public)
    assert key == DH.key_agreement(static_priv=private, static_pub=public, kdf=kdf)
    assert private.public_key().export_key(format="raw") == ours.public


@given(KEY, KEY, st.binary(max_size=8))
@settings(max_examples=examples(20))
def test_a_pair_agrees_on_several_keys_at_once(one: bytes, other: bytes, context: bytes) -> None:
    ours, theirs = KeyPair.from_private(one), KeyPair.from_private(other)
    expected = tuple(shared_key(one, theirs.public, label, context) for label in ("out", "in"))
    assert ours.agree(theirs.public, context, "out", "in") == expected
    assert theirs.agree(ours.public, context, "out", "in") == expected
    assert ours.agree(theirs.public, context) == ()


P = 2**255 - 19
EIGHTH = 39382357235489614581723060781553021112529911719440698176882885853963445705823
OTHER_EIGHTH = 325606250916557431795983626356110631294008115727848805560023387167927233504


@looped("top_bit, point", product([0, 1], [0, 1, P - 1, P, P + 1, EIGHTH, OTHER_EIGHTH]))
def test_every_spelling_of_every_point_of_low_order_is_refused(point: int, top_bit: int) -> None:
    public = (point | top_bit << 255).to_bytes(32, "little")
    with pytest.raises(BadKeyError):
        check_public(public)
    with pytest.raises(BadKeyError):
        shared_key(bytes(range(32)), public, "mask", b"")
    with pytest.raises(BadKeyError):
        KeyPair.from_private(bytes(range(32))).agree(public, b"", "mask")


@given(st.one_of(st.integers(0, 40), st.integers(P - 40, 2**255 + 40)))
def test_the_check_of_a_key_and_the_agreement_refuse_the_same_keys(point: int) -> None:
    public = point.to_bytes(32, "little")
    try:
        shared_key(bytes(32), public, "mask", b"")
    except BadKeyError:
        with pytest.raises(BadKeyError):
            check_public(public)
    else:
        check_public(public)


@given(KEY, st.integers(0, 255))
def test_any_flipped_bit_of_the_secret_changes_the_key(secret: bytes, bit: int) -> None:
    flipped = (int.from_bytes(secret, "big") ^ 1 << bit).to_bytes(32, "big")
    assert derive_key(secret, "mask", b"") != derive_key(flipped, "mask", b"")


def test_label_and_context_separate_keys() -> None:
    places = [("mask", b""), ("box", b""), ("mask", b"1"), ("mas", b"k"), ("", b"mask")]
    assert len({derive_key(bytes(32), label, context) for label, context in places}) == len(places)


def test_generated_keys_are_fresh_and_come_from_the_entropy() -> None:
    assert KeyPair.generate(OsEntropy()) != KeyPair.generate(OsEntropy())
    assert KeyPair.generate(InsecureSeededEntropy(1)).private == InsecureSeededEntropy(1).draw(32)
    pair = KeyPair.generate(OsEntropy())
    assert pair.private != pair.public


@pytest.mark.parametrize("public", [bytes(32), b"\x01" + bytes(31), bytes(31), bytes(33), b""])
def test_unusable_public_keys_are_refused(public: bytes) -> None:
    with pytest.raises(BadKeyError):
        shared_key(bytes(32), public, "mask", b"")
    with pytest.raises(BadKeyError):
        check_public(public)


def test_usable_public_keys_pass() -> None:
    for _ in range(20):
        check_public(KeyPair.generate(OsEntropy()).public)


@pytest.mark.parametrize("size", [0, 31, 33])
def test_private_keys_of_another_length_are_our_own_mistake(size: int) -> None:
    with pytest.raises(UsageError):
        KeyPair.from_private(bytes(size))
    with pytest.raises(UsageError):
        shared_key(bytes(size), KeyPair.from_private(bytes(32)).public, "mask", b"")


def test_short_secrets_are_our_own_mistake() -> None:
    with pytest.raises(UsageError):
        derive_key(bytes(31), "mask", b"")


def test_the_private_key_is_in_no_text() -> None:
    pair = KeyPair.generate(OsEntropy())
    for text in (repr(pair), str(pair), f"{pair}"):
        assert pair.private.hex() not in text
        assert repr(pair.private) not in text
        assert "private" not in text
