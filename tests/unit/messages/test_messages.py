from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from securefl.base.ids import is_name
from securefl.protocol.messages.base import MAX_CLUSTER, MAX_FRAME, MAX_PARTIES, MAX_VECTOR, Message, Name
from securefl.protocol.messages.crypten import InstanceSeed
from securefl.protocol.messages.masking import SharePair
from securefl.protocol.messages.rounds import (
    InstanceAttempt,
    InstanceShares,
    Limits,
    ReleasedShares,
    RoundOfRun,
)
from securefl.protocol.messages.union import KINDS, AnyMessage
from securefl.protocol.messages.validation import CheckWords, Deals, OwnerDeal, UpdateShareBox
from securefl.protocol.messages.verification import Opened, RoundClaim, Step
from tests.looped import looped

INSIDE = {
    SharePair,
    InstanceAttempt,
    InstanceSeed,
    InstanceShares,
    Limits,
    ReleasedShares,
    RoundOfRun,
    UpdateShareBox,
    CheckWords,
    OwnerDeal,
    Deals,
    RoundClaim,
    Opened,
    Step,
}
"""Structs that travel inside a message, a box or a sealed release only."""
LONGEST = {"max_length", "pattern"}


def subclasses(kind: type) -> set[type]:
    below: list[type] = kind.__subclasses__()
    return set(below).union(*map(subclasses, below))


def test_the_union_is_all_messages() -> None:
    assert set(get_args(AnyMessage)) == subclasses(Message) - INSIDE
    assert {kind.__name__ for kind in get_args(AnyMessage)} == KINDS


@looped("kind", Message.__subclasses__())
def test_every_message_is_a_closed_tagged_frozen_array(kind: type[Message]) -> None:
    config = kind.__struct_config__
    assert config.frozen
    assert config.array_like
    assert config.forbid_unknown_fields
    assert config.tag == kind.__name__


def bounded(kind: msgspec.inspect.Type) -> bool:
    """Whether no value of this type can be longer than a stated limit."""
    match kind:
        case msgspec.inspect.BytesType(max_length=limit):
            return limit is not None
        case msgspec.inspect.StrType(max_length=limit, pattern=pattern):
            return limit is not None or pattern is not None
        case msgspec.inspect.VarTupleType(item_type=item, max_length=limit):
            return limit is not None and bounded(item)
        case msgspec.inspect.TupleType(item_types=items) | msgspec.inspect.UnionType(types=items):
            return all(map(bounded, items))
        case msgspec.inspect.StructType(fields=fields):
            return all(bounded(field.type) for field in fields)
        case _:
            return isinstance(
                kind, msgspec.inspect.IntType | msgspec.inspect.BoolType | msgspec.inspect.LiteralType
            )


@looped("kind", Message.__subclasses__())
def test_every_length_has_a_cap(kind: type[Message]) -> None:
    described = msgspec.inspect.type_info(kind)
    assert isinstance(described, msgspec.inspect.StructType)
    assert [field.name for field in described.fields if not bounded(field.type)] == []


@looped("text", ["a", "a-b_0", "a" * 32, "A", "", "a\n", "all", "server", "alla", "a" * 33, "*", "-"])
def test_names_in_messages_are_names(text: str) -> None:
    raw = msgspec.msgpack.encode(text)
    if is_name(text):
        assert msgspec.msgpack.decode(raw, type=Name) == text
    else:
        with pytest.raises(msgspec.ValidationError):
            msgspec.msgpack.decode(raw, type=Name)


def test_caps() -> None:
    assert (MAX_PARTIES, MAX_CLUSTER, MAX_FRAME, MAX_VECTOR) == (100_000, 1_024, 2**19, 2**29)
