"""New local work has to be new: what of ``clustering.new_work`` depends on a party's data."""

from __future__ import annotations

from securefl.base.errors import ConfigError
from securefl.methods import clustering
from securefl.scenario import Scenario


def check_new_work(scenario: Scenario, samples: int) -> None:
    """Refuse new work that would be the same update again, in a run that must not expose anybody.

    The works of a round start from one model and differ in the order of samples. Where one batch holds them
    all there is no order, so that all sums hold one update while the ledger counts one version for each.
    Privacy noise is drawn for each work, and accounted for.

    Args:
        scenario: of the run.
        samples: that a party holds, the fewest of any party where several are known.

    Raises:
        ConfigError: with the field to change, the reason and the remedy.
    """
    if (
        clustering.works_of(scenario.clustering) == 1
        or scenario.leakage.mode == "report"
        or scenario.privacy.unit != "none"
    ):
        return
    batch = clustering.batch_size_of(scenario.training, samples)
    if batch >= samples:
        field = "batch_size" if scenario.training.batch_fraction is None else "batch_fraction"
        raise ConfigError(
            f"training.{field}",
            f"a batch of {batch} holds all {samples} samples of a party, so that its new work is the same"
            " update in each reclustering, and sums of several give it away",
            "smaller batches, clustering.new_work = false, privacy noise, or"
            ' leakage.mode = "report" for experiments',
        )
