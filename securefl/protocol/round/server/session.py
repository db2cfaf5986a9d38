"""State of one server process: connections, sessions and software of parties, clock, pace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from securefl.base.ids import PartyId
from securefl.protocol import messages
from securefl.protocol.round.server.waiting import Pace
from securefl.protocol.round.shared.absence import NO_ABSENCES, Absences
from securefl.protocol.round.shared.online import OnlineClock

NOBODY_GONE: Mapping[PartyId, float] = MappingProxyType({})
NO_SESSIONS: Mapping[PartyId, bytes] = MappingProxyType({})
NOTHING_REPORTED: Mapping[PartyId, messages.Software] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ServerSession:
    """State of one server process, in no checkpoint."""

    disconnected: Mapping[PartyId, float] = field(default_factory=lambda: NOBODY_GONE)
    """Time when the broker reported a broken connection: a hint that shortens waiting."""
    answering: Mapping[PartyId, bytes] = field(default_factory=lambda: NO_SESSIONS)
    """Session of the process that sent the party's hello in this round, or was invited again."""
    restarted: frozenset[PartyId] = frozenset()
    """Parties with another process since: it lacks the round's secrets, so waiting for it is shortened."""
    pace: Pace = field(default_factory=Pace, compare=False)
    """Pace of the present step; in sums, the start of the first."""
    clock: OnlineClock = field(default_factory=OnlineClock)
    lost_broker: bool = False
    """True if it lost the broker in this round."""
    leader: bytes = b""
    """Session that hellos name."""
    following_other_server: frozenset[PartyId] = frozenset()
    """Parties that follow the server of a later epoch."""
    parties_ahead: frozenset[PartyId] = frozenset()
    """Parties that state a later drawn round than this server's."""
    software: Mapping[PartyId, messages.Software] = field(default_factory=lambda: NOTHING_REPORTED)
    pause_reason: str = ""
    """Reason to stop before the next round."""
    absent: Absences = field(default_factory=lambda: NO_ABSENCES)
