"""``securefl reproduce`` for papers whose figures are trials on drawn problems."""

from __future__ import annotations

from collections.abc import Iterator

from parties.console import say
from securefl.cli.listing import Listed, print_details, print_list
from securefl.cli.study import Asked
from securefl.errors import ConfigError
from securefl.report.canvas import need_matplotlib
from securefl.report.figures import draw_sweep
from securefl.report.text import seconds as spoken
from securefl.reproduce.figure import ScaleName
from securefl.reproduce.freshness import CheckRecord, read_check
from securefl.reproduce.groups.page import trials_page
from securefl.reproduce.groups.record import TrialsRecord, plot_of, read_trial_records
from securefl.reproduce.groups.sheet import Trials, choose_trials, read_trials
from securefl.reproduce.record import encode, write_whole


def reproduce_trials(asked: Asked) -> bool:
    """Run figures, check, write the page, list: what is asked of a paper of trials.

    Returns:
        Whether all that was checked is as committed.

    Raises:
        ConfigError: nothing is asked, or what is not there; a file is refused.
    """
    _check(asked)
    there = read_trials(asked.presets, asked.paper)
    chosen = choose_trials(there, tuple(name for _, name in asked.items)) if asked.items else ()
    if not (chosen or asked.listing or asked.page or asked.check):
        raise ConfigError("--figure", "nothing to do", "--figure 1a, --figure all, --list, --check or --page")
    if chosen and asked.runs:
        need_matplotlib()
        for trials in chosen:
            _run(asked, trials)
    as_committed = True
    if asked.check:
        from securefl.cli.check import check_trials  # noqa: PLC0415 - imports torch, which --list need not wait for

        as_committed = check_trials(asked, chosen or there)
    check = read_check(asked.out)
    if asked.page:
        records = read_trial_records(asked.out)
        if not records:
            raise ConfigError("--page", f"there is no figure in {asked.out}", "run one first: --figure 1a")
        target = asked.out.parent / f"{asked.out.name}.md"
        write_whole(target, trials_page(asked.paper, there, records, asked.out.name, check).encode())
        say(f"wrote {target}")
    if asked.listing:
        show = print_details if chosen else print_list
        show(_listed(chosen or there, read_trial_records(asked.out), check))
    return as_committed


def _check(asked: Asked) -> None:
    """Refuse what trials have no use for."""
    if any(kind == "table" for kind, _ in asked.items):
        raise ConfigError("--table", f"{asked.paper} has figures only", "--figure")
    for option, given in (("--dataset", asked.datasets), ("--aux", asked.auxiliary)):
        if given:
            raise ConfigError(option, f"{asked.paper} draws its problems and reads no data", "leave it out")
    if asked.device not in {None, "cpu"}:
        raise ConfigError("--device", f"trials of {asked.paper} are computed on the CPU", "leave it out")


def _run(asked: Asked, trials: Trials) -> None:
    from securefl.reproduce.groups.running import run_trials  # noqa: PLC0415 - imports torch, which --list need not wait for

    sheet = trials.sheet
    say(f"figure {sheet.panel} ({asked.scale} scale): {sheet.title}")
    say(f"  claim: {' '.join(sheet.claim.split())}")
    record = run_trials(
        trials,
        asked.scale,
        asked.out,
        number=asked.seeds,
        jobs=asked.jobs,
        fresh=asked.fresh,
        on_trial=lambda at, number: say(f"  {at}, trial {number + 1}: done"),
    )
    write_whole(asked.out / f"{record.stem}.json", encode(record))
    write_whole(asked.out / f"{record.stem}.png", draw_sweep(plot_of(trials, record)))
    for cell in record.cells:
        distance, recovered = cell.mean("matched"), cell.mean("recovered")
        say(f"    {cell.method} @ {cell.at}: {distance:.3f}, {recovered:.0%} recovered")
    for verdict in record.verdicts:
        say(f"  {verdict}")
    say(f"  {asked.out / record.stem}.png and .json, {spoken(record.seconds)} of computing")


def _listed(
    there: tuple[Trials, ...], records: dict[tuple[str, ScaleName], TrialsRecord], check: CheckRecord
) -> Iterator[Listed]:
    """Each figure at every scale at which it was run, or at the smallest if it never was."""
    for trials in there:
        sheet = trials.sheet
        ran = [scale for scale in sheet.scale if (sheet.panel, scale) in records]
        for scale in ran or list(sheet.scale)[:1]:
            record = records.get((sheet.panel, scale))
            verdicts, time = (record.verdicts, spoken(record.seconds)) if record else (None, "")
            mark = check.mark(record.stem, record.fingerprint) if record else ""
            yield Listed(sheet.panel, sheet.title, sheet.claim, scale, verdicts, time, mark=mark)
