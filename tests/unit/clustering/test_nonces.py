from __future__ import annotations

from typing import Any

import pytest

from securefl.base.ids import PartyId, RunId
from securefl.methods.clustering.assignment import certified_seed, commitment

RUN = RunId("run")
A, B, C = PartyId("a"), PartyId("b"), PartyId("c")
NONCES = {A: b"\x01" * 32, B: b"\x02" * 32}
SEED: dict[str, Any] = {
    "nonces": NONCES,
    "run": RUN,
    "round_": 3,
    "draw": 1,
    "model": b"m" * 32,
    "config": b"c" * 32,
}
COMMITMENT: dict[str, Any] = {"nonce": b"\x01" * 32, "run": RUN, "round_": 3, "draw": 1, "party": A}


@pytest.mark.parametrize(
    "change",
    [
        {"nonce": b"\x01" * 31 + b"\x00"},
        {"run": "run2"},
        {"round_": 4},
        {"draw": 0},
        {"party": B},
        {"round_": 1, "draw": 3},
    ],
    ids=str,
)
def test_a_commitment_binds(change: dict[str, Any]) -> None:
    assert len(commitment(**COMMITMENT)) == 32
    assert commitment(**COMMITMENT) == commitment(**COMMITMENT)
    assert commitment(**{**COMMITMENT, **change}) != commitment(**COMMITMENT)


@pytest.mark.parametrize(
    "change",
    [
        {"nonces": {A: NONCES[A]}},
        {"nonces": {**NONCES, C: b"\x03" * 32}},
        {"nonces": {A: NONCES[B], B: NONCES[A]}},
        {"nonces": {A: NONCES[A], C: NONCES[B]}},
        {"nonces": {**NONCES, A: b"\x01" * 31 + b"\x00"}},
        {"run": "run2"},
        {"round_": 4},
        {"draw": 0},
        {"model": b"c" * 32},
        {"config": b"m" * 32},
        {"model": b"c" * 32, "config": b"m" * 32},
    ],
    ids=",".join,
)
def test_the_seed_depends_on_everything(change: dict[str, Any]) -> None:
    assert len(certified_seed(**SEED)) == 32
    assert certified_seed(**{**SEED, **change}) != certified_seed(**SEED)


def test_the_order_of_arrival_does_not_matter() -> None:
    assert certified_seed(**{**SEED, "nonces": {B: NONCES[B], A: NONCES[A]}}) == certified_seed(**SEED)


def test_a_commitment_is_no_seed() -> None:
    alone = certified_seed({A: NONCES[A]}, RUN, 3, 1, b"", b"")
    assert alone != commitment(NONCES[A], RUN, 3, 1, A)
