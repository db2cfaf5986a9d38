"""Arbitrary messages, made from what msgspec knows about their fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import msgspec
from hypothesis import strategies as st
from msgspec import inspect

from securefl.protocol.kernel.events import Place
from securefl.protocol.messages.union import AnyMessage

KINDS: tuple[type[AnyMessage], ...] = get_args(AnyMessage)
EDGES = [-1, 0, 1, 2, 3, 255, 65_535, 2**31 - 1, 2**63 - 1]


class Pool:
    """Values that occur in a real run, so that arbitrary messages often come close to valid ones."""

    def __init__(self, names: Sequence[str], frames: Sequence[bytes], blobs: Sequence[bytes]) -> None:
        self.names = st.sampled_from(sorted(names))
        self.frames = st.sampled_from(list(frames))
        self.blobs = list(blobs)
        self._structs: dict[type[Any], st.SearchStrategy[Any]] = {}

    def messages(self) -> st.SearchStrategy[AnyMessage]:
        """Any message of the closed set."""
        return st.sampled_from(KINDS).flatmap(self.struct)

    def struct(self, kind: type[Any]) -> st.SearchStrategy[Any]:
        """Any value of one struct that a decoder would let through."""
        # Made once: hypothesis asks for the strategy of each example, and checks each new one.
        if kind not in self._structs:
            described = inspect.type_info(kind)
            assert isinstance(described, inspect.StructType)
            fields = st.fixed_dictionaries({f.name: self._of(f.type) for f in described.fields})
            self._structs[kind] = fields.map(lambda values: kind(**values))
        return self._structs[kind]

    def altered(self, message: AnyMessage) -> st.SearchStrategy[AnyMessage]:
        """A real message with one field changed, if it has any."""
        described = inspect.type_info(type(message))
        assert isinstance(described, inspect.StructType)
        if not described.fields:
            return st.just(message)

        def change(field: inspect.Field) -> st.SearchStrategy[AnyMessage]:
            values = self._of(field.type)
            now = getattr(message, field.name)
            if isinstance(now, tuple) and now:
                without = st.integers(0, len(now) - 1).map(lambda i: now[:i] + now[i + 1 :])
                values = st.one_of(values, without, st.permutations(now).map(tuple), st.just(now + now[:1]))
            if isinstance(now, bytes) and isinstance(field.type, inspect.BytesType):
                least = field.type.min_length or 0
                cut = st.sampled_from([now, now[:least], now[: max(least, len(now) // 2)]])
                longest = field.type.max_length or len(now)
                values = st.one_of(values, cut, st.just((now + now)[:longest]), st.just(bytes(len(now))))
            return values.map(lambda value: msgspec.structs.replace(message, **{field.name: value}))

        return st.sampled_from(described.fields).flatmap(change)

    def _of(self, kind: inspect.Type) -> st.SearchStrategy[Any]:  # noqa: C901 - one branch for each type
        strategy: st.SearchStrategy[Any]
        match kind:
            case inspect.BytesType(min_length=least, max_length=most):
                strategy = self._bytes(least or 0, most or 100)
            case inspect.StrType(pattern=None):
                strategy = st.text(max_size=20)
            case inspect.StrType():
                strategy = st.one_of(self.names, st.sampled_from(["stranger", "p", "0"]))
            case inspect.IntType(ge=least, le=most, lt=below):
                strategy = st.sampled_from(EDGES).filter(
                    lambda n: (
                        (least is None or n >= least)
                        and (most is None or n <= most)
                        and (below is None or n < below)
                    )
                )
            case inspect.FloatType():
                strategy = st.floats(min_value=0.0, exclude_min=True, allow_infinity=False)
            case inspect.BoolType():
                strategy = st.booleans()
            case inspect.LiteralType(values=values):
                strategy = st.sampled_from(values)
            case inspect.VarTupleType(item_type=item, min_length=least):
                strategy = st.lists(self._of(item), min_size=least or 0, max_size=4).map(tuple)
            case inspect.TupleType(item_types=items):
                strategy = st.tuples(*map(self._of, items))
            case inspect.DictType(key_type=key, value_type=value, min_length=least):
                strategy = st.dictionaries(self._of(key), self._of(value), min_size=least or 0, max_size=4)
            case inspect.StructType(cls=cls):
                strategy = self.struct(cls)
            case _:
                raise AssertionError(f"no strategy for {kind}")
        return strategy

    def _bytes(self, least: int, most: int) -> st.SearchStrategy[bytes]:
        edges = [bytes(least), b"\xff" * least, b"\x01".ljust(least, b"\x00"), bytes(least + 7)]
        known = [blob for blob in edges + self.blobs if least <= len(blob) <= most]
        anything = st.binary(min_size=least, max_size=min(most, max(least, 64)))
        if least == 64 < most:
            return st.one_of(st.sampled_from(known), anything, self.frames)
        return st.one_of(st.sampled_from(known), anything)


def places(real: Sequence[Place]) -> st.SearchStrategy[Place]:
    """Places of a real run, and any others that an envelope can carry."""
    index = st.sampled_from([-1, 0, 1, 2, 7, 2**31 - 1])
    return st.one_of(
        st.sampled_from(sorted(set(real))),
        st.builds(Place, index, index, index, st.sampled_from([0, 1, 2, 8, 64])),
    )
