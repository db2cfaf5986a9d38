"""Measuring a split of the data, for figures that show one; nothing is trained. Imports torch."""

from __future__ import annotations

import time

from securefl.cli.data import label_counts
from securefl.reproduce.measure import Job
from securefl.reproduce.record import SeedRecord

Shares = tuple[tuple[float, ...], ...]
"""By party, and last of all parties together, the share of each class."""


def split_of(job: Job) -> tuple[SeedRecord, Shares]:
    """How far a split is from everybody having the same classes, in place of an accuracy; and the shares.

    Raises:
        ConfigError: the data set is missing or cannot be split as asked.
    """
    began = time.monotonic()
    counts = label_counts(job.scenario, job.data_dir, job.seed)
    distances = list(counts["distance"].values())
    parties: list[list[int]] = list(counts["parties"].values())
    everybody = [sum(column) for column in zip(*parties, strict=True)]
    record = SeedRecord(
        seed=job.seed,
        accuracies=(round(sum(distances) / len(distances), 6),),
        ended="",
        seconds=round(time.monotonic() - began, 3),
        device="cpu",
        dataset=counts["title"],
    )
    return record, tuple(tuple(round(n / sum(row), 6) for n in row) for row in (*parties, everybody))
