"""Experiments of audits, by name."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import MappingProxyType

from securefl.lab import audit
from securefl.lab.privacy_attacks.laboratory.about_epsilon import audit_epsilon
from securefl.lab.privacy_attacks.laboratory.about_labels import audit_properties
from securefl.lab.privacy_attacks.laboratory.about_members import audit_membership
from securefl.lab.privacy_attacks.laboratory.about_pictures import audit_inversion
from securefl.lab.privacy_attacks.laboratory.case import Case, Progress, case_of

EXPERIMENTS: MappingProxyType[str, Callable[[Case], audit.Chapter]] = MappingProxyType(
    {
        "membership": audit_membership,
        "inversion": audit_inversion,
        "properties": audit_properties,
        "canary": audit_epsilon,
    }
)


def attack_chapters(
    recorded: audit.Recorded,
    truth: audit.GroundTruth | None,
    names: Sequence[str],
    data_dir: Path | None,
    progress: Progress,
) -> Iterator[audit.Chapter]:
    """Run the experiments ``names`` (keys of :data:`EXPERIMENTS`), and yield a chapter for each.

    Raises:
        ConfigError: no ground truth or data, or an experiment that does not fit the scenario.
    """
    if recorded.scenario.groups.count > 1:
        yield from map(_not_with_groups, names)
        return
    case = case_of(recorded, truth, data_dir, progress)
    for name in names:
        yield EXPERIMENTS[name](case)


def _not_with_groups(name: str) -> audit.Chapter:
    claim = "Not tried: the experiment trains one model on all parties' data, but this run has task groups."
    return audit.Chapter(
        audit=name,
        title=f"{name.capitalize()}: not available with task groups",
        method="Experiments repeat the training of a run with chosen data.",
        findings=(audit.note(name, claim),),
    )
