"""``securefl weights``: truncation of declared sample counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Annotated, assert_never

import typer
from rich.table import Table
from rich.text import Text

from securefl.base.errors import ConfigError
from securefl.cli import console
from securefl.cli.counts import Declared, read_counts
from securefl.cli.options import DataDirOption
from securefl.lab import experiments, plots
from securefl.methods.weighting import (
    curve,
    feasible,
    heaviest,
    largest_cap,
    mwp,
    objective_skew,
    partial_view,
    smallest_sample,
    truncate_counts,
)
from securefl.runtime import report
from securefl.scenario import Scenario, Weighting

ALPHA, ALPHA_STAR = 0.1, 0.5
SHOWN = 20
POINTS = 12


def weights(
    counts: Annotated[
        Path,
        typer.Argument(
            metavar="COUNTS.csv",
            help="A file with one line per party: count, or name,count[,loss]. Or the directory of a run.",
        ),
    ],
    *,
    alpha: Annotated[
        float | None,
        typer.Option(help="Share of dishonest parties. Default: that of the run, or 0.1."),
    ] = None,
    alpha_star: Annotated[
        float | None,
        typer.Option(help="Share of the weight that the rule tolerates. Default: that of the run, or 0.5."),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(help="The file is a random sample: test the bound --cap with this error probability."),
    ] = None,
    cap: Annotated[
        int | None,
        typer.Option(min=1, help="With --delta: the bound U to test, chosen before the sample was drawn."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Plot U over alpha to FILE.png.")] = None,
    data_dir: DataDirOption = None,
) -> None:
    """Find the limit of sample counts that bounds the weight of false counts.

    U is the largest cap with which alpha of the parties weigh alpha* of all at most, for any declared counts
    (Portnoy et al. 2022). With losses in a third column: the shift of the minimised loss by truncation.

    Exit codes: 0 done; 2 refused.
    """
    directory = report.RunDirectory.open(counts) if counts.is_dir() else None
    scenario = None if directory is None else directory.read_scenario()
    alpha, alpha_star = _shares(scenario, alpha, alpha_star)
    _check(alpha, alpha_star, delta, cap)
    if out is not None:
        if out.suffix != ".png":
            raise ConfigError("--out", f"{out.name} does not end in .png", "name it FILE.png")
        plots.need_matplotlib()
    heading = None
    if directory is None or scenario is None:
        file = read_counts(counts)
        declared, heading = file.parties, file.heading
    else:
        from securefl.cli.run_losses import declared_in_run  # noqa: PLC0415 - imports torch, which a file need not wait for

        declared = declared_in_run(directory, scenario, data_dir)
    numbers = [one.count for one in declared]
    if not feasible(len(numbers), alpha, alpha_star):
        liars = heaviest(len(numbers), alpha)
        raise ConfigError(
            "--alpha",
            f"ceil({alpha:g} x {len(numbers)}) = {liars} of {len(numbers)} parties have more than"
            f" {alpha_star:g} of the weight even when all weigh the same",
            "a lower alpha, a higher alpha*, or more parties",
        )
    _check_losses(declared)
    sample = None
    if delta is not None and cap is not None:
        sample = _of_sample(numbers, cap, alpha, alpha_star, delta)
    found = largest_cap(numbers, alpha, alpha_star)
    if heading is not None:
        console.say(f"{counts.name}: the first line is taken for a heading: {heading}")
    if scenario is not None:
        console.say(_as_run(scenario.weighting))
    _tell(declared, found, alpha, alpha_star, _use(scenario, alpha, alpha_star))
    if sample is not None:
        console.say(sample)
    _tell_skew(declared, found)
    points = list(curve(numbers, alpha_star))
    _tell_curve(points)
    if out is not None:
        shown = [(float(a), float(u)) for a, u in points]
        title = f"{counts.name}: U over alpha, alpha* = {alpha_star:g}"
        notes = (f"{len(numbers)} parties, {sum(numbers):,} samples",)
        experiments.write_result(
            out, plots.draw_caps(title, notes, {f"alpha* = {alpha_star:g}": shown}, (alpha, float(found)))
        )
        console.say(f"wrote {out}")


def _shares(scenario: Scenario | None, alpha: float | None, alpha_star: float | None) -> tuple[float, float]:
    """Return alpha and alpha*: as given, else of the run's truncation, else the defaults."""
    own = None if scenario is None or scenario.weighting.alpha is None else scenario.weighting
    if alpha is None:
        alpha = ALPHA if own is None or own.alpha is None else own.alpha
    if alpha_star is None:
        alpha_star = ALPHA_STAR if own is None else own.alpha_star
    return alpha, alpha_star


def _check(alpha: float, alpha_star: float, delta: float | None, cap: int | None) -> None:
    if not 0 < alpha_star < 1:
        raise ConfigError(
            "--alpha-star",
            f"is {alpha_star:g}, but the share of the weight that a rule tolerates lies between 0 and 1",
            "give 0.5, for example",
        )
    if not alpha > 0:
        raise ConfigError(
            "--alpha",
            f"is {alpha:g}, which is not a share of the parties",
            f"give a number above 0 and below --alpha-star = {alpha_star:g}",
        )
    if alpha >= alpha_star:
        raise ConfigError(
            "--alpha",
            f"no cap keeps {report.percent(alpha)} of the parties to {report.percent(alpha_star)} of the"
            " weight: with equal weights they have as much",
            f"give a number above 0 and below --alpha-star = {alpha_star:g}",
        )
    if delta is not None and not 0 < delta < 1:
        raise ConfigError("--delta", f"is {delta:g}, which is not a probability", "give one, as in 0.05")
    if delta is not None and cap is None:
        raise ConfigError(
            "--delta",
            "needs a cap that does not depend on the sample, or its confidence is void",
            "add --cap U, taken from an earlier sample for example",
        )
    if cap is not None and delta is None:
        raise ConfigError("--cap", "has no effect without --delta", "add --delta 0.05")


def _use(scenario: Scenario | None, alpha: float, alpha_star: float) -> str:
    """Return the clause on the use of U in rounds."""
    if scenario is None:
        return "rounds use"
    own = scenario.weighting
    # Without truncation, or with a cap, there is no alpha.
    if own.alpha == alpha and own.alpha_star == alpha_star:
        return "its rounds with all parties used"
    return "not used in the run; rounds would use"


def _tell(declared: Sequence[Declared], cap: Fraction, alpha: float, alpha_star: float, use: str) -> None:
    numbers = [one.count for one in declared]
    liars, before = heaviest(len(numbers), alpha), float(mwp(numbers, alpha))
    after = float(mwp(truncate_counts(numbers, cap), alpha))
    largest, weigh = ("largest holds", "it weighs") if liars == 1 else (f"{liars} largest hold", "they weigh")
    console.say(
        f"{len(numbers)} {'party' if len(numbers) == 1 else 'parties'},"
        f" {report.count_of(sum(numbers), 'sample')};"
        f" the {largest} {report.percent(before)} (alpha = {alpha:g})"
    )
    cut = sorted((one for one in declared if one.count > cap), key=lambda one: (-one.count, one.name))
    if not cut:
        console.say(
            f"U = {_number(cap)}: no count needs truncation if the rule tolerates"
            f" {report.percent(alpha_star)} of the weight (alpha* = {alpha_star:g})"
        )
        return
    kept = float(sum(truncate_counts(numbers, cap)) / sum(numbers))
    console.say(
        f"U = {_number(cap)} ({use} {math.floor(cap):,}): {weigh} {report.percent(after)};"
        f" {len(cut)} of {len(numbers)} truncated, {report.percent(kept)} of the samples count"
    )
    for one in islice(cut, SHOWN):
        console.say(f"  {one.name}: {one.count:,} counts as {_number(cap)}")
    if len(cut) > SHOWN:
        console.say(f"  and {len(cut) - SHOWN} more")


def _as_run(weighting: Weighting) -> str:
    match weighting.mode:
        case "ignore":
            return "the run ignored counts: all parties had the same weight"
        case "passthrough":
            return "the run used the counts as declared"
        case "truncate":
            if weighting.cap is not None:
                return f"the run truncated counts at weighting.cap = {weighting.cap:,}"
            shares = f"alpha = {weighting.alpha:g}, alpha* = {weighting.alpha_star:g}"
            return f"the run truncated counts in each round by {shares}, among the parties present"
        case _:
            assert_never(weighting.mode)


def _of_sample(numbers: Sequence[int], cap: int, alpha: float, alpha_star: float, delta: float) -> str:
    """Return conclusions about all counts from a sample."""
    needed = smallest_sample(alpha, delta)
    if len(numbers) < needed:
        raise ConfigError(
            "--delta",
            f"a sample of {report.count_of(len(numbers), 'count')} is too small at alpha = {alpha:g} and"
            " this delta",
            f"give {needed:,} counts or more, or a larger delta",
        )
    view = partial_view(numbers, cap, alpha, alpha_star, delta)
    verdict = "the bound holds of all parties" if view.holds else "the sample does not show the bound"
    bound = (
        f"the largest {alpha:g} of all parties weigh {report.percent(view.proportion)} at most"
        if math.isfinite(view.proportion)
        else "it bounds no weight at all"
    )
    return f"as a sample, U = {cap:,}, confidence {1 - delta:g}: {verdict}; {bound} (Theorem 2)"


def _check_losses(declared: Sequence[Declared]) -> None:
    for one in declared:
        if one.loss is not None and not math.isfinite(one.loss):
            raise ConfigError(
                one.name,
                "the model's loss on this data is infinite or NaN",
                "use a model that was not destroyed",
            )


def _tell_skew(declared: Sequence[Declared], cap: Fraction) -> None:
    losses = [one.loss for one in declared if one.loss is not None]
    if not losses:
        return
    skew = objective_skew([one.count for one in declared], cap, losses)
    console.say(
        f"objective: {skew.declared:.6g} with declared counts, {skew.truncated:.6g} truncated; the difference"
        f" {skew.difference:.6g} is at most {skew.bound:.6g} (Theorem 3)"
    )


def _tell_curve(points: Sequence[tuple[Fraction, Fraction]]) -> None:
    table = Table(box=None, pad_edge=False, show_edge=False)
    table.add_column("alpha", justify="right")
    table.add_column("U", justify="right")
    step = max(1, math.ceil(len(points) / POINTS))
    for share, cap in [*points[:-1:step], points[-1]] if points else ():
        table.add_row(Text(f"{float(share):.4g}"), Text(_number(cap)))
    report.Terminal().print(table)


def _number(value: Fraction) -> str:
    return f"{int(value):,}" if value.denominator == 1 else f"{float(value):,.3f}"
