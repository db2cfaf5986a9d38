from __future__ import annotations

from itertools import product

import pytest
from Crypto.Cipher import AES
from Crypto.Hash import SHA256
from Crypto.Protocol import DH
from Crypto.Protocol.KDF import HKDF
from Crypto.PublicKey import ECC
from Crypto.Signature import eddsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given, settings
from hypothesis import strategies as st

from securefl.base.crypto.agreement import BadKeyError
from securefl.base.crypto.boxes import BoxError
from securefl.base.crypto.identity import SEAL_OVERHEAD, Identity, PublicIdentity
from securefl.base.crypto.labels import encode
from securefl.base.entropy import InsecureSeededEntropy, OsEntropy
from securefl.base.errors import UsageError
from securefl.base.ids import SERVER, PartyId
from tests.looped import looped
from tests.tiers import examples

ALICE = Identity.generate(PartyId("alice"), InsecureSeededEntropy(1))
BOB = Identity.generate(PartyId("bob"), InsecureSeededEntropy(2))
FIELD = 2**255 - 19
SIGNATURE = 64
# y of the points of order 1, 2, 4 and 8 of edwards25519, and encodings of them that are not reduced.
ORDER_8 = int.from_bytes(
    bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little"
)
LOW_ORDER = [0, 1, FIELD - 1, FIELD, FIELD + 1, ORDER_8, FIELD - ORDER_8]


@given(st.binary(min_size=32, max_size=32), st.binary(max_size=100))
@settings(max_examples=examples(50))
def test_signatures_equal_those_of_a_second_implementation(private: bytes, message: bytes) -> None:
    identity = Identity(PartyId("p"), private, bytes(32))
    second = ECC.construct(curve="Ed25519", seed=private)
    assert identity.public.verify_key == second.public_key().export_key(format="raw")
    signature = identity.sign(message)
    assert len(signature) == SIGNATURE
    assert signature == eddsa.new(second, "rfc8032").sign(message)
    assert identity.public.verify(message, signature)


def test_signatures_by_or_for_others_do_not_verify() -> None:
    signature = ALICE.sign(b"message")
    assert ALICE.public.verify(b"message", signature)
    assert not BOB.public.verify(b"message", signature)
    assert not ALICE.public.verify(b"messagf", signature)
    for wrong in (b"", signature[:-1], signature + b"\0", bytes(64)):
        assert not ALICE.public.verify(b"message", wrong)


@given(st.integers(0, 8 * SIGNATURE - 1))
def test_no_flipped_bit_of_a_signature_verifies(bit: int) -> None:
    signature = int.from_bytes(ALICE.sign(b"message"), "big") ^ 1 << bit
    assert not ALICE.public.verify(b"message", signature.to_bytes(SIGNATURE, "big"))


def test_a_key_that_the_library_refuses_verifies_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes every 32 bytes today and refuses when it verifies; others refuse at once."""

    def refuse(_raw: bytes) -> None:
        raise ValueError

    monkeypatch.setattr(Ed25519PublicKey, "from_public_bytes", refuse)
    public = PublicIdentity(ALICE.name, ALICE.public.verify_key, ALICE.public.seal_key)
    assert not public.verify(b"message", ALICE.sign(b"message"))


@given(st.binary(max_size=100), st.binary(max_size=40))
@settings(max_examples=examples(50))
def test_a_sealed_message_opens_for_its_recipient_in_its_context(plaintext: bytes, context: bytes) -> None:
    box = ALICE.public.seal(plaintext, context, OsEntropy())
    assert len(box) == len(plaintext) + SEAL_OVERHEAD
    assert ALICE.open_sealed(box, context) == plaintext
    with pytest.raises(BoxError):
        BOB.open_sealed(box, context)
    with pytest.raises(BoxError):
        ALICE.open_sealed(box, context + b"\0")


def test_a_second_implementation_opens_a_sealed_message() -> None:
    box = ALICE.public.seal(b"release", b"round 3", OsEntropy())
    info = encode("securefl/1", "seal", encode(box[:32], ALICE.public.seal_key, b"round 3"))

    def kdf(secret: bytes) -> bytes:
        derived = HKDF(secret, 32, b"", SHA256, context=info)
        assert isinstance(derived, bytes)
        return derived

    private = DH.import_x25519_private_key(ALICE.sealing_key)
    key = DH.key_agreement(static_priv=private, static_pub=DH.import_x25519_public_key(box[:32]), kdf=kdf)
    cipher = AES.new(key, AES.MODE_GCM, nonce=box[32:44])
    cipher.update(b"round 3")
    assert cipher.decrypt_and_verify(box[44:-16], box[-16:]) == b"release"


def test_altered_sealed_messages_are_refused() -> None:
    box = ALICE.public.seal(b"release", b"round 3", OsEntropy())
    for bit in range(8 * len(box)):
        flipped = bytearray(box)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(BoxError):
            ALICE.open_sealed(bytes(flipped), b"round 3")
    for size in range(len(box)):
        with pytest.raises(BoxError):
            ALICE.open_sealed(box[:size], b"round 3")
    for ephemeral in (bytes(32), b"\x01" + bytes(31)):
        with pytest.raises(BoxError):
            ALICE.open_sealed(ephemeral + box[32:], b"round 3")


def test_x25519_ignores_the_top_bit_of_the_ephemeral_key_but_the_key_derivation_does_not() -> None:
    box = bytearray(ALICE.public.seal(b"release", b"", OsEntropy()))
    box[31] ^= 0x80
    with pytest.raises(BoxError):
        ALICE.open_sealed(bytes(box), b"")


def test_equal_messages_are_sealed_under_fresh_keys() -> None:
    boxes = {ALICE.public.seal(b"release", b"", OsEntropy())[:32] for _ in range(20)}
    assert len(boxes) == 20


def test_private_keys_come_from_the_entropy_and_differ() -> None:
    entropy = InsecureSeededEntropy(1)
    assert (ALICE.signing_key, ALICE.sealing_key) == (entropy.draw(32), entropy.draw(32))
    keys = {ALICE.signing_key, ALICE.sealing_key, ALICE.public.verify_key, ALICE.public.seal_key}
    assert len(keys) == 4


def test_no_private_byte_is_in_any_text() -> None:
    for text in (repr(ALICE), str(ALICE), f"{ALICE}", repr({"x": [ALICE]}), repr(ALICE.public)):
        for secret in (ALICE.signing_key, ALICE.sealing_key):
            assert secret.hex() not in text
            assert secret.hex()[:8] not in text
            assert repr(secret)[2:-1] not in text
    assert ALICE.public.fingerprint() in repr(ALICE)


def test_the_fingerprint_covers_name_and_both_keys() -> None:
    public = ALICE.public
    variants = {
        public.fingerprint(),
        PublicIdentity(PartyId("alicf"), public.verify_key, public.seal_key).fingerprint(),
        PublicIdentity(public.name, BOB.public.verify_key, public.seal_key).fingerprint(),
        PublicIdentity(public.name, public.verify_key, BOB.public.seal_key).fingerprint(),
    }
    assert len(variants) == 4
    assert all(len(text) == 24 and set(text) <= set("0123456789abcdef-") for text in variants)


def test_the_point_of_order_8_is_one() -> None:
    # 2P has y = 0, hence order 4, exactly if x^2 = -y^2, which the curve equation turns into this one.
    d = -121665 * pow(121666, -1, FIELD)
    assert (d * ORDER_8**4 + 2 * ORDER_8**2 - 1) % FIELD == 0


@looped("top_bit, y", product([0, 1], LOW_ORDER))
def test_low_order_verify_keys_are_weak(y: int, top_bit: int) -> None:
    key = (y | top_bit << 255).to_bytes(32, "little")
    assert PublicIdentity(PartyId("p"), key, ALICE.public.seal_key).has_weak_key()


def test_low_order_seal_keys_are_weak_and_unusable() -> None:
    public = PublicIdentity(PartyId("p"), ALICE.public.verify_key, bytes(32))
    assert public.has_weak_key()
    with pytest.raises(BadKeyError):
        public.seal(b"", b"", OsEntropy())


def test_generated_keys_are_not_weak() -> None:
    for seed in range(20):
        assert not Identity.generate(SERVER, InsecureSeededEntropy(seed)).public.has_weak_key()


@pytest.mark.parametrize("name", ["", "Alice", "a/b", "a" * 33, "*", "a\n"])
def test_other_names_are_our_own_mistake(name: str) -> None:
    with pytest.raises(UsageError):
        Identity.generate(PartyId(name), OsEntropy())
    with pytest.raises(UsageError):
        PublicIdentity(PartyId(name), ALICE.public.verify_key, ALICE.public.seal_key)


def test_other_key_lengths_are_our_own_mistake() -> None:
    for one, other in ((31, 32), (32, 33), (0, 32)):
        with pytest.raises(UsageError):
            Identity(PartyId("p"), bytes(one), bytes(other))
        with pytest.raises(UsageError):
            PublicIdentity(PartyId("p"), bytes(one), bytes(other))
