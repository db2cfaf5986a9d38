"""Checks the subject of a commit message: under 72 characters, a capital first, no full stop at its end."""

from __future__ import annotations

import sys
from pathlib import Path

LONGEST = 71


def complaint(message: str) -> str:
    """Return the fault of the subject of ``message``; empty if there is none."""
    subject, _, rest = message.partition("\n")
    if subject.startswith(("fixup! ", "squash! ", "Merge ", "Revert ")):
        return ""
    faults = {
        "is empty": not subject.strip(),
        f"has {len(subject)} characters; {LONGEST} at most": len(subject) > LONGEST,
        "begins without a capital": subject[:1].islower(),
        "ends with a full stop": subject.endswith("."),
        "is not followed by an empty line": bool(rest.strip()) and not rest.startswith("\n"),
    }
    return next((f"the subject {fault}" for fault, found in faults.items() if found), "")


if __name__ == "__main__":
    sys.exit(complaint(Path(sys.argv[1]).read_text(encoding="utf-8")) or 0)
