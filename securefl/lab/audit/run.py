"""All audits of one recorded run, in the order of the report; that of its seeds is here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from securefl.base.arrays import I64
from securefl.base.entropy import OsEntropy
from securefl.base.errors import ConfigError
from securefl.lab.audit import chain, crypten_seeds, finding
from securefl.lab.audit.budget import audit_budget
from securefl.lab.audit.exposed import exposed_in
from securefl.lab.audit.exposure import audit_exposure
from securefl.lab.audit.reconstruction import audit_reconstruction
from securefl.lab.audit.recorded import Recorded
from securefl.lab.audit.replay import audit_replay
from securefl.lab.audit.report import AuditReport
from securefl.lab.audit.truth import GroundTruth
from securefl.lab.audit.unmasking import audit_unmasking
from securefl.lab.audit.views import audit_views

AUDIT: Final = "seeds"
_BITS: Final = 10
_MEMBERS: Final = 3
_WORDS: Final = 12
_BOUND: Final = 2**24
"""Words of 64 bits are below it by chance with probability 2^-39 each."""


def audit_seeds(recorded: Recorded) -> finding.Chapter:
    """Attack a computation with the run's source of shares of zero."""
    return finding.Chapter(
        audit=AUDIT,
        title="Seeds: whether what hides members' words can be found by trying",
        method=(
            "The search for a seed of torch's generator that makes all words of a member's share small, with"
            f" one colluding neighbour, on a fresh CrypTen sum of {_MEMBERS} members whose seeds have"
            f" {_BITS} bits."
        ),
        findings=(_finding(recorded),),
    )


def _finding(recorded: Recorded) -> finding.Finding:
    source = recorded.scenario.secure_sum.mask_source
    entropy = OsEntropy()
    drawn = [np.frombuffer(entropy.draw(4 * _WORDS), dtype="<i4") for _ in range(_MEMBERS)]
    inputs: list[I64] = [words.astype(np.int64) % _BOUND for words in drawn]
    try:
        search = crypten_seeds.attack_sum(inputs, _BOUND, _BITS, source, entropy)
    except ConfigError as error:
        return finding.note(AUDIT, f"Not tried: {error}.")
    if search.found:
        return finding.warning(
            AUDIT,
            f"A member's update was recovered by trying {2**_BITS} seeds in {search.seconds:.2g} s; all"
            f" 2^{crypten_seeds.EFFECTIVE_BITS} that CrypTen's generator has take"
            f" {search.whole_space_hours:.0f} hours"
            " of one processor, with one colluding neighbour of the member.",
            remedy='secure_sum.mask_source = "pairwise"',
        )
    return finding.holds(
        AUDIT,
        f"None of {2**_BITS} seeds of CrypTen's generator fits a share: shares of zero are streams of"
        " pairwise keys of 256 bits, and CrypTen's generators were never asked.",
    )


def audit(
    recorded: Recorded, truth: GroundTruth | None = None, known: chain.Known | None = None
) -> AuditReport:
    """Audit a run.

    Args:
        recorded: what it left behind.
        truth: of a run with ``--lab``, for the audits that need it; None leaves them out.
        known: what the chain of models begins and ends with, where rounds are verified; None for nothing.

    Raises:
        ConfigError: the ground truth, or what a verified run kept, is damaged.
    """
    chapters = tuple(_chapters(recorded, truth, known or chain.Known(unknown="it was not asked for")))
    return AuditReport(recorded, lab=truth is not None, chapters=chapters)


def _chapters(recorded: Recorded, truth: GroundTruth | None, known: chain.Known) -> Iterator[finding.Chapter]:
    versions = exposed_in(recorded)
    yield audit_exposure(recorded, versions)
    yield audit_views(recorded)
    yield audit_unmasking(recorded)
    if recorded.scenario.secure_sum.kind == "crypten":
        yield audit_seeds(recorded)
    yield audit_budget(recorded)
    yield audit_replay(recorded, truth)
    if recorded.scenario.secure_sum.verified:
        yield chain.audit_chain(recorded, known)
    if truth is not None:
        yield audit_reconstruction(recorded, truth, versions)
