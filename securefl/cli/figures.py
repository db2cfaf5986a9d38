"""Drawing panels with everything around it: simulations side by side, progress, verdicts. Imports torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from parties.console import say
from securefl.cli.batch import begin, simulate
from securefl.report.text import counted
from securefl.report.text import seconds as spoken
from securefl.reproduce.drawing import Batch, Request, conclude
from securefl.reproduce.figure import ScaleName
from securefl.reproduce.record import LEAKAGE_REPORTED
from securefl.reproduce.shelf import Preset


def draw_figures(
    presets: Sequence[Preset],
    scale: ScaleName,
    *,
    seeds: int,
    out: Path,
    data_dir: Path | None,
    device: str | None,
    jobs: int,
    fresh: bool = False,
) -> None:
    """Draw one panel after the other; ``fresh``: with nothing that was simulated before.

    Raises:
        ConfigError: a preset, data or the device are refused; the first panels may be done by then.
        RunAbortedError: the disk is full or gone, or a process died.
    """
    requests = [
        Request(
            preset=preset,
            scale=scale,
            batch=Batch(
                scenarios=preset.scenarios(scale),
                seeds=seeds,
                out=out,
                data_dir=data_dir,
                device=device,
                jobs=jobs,
            ),
        )
        for preset in presets
    ]
    begin([request.batch for request in requests], fresh=fresh)
    for request in requests:
        figure = request.preset.figure
        say(f"figure {figure.panel} ({scale} scale): {figure.title}")
        say(f"  claim: {figure.claim}")
        for line in sorted({s.description for s in request.batch.scenarios.values()}):
            say(f"  {line}")
        record = conclude(request, simulate(request.batch))
        if record.leakage_reported:
            say(f"  {LEAKAGE_REPORTED}")
        many = counted(seeds, "seed")
        say(f"  accuracy, mean of {many} and of the last {record.last} of {record.rounds} rounds:")
        for curve in record.curves:
            ended = sorted({seed.ended for seed in curve.seeds if seed.ended})
            say(f"    {curve.label}: {curve.final:.3f}" + (f" ({'; '.join(ended)})" if ended else ""))
        for verdict in record.verdicts:
            say(f"  {verdict}")
        say(f"  {out / record.stem}.png and .json, {spoken(record.seconds)} of computing")
