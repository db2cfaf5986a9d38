from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from securefl.base.entropy import Entropy, InsecureSeededEntropy, OsEntropy
from securefl.base.errors import UsageError

LABELS = st.lists(st.one_of(st.text(max_size=4), st.integers(-3, 3)), max_size=4)


@pytest.mark.parametrize("entropy", [OsEntropy(), InsecureSeededEntropy(1)])
def test_contract(entropy: Entropy) -> None:
    for source in (entropy, entropy.child("a", 1)):
        assert [len(source.draw(size)) for size in (0, 1, 32, 1000)] == [0, 1, 32, 1000]
        assert len({source.draw(16) for _ in range(50)}) == 50


def test_only_the_seeded_one_is_insecure() -> None:
    assert not OsEntropy().insecure
    assert not OsEntropy().child("x").insecure
    assert InsecureSeededEntropy(1).insecure
    assert InsecureSeededEntropy(1).child("x").insecure


def test_children_of_the_system_differ() -> None:
    assert OsEntropy().child("a").draw(16) != OsEntropy().child("a").draw(16)


def test_same_seed_same_bytes() -> None:
    first, second = InsecureSeededEntropy(5), InsecureSeededEntropy(5)
    assert [first.draw(9) for _ in range(3)] == [second.draw(9) for _ in range(3)]
    assert first.child("a").draw(9) == second.child("a").draw(9)
    assert InsecureSeededEntropy(6).draw(9) != InsecureSeededEntropy(5).draw(9)


def test_children_do_not_depend_on_what_else_was_drawn() -> None:
    busy = InsecureSeededEntropy(5)
    busy.draw(1000)
    busy.child("b").draw(10)
    assert busy.child("a").draw(16) == InsecureSeededEntropy(5).child("a").draw(16)


@given(LABELS, LABELS)
def test_names_never_meet(one: list[str | int], other: list[str | int]) -> None:
    root = InsecureSeededEntropy(5)
    same = root.child(*one).draw(16) == root.child(*other).draw(16)
    assert same == (one == other)


def test_a_child_is_not_its_parent_nor_a_longer_path() -> None:
    root = InsecureSeededEntropy(5)
    draws = [e.draw(16) for e in (root, root.child(), root.child("a"), root.child("a", "b"))]
    draws.append(root.child("a").child("b").draw(16))
    assert len(set(draws)) == 5


def test_text_and_number_are_different_names() -> None:
    root = InsecureSeededEntropy(5)
    assert root.child("1").draw(16) != root.child(1).draw(16)


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_seeds_out_of_range(seed: int) -> None:
    with pytest.raises(UsageError):
        InsecureSeededEntropy(seed)


def test_nothing_secret_in_repr() -> None:
    assert repr(InsecureSeededEntropy(1234)) == "InsecureSeededEntropy(...)"


def test_known_answer() -> None:
    """A change here changes every recorded seeded run."""
    path = hashlib.sha256(b"securefl/1/insecure-seeded-entropy" + (7).to_bytes(8, "big")).digest()
    assert InsecureSeededEntropy(7).draw(8) == hashlib.shake_256(path + (1).to_bytes(8, "big")).digest(8)
    labelled = hashlib.sha256(path + b"\x00\x00\x00\x07str:run" + b"\x00\x00\x00\x05int:3").digest()
    drawn = InsecureSeededEntropy(7).child("run", 3).draw(8)
    assert drawn == hashlib.shake_256(labelled + (1).to_bytes(8, "big")).digest(8)
