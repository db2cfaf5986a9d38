"""MQTT topic grammar, also the source of the broker's access rules (transport/acl).

Names outside the grammar of :mod:`securefl.base.ids` are a ``UsageError``, since they were checked before.

``sfl/1/<run>/up/<party>``       party to server
``sfl/1/<run>/down/<party>``     server to one party
``sfl/1/<run>/down/all``         server to all parties
``sfl/1/<run>/status/<party>``   presence of a process, signed; its last will, unsigned: a hint
``sfl/1/<run>/peer/server/server``  servers among themselves: leadership (transport/leader_lock)
``sfl/1/<run>/probe/<party>``    a process to itself: the broker's size limit
"""

from securefl.base.errors import PeerError, UsageError
from securefl.base.ids import EVERYONE, SERVER, PartyId, RunId, is_name

_ROOT = "sfl/1"


def up(run: RunId, party: PartyId) -> str:
    """Return the topic from a party to the server."""
    return _topic(run, "up", party)


def down(run: RunId, party: PartyId) -> str:
    """Return the topic from the server to one party, or to all (``EVERYONE``)."""
    return f"{_base(run)}/down/all" if party == EVERYONE else _topic(run, "down", party)


def status(run: RunId, party: PartyId) -> str:
    """Return the topic for the presence of a process, and its last will."""
    return _topic(run, "status", party, SERVER)


def servers(run: RunId) -> str:
    """Return the topic between a starting server and the leading one."""
    return f"{_base(run)}/peer/{SERVER}/{SERVER}"


def probe(run: RunId, party: PartyId) -> str:
    """Return the topic from a process to itself."""
    return _topic(run, "probe", party, SERVER)


def subscriptions(run: RunId, party: PartyId) -> tuple[str, ...]:
    """Return the topic filters of this process."""
    if party == SERVER:
        return (f"{_base(run)}/up/+", f"{_base(run)}/status/+")
    return (down(run, party), down(run, EVERYONE), status(run, SERVER))


def sender_hint(topic: str) -> str:
    """Return the sender that a topic names, to blame for an unreadable frame."""
    parts = topic.split("/")
    if (
        len(parts) == 5
        and parts[3] in {"up", "status", "probe"}
        and (is_name(parts[4]) or parts[4] == SERVER)
    ):
        return parts[4]
    return SERVER if len(parts) == 5 and parts[3] == "down" else "broker"


def status_party(topic: str) -> PartyId | None:
    """Return the party (or the server) of a status topic, None for any other topic.

    Raises:
        PeerError: a status topic with an invalid name.
    """
    parts = topic.split("/")
    if len(parts) != 5 or parts[3] != "status":
        return None
    if not is_name(parts[4]) and parts[4] != SERVER:
        raise PeerError("broker", f"sends a status of {parts[4]!r}, which is not a valid name")
    return PartyId(parts[4])


def _topic(run: RunId, kind: str, party: PartyId, *also: PartyId) -> str:
    if not (is_name(party) or party in also):
        raise UsageError(f"{party!r} is not a valid party name: use a-z, 0-9, - and _, at most 32 characters")
    return f"{_base(run)}/{kind}/{party}"


def _base(run: RunId) -> str:
    if not is_name(run):
        raise UsageError(f"run id {run!r} is not valid: --run takes a-z, 0-9, - and _, at most 32 characters")
    return f"{_ROOT}/{run}"
