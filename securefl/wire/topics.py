"""The MQTT topic grammar. The broker's access rules are written from it (transport/acl).

``sfl/1/<run>/up/<party>``       party to server
``sfl/1/<run>/down/<party>``     server to one party
``sfl/1/<run>/down/all``         server to all parties
``sfl/1/<run>/status/<party>``   last will and presence, unsigned: a hint
``sfl/1/<run>/probe/<party>``    a process to itself, to learn the broker's size limit
"""

from __future__ import annotations

from securefl.errors import PeerError
from securefl.ids import EVERYONE, SERVER, PartyId, RunId, is_name

_ROOT = "sfl/1"


def up(run: RunId, party: PartyId) -> str:
    """From a party to the server."""
    return f"{_ROOT}/{run}/up/{party}"


def down(run: RunId, party: PartyId) -> str:
    """From the server to one party, or to all (``EVERYONE``)."""
    return f"{_ROOT}/{run}/down/{'all' if party == EVERYONE else party}"


def status(run: RunId, party: PartyId) -> str:
    """Presence hints of a party."""
    return f"{_ROOT}/{run}/status/{party}"


def probe(run: RunId, party: PartyId) -> str:
    """A process to itself."""
    return f"{_ROOT}/{run}/probe/{party}"


def subscriptions(run: RunId, party: PartyId) -> tuple[str, ...]:
    """Return the topic filters that this process listens to."""
    if party == SERVER:
        return (f"{_ROOT}/{run}/up/+", f"{_ROOT}/{run}/status/+", probe(run, party))
    return (down(run, party), down(run, EVERYONE), probe(run, party))


def sender_hint(topic: str) -> str:
    """Return who a topic says has sent the frame (for blame when the frame itself cannot be read)."""
    parts = topic.split("/")
    if (
        len(parts) == 5
        and parts[3] in {"up", "status", "probe"}
        and (is_name(parts[4]) or parts[4] == SERVER)
    ):
        return parts[4]
    return SERVER if len(parts) == 5 and parts[3] == "down" else "broker"


def status_party(topic: str) -> PartyId | None:
    """Return the party of a status topic, None for any other topic.

    Raises:
        PeerError: a status topic with an impossible name.
    """
    parts = topic.split("/")
    if len(parts) != 5 or parts[3] != "status":
        return None
    if not is_name(parts[4]):
        raise PeerError("broker", f"status topic with the name {parts[4]!r}")
    return PartyId(parts[4])
