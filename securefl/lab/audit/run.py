"""All audits of a run, in order."""

from collections.abc import Iterator

from securefl.lab.audit import chain, finding
from securefl.lab.audit.budget import audit_budget
from securefl.lab.audit.exposure import audit_exposure
from securefl.lab.audit.openings import exposed_in
from securefl.lab.audit.reconstruction import audit_reconstruction
from securefl.lab.audit.recorded import Recorded
from securefl.lab.audit.replay import audit_replay
from securefl.lab.audit.report import AuditReport
from securefl.lab.audit.truth import GroundTruth
from securefl.lab.audit.unmasking import audit_unmasking
from securefl.lab.audit.views import audit_views


def audit(
    recorded: Recorded, truth: GroundTruth | None = None, known: chain.Known | None = None
) -> AuditReport:
    """Audit a run.

    Args:
        recorded: the recorded run.
        truth: updates of a run with ``--lab``; None leaves out audits that need them.
        known: inputs for verified runs.

    Raises:
        ConfigError: a recorded update or a kept message is damaged.
    """
    chapters = tuple(_chapters(recorded, truth, known or chain.Known(unknown="the audit did not load it")))
    return AuditReport(recorded, lab=truth is not None, chapters=chapters)


def _chapters(recorded: Recorded, truth: GroundTruth | None, known: chain.Known) -> Iterator[finding.Chapter]:
    versions = exposed_in(recorded)
    yield audit_exposure(recorded, versions)
    yield audit_views(recorded)
    yield audit_unmasking(recorded)
    yield audit_budget(recorded)
    yield audit_replay(recorded, truth)
    if recorded.scenario.secure_sum.verified:
        yield chain.audit_chain(recorded, known)
    if truth is not None:
        yield audit_reconstruction(recorded, truth, versions)
