"""Lines for people on refusals, and names in lines of events."""

from __future__ import annotations

from collections.abc import Mapping

from securefl import scenario
from securefl.base.text import counted, listed, printable


def sieve(groups: scenario.Groups) -> str:
    """The name of what leaves opened sums out, besides the checks."""
    return "rule" if groups.screen is None else "rule or screen"


def refusal_text(vantage: str, culprit: str, reason: str) -> str:
    """One line on a refusal."""
    return f"{printable(vantage, 32)} refused {printable(culprit, 32)}: {printable(reason)}"


def late_text(vantage: str, culprits: Mapping[str, int], what: str) -> str:
    """One line on late messages, which accuse no peer.

    Args:
        vantage: the process that ignored them.
        culprits: their senders, and how many each sent.
        what: the messages and the cause, as in ``securefl.protocol.round.without_late``.
    """
    messages = counted(sum(culprits.values()), "late message")
    return f"{printable(vantage, 32)} ignored {messages} of {listed(culprits)}: {printable(what)}"
