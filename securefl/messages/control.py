"""Joining and leaving a run."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from securefl.messages.base import Digest, Message


class RollCall(Message, frozen=True, kw_only=True):
    """Server to all, when it starts: who is there? Parties that started first join again."""


class Join(Message, frozen=True, kw_only=True):
    """Party to server: I am here, with this configuration.

    A wrong digest means that the two do not run the same scenario; the server answers with ``Goodbye``.
    """

    config_digest: Digest


class Goodbye(Message, frozen=True, kw_only=True):
    """Server to one or all: the run is over (or over for you)."""

    reason: Annotated[str, Meta(max_length=1_000)]
    aborted: bool
