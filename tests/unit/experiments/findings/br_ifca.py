"""Phrases in findings about BR-IFCA."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.unit.experiments.committed import Phrases, result, short, span


def dimensions() -> Phrases:
    desk, paper = result("br-ifca/1a-desk"), result("br-ifca/1a-paper")
    gaps = [
        abs(one[f"Algorithm 1, trimmed mean @ d = {d}"] - one[f"Three-Stage, {how} @ d = {d}"])
        for one in (desk, paper)
        for d in (20, 50)
        for how in ("k-means", "oracle centroids")
    ]
    last = paper["Three-Stage, k-means @ d = 500"] - paper["IFCA (mean) @ d = 500"]
    return (
        f"At d = 20 and 50 it and Algorithm 1 (trimmed mean) differ by at most {max(gaps):.3f}, either way",
        f"At d = 500 k-means is last by {last:.3f} and",
    )


def group_counts() -> Phrases:
    groups = result("br-ifca/1c-desk")
    fall = groups["IFCA (mean) @ k = 5"] - groups["IFCA (mean) @ k = 15"]
    oracle = span(groups[f"Three-Stage, oracle centroids @ k = {k}"] for k in (5, 15))
    return (
        f"IFCA's distance falls by {short(fall, 3)} from 5 to 15 groups",
        f"only the variant with oracle centroids gets worse ({oracle})",
    )


def starts() -> Phrases:
    found = result("br-ifca/starts-desk")
    farther = found["halves of sums of 3 @ d = 200"] - found["near the truth @ d = 200"]
    nearest = [seed.values["nearest"] for seed in found.cell("random @ d = 20").seeds]
    return (
        f"At d = 200 the halves end {short(farther, 3)} farther from the truth than the oracle's",
        f"at d = 20 random starts are {short(sum(nearest) / len(nearest), 3)} from the nearest truth"
        f" and {short(found['random @ d = 20'], 3)} when matched",
    )


PHRASES: Mapping[str, Callable[[], Phrases]] = {
    "1a": dimensions,
    "1c": group_counts,
    "starts": starts,
}

OTHERS: Mapping[str, Phrases] = {
    "attacks": ("noise is that of 100 points",),
    "poisson": ("the sample mean of 10 points at rates of 0.1 to 0.3", "(Assumption 5.10)"),
}
