"""Phrases in findings about SHARE."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from statistics import fmean, stdev

from tests.unit.experiments.committed import Phrases, points, result, short, span

T_OF_FIVE = 2.776
"""Half of a 95 % interval of five values, in standard errors."""


def clean(parties: int, byzantine: int, members: int) -> float:
    """Return the probability that a random cluster has no Byzantine member."""
    return math.comb(parties - byzantine, members) / math.comb(parties, members)


def figure_2a() -> Phrases:
    three, fifteen = (short(clean(60, 12, m)) for m in (3, 15))
    return (f"(a cluster of 3 is clean with probability {three}, one of 15 with {fifteen})",)


def figure_2b() -> Phrases:
    ten, fifteen = (short(60 / m * clean(60, 12, m), 1) for m in (10, 15))
    return (f"(expected number {ten} and {fifteen})",)


def figure_3a() -> Phrases:
    return (f"with clusters of 10 ({short(clean(60, 6, 10))} of them clean)",)


def figure_3b() -> Phrases:
    curves, step = result("share/3b-desk"), short(clean(60, 30, 4), 3)
    spread = [short(curves.deviation(f"R = {r}", 2)) for r in (1, 10)]
    return (
        f"A cluster of four is clean with probability {step} for any R",
        f"the expected step is {step} of a full one",
        f"after two rounds the standard deviation over five seeds is {spread[0]} with R = 1"
        f" and {spread[1]} with R = 10",
    )


def figure_3c() -> Phrases:
    curves = result("share/3c-desk")
    gained = curves["R = 10"] - curves["R = 2"]
    others = [curves.seeds(f"R = {r}") for r in (2, 5, 10)]
    clearly = [low + 0.03 < min(rest) for low, *rest in zip(curves.seeds("R = 1"), *others, strict=True)]
    assert sum(clearly) == 2
    return ("clearly in two of five seeds", f"From R = 2 on {short(gained, 3)} is gained")


def figure_4a() -> Phrases:
    text = result("share/4a-desk")
    least, *others = sorted(text.losses("mean", "no attack"))
    assert min(others) > 0.15
    rule = {m: text["m = 3"] - text[f"m = {m}"] for m in (5, 10, 15)}
    assert points(*rule.values()) == "1 to 5"
    published = span(text[f"m = {m}, published eps"] for m in (3, 5, 10, 15))
    return (
        f"The mean ends far lower under the attack, in one of five seeds by only {short(least)}.",
        f"poisoned or not, and ends at {published}:",
        "which costs one to five points against m = 3",
    )


def figure_4b() -> Phrases:
    text = result("share/4b-desk")
    assert 0.025 < text["no attack"] - text["mean"] < 0.03
    assert {text[f"m = {m}, published eps"] for m in (3, 5, 10, 15)} == {text["mean"]}
    return (
        "costs the plain mean nearly three points",
        f"at m = 3 ({short(text['m = 3'], 3)} against {short(text['mean'], 3)})",
    )


def figure_5a() -> Phrases:
    mean = result("share/5a-desk")
    assert f"{100 * (mean['no attack'] - mean['mean']):.1f}" == "0.5"
    return ("Six negated updates of sixty cost the mean half a point",)


def figure_5d() -> Phrases:
    three, fifteen = (short(clean(60, 6, m)) for m in (3, 15))
    return (f"a cluster of 3 is clean with probability {three}, one of 15 with {fifteen},",)


def figure_5f() -> Phrases:
    three, fifteen = (short(clean(60, 3, m)) for m in (3, 15))
    return (f"({three} of them at m = 3, {fifteen} at m = 15)",)


def figure_8a() -> Phrases:
    single = result("share/8a-desk")
    below = single["no SHARE"] - single["SHARE, m = 3, R = 10"]
    return (f"{short(below, 3)} below the trimmed mean alone",)


def figure_8b() -> Phrases:
    strict = result("share/8b-desk")
    gained = strict["SHARE, m = 3, R = 10"] - strict["no SHARE, eps = 5"]
    return (f"SHARE rejects some of the poisoned clusters and gains {100 * gained:.1f} points",)


def figure_9a() -> Phrases:
    curves = result("share/9a-desk")
    gained = curves["reclustering, R = 10"] - curves["fixed, m = 3"]
    assert f"{100 * gained:.1f}" == "0.5"
    return ("Reclustering ends half a point above fixed clusters of 3",)


def figure_9b() -> Phrases:
    fixed = result("share/9b-desk")
    gained = fixed.losses("fixed, m = 3", "reclustering, R = 10")
    half = T_OF_FIVE * stdev(gained) / math.sqrt(len(gained))
    return (
        f"Reclustering is {short(fmean(gained))} above fixed clusters in the mean of five seeds,"
        f" with an interval of {span((fmean(gained) - half, fmean(gained) + half))}",
    )


PHRASES: Mapping[str, Callable[[], Phrases]] = {
    "2a": figure_2a,
    "2b": figure_2b,
    "3a": figure_3a,
    "3b": figure_3b,
    "3c": figure_3c,
    "4a": figure_4a,
    "4b": figure_4b,
    "5a": figure_5a,
    "5d": figure_5d,
    "5f": figure_5f,
    "8a": figure_8a,
    "8b": figure_8b,
    "9a": figure_9a,
    "9b": figure_9b,
}

OTHERS: Mapping[str, Phrases] = {
    "3a": ("since eps = 0.2",),
    "3b": ("that eps = 0.2 accepts",),
    "4a": (
        "With the published eps = 0.2",
        "the squared norm of the validation gradient is about .06 or less",
    ),
    "5a": ("with eps = 0.2",),
    "5d": ("Zeno++ is not within two points of",),
    "6b": ("In two earlier seeds R = 5 was .02 lower",),
}
