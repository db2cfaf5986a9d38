"""Classes of rejections: a bounded set, as reasons are free text that senders influence."""

from typing import Final

from securefl.protocol.round import strip_late_prefix

LATE: Final = "late"
OTHER: Final = "other"
_MARKS: Final = {
    "authentication": ("signature", "not on the roster", "is not a party", "earlier session", "signed"),
    "untimely": ("wrong time", "too early", "twice", " again", "in round", "of attempt", "already"),
    "malformed": ("canonical", "bytes", "exceeds", "bad key", "cannot be decrypted", "cannot be read"),
}
"""Phrases of reasons by class; the first class with a phrase counts."""
CLASSES: Final = (LATE, *_MARKS, OTHER)


def rejection_class(reason: str) -> str:
    """Return the class of a reason, one of :data:`CLASSES`. Late messages accuse no peer."""
    if strip_late_prefix(reason) is not None:
        return LATE
    return next((name for name, marks in _MARKS.items() if any(mark in reason for mark in marks)), OTHER)
