"""Privacy, looked at from the outside: what the frames on the wire do and do not contain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from unittest.mock import patch

import numpy as np
import pytest

from securefl.base.arrays import F32, I64
from securefl.base.ids import SERVER, PartyId
from securefl.methods.encoding.ring import from_ring, to_wire
from securefl.protocol.messages.masking import MaskedInput
from securefl.protocol.round.shared.reports import SumOpened
from securefl.protocol.secure_sum.masking import opening
from securefl.protocol.secure_sum.setup import Setup
from tests.simulation.leaves import Leaves
from tests.simulation.spy import Spy, spying
from tests.simulation.world import Node, Op, World, scenario

OPS = (
    Op("drop", "p02", "MaskedInput", 1),
    Op("spoil", "p08", "ShareBoxes"),
    # Where chance puts these two together the retry goes on without both: a dropout of the second round, too.
    Op("drop", "p04", "MaskedInput", 2),
    Op("drop", "p04", "MaskedInput", 3),
)


def trained(party: PartyId, round_: int, params: F32) -> F32:
    generator = np.random.default_rng([int(party[1:]), round_])
    return np.asarray(params + generator.normal(0, 1, params.size), dtype=np.float32)


@cache
def run(kind: str) -> tuple[World, Spy]:
    """Two rounds with a dropout (so that shares of a mask key travel) and a retry. Nobody changes it."""
    made = scenario(
        10, size="5", reclusterings="2", threshold="3", min_survivors="3", server=kind, rounds="2"
    )
    with spying() as spy:
        world = World(made, length=64, train=trained, ops=OPS).run()
    return world, spy


@pytest.mark.parametrize("kind", ["curious", "active"])
def test_no_secret_is_on_the_wire(kind: str) -> None:
    world, spy = run(kind)
    wire = b"\x00".join(world.frames)
    secrets: dict[str, bytes] = {}
    for (instance, name), phase in spy.advertised.items():
        where = f"{name} {instance[1:]}"
        secrets[f"mask key of {where}"] = phase.mask.private
        secrets[f"box key of {where}"] = phase.box.private
        secrets[f"self-mask seed of {where}"] = phase.seed
        for holder, pair in enumerate(phase.dealt.shares):
            secrets[f"seed share of {where} for {holder}"] = pair.seed_share
            secrets[f"key share of {where} for {holder}"] = pair.key_share
    for (instance, name), masked in spy.masked.items():
        where = f"{name} {instance[1:]}"
        for index, (key, _) in enumerate(masked.terms):
            secrets[f"mask {index} of {where}"] = key
        # Any 16 bytes of the encoded update, the trained model or the update itself would do.
        encoded = to_wire(masked.encoded)
        for at in range(0, len(encoded) - 16, 64):
            secrets[f"encoded update of {where} at {at}"] = encoded[at : at + 16]
    for name in world.parties:
        for round_, model in world.models.items():
            after = trained(name, round_, model)
            secrets[f"model of {name} in {round_}"] = after.tobytes()[:16]
            secrets[f"update of {name} in {round_}"] = (after.astype(np.float64) - model).tobytes()[:16]
    for name in (*world.parties, SERVER):
        secrets[f"signing key of {name}"] = world.identities[name].signing_key
        secrets[f"sealing key of {name}"] = world.identities[name].sealing_key
    assert len(secrets) > 500
    found = [what for what, secret in secrets.items() if secret in wire]
    assert not found


def test_the_search_finds_what_is_there() -> None:
    """The same search sees what does travel in clear: public keys, masked inputs, the global model."""
    world, spy = run("curious")
    wire = b"\x00".join(world.frames)
    assert all(phase.mask.public in wire for phase in spy.advertised.values())
    assert all(to_wire(m.masked)[:16] in wire for m in spy.masked.values())
    assert world.models[1].tobytes() in wire


FORMS = {"<u4": 16, "<i8": 32, "<f4": 16, "<f8": 32}
"""Bytes per window: small values leave half of a longer word empty."""


def windows(values: I64) -> Iterator[tuple[str, bytes]]:
    """Pieces of an encoded update, in each form that a program might keep it in, too long for chance."""
    for word, size in FORMS.items():
        for scale in (1.0, 2.0**-16) if "f" in word else (1,):
            raw = np.asarray(values * scale).astype(word).tobytes()
            pieces = (raw[start : start + size] for start in range(0, len(raw) - size + 1, size))
            yield from ((word, piece) for piece in pieces if len(set(piece)) >= 8)


@dataclass
class AtServer:
    """All that went through the server of one run: phases, events, effects, reports, stored vectors.

    Several tests look at it, and none changes it.
    """

    world: World
    spy: Spy
    leaves: Leaves
    secrets: set[bytes]
    """What it reconstructed from shares."""


@cache
def at_server(kind: str) -> AtServer:
    leaves, secrets = Leaves(), set()
    honest = opening._combine

    def combine(setup: Setup, owner: int, shares: Mapping[int, Mapping[int, bytes]]) -> bytes:
        secret = honest(setup, owner, shares)
        secrets.add(secret)
        return secret

    def look(node: Node, before: object, event: object, after: object, effects: object) -> None:
        if node.name == SERVER:
            leaves.add((before, event, after, effects, node.machine, store))

    made = scenario(
        10, size="5", reclusterings="2", threshold="3", min_survivors="3", server=kind, rounds="2"
    )
    with spying() as spy, patch.object(opening, "_combine", combine):
        world = World(made, length=64, train=trained, ops=OPS)
        store = world.server_store
        world.observers.append(look)
        world.run()
    leaves.add(world.server.reports)
    leaves.add(world.server.outcome)
    return AtServer(world, spy, leaves, secrets)


@pytest.mark.parametrize("kind", ["curious", "active"])
def test_the_server_never_holds_an_encoded_update(kind: str) -> None:
    seen = at_server(kind)
    haystack = seen.leaves.haystack()
    assert len(haystack) > 100_000
    tried = Counter[str]()
    for masked in seen.spy.masked.values():
        for word, window in windows(from_ring(masked.encoded)):
            tried[word] += 1
            assert window not in haystack
    assert set(tried) == set(FORMS)
    assert min(tried.values()) > 300


@pytest.mark.parametrize("kind", ["curious", "active"])
def test_the_server_never_learns_self_mask_and_mask_key_of_one_party(kind: str) -> None:
    seen = at_server(kind)
    leaves = Leaves()
    leaves.found = seen.leaves.found | seen.secrets
    haystack = leaves.haystack()
    seeds = {key for key, phase in seen.spy.advertised.items() if phase.seed in haystack}
    keys = {key for key, phase in seen.spy.advertised.items() if phase.mask.private in haystack}
    assert seeds, "self-masks of the counted are opened"
    assert keys, "and mask keys of those who dropped out"
    assert not seeds & keys


def test_the_search_of_the_server_finds_what_is_there() -> None:
    """It sees masked inputs in the store, models in the phases and opened sums in the reports."""
    seen = at_server("curious")
    haystack = seen.leaves.haystack()
    assert sum(to_wire(m.masked) in haystack for m in seen.spy.masked.values()) >= 30
    assert all(model.tobytes() in haystack for model in seen.world.models.values())
    sums = [report.opened for report in seen.world.reports(SumOpened)]
    assert sums
    for opened in sums:
        pieces = [piece for word, piece in windows(from_ring(opened.ring)) if word == "<u4"]
        assert pieces
        assert all(piece in haystack for piece in pieces)


def test_the_walk_goes_everywhere_or_says_that_it_cannot() -> None:
    hidden = from_ring(np.arange(2**20, 2**20 + 64 * 999, 999, dtype=np.uint32))

    def closure() -> I64:
        return hidden

    for holder in ([{"a": (hidden,)}], closure, Counted(hidden), tuple(hidden.tolist())):
        leaves = Leaves()
        leaves.add(holder)
        assert hidden.tobytes() in leaves.haystack()
    with pytest.raises(AssertionError, match="cannot be walked"):
        Leaves().add(object())


@dataclass(frozen=True, slots=True)
class Counted:
    values: I64


@pytest.mark.parametrize("bits", [32, 64])
def test_masked_inputs_are_uniform_bytes(bits: int) -> None:
    """Chi-square over 256 byte values at each byte of a word, for updates that are all zero.

    A uniform source fails one test with probability 1e-6 (critical value 385.6 at 255 degrees of freedom);
    the seed is fixed, so the outcome is, too. Without masks the statistic is 255 times the sample.
    """
    made = scenario(6, encoding__ring_bits=str(bits))
    world = World(made, length=4096, train=lambda _party, _round, params: params).run()
    inputs = world.messages(MaskedInput)
    assert len(inputs) == 6
    width = bits // 8
    words = np.frombuffer(b"".join(m.vector for m in inputs), dtype=np.uint8).reshape(-1, width)
    for column in range(width):
        counts = np.bincount(words[:, column], minlength=256)
        expected = len(words) / 256
        assert float(((counts - expected) ** 2 / expected).sum()) < 385.6


def test_masked_inputs_of_one_update_are_unrelated() -> None:
    """Across instances and rounds the difference of two masked inputs of one party is uniform, too."""
    made = scenario(6, reclusterings="2", rounds="2")
    world = World(made, length=4096, train=lambda _party, _round, params: params).run()
    vectors = [np.frombuffer(m.vector, "<u4") for m in world.messages(MaskedInput, PartyId("p00"))]
    assert len(vectors) == 4
    for i, one in enumerate(vectors):
        for other in vectors[:i]:
            counts = np.bincount((one - other) >> np.uint32(24), minlength=256)
            assert float(((counts - 16) ** 2 / 16).sum()) < 385.6
