"""Sessions of servers: by epoch, one in each, and those that only ask end no other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import PeerError, UsageError
from securefl.base.ids import EVERYONE, SERVER, PartyId, RunId
from securefl.protocol.kernel.events import Place
from securefl.protocol.messages.control import Here, RollCall
from securefl.protocol.wire.carried import ASKING, MAX_EPOCH, NOBODY, epoch_of, session_of_server
from securefl.protocol.wire.inbox import Inbox
from securefl.protocol.wire.outbox import Outbox
from tests.simulation.rosters import seeded_identities

RUN = RunId("run")
A = PartyId("a")
IDENTITIES, ROSTER = seeded_identities((A,), 1)


class Server:
    """One process of the server."""

    def __init__(self, seed: int, epoch: int | None = None) -> None:
        self.outbox = Outbox(RUN, IDENTITIES[SERVER], InsecureSeededEntropy(seed))
        self.session = NOBODY
        if epoch is not None:
            self.session = session_of_server(epoch, InsecureSeededEntropy(seed).child("lead"))
            self.outbox.lead(self.session)

    def frame(self) -> bytes:
        (frame,) = self.outbox.frames(EVERYONE, Place(-1), RollCall())
        return frame


def inbox(leader: bytes = NOBODY) -> Inbox:
    return Inbox(RUN, A, ROSTER, 100_000, leader=leader)


def refusal(box: Inbox, frame: bytes) -> PeerError:
    with pytest.raises(PeerError) as caught:
        box.accept(frame, "broker", 0.0)
    return caught.value


@given(epoch=st.integers(0, MAX_EPOCH), seed=st.integers(0, 5))
def test_a_session_tells_its_epoch(epoch: int, seed: int) -> None:
    session = session_of_server(epoch, InsecureSeededEntropy(seed))
    assert len(session) == 8
    assert epoch_of(session) == epoch


@pytest.mark.parametrize("epoch", [-1, MAX_EPOCH + 1])
def test_an_epoch_is_32_bits(epoch: int) -> None:
    with pytest.raises(UsageError, match="epoch must be from 0"):
        session_of_server(epoch, InsecureSeededEntropy(1))


def test_a_server_asks_before_it_leads() -> None:
    delivery = inbox().accept(Server(1).frame(), "broker", 0.0)
    assert delivery is not None
    assert epoch_of(delivery.session) == ASKING


def test_a_later_epoch_ends_an_earlier_one_for_good() -> None:
    box, first, second = inbox(), Server(1, 1), Server(2, 2)
    assert box.accept(first.frame(), "broker", 0.0) is not None
    assert box.accept(second.frame(), "broker", 0.0) is not None
    error = refusal(box, first.frame())
    assert (error.culprit, error.reason) == (
        "broker",
        "comes from an earlier server process (epoch 1, now 2)",
    )
    assert "epoch 1" in refusal(box, Server(9, 1).frame()).reason, "one that was never heard"
    assert box.accept(second.frame(), "broker", 0.0) is not None


def test_of_two_servers_in_one_epoch_the_first_is_believed() -> None:
    box, first, second = inbox(), Server(1, 3), Server(2, 3)
    assert box.accept(first.frame(), "broker", 0.0) is not None
    error = refusal(box, second.frame())
    assert (error.culprit, error.reason) == (
        SERVER,
        "two server processes run at once (epoch 3): this is the second",
    )
    assert box.accept(first.frame(), "broker", 0.0) is not None


def test_what_was_followed_before_a_restart_counts() -> None:
    earlier = Server(1, 5)
    box = inbox(earlier.session)
    assert "epoch 4" in refusal(box, Server(2, 4).frame()).reason
    assert "two server processes run at once (epoch 5)" in refusal(box, Server(3, 5).frame()).reason
    assert box.accept(earlier.frame(), "broker", 0.0) is not None


def test_who_asks_ends_nobodys_session_and_is_told_from_a_replay() -> None:
    box, leading, asking = inbox(), Server(1, 1), Server(2)
    assert box.accept(leading.frame(), "broker", 0.0) is not None
    asked = asking.frame()
    assert box.accept(asked, "broker", 0.0) is not None
    assert box.accept(leading.frame(), "broker", 0.0) is not None
    assert box.accept(asked, "broker", 0.0) is None, "a duplicate"
    assert box.accept(Server(3).frame(), "broker", 0.0) is not None
    assert "repeats a message of an earlier session" in refusal(box, asking.frame()).reason


def test_a_partys_session_is_random() -> None:
    one = Outbox(RUN, IDENTITIES[A], InsecureSeededEntropy(1))
    box = Inbox(RUN, SERVER, ROSTER, 100_000)
    (frame,) = one.frames(SERVER, Place(-1), Here(connection=1, kept=False))
    delivery = box.accept(frame, "broker", 0.0)
    assert delivery is not None
    (other,) = Outbox(RUN, IDENTITIES[A], InsecureSeededEntropy(2)).frames(
        SERVER, Place(-1), Here(connection=1, kept=False)
    )
    later = box.accept(other, "broker", 0.0)
    assert later is not None
    assert later.session != delivery.session
