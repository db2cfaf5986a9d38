from __future__ import annotations

import hashlib

import pytest

from securefl.base.crypto.merkle import merkle_paths, merkle_root, merkle_verify
from securefl.base.errors import UsageError
from tests.looped import looped

COUNTS = range(1, 41)


def leaves(count: int) -> list[bytes]:
    return [hashlib.sha256(bytes([i])).digest() for i in range(count)]


def sha(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


@looped("count", COUNTS)
def test_every_leaf_of_every_size(count: int) -> None:
    items = leaves(count)
    root, paths = merkle_root(items), merkle_paths(items)
    assert len(paths) == count
    for index, path in enumerate(paths):
        assert len(path) <= (count - 1).bit_length()
        assert merkle_verify(root, items[index], index, count, path)


@looped("count", COUNTS)
def test_what_is_wrong_is_refused(count: int) -> None:
    items = leaves(count)
    root, paths = merkle_root(items), merkle_paths(items)
    other = sha(b"other")
    for index, path in enumerate(paths):
        leaf = items[index]
        assert not merkle_verify(root, other, index, count, path)
        assert not merkle_verify(other, leaf, index, count, path)
        assert not merkle_verify(root, leaf, index, count, (*path, other))
        for wrong in (index - 1, index + 1, index ^ 1, -1, count, -count):
            if wrong != index:
                assert not merkle_verify(root, leaf, wrong, count, path)
        for wrong in (count - 1, count + 1, 2 * count, 0):
            assert not merkle_verify(root, leaf, index, wrong, path)
        for at in range(len(path)):
            assert not merkle_verify(root, leaf, index, count, (*path[:at], other, *path[at + 1 :]))
            assert not merkle_verify(root, leaf, index, count, path[:at] + path[at + 1 :])
        if len(path) > 1:
            assert not merkle_verify(root, leaf, index, count, path[::-1])


def test_no_leaf_stands_at_another_index() -> None:
    items = leaves(7)
    root, paths = merkle_root(items), merkle_paths(items)
    accepted = [
        (leaf, index)
        for leaf in range(7)
        for index in range(7)
        for path in paths
        if merkle_verify(root, items[leaf], index, 7, path)
    ]
    assert accepted == [(i, i) for i in range(7)]


def test_sizes_have_different_roots() -> None:
    roots = [merkle_root(leaves(count)) for count in COUNTS]
    assert len(set(roots)) == len(roots)
    assert merkle_root([b"x"]) != merkle_root([b"x", b"x"]) != merkle_root([b"x", b"x", b"x"])


def test_an_inner_node_is_no_leaf() -> None:
    """Second preimages: the inner level of a tree, labelled or not, taken for leaves of a smaller one."""
    items = leaves(4)
    root, paths = merkle_root(items), merkle_paths(items)
    label = b"securefl/1/merkle/"
    bottom = [sha(label, b"leaf\x00", item) for item in items]
    inner = [sha(label, b"node\x00", bottom[0], bottom[1]), sha(label, b"node\x00", bottom[2], bottom[3])]
    joined = [bottom[0] + bottom[1], bottom[2] + bottom[3]]
    for smaller in (inner, joined, bottom[:2], [bottom[0] + bottom[1] + bottom[2] + bottom[3]]):
        assert merkle_root(smaller) != root
    assert paths[0][1] == inner[1]
    for count in range(1, 9):
        for index in range(count):
            for fake in (*inner, *joined, *bottom):
                assert not merkle_verify(root, fake, index, count, ())
                assert not merkle_verify(root, fake, index, count, paths[0][1:])
                assert not merkle_verify(root, fake, index, count, (inner[0],))


def test_a_path_of_a_padded_tree_is_no_path_of_this_one() -> None:
    """Duplicating the last node instead of lifting it would give [a, b, c] and [a, b, c, c] one root."""
    three = leaves(3)
    four = [*three, three[2]]
    assert merkle_root(three) != merkle_root(four)
    for index, path in enumerate(merkle_paths(four)):
        assert not merkle_verify(merkle_root(three), four[index], index, 3, path)
        assert not merkle_verify(merkle_root(three), four[index], index, 4, path)


def test_order_matters() -> None:
    items = leaves(5)
    assert merkle_root(items) != merkle_root(items[::-1])


def test_known_answer() -> None:
    label = b"securefl/1/merkle/"
    a, b, c = (sha(label, b"leaf\x00", item) for item in (b"a", b"b", b"c"))
    ab = sha(label, b"node\x00", a, b)
    assert merkle_root([b"a", b"b", b"c"]) == sha(
        label, b"root\x00", b"\x00\x00\x00\x03", sha(label, b"node\x00", ab, c)
    )
    assert merkle_paths([b"a", b"b", b"c"]) == ((b, c), (a, c), (ab,))


def test_no_leaves() -> None:
    with pytest.raises(UsageError):
        merkle_root([])
    with pytest.raises(UsageError):
        merkle_paths([])
    assert not merkle_verify(merkle_root([b"a"]), b"a", 0, 0, ())
