"""*seeds*: whether what hides members' words in CrypTen sums can be found by trying.

A recorded run does not have its seeds, and must not. So the attack is tried on a computation of the same kind
whose seeds come from a space small enough (:mod:`securefl.lab.audit.crypten_seeds`); the whole space is a
matter of time.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from securefl.base.arrays import I64
from securefl.base.entropy import OsEntropy
from securefl.base.errors import ConfigError
from securefl.lab.audit.chapter import Chapter
from securefl.lab.audit.crypten_seeds import EFFECTIVE_BITS, attack_sum
from securefl.lab.audit.finding import Finding, Severity
from securefl.lab.audit.recorded import Recorded

AUDIT: Final = "seeds"
_BITS: Final = 10
_MEMBERS: Final = 3
_WORDS: Final = 12
_BOUND: Final = 2**24
"""Words of 64 bits are below it by chance with probability 2^-39 each."""


def audit_seeds(recorded: Recorded) -> Chapter:
    """Attack a computation with the run's source of shares of zero."""
    return Chapter(
        audit=AUDIT,
        title="Seeds: whether what hides members' words can be found by trying",
        method=(
            "The search for a seed of torch's generator that makes all words of a member's share small, with"
            f" one colluding neighbour, on a fresh CrypTen sum of {_MEMBERS} members whose seeds have"
            f" {_BITS} bits."
        ),
        findings=(_finding(recorded),),
    )


def _finding(recorded: Recorded) -> Finding:
    source = recorded.scenario.secure_sum.mask_source
    entropy = OsEntropy()
    drawn = [np.frombuffer(entropy.draw(4 * _WORDS), dtype="<i4") for _ in range(_MEMBERS)]
    inputs: list[I64] = [words.astype(np.int64) % _BOUND for words in drawn]
    try:
        search = attack_sum(inputs, _BOUND, _BITS, source, entropy)
    except ConfigError as error:
        return Finding(audit=AUDIT, severity=Severity.NOTE, claim=f"Not tried: {error}.")
    if search.found:
        return Finding(
            audit=AUDIT,
            severity=Severity.WARNING,
            claim=(
                f"A member's update was recovered by trying {2**_BITS} seeds in {search.seconds:.2g} s; all"
                f" 2^{EFFECTIVE_BITS} that CrypTen's generator has take {search.whole_space_hours:.0f} hours"
                " of one processor, with one colluding neighbour of the member."
            ),
            remedy='secure_sum.mask_source = "pairwise"',
        )
    return Finding(
        audit=AUDIT,
        severity=Severity.HOLDS,
        claim=(
            f"None of {2**_BITS} seeds of CrypTen's generator fits a share: shares of zero are streams of"
            " pairwise keys of 256 bits, and CrypTen's generators were never asked."
        ),
    )
