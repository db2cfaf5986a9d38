"""Floor of a secure sum: operations that no implementation of the protocol can omit.

An instance has m members; a send their masked input, k = m - a drop out after the shares. There are d words
of w bytes and F frames per masked input; all else fits one frame.

========================  ====================================  =========================================
operation                 a surviving member                    the server
========================  ====================================  =========================================
AES-256-CTR keystream     m d words: self mask, m - 1 pairs     (a + k a) d words: self masks, open pairs
ring additions            m d words                             (a + a + k a) d words: inputs and masks
X25519 key generations    3: mask, box, sealing the release     k: public keys of reconstructed ones
X25519 agreements         2 (m - 1) + 1: masks, boxes, release  a + k a: releases, open pairs
Ed25519 signatures        4 + F: advert, boxes, receipt,        2 m + a: key lists, box lists, freezes
                          release; masked input
Ed25519 verifications     3 + (m - 1) + (a - 1): server's       2 m + a (2 + F): adverts and boxes;
                          messages; relayed adverts and         receipts, releases, masked inputs
                          receipts of the others
SHA-256                   every byte signed or verified         the same
========================  ====================================  =========================================

Not in the floor: Shamir's polynomials, HKDF, AES-GCM, share digests and hash trees, MessagePack, copies,
checks, Python.

Rates are measured in plain loops over ready-made objects, on vectors of the same size.
"""

import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR

from securefl.protocol import messages, wire

CHUNK = 256 * 1024
"""Bytes of keystream per call: the fastest size on known machines."""
_SAMPLES = 5


@dataclass(frozen=True, slots=True)
class Operations:
    """Numbers of required operations; ``keystream``, ``added`` and ``hashed`` are bytes."""

    keystream: int
    added: int
    generations: int
    agreements: int
    signatures: int
    verifications: int
    hashed: int


@dataclass(frozen=True, slots=True)
class Rates:
    """CPU seconds of one operation, or of one byte for ``keystream``, ``added`` and ``hashed``."""

    keystream: float
    added: float
    generations: float
    agreements: float
    signatures: float
    verifications: float
    hashed: float


def vector_frames(length: int, word: int = 4) -> int:
    """Return F: frames of a masked input of ``length`` words of ``word`` bytes."""
    # Around the vector: an array of two, the tag "MaskedInput", a length of 2, 3 or 5 bytes.
    size = length * word
    head = 1 + 1 + len("MaskedInput") + (2 if size < 2**8 else 3 if size < 2**16 else 5)
    return -(-(size + head) // (messages.MAX_FRAME - wire.HEADER_ROOM))


def member_operations(members: int, alive: int, length: int, hashed: int, word: int = 4) -> Operations:
    """Return the left column of the table; ``hashed`` is measured."""
    return Operations(
        keystream=members * length * word,
        added=members * length * word,
        generations=3,
        agreements=2 * (members - 1) + 1,
        signatures=4 + vector_frames(length, word),
        verifications=3 + (members - 1) + (alive - 1),
        hashed=hashed,
    )


def server_operations(members: int, alive: int, length: int, hashed: int, word: int = 4) -> Operations:
    """Return the right column of the table; ``hashed`` is measured."""
    pairs = (members - alive) * alive
    return Operations(
        keystream=(alive + pairs) * length * word,
        added=(2 * alive + pairs) * length * word,
        generations=members - alive,
        agreements=alive + pairs,
        signatures=2 * members + alive,
        verifications=2 * members + alive * (2 + vector_frames(length, word)),
        hashed=hashed,
    )


def floor_seconds(operations: Operations, rates: Rates) -> dict[str, float]:
    """Return CPU seconds by operation."""
    return {name: getattr(operations, name) * getattr(rates, name) for name in Operations.__slots__}


def measure_rates(length: int) -> Rates:
    """Measure this machine's rates, ring additions on a uint32 vector of ``length`` words."""
    stream = Cipher(AES256(os.urandom(32)), CTR(bytes(16))).encryptor()
    zeros, buffer = bytes(CHUNK), bytearray(CHUNK + 15)
    target = np.zeros(max(1, length), dtype=np.uint32)
    addend = np.frombuffer(os.urandom(CHUNK), dtype=np.uint32)
    chunks = [target[at : at + addend.size] for at in range(0, target.size, addend.size)]
    own, peer = X25519PrivateKey.generate(), X25519PrivateKey.generate().public_key()
    signer = Ed25519PrivateKey.generate()
    verifier, message = signer.public_key(), os.urandom(48)
    signature, frame = signer.sign(message), os.urandom(messages.MAX_FRAME)

    def add() -> None:
        for chunk in chunks:
            np.add(chunk, addend[: chunk.size], out=chunk)

    return Rates(
        keystream=_seconds(lambda: stream.update_into(zeros, buffer), 32) / CHUNK,
        added=_seconds(add, min(64, max(1, 4_000_000 // target.nbytes))) / target.nbytes,
        generations=_seconds(lambda: X25519PrivateKey.generate().public_key(), 32),
        agreements=_seconds(lambda: own.exchange(peer), 32),
        signatures=_seconds(lambda: signer.sign(message), 32),
        verifications=_seconds(lambda: verifier.verify(signature, message), 16),
        hashed=_seconds(lambda: hashlib.sha256(frame).digest(), 4) / len(frame),
    )


def median_rates(samples: list[Rates]) -> Rates:
    """Return the median of each rate."""
    return Rates(*(median(getattr(sample, name) for sample in samples) for name in Rates.__slots__))


def _seconds(operation: Callable[[], object], count: int) -> float:
    """Return the CPU seconds of a call: the median of a few loops, after one uncounted call."""
    operation()
    loops = []
    for _ in range(_SAMPLES):
        start = time.thread_time()
        for _ in range(count):
            operation()
        loops.append((time.thread_time() - start) / count)
    return median(loops)
