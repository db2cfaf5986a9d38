"""Reasons of late messages, which are expected after a pause or on a slow link."""

from typing import Final

LATE: Final = "late: "
BEFORE_RESTART: Final = LATE + "meant for the server before it was started again"


def late_reason(kind: str, round_: int, doing: str) -> str:
    """Return the reason for a message of an ended step; ``doing`` is as in "the server is consulting"."""
    return f"{LATE}{kind} of round {round_}, {doing}"


def strip_late_prefix(reason: str) -> str | None:
    """Return a lateness reason without its prefix; None for any other reason."""
    return reason.removeprefix(LATE) if reason.startswith(LATE) else None
