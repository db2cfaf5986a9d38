"""All audits of one recorded run, in the order of the report."""

from __future__ import annotations

from collections.abc import Iterator

from securefl.lab.audit.budget import audit_budget
from securefl.lab.audit.chapter import Chapter
from securefl.lab.audit.exposed import exposed_in
from securefl.lab.audit.exposure import audit_exposure
from securefl.lab.audit.masks import audit_masks
from securefl.lab.audit.reconstruction import audit_reconstruction
from securefl.lab.audit.recorded import Recorded
from securefl.lab.audit.replay import audit_replay
from securefl.lab.audit.report import AuditReport
from securefl.lab.audit.truth import GroundTruth
from securefl.lab.audit.unmasking import audit_unmasking
from securefl.lab.audit.views import audit_views


def audit(recorded: Recorded, truth: GroundTruth | None = None) -> AuditReport:
    """Audit a run.

    Args:
        recorded: what it left behind.
        truth: of a run with ``--lab``, for the audits that need it; None leaves them out.

    Raises:
        ConfigError: the ground truth is damaged.
    """
    return AuditReport(recorded, lab=truth is not None, chapters=tuple(_chapters(recorded, truth)))


def _chapters(recorded: Recorded, truth: GroundTruth | None) -> Iterator[Chapter]:
    versions = exposed_in(recorded)
    yield audit_exposure(recorded, versions)
    yield audit_views(recorded)
    yield audit_unmasking(recorded)
    yield audit_masks(recorded, truth)
    if recorded.scenario.secure_sum.kind == "crypten":
        from securefl.lab.audit.seeds import audit_seeds  # noqa: PLC0415 - CrypTen, where a run has it

        yield audit_seeds(recorded)
    yield audit_budget(recorded)
    yield audit_replay(recorded, truth)
    if truth is not None:
        yield audit_reconstruction(recorded, truth, versions)
