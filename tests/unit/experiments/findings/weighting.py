"""Phrases in findings about the weighting paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain

from tests.unit.experiments.committed import Phrases, points, result, short, span


def attacks() -> Phrases:
    drawn, thirty = result("weighting/figure-A2-mnist-desk"), "truncate to 30 %"
    negated, shifted = (
        span(drawn[f"{attack}, 1, {rule}, passthrough"] for rule in ("mean", "median", "trimmed by weight"))
        for attack in ("negation", "label shift")
    )
    kept = ("median", "trimmed by weight", "trimmed by count")
    assert all(
        drawn[f"none, {rule}, truncate"] - drawn[f"{attack}, 1, {rule}, truncate"] < 0.0055
        for attack in ("negation", "label shift")
        for rule in kept
    )
    counted = [short(drawn[f"label shift, {n}, trimmed by count, passthrough"], 3) for n in ("1", "10 %")]
    *loss, worst = sorted(drawn.losses(f"none, median, {thirty}", "none, median, truncate"))
    assert max(loss) < 0.0075
    lost = {
        attack: drawn.losses(f"{attack}, 10 %, median, {thirty}", f"none, median, {thirty}")
        for attack in ("negation", "label shift")
    }
    by_count = [
        drawn[f"none, trimmed by count, {cap}"] - drawn[f"negation, 10 %, trimmed by count, {cap}"]
        for cap in ("truncate", thirty)
    ]
    return (
        f"end near chance, with model negation ({negated}) and with label shift ({shifted})",
        f"survives the negation ({short(drawn['negation, 1, trimmed by count, passthrough'], 3)})",
        f"({counted[0]} with one attacker, {counted[1]} with a tenth)",
        "the median and both trimmed means lose half a point at most in the mean of the draws",
        f"The plain mean is lost under negation ({short(drawn['negation, 1, mean, truncate'])})",
        f"the model is lost ({short(drawn['negation, 10 %, median, truncate'])})",
        f"the median loses up to {points(max(lost['negation']))} points under negation"
        f" ({short(drawn[f'negation, 10 %, median, {thirty}'], 3)} on average, where 50 % gives"
        f" {short(drawn['negation, 10 %, median, truncate'], 3)}) and {points(*lost['label shift'])} under",
        f"that limit costs half a point without an attack, but {points(worst)} in the draw",
        f"withstands it at both limits, for {points(*by_count)} points"
        f" ({short(drawn['negation, 10 %, trimmed by count, truncate'], 3)} at 50 %)",
    )


def clusters() -> Phrases:
    of_three, single = (
        result("weighting/figure-clusters-mnist-desk"),
        result("weighting/figure-A1-mnist-desk"),
    )
    capped = "trimmed by weight, truncate"
    drop = of_three.losses(f"negation, 1, {capped}", f"none, {capped}")
    *lost, most = sorted(of_three.losses("none, median, ignore", "none, median, passthrough"))
    *alone, alone_most = sorted(single.losses("median, ignore", "median, passthrough"))
    spoiled = short(of_three["negation, 1, median, passthrough"])
    trimmed = [short(of_three[f"{attack}, {capped}"], 3) for attack in ("negation, 1", "none")]
    ignored = [short(of_three[f"{attack}, median, ignore"], 3) for attack in ("negation, 10 %", "none")]
    return (
        f"that cluster is the weighted median ({spoiled})",
        f"loses {points(*drop)} points at alpha* = 50 % ({trimmed[0]} against {trimmed[1]})",
        f"only with the median ({ignored[0]}, against {ignored[1]} without an attack)",
        f"loses {points(*lost)} points against declared counts ({points(most)} in one of five draws),"
        f" that of single updates {points(*alone)} ({points(alone_most)} in that draw; Figure A1)",
    )


def honest() -> Phrases:
    honest = result("weighting/figure-A1-mnist-desk")
    groups = {"mean": ["mean"], "trimmed": ["trimmed by weight", "trimmed by count"], "median": ["median"]}

    def lost(how: str) -> dict[str, list[list[float]]]:
        return {
            name: [honest.losses(f"{rule}, {how}", f"{rule}, passthrough") for rule in rules]
            for name, rules in groups.items()
        }

    by_draw = zip(*chain.from_iterable(lost("truncate").values()), strict=True)
    assert [max(draw) < 0.0101 for draw in by_draw] == [True, True, True, False, True]
    fifth = {name: points(*(by_seed[3] for by_seed in many)) for name, many in lost("truncate").items()}
    ignored = {
        name: points(*(one for by_seed in many for one in by_seed)) for name, many in lost("ignore").items()
    }
    return (
        "In four of five draws",
        f"truncation costs {fifth['mean']} point with the mean, {fifth['trimmed']} with trimmed means"
        f" and {fifth['median']} with the median",
        f"{ignored['mean']} points with the mean, {ignored['trimmed']} with trimmed means"
        f" and {ignored['median']} with the median",
    )


def shakespeare() -> Phrases:
    text = result("weighting/figure-3-shakespeare-desk")
    rules = ("mean", "median", "trimmed by weight", "trimmed by count")
    ignored = [text[f"{rule}, passthrough"] - text[f"{rule}, ignore"] for rule in rules]
    more = [text[f"median, {how}"] - text[f"trimmed by count, {how}"] for how in ("passthrough", "truncate")]
    return (
        f"ignoring counts {points(*ignored)}, mostly with the median",
        f"trimming by count costs {points(*more)} points more",
    )


def shakespeare_attacks() -> Phrases:
    text = result("weighting/figure-4-shakespeare-desk")

    def of(rule: str, how: str, attack: str = "negation, 1") -> float:
        return text[f"{attack}, {rule}, {how}"]

    broken = ("mean", "median", "trimmed by weight")
    ends = [of(rule, "passthrough") for rule in broken]
    below = [of(rule, "passthrough", "none") - of(rule, "passthrough") for rule in broken]
    pulled = [of(rule, "truncate") for rule in broken]
    worst, *kept = sorted(text.seeds("negation, 10 %, median, truncate to 30 %"))
    thirty = "truncate to 30 %"
    return (
        f"So the end ({span(ends)}, {span(below)} below no attack) hides",
        f"worse in the long run ({span(pulled)}).",
        f"the median breaks ({short(of('median', 'truncate'), 3)}),",
        f"({short(of('median', thirty), 3)} against {short(of('median', thirty, 'none'), 3)})",
        f"if counts are ignored ({short(of('median', 'ignore', 'negation, 10 %'), 3)}"
        f" against {short(of('median', 'ignore', 'none'), 3)})",
        f"four of five seeds keep {span(kept)} of {short(of('median', thirty, 'none'))},"
        f" one ends at {short(worst)},",
    )


PHRASES: Mapping[str, Callable[[], Phrases]] = {
    "attacks": attacks,
    "clusters": clusters,
    "honest": honest,
    "shakespeare": shakespeare,
    "shakespeare-attacks": shakespeare_attacks,
}

OTHERS: Mapping[str, Phrases] = {
    "attacks": ("Section 2.2.1",),
    "shakespeare-attacks": (
        "A model that had reached .25 is back above .22 within about five rounds",
        'predicts "space" (.165)',
        "some two points without an attack",
    ),
}
