"""Hash tree over share digests: one root commits to every share, a short path proves one share.

With 100 members, digests of all shares in each advert would cost a member 680 kB; the root costs 32 bytes, a
path 7 hashes. Labels of leaves and inner nodes differ, and the root binds the number of leaves: an inner node
cannot pass for a leaf, nor a tree for a shorter one.
"""

import hashlib
from collections.abc import Sequence

from securefl.base.errors import UsageError

_LEAF = b"securefl/1/merkle/leaf\x00"
_NODE = b"securefl/1/merkle/node\x00"
_ROOT = b"securefl/1/merkle/root\x00"


def merkle_root(leaves: Sequence[bytes]) -> bytes:
    """Return the root (32 bytes) over ``leaves`` in order.

    Raises:
        UsageError: no leaves.
    """
    level = _bottom(leaves)
    while len(level) > 1:
        level = _above(level)
    return _finish(level[0], len(leaves))


def merkle_paths(leaves: Sequence[bytes]) -> tuple[tuple[bytes, ...], ...]:
    """Return the sibling hashes of each leaf, bottom up. A node without a sibling moves up unchanged."""
    level = _bottom(leaves)
    paths: list[list[bytes]] = [[] for _ in leaves]
    stride = 1
    while len(level) > 1:
        for index, path in enumerate(paths):
            sibling = (index // stride) ^ 1
            if sibling < len(level):
                path.append(level[sibling])
        level = _above(level)
        stride *= 2
    return tuple(tuple(path) for path in paths)


def merkle_verify(root: bytes, leaf: bytes, index: int, count: int, path: Sequence[bytes]) -> bool:
    """Return True if ``leaf`` is at ``index`` among the ``count`` leaves under ``root``."""
    if not 0 <= index < count:
        return False
    node = hashlib.sha256(_LEAF + leaf).digest()
    remaining = list(path)
    width, position = count, index
    while width > 1:
        if position ^ 1 < width:
            if not remaining:
                return False
            sibling = remaining.pop(0)
            pair = sibling + node if position & 1 else node + sibling
            node = hashlib.sha256(_NODE + pair).digest()
        width, position = (width + 1) // 2, position // 2
    return not remaining and _finish(node, count) == root


def _bottom(leaves: Sequence[bytes]) -> list[bytes]:
    if not leaves:
        raise UsageError("a hash tree must have at least 1 leaf, found 0")
    return [hashlib.sha256(_LEAF + leaf).digest() for leaf in leaves]


def _above(level: list[bytes]) -> list[bytes]:
    paired = [hashlib.sha256(_NODE + a + b).digest() for a, b in zip(level[::2], level[1::2], strict=False)]
    return paired + level[len(paired) * 2 :]


def _finish(top: bytes, count: int) -> bytes:
    return hashlib.sha256(_ROOT + count.to_bytes(4, "big") + top).digest()
