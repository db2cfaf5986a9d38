from __future__ import annotations

import pytest

from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import UsageError
from securefl.base.ids import EVERYONE, SERVER
from securefl.protocol.messages.base import MAX_FRAME
from securefl.protocol.messages.control import RollCall
from securefl.protocol.messages.masking import MaskedInput
from securefl.protocol.wire.envelope import HEADER_ROOM, MAX_PARTS, MIN_FRAME, MIN_PIECE, peek
from securefl.protocol.wire.outbox import Outbox

from .ends import IDENTITIES, PLACE, RUN, A, outbox


def test_headers_number_messages_and_parts() -> None:
    sender = outbox()
    small = [peek(f, "d").header for f in sender.frames(SERVER, PLACE, RollCall())]
    large = [peek(f, "d").header for f in sender.frames(EVERYONE, PLACE, MaskedInput(vector=bytes(10_000)))]
    assert [(h.seq, h.part, h.parts, h.kind, h.recipient) for h in small] == [(0, 0, 1, "RollCall", SERVER)]
    assert [(h.seq, h.part, h.parts) for h in large] == [(1, 0, 3), (1, 1, 3), (1, 2, 3)]
    assert {(h.run, h.sender, h.place) for h in small + large} == {(RUN, A, PLACE)}
    assert len({h.session for h in small + large}) == 1


def test_each_start_of_a_process_has_its_own_session() -> None:
    first, second = (
        peek(next(outbox(process=p).frames(SERVER, PLACE, RollCall())), "d").header.session for p in (0, 1)
    )
    assert first != second


@pytest.mark.parametrize("spare", [-1, 0, 1])
def test_frames_are_as_few_as_can_be(spare: int) -> None:
    overhead = len(b"\x92\xabMaskedInput\xc5\x00\x00")
    message = MaskedInput(vector=bytes(2 * MIN_PIECE - overhead + spare))
    frames = list(outbox().frames(SERVER, PLACE, message))
    assert len(frames) == (2 if spare <= 0 else 3)
    assert max(map(len, frames)) <= MIN_FRAME
    assert [len(peek(f, "d").body) for f in frames[:2]] == [MIN_PIECE, MIN_PIECE + min(spare, 0)]


@pytest.mark.parametrize("limit", [0, HEADER_ROOM, MIN_FRAME - 1, MAX_FRAME + 1])
def test_frame_limits_that_are_refused(limit: int) -> None:
    with pytest.raises(UsageError, match=str(limit)):
        Outbox(RUN, IDENTITIES[A], InsecureSeededEntropy(1), limit)


def test_messages_that_need_too_many_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("securefl.protocol.wire.outbox.MAX_PARTS", 3)
    sender = outbox()
    assert len(list(sender.frames(SERVER, PLACE, MaskedInput(vector=bytes(10_000))))) == 3
    with pytest.raises(UsageError, match="needs 4 frames"):
        next(sender.frames(SERVER, PLACE, MaskedInput(vector=bytes(12_000))))
    assert MAX_PARTS * MIN_PIECE > 200 * 2**20
