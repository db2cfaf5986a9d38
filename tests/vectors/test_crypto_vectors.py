"""Published vectors, each with its outcome; ``bad-*`` ones name how they are refused.

Where securefl fixes a parameter that a published vector varies (HKDF's info, the initial counter), the vector
is checked against a second implementation, and that one against securefl.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from Crypto.Cipher import AES
from Crypto.Hash import SHA256
from Crypto.Protocol.KDF import HKDF

from securefl.base.crypto.agreement import BadKeyError, KeyPair, derive_key, shared_key
from securefl.base.crypto.identity import Identity, PublicIdentity
from securefl.base.crypto.labels import encode
from securefl.base.crypto.prg import expand
from securefl.base.crypto.shamir import BadShareError, combine
from securefl.base.errors import UsageError
from securefl.base.ids import PartyId

HERE = Path(__file__).parent
NAME = PartyId("vector")
ERRORS: dict[str, type[Exception]] = {
    "BadKeyError": BadKeyError,
    "BadShareError": BadShareError,
    "UsageError": UsageError,
}


def load(name: str) -> list[Any]:
    vectors = json.loads((HERE / f"crypto_{name}.json").read_text())["vectors"]
    return [pytest.param(vector, id=vector["name"]) for vector in vectors]


def raw(text: str) -> bytes:
    return bytes.fromhex(text)


def hkdf(secret: bytes, length: int, salt: bytes, info: bytes) -> bytes:
    derived = HKDF(secret, length, salt, SHA256, context=info)
    assert isinstance(derived, bytes)
    return derived


@pytest.mark.parametrize("vector", load("x25519"))
def test_x25519(vector: dict[str, str]) -> None:
    private, public = raw(vector["private"]), raw(vector["public"])
    if vector["outcome"] != "agree":
        with pytest.raises(ERRORS[vector["outcome"]]):
            shared_key(private, public, "label", b"context")
        return
    expected = hkdf(raw(vector["secret"]), 32, b"", encode("securefl/1", "label", b"context"))
    assert shared_key(private, public, "label", b"context") == expected
    if "own_public" in vector:
        assert KeyPair.from_private(private).public == raw(vector["own_public"])


@pytest.mark.parametrize("vector", load("ed25519"))
def test_ed25519(vector: dict[str, str]) -> None:
    public = PublicIdentity(NAME, raw(vector["public"]), KeyPair.from_private(bytes(32)).public)
    message, signature = raw(vector["message"]), raw(vector["signature"])
    assert public.verify(message, signature) is (vector["outcome"] == "verify")
    if "private" in vector:
        identity = Identity(NAME, raw(vector["private"]), bytes(32))
        assert identity.public.verify_key == public.verify_key
        assert identity.sign(message) == signature


@pytest.mark.parametrize("vector", load("hkdf"))
def test_second_hkdf_agrees_with_the_rfc(vector: dict[str, Any]) -> None:
    derived = hkdf(raw(vector["ikm"]), vector["length"], raw(vector["salt"]), raw(vector["info"]))
    assert derived == raw(vector["okm"])


def test_derive_key_agrees_with_the_second_hkdf() -> None:
    secret = bytes(range(32))
    for label, context in (("", b""), ("mask", b"x" * 100), ("box", b"")):
        assert derive_key(secret, label, context) == hkdf(
            secret, 32, b"", encode("securefl/1", label, context)
        )


@pytest.mark.parametrize("vector", load("aes_ctr"))
def test_aes_ctr(vector: dict[str, str]) -> None:
    key, counter, output = raw(vector["key"]), raw(vector["counter"]), raw(vector["output"])
    second = AES.new(key, AES.MODE_CTR, nonce=b"", initial_value=counter)
    assert second.encrypt(raw(vector["input"])) == output
    if counter == bytes(16):
        assert raw(vector["input"]) == bytes(len(output))
        assert expand(key, len(output) // 4, np.uint32).tobytes() == output
        assert expand(key, len(output) // 8, np.uint64).tobytes() == output


@pytest.mark.parametrize("vector", load("shamir"))
def test_shamir(vector: dict[str, Any]) -> None:
    shares = {int(x): raw(share) for x, share in vector["shares"].items()}
    if vector["outcome"] == "combine":
        assert combine(shares, vector["threshold"]) == raw(vector["secret"])
    else:
        with pytest.raises(ERRORS[vector["outcome"]]):
            combine(shares, vector["threshold"])


@pytest.mark.parametrize("name", ["x25519", "ed25519", "shamir"])
def test_every_bad_vector_is_refused_and_no_good_one(name: str) -> None:
    vectors = json.loads((HERE / f"crypto_{name}.json").read_text())["vectors"]
    good = {"agree", "verify", "combine"}
    assert all((vector["outcome"] in good) != vector["name"].startswith("bad-") for vector in vectors)
    assert {vector["name"].startswith("bad-") for vector in vectors} == {True, False}
