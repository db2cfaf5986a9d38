"""What servers of one run id say to each other, and whose frames say that it is taken."""

from __future__ import annotations

import pytest

from securefl.base.crypto.identity import Identity
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import ConfigError
from securefl.base.ids import EVERYONE, SERVER, PartyId, RunId
from securefl.protocol.kernel.events import Place
from securefl.protocol.messages.control import Goodbye, RollCall
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.wire.outbox import Outbox
from securefl.runtime.transport.base import ArrivedFrame
from securefl.runtime.transport.leader_lock import _ASKS, _LEADS, _check_frame, _open_claim, _seal

RUN = RunId("sole")
OURS, THEIRS = (Identity.generate(SERVER, InsecureSeededEntropy(seed)) for seed in (1, 2))
NONCE = bytes(range(16))


def test_a_word_is_of_this_server_this_run_and_this_kind() -> None:
    word = _seal(OURS, RUN, _LEADS, NONCE)
    assert _open_claim(OURS.public, RUN, word) == (_LEADS, NONCE)
    assert _open_claim(THEIRS.public, RUN, word) is None
    assert _open_claim(OURS.public, RunId("other"), word) is None
    assert _open_claim(OURS.public, RUN, _ASKS + word[1:]) is None
    assert _open_claim(OURS.public, RUN, _seal(OURS, RUN, b"x", NONCE)) is None
    for at in range(len(word)):
        changed = bytearray(word)
        changed[at] ^= 1
        assert _open_claim(OURS.public, RUN, bytes(changed)) is None
    assert _open_claim(OURS.public, RUN, word[:-1]) is None
    assert _open_claim(OURS.public, RUN, word + b"\x00") is None


def left(by: Identity, run: RunId, message: AnyMessage) -> ArrivedFrame:
    """A frame that the broker has kept."""
    (frame,) = Outbox(run, by, InsecureSeededEntropy(3)).frames(EVERYONE, Place(-1), message)
    return ArrivedFrame(f"sfl/1/{RUN}/down/all", frame)


def test_only_the_servers_own_frames_say_that_a_run_is_led_or_has_ended() -> None:
    over = Goodbye(reason="all rounds are done", aborted=False)
    with pytest.raises(ConfigError, match="has ended at this broker: all rounds are done"):
        _check_frame(left(OURS, RUN, over), RUN, OURS.public, 0)
    with pytest.raises(ConfigError, match="is led by another server"):
        _check_frame(left(OURS, RUN, RollCall()), RUN, OURS.public, 0)
    party = Identity.generate(PartyId("p00"), InsecureSeededEntropy(4))
    for frame in (
        left(THEIRS, RUN, over),
        left(party, RUN, over),
        left(OURS, RunId("other"), over),
        ArrivedFrame("sfl/1/sole/down/all", b"gone"),
    ):
        _check_frame(frame, RUN, OURS.public, 0)
