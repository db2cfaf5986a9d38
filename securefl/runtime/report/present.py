"""Summary of a run for people."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from securefl.base import sums
from securefl.base.errors import EXIT_EXPECTED, EXIT_PAUSED
from securefl.methods import clustering, metrics
from securefl.protocol.round import CLOSED, metrics_text, on_metrics, strip_late_prefix
from securefl.runtime.report import statistics, text
from securefl.runtime.report.checks import check_lines
from securefl.runtime.report.expect import in_words
from securefl.runtime.report.records import LeftOut, RoundRecord, best_evaluated, unused_rounds
from securefl.runtime.report.summary import Summary
from securefl.runtime.report.text import filter_name, late_text
from securefl.runtime.report.weighing import weighing_lines
from securefl.scenario import Scenario

_MAX_REFUSALS: Final = 8


def print_summary(console: Console, summary: Summary) -> None:
    """Print a run's measures, participation, server's view, expectations and files.

    On a terminal with tables and colours; otherwise unwrapped lines.
    """
    measured = "Metrics of the sites" if summary.scenario.model.by_sites else "Accuracy"
    for title, body in (
        (measured, _accuracy(summary, console)),
        ("Participation", rounds_shown(summary, console)),
        ("Weights by sample count, in the last round", _weighting_lines(summary)),
        ("What the server could see", _view(summary)),
        ("Verification", _verification_lines(summary)),
        ("Sums left out by the noise checks", _check_lines(summary)),
        ("Rejected messages", _refusal_lines(summary)),
        ("Expectations", _expectations(summary)),
        ("Files", _files(summary)),
    ):
        items = list(body)
        if not items:
            continue
        console.print()
        if console.is_terminal:
            console.print(Rule(Text(f"{title} ", style="bold"), align="left", style="bright_black"))
        else:
            console.print(f"{title}:", highlight=False)
        for item in items:
            if console.is_terminal:
                console.print(Padding(item, (0, 0, 0, 2 if isinstance(item, Text) else 0)), highlight=False)
            else:
                console.print("  ", item, sep="", soft_wrap=True, highlight=False)
    console.print()
    _verdict(console, summary)


def _accuracy(summary: Summary, console: Console) -> Iterator[Text]:
    records, outcome = summary.rounds, summary.outcome
    if not records:
        yield Text("no round ended, so no model was tested")
        return
    tested = [(record.accuracy, record.round) for record in records if record.accuracy is not None]
    line = Text.assemble(
        (text.percent(outcome.accuracy), "bold"), f" on the test set{_tasks(summary.scenario)}"
    )
    if not tested:
        line = _evaluation_line(summary)
    if len(tested) > 1:
        bars = text.curve([accuracy for accuracy, _ in tested], 40, ascii_only=_ascii(console))[0]
        best, at = max(tested, key=lambda one: one[0])
        line.append("  ").append(bars, style="cyan")
        line.append(f"  best {text.percent(best)} in round {at}", style="dim")
    yield line
    yield from _unused_metric_lines(summary)
    if outcome.backdoor_success is not None:
        yield Text.assemble(
            (text.percent(outcome.backdoor_success), "bold"),
            " of the test images of other classes are classified as the backdoor's class if they have its "
            "patch",
        )
    if summary.destroyed:
        loss = text.digits(records[-1].loss)
        yield Text(
            f"the model is destroyed: its loss of {loss} nats is worse than guessing", style="bold red"
        )
    sent = (
        "" if summary.simulated else f"; {text.size(summary.up.size)} up, {text.size(summary.down.size)} down"
    )
    if outcome.untrained or (outcome.rounds and outcome.unchanged == outcome.rounds):
        yield Text("the model was not trained: it is the initial model", style="bold red")
    elif outcome.unchanged:
        yield Text(f"the model did not change in {text.count_of(outcome.unchanged, 'round')}", style="red")
    if outcome.failures:
        yield Text(
            f"{text.count_of(outcome.failures, 'training')} failed, and these parties sent zeros", style="red"
        )
    new = outcome.rounds - outcome.unchanged
    done = f"{text.count_of(new, 'round')} with a new model in {text.seconds(summary.seconds)}"
    yield Text(done + sent, style="dim")


def _evaluation_line(summary: Summary) -> Text:
    evaluated = [record for record in summary.rounds if record.metrics]
    if not evaluated and summary.scenario.evaluation.metrics:
        return Text("no metrics of sites were used: the log of each site (NAME.site.jsonl) has the reason")
    if not evaluated:
        return Text("the server has no test set: see the log of each site (NAME.site.jsonl) for its results")
    if summary.scenario.model.by_columns:
        table = statistics.statistics_text(
            metrics.Statistics.of(summary.scenario.evaluation, evaluated[-1].metrics)
        )
        return Text("\n".join((table, *statistics.outside_lines(summary.columns))))
    best = best_evaluated(evaluated, summary.scenario)
    record = best or evaluated[-1]
    which = "best" if best is not None else "last evaluated"
    return Text.assemble(
        (metrics_text(record.metrics), "bold"),
        (f"  at sites, of the {which} model: that of round {record.round}", "dim"),
    )


def _unused_metric_lines(summary: Summary) -> Iterator[Text]:
    unused, metric = unused_rounds(summary.rounds, summary.scenario), summary.scenario.stop.metric
    if not unused:
        return
    line = (
        f"{metric} was too noisy to use in {text.count_of(len(unused), 'round')}: {list(unused.values())[-1]}"
    )
    if best_evaluated(summary.rounds, summary.scenario) is None:
        line = f"the model is the last one, not a best one: {line}"
    yield Text(line, style="yellow")


def _tasks(scenario: Scenario) -> str:
    if scenario.groups.count == 1:
        return ""
    if scenario.groups.tasks == "given":
        return f", of the best of {scenario.groups.count} models"
    return f", mean over {scenario.groups.count} rotations of it, each tested on a model of its own"


def _weighting_lines(summary: Summary) -> Iterator[Text]:
    if summary.rounds:
        yield from map(Text, weighing_lines(summary.rounds[-1].weighing))


def _projection_lines(summary: Summary) -> Iterator[Text]:
    projections = sum(record.projections for record in summary.rounds)
    if projections:
        yield Text(
            f"validation: the dealer and one evaluator together would know {projections:,} projections of"
            " single updates; an evaluator that deviates knows one bit of its choice about each of"
            f" {sum(record.measured for record in summary.rounds):,} updates",
            style="yellow",
        )


def _view(summary: Summary) -> Iterator[Text]:
    view = summary.view
    if view.opened:
        sizes = ", ".join(
            f"{count:,} of {members}" for members, count in sorted(view.by_size.items(), reverse=True)
        )
        yield Text(
            f"{text.count_of(view.opened, 'cluster sum')}: {sizes} parties. The smallest"
            f" counts {view.smallest}."
        )
    else:
        yield Text("no sum was opened: the server saw only masked vectors")
    if view.exposed:
        names = text.list_of(f"{party} in round {round_}" for round_, party in view.exposed)
        yield Text(f"SINGLE UPDATES CAN BE COMPUTED from these sums: {names}", style="bold red")
    elif view.opened and view.searched:
        yield Text.assemble(
            ("no single update", "bold"),
            " was exposed: none was opened, and none follows from the sums of its round",
        )
    elif view.opened:
        yield Text("no single update was opened; combinations of the sums were not searched", style="yellow")
    yield from _projection_lines(summary)
    if view.closed:
        yield Text(
            f"{text.count_of(view.closed, 'sum')} were not opened: they would have exceeded a leakage limit"
        )
    if clustering.works_of(summary.scenario.clustering) > 1:
        yield Text(
            "a party's updates of one round are similar, and equal if a batch holds all of"
            " its samples: their common part can be estimated from the sums of several reclusterings",
            style="yellow",
        )
    if colluders := summary.scenario.secure_sum.colluders:
        yield Text(
            f"colluding parties (up to {colluders}) can subtract their own updates and learn more",
            style="yellow",
        )
    yield from _privacy(summary)
    yield from (Text(one.whole, style="yellow") for one in on_metrics(summary.scenario))
    if summary.simulated:
        yield Text("a simulation sends no messages; the server of a real run would see these sums")
    elif summary.insecure:
        yield Text(
            "INSECURE SEEDED ENTROPY: anyone who knows the seed can remove all masks. For tests only.",
            style="bold red",
        )


def _privacy(summary: Summary) -> Iterator[Text]:
    account = summary.privacy
    if account is None or account.guarantee is None:
        why = (
            "a sum still reveals something about its parties"
            if account is None
            else account.text.removeprefix("none: ")
        )
        yield Text.assemble("differential privacy: ", ("none", "bold"), f" ({why})")
        return
    yield Text.assemble("differential privacy: ", (account.text, "bold"))
    if account.forgoing:
        names = text.list_of(sorted(account.forgoing))
        yield Text(f"no guarantee for {names}: their updates are not clipped, or have no noise")


def _check_lines(summary: Summary) -> Iterator[Text]:
    if summary.checked is not None:
        yield from map(Text, check_lines(summary.checked))


def _verification_lines(summary: Summary) -> Iterator[Text]:
    if not summary.claims:
        return
    confirmed = [round_ for round_, reason in summary.claims.items() if not reason]
    lines = (
        f"verifiers confirmed the step of {text.count_of(len(confirmed), 'round')} of {len(summary.claims)}"
    )
    yield Text(f"{lines}: sums, rule and model match the signed inputs of the parties")
    for round_, reason in summary.claims.items():
        if reason:
            yield Text.assemble(
                f"round {round_}: ",
                ("not verified, the model was not changed", "yellow"),
                f": {text.printable(reason)}",
            )


def _refusal_lines(summary: Summary) -> Iterator[Text]:
    late: dict[tuple[str, str], Counter[str]] = {}
    refusals = []
    for one, count in summary.refusals.items():
        what = strip_late_prefix(one.reason)
        if what is None:
            refusals.append((one, count))
        else:
            late.setdefault((one.by, what), Counter())[one.culprit] += count
    for (by, what), culprits in late.items():
        yield Text(late_text(by, culprits, what), style="dim")
    for (by, culprit, reason), count in refusals[:_MAX_REFUSALS]:
        times = f" ({count} times)" if count > 1 else ""
        yield Text.assemble(
            f"{text.printable(by, 32)} rejected a message of ",
            (text.printable(culprit, 32), "bold yellow"),
            f": {text.printable(reason)}{times}",
        )
    if len(refusals) > _MAX_REFUSALS:
        rest = sum(count for _, count in refusals[_MAX_REFUSALS:])
        yield Text(f"and {text.count_of(rest, 'more refusal')}, see metrics.jsonl", style="dim")


def _expectations(summary: Summary) -> Iterator[Text]:
    for judgement in summary.judgements:
        mark = ("ok   ", "bold green") if judgement.ok else ("FAIL ", "bold red")
        yield Text.assemble(mark, judgement.text, _kind_of(summary, judgement.metric))
    if not summary.judgements:
        yield Text("none in the scenario", style="dim")


def _kind_of(summary: Summary, metric: str) -> str:
    if metric != "epsilon":
        return ""
    return f" ({'none' if summary.privacy is None else summary.privacy.kind})"


def _files(summary: Summary) -> Iterator[Text]:
    width = max(map(len, summary.files), default=0)
    for label, path in summary.files.items():
        yield Text.assemble((f"{label:<{width}}  ", "dim"), path)


def _verdict(console: Console, summary: Summary) -> None:
    code, reason = summary.exit_code, text.printable(summary.outcome.reason, 400)
    colour = {EXIT_EXPECTED: "green", EXIT_PAUSED: "yellow"}.get(code, "red")
    ended = "paused" if summary.outcome.paused else "aborted" if summary.outcome.aborted else "ended"
    line = Text(
        f"exit {code}: {in_words(code, summary.judgements, summary.outcome)}",
        style=f"bold {colour}",
    )
    if reason:
        line.append(f"\n{summary.scenario.name} {ended}: {reason}", style="not bold default")
    if console.is_terminal:
        console.print(Panel(line, box=box.ROUNDED, border_style=colour, expand=False))
    else:
        console.print(line, soft_wrap=True, highlight=False)


def _ascii(console: Console) -> bool:
    return not console.encoding.lower().startswith("utf")


_MAX_ROUNDS: Final = 12
_MAX_SPANS: Final = 8


def rounds_shown(summary: Summary, console: Console) -> Iterator[Table | Text]:
    """Yield a table of rounds on a terminal; otherwise only events."""
    records = summary.rounds
    if not console.is_terminal:
        yield from map(Text, _event_lines(records, filter_name(summary.scenario.groups)))
        return
    shown = _worth_showing(records)
    if shown:
        table = Table(box=None, header_style="dim", padding=(0, 0, 0, 2))
        for column in ("round", "accuracy", "loss", "counted", "sums", "time"):
            table.add_column(column, justify="right", no_wrap=True)
        table.add_column("what happened", ratio=1)
        for record in shown:
            table.add_row(
                str(record.round),
                text.percent(record.accuracy),
                text.digits(record.loss),
                _of(record.survivor_count, _expected_parties(record), "yellow"),
                _of(len(record.sums), len(record.sums) + len(record.lost), "red"),
                text.seconds(record.seconds["total"]),
                Text(
                    "; ".join(_events(record, filter_name(summary.scenario.groups))),
                    style="yellow" if record.left_out else "dim",
                ),
            )
        yield table
    if len(shown) < len(records):
        hidden = text.count_of(len(records) - len(shown), "more round")
        yield Text(f"{hidden} not shown here: metrics.jsonl has all", style="dim")


def _worth_showing(records: Sequence[RoundRecord]) -> list[RoundRecord]:
    """Return a short run's records; of a long one the first, the last and eventful ones.

    Lost sums and changes take precedence over repeated events.
    """
    if len(records) <= _MAX_ROUNDS:
        return list(records)
    eventful = [at for at, r in enumerate(records) if any(_event_key(r))]

    def dullness(at: int) -> int:
        return (not records[at].lost) + (_event_key(records[at]) == _event_key(records[at - 1]))

    chosen = sorted((at for at in eventful if 0 < at < len(records) - 1), key=dullness)[: _MAX_ROUNDS - 2]
    return [records[at] for at in (0, *sorted(chosen), len(records) - 1)]


def _event_key(record: RoundRecord) -> tuple[object, ...]:
    """Return the key of alike rounds, without cluster indices, which change with each draw."""
    failed = len(record.failures or ())
    return frozenset(record.left_out), len(record.lost), record.retries, record.redraws, failed


def _event_lines(records: Sequence[RoundRecord], by: str) -> Iterator[str]:
    heard, of = (
        sorted({one.survivor_count for one in records}),
        max(map(_expected_parties, records), default=0),
    )
    if not heard:
        return
    some = str(heard[0]) if len(heard) == 1 else f"{heard[0]} to {heard[-1]}"
    opened = sums.exact_sum(len(one.sums) for one in records)
    planned = opened + sums.exact_sum(len(one.lost) for one in records)
    of_sums = text.count_of(planned, "sum")
    yield f"{some} of {text.count_of(of, 'update')} per round; {opened:,} of {of_sums} opened"
    rounds: dict[str, list[int]] = {}
    for record in records:
        rounds.setdefault("; ".join(_events(record, by)), []).append(record.round)
    rounds.pop("", None)
    for events, where in list(rounds.items())[:_MAX_ROUNDS]:
        yield f"{_spans(where)}: {events}"
    hidden = sums.exact_sum(len(where) for where in list(rounds.values())[_MAX_ROUNDS:])
    if hidden:
        yield f"{text.count_of(hidden, 'more round')} not shown here: metrics.jsonl has all"


def _spans(rounds: Sequence[int]) -> str:
    """Return ``round 3``, or ``rounds 0 to 4, 7``."""
    spans: list[list[int]] = []
    for one in rounds:
        if spans and spans[-1][1] == one - 1:
            spans[-1][1] = one
        else:
            spans.append([one, one])
    shown = ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in spans[:_MAX_SPANS])
    more = f" and {len(spans) - _MAX_SPANS} more" if len(spans) > _MAX_SPANS else ""
    return f"round{'' if len(rounds) == 1 else 's'} {shown}{more}"


def _events(record: RoundRecord, by: str) -> Iterator[str]:
    yield from _left_out(record)
    if record.failed:
        yield f"{text.count_of(len(record.failed), 'sum')} out by checks"
    if record.doubted_metrics:
        yield f"{text.count_of(len(record.doubted_metrics), 'sum')} of impossible metrics"
    if record.rejected:
        yield f"{text.count_of(len(record.rejected), 'cluster')} out by {by}"
    if closed := sum(reason.startswith(CLOSED) for reason in record.lost.values()):
        yield f"{text.count_of(closed, 'sum')} kept closed"
    yield from _repeats(record)
    if record.failures:
        yield f"{text.count_of(len(record.failures), 'training')} failed"
    if record.update_norm is None:
        yield "no new model"
    elif record.is_unchanged:
        yield "the model did not change"


def _left_out(record: RoundRecord) -> Iterator[str]:
    by_reason: dict[str, list[LeftOut]] = {}
    for out in record.left_out:
        by_reason.setdefault(out.reason, []).append(out)
    for reason, group in by_reason.items():
        stated_reason = reason if len(group) == 1 else reason.replace("its update was", "their updates were")
        yield f"{text.list_of(out.party for out in group)}: {text.printable(stated_reason)}"


def _repeats(record: RoundRecord) -> Iterator[str]:
    if record.redraws:
        yield text.count_of(record.redraws, "void draw")
    if record.retries:
        yield f"{text.count_of(record.retries, 'sum')} started over"


def _expected_parties(record: RoundRecord) -> int:
    return len(record.counted) + len(record.left_out)


def _of(part: int, whole: int, style: str) -> Text:
    return Text(f"{part}/{whole}", style=style if part < whole else "")
