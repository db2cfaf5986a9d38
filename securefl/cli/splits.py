"""Measurement of a data split, for figures that show one. Imports torch."""

from __future__ import annotations

import math
import time

from securefl.base.errors import ConfigError
from securefl.cli.data import label_counts
from securefl.lab import experiments
from securefl.methods.weighting import curve, largest_cap, truncate_counts

Shares = tuple[tuple[float, ...], ...]
"""Picture of a split: see :attr:`securefl.lab.experiments.record.CellRecord.shares`."""


def split_of(
    job: experiments.SimulationJob, shows: experiments.Shows
) -> tuple[experiments.SeedRecord, Shares]:
    """Return the measure ``shows`` of a split, in place of an accuracy, and its picture.

    Raises:
        ConfigError: the data set is missing or cannot be split, or ``weighting.alpha`` is missing.
    """
    began = time.process_time()
    counts = label_counts(job.scenario, job.data_dir, job.seed)
    measured, shares = _caps(job, counts["samples"]) if shows == "caps" else _sizes(counts["samples"])
    if shows == "labels":
        distances = list(counts["distance"].values())
        parties: list[list[int]] = list(counts["parties"].values())
        all_labels = [sum(column) for column in zip(*parties, strict=True)]
        measured = math.fsum(distances) / len(distances)
        shares = tuple(tuple(round(n / sum(row), 6) for n in row) for row in (*parties, all_labels))
    record = experiments.SeedRecord(
        seed=job.seed,
        accuracies=(round(measured, 6),),
        ended="",
        seconds=round(time.process_time() - began, 3),
        device="cpu",
        dataset=counts["title"],
        commit=experiments.commit(),
        draws=experiments.draws_of(job.scenario),
    )
    return record, shares


def _caps(job: experiments.SimulationJob, samples: dict[str, int]) -> tuple[float, Shares]:
    """Return the share of samples that truncation leaves, and the caps over alpha."""
    counts, weighting = list(samples.values()), job.scenario.weighting
    if weighting.alpha is None:
        raise ConfigError(
            "weighting.alpha", "is missing, but the caps follow from it", "set it, as in alpha = 0.1"
        )
    cap = largest_cap(counts, weighting.alpha, weighting.alpha_star)
    kept = float(sum(truncate_counts(counts, cap))) / sum(counts)
    alphas, caps = zip(*((float(a), float(u)) for a, u in curve(counts, weighting.alpha_star)), strict=True)
    return kept, (alphas, caps)


def _sizes(samples: dict[str, int]) -> tuple[float, Shares]:
    """Return the share of samples at the two largest parties, and all sizes in descending order."""
    counts = sorted(map(float, samples.values()), reverse=True)
    return sum(counts[:2]) / sum(counts), (tuple(counts),)
