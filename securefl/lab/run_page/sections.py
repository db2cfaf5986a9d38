"""Sections of the page, each from the content of a run's folder."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from securefl.base.errors import EXIT_EXPECTED
from securefl.base.text import count, digits
from securefl.lab.run_page import charts
from securefl.lab.run_page.blocks import (
    Chart,
    CodeBlock,
    PageBlock,
    PageSection,
    PageTable,
    Paragraph,
    Tile,
    Tiles,
    Tone,
)
from securefl.lab.run_page.collect import RunFiles
from securefl.lab.run_page.participation import participation_blocks
from securefl.runtime import report
from securefl.runtime.report import RoundRecord, count_of, list_of, percent, printable, seconds

_MOST_ROWS: Final = 200
_MOST_DRAWN: Final = 1e100
"""Bound of charted numbers; the numbers of destroyed models lie beyond it."""
_TONES: Final[dict[str, Tone]] = {"holds": "good", "note": "note", "warning": "warning", "breach": "bad"}
"""Tones of an audit's severities."""
_WORST: Final[tuple[Tone, ...]] = ("bad", "warning", "note", "good")


def sections_of(run: RunFiles) -> tuple[PageSection, ...]:
    """Return the sections that have content."""
    return tuple(section for section in (make(run) for make in _SECTIONS) if section.blocks)


def metrics(run: RunFiles) -> PageSection:
    """Return charts of accuracy, loss and the sites' metrics by round."""
    charts_ = [*_test_charts(run.records), *_site_charts(run)]
    blocks: list[PageBlock] = [*charts_]
    if not charts_ and run.records:
        blocks = [
            Paragraph("The run measured no metrics: it has no test set at the server, and no [evaluation].")
        ]
    return PageSection("metrics", "Metrics by round", tuple(blocks))


def _test_charts(records: Sequence[RoundRecord]) -> Iterator[Chart]:
    for name in ("accuracy", "loss", "backdoor_success"):
        values = tuple(_number(getattr(record, name)) for record in records)
        if any(map(math.isfinite, values)):
            label = name.replace("_", " ")
            yield _by_round(f"{label} on the test set", records, [charts.ChartLine(label, values)])


def _site_charts(run: RunFiles) -> Iterator[Chart]:
    names = dict.fromkeys(one.name for record in run.records for one in record.metrics)
    best = report.best_evaluated(run.records, run.scenario)
    for name in names:
        found = {record.round: one for record in run.records for one in record.metrics if one.name == name}
        at = [found.get(record.round) for record in run.records]
        columns = [
            tuple(math.nan if one is None else _number(getattr(one, field)) for one in at)
            for field in ("value", "low", "high", "deviation")
        ]
        value, low, high, deviation = columns
        spread = (low, high) if low != high else ((), ())
        noisy = any(one > 0 for one in deviation if math.isfinite(one))
        marked = best.round if best is not None and name == run.scenario.stop.metric else None
        notes = (
            "Band: lowest to highest cluster." if spread[0] else "",
            "Bars: one standard deviation of the privacy noise." if noisy else "",
            f"Dotted line: round {marked}, whose model was kept." if marked is not None else "",
        )
        curve = charts.ChartLine(name, value, *spread, error=deviation if noisy else ())
        yield _by_round(f"{name} at the sites", run.records, [curve], " ".join(filter(None, notes)), marked)


def _by_round(
    title: str,
    records: Sequence[RoundRecord],
    curves: Sequence[charts.ChartLine],
    note: str = "",
    marked: int | None = None,
) -> Chart:
    rounds = tuple(record.round for record in records)
    columns = [(one.label, one.values) for one in curves]
    for one in curves:
        columns += [("lowest", one.low), ("highest", one.high)] if one.low else []
        columns += [("standard error", one.error)] if one.error else []
    rows = [
        (str(number), *(digits(values[at]) if math.isfinite(values[at]) else "-" for _, values in columns))
        for at, number in enumerate(rounds)
    ]
    finite = [v for v in curves[0].values if math.isfinite(v)]
    text = (
        f"{title}: from {digits(finite[0])} to {digits(finite[-1])} over {count_of(len(rounds), 'round')}"
        if finite
        else f"{title}: no finite value"
    )
    table = PageTable(title, ("round", *(label for label, _ in columns)), rows[-_MOST_ROWS:], folded=True)
    return Chart(title, charts.line_chart(rounds, curves, marked), text, table, note)


def participation(run: RunFiles) -> PageSection:
    """Return the map of parties, rounds and clusters."""
    return PageSection(
        "parties", "Parties and clusters", tuple(participation_blocks(run.records, run.scenario))
    )


def excluded_sums(run: RunFiles) -> PageSection:
    """Return the sums that rule and checks excluded, and how often each party was in one."""
    rows, excluded, counted, by = [], Counter[str](), Counter[str](), Counter[str]()
    for record in run.records:
        for one in record.sums:
            counted.update(one.counted)
            key = one.reclustering, one.cluster
            if key not in record.rejected and key not in record.failed:
                continue
            excluded.update(one.counted)
            by["rule" if key in record.rejected else "checks"] += 1
            reason = printable(record.failed.get(key, "rule"))
            rows.append((str(record.round), f"{key[0]}.{key[1]}", list_of(one.counted, 12), reason))
    if not rows:
        return PageSection("rule", "Sums left out", ())
    rule = type(run.scenario.aggregation.rule).__name__
    share = [
        (party, str(times), str(counted[party]), percent(times / counted[party]))
        for party, times in sorted(excluded.items(), key=lambda one: (-one[1] / counted[one[0]], one[0]))
    ]
    blocks: tuple[PageBlock, ...] = (
        Paragraph(
            f"The rule ({rule}) left out {count_of(by['rule'], 'sum')}, the checks {by['checks']}. A party in"
            " many of them is not proven dishonest: its cluster mates share the sum."
        ),
        PageTable("By party", ("party", "sums left out", "sums with it", "share"), share[:_MOST_ROWS]),
        PageTable("By sum", ("round", "sum", "members", "left out by"), rows[-_MOST_ROWS:], folded=True),
    )
    return PageSection("rule", "Sums left out", blocks, "note")


def server_view(run: RunFiles) -> PageSection:
    """Return what the server could see, and how far that is from one party's update."""
    sizes = Counter(
        len(one.counted) if one.inside is None else one.inside for r in run.records for one in r.sums
    )
    if not sizes:
        nothing = Paragraph("No sum was opened: the server saw only masked vectors.", "good")
        return PageSection("view", "What the server could see", (nothing,) if run.records else ())
    smallest, needed = min(sizes), run.scenario.secure_sum.k_anonymity
    single = run.summary.server_view.single_updates if run.summary else []
    facts = (
        Tile("cluster sums opened", f"{sum(sizes.values()):,}"),
        Tile(
            "smallest sum",
            count(smallest, "party", "parties"),
            f"required: {needed} or more",
            _judge(smallest >= needed),
        ),
        Tile(
            "margin",
            f"{smallest - 1} of {smallest}",
            "members of the smallest sum that must collude with the server to learn the last one's update",
        ),
        Tile(
            "single updates exposed",
            str(len(single)) if run.summary else "not known yet",
            list_of(f"{one.party} in round {one.round}" for one in single),
            _judge(not single),
        ),
    )
    rows = [(str(members), f"{count:,}") for members, count in sorted(sizes.items())]
    blocks: list[PageBlock] = [Tiles(facts), PageTable("Sums by size", ("members", "sums"), rows)]
    if run.audit is None:
        blocks.append(
            Paragraph(
                "Combinations of sums over rounds and reclusterings are the audit's subject:"
                f" securefl audit {run.path}"
            )
        )
    return PageSection("view", "What the server could see", tuple(blocks), "bad" if single else "good")


def privacy(run: RunFiles) -> PageSection:
    """Return the epsilon spent, by round and party."""
    spent = [record.epsilon for record in run.records]
    if not any(spent):
        text = "none: a sum still reveals something about its parties." if run.records else ""
        blocks: tuple[PageBlock, ...] = (Paragraph(f"Differential privacy: {text}"),) if text else ()
        return PageSection("privacy", "Differential privacy", blocks)
    most = tuple(max((_number(e) for e in (one or {}).values()), default=math.nan) for one in spent)
    chart = _by_round("Largest epsilon of a party", run.records, [charts.ChartLine("epsilon", most)])
    last = {party: value for one in spent for party, value in (one or {}).items()}
    rows = [(str(party), "no guarantee" if e is None else digits(e)) for party, e in sorted(last.items())]
    budget = run.scenario.privacy.epsilon
    facts = Tiles(
        (
            Tile("epsilon spent", digits(most[-1]), "largest of a party"),
            Tile("budget", digits(budget) if isinstance(budget, float) else "none"),
            Tile("delta", str(run.scenario.privacy.delta)),
        )
    )
    text = run.summary.privacy.guarantee if run.summary else ""
    stated = (Paragraph(f"Guarantee: {text}."),) if text else ()
    return PageSection(
        "privacy",
        "Differential privacy",
        (*stated, facts, chart, PageTable("By party", ("party", "epsilon"), rows)),
    )


def costs(run: RunFiles) -> PageSection:
    """Return time by step of the round, and traffic by party."""
    if not run.records:
        return PageSection("costs", "Time and traffic", ())
    steps = [step for step in dict.fromkeys(s for r in run.records for s in r.seconds) if step != "total"]
    rows, stacked = [], []
    for step in steps:
        took = [record.seconds.get(step, 0.0) for record in run.records]
        rows.append(
            (step, seconds(math.fsum(took)), seconds(math.fsum(took) / len(took)), seconds(max(took)))
        )
        stacked.append(charts.Bar(step, (math.fsum(took),)))
    blocks: list[PageBlock] = [
        Chart(
            "Time by step, whole run",
            charts.bars(stacked, "s"),
            "; ".join(f"{row[0]}: {row[1]}" for row in rows),
            PageTable("Time by step", ("step", "whole run", "mean of a round", "longest"), rows, folded=True),
            "Training is inside its step: the longest party decides.",
        )
    ]
    up, down = Counter[str](), Counter[str]()
    for record in run.records:
        for party, volume in record.traffic.items():
            up[party] += volume["up"].size if "up" in volume else 0
            down[party] += volume["down"].size if "down" in volume else 0
    if up or down:
        names = sorted({*up, *down}, key=lambda name: (-up[name] - down[name], name))
        blocks.append(
            Chart(
                "Traffic by party: sent, received",
                charts.bars([charts.Bar(n, (up[n] / 1e6, down[n] / 1e6)) for n in names[:_BARS]], "MB"),
                f"{report.size(sum(up.values()))} sent, {report.size(sum(down.values()))} received",
                PageTable(
                    "Traffic by party",
                    ("party", "sent", "received"),
                    [(n, report.size(up[n]), report.size(down[n])) for n in names[:_MOST_ROWS]],
                    folded=True,
                ),
                f"The {_BARS} parties with the most traffic." if len(names) > _BARS else "",
            )
        )
    return PageSection("costs", "Time and traffic", tuple(blocks))


_BARS: Final = 20


def verification(run: RunFiles) -> PageSection:
    """Return the verdicts of the verifiers by round."""
    claims = {number: reason for record in run.records for number, reason in record.claims.items()}
    if not claims:
        blocks: tuple[PageBlock, ...] = ()
        if not run.scenario.secure_sum.verified and run.records:
            blocks = (Paragraph("The run has no verification (secure_sum.verified = false)."),)
        return PageSection("verification", "Verification by the parties", blocks)
    void = {number: reason for number, reason in claims.items() if reason}
    text = f"Verifiers confirmed the step of {len(claims) - len(void)} of {count_of(len(claims), 'round')}."
    rows = [(str(number), printable(reason)) for number, reason in sorted(void.items())]
    body: tuple[PageBlock, ...] = (Paragraph(text, "warning" if void else "good"),)
    table = PageTable("Rounds without confirmation: the model was not changed", ("round", "reason"), rows)
    return PageSection(
        "verification",
        "Verification by the parties",
        (*body, table) if rows else body,
        "warning" if void else "good",
    )


def audit(run: RunFiles) -> PageSection:
    """Return the findings of the run's audit."""
    if run.audit is None:
        text = f"The run was not audited, or its audit is elsewhere. Audit it by: securefl audit {run.path}"
        return PageSection("audit", "Audit", (Paragraph(text),) if run.summary else ())
    blocks: list[PageBlock] = [
        Paragraph(f"Verdict: {run.audit.verdict}.", _judge(run.audit.exit_code == EXIT_EXPECTED))
    ]
    tones: list[Tone] = []
    for one in run.audit.audits:
        rows = [(finding.severity, finding.claim) for finding in one.findings]
        blocks.append(PageTable(one.title, ("result", "finding"), rows))
        tones += [_TONES[finding.severity] for finding in one.findings]
    return PageSection(
        "audit", "Audit", tuple(blocks), next((tone for tone in _WORST if tone in tones), None)
    )


def failures(run: RunFiles) -> PageSection:
    """Return failed trainings and updates beyond the range of the encoding, by party."""
    failed, beyond = Counter[str](), Counter[str]()
    for record in run.records:
        failed.update(tuple(record.failures or ()))
        beyond.update(tuple(record.beyond_range or ()))
    names = sorted({*failed, *beyond}, key=lambda name: (-failed[name] - beyond[name], name))
    if not names:
        return PageSection("failures", "Failed trainings", ())
    rows = [(name, str(failed[name]), str(beyond[name])) for name in names]
    blocks = (
        Paragraph(
            "A party whose training failed sent zeros. The reasons are in its own log (NAME.site.jsonl).",
            "bad",
        ),
        PageTable(
            "By party", ("party", "failed trainings", "rounds beyond encoding.range"), rows[:_MOST_ROWS]
        ),
    )
    return PageSection("failures", "Failed trainings", blocks, "bad")


def rejections(run: RunFiles) -> PageSection:
    """Return the rejected messages."""
    found = Counter[tuple[str, str, str]]()
    for record in run.records:
        for refusal, times in record.refusals.items():
            found[refusal.by, refusal.culprit, printable(refusal.reason)] += times
    rows = [
        (by, culprit, reason, str(times)) for (by, culprit, reason), times in found.most_common(_MOST_ROWS)
    ]
    if not rows:
        return PageSection("rejections", "Rejected messages", ())
    text = "A sender's name may be forged unless its signature was valid. Late messages accuse no party."
    table = PageTable("By sender", ("rejected by", "sender", "reason", "times"), rows)
    return PageSection("rejections", "Rejected messages", (Paragraph(text), table), "note")


def setup(run: RunFiles) -> PageSection:
    """Return the header of the run, and its scenario."""
    found, summary = report.run_header(run.scenario), run.summary
    if summary is not None:
        seeded = summary.server_view.insecure_seeded_entropy
        start = report.on_start(summary.seed, seeded=seeded, simulated=summary.simulated)
        found = found._replace(sentences=(*start, *found.sentences))
    else:
        # The seed is not known before the end.
        found = found._replace(sentences=tuple(one for one in found.sentences if one.line != "seed"))
    lines = [Paragraph(printable(line, 400)) for line in found.lines]
    return PageSection("scenario", "Scenario", (*lines, CodeBlock("scenario.toml", run.toml)))


_SECTIONS: Final[tuple[Callable[[RunFiles], PageSection], ...]] = (
    metrics, participation, failures, excluded_sums, server_view, privacy, verification, audit, rejections,
    costs, setup,
)  # fmt: skip


def _judge(fine: bool) -> Tone:
    return "good" if fine else "bad"


def _number(value: float | None) -> float:
    """Return the number, or NaN if a chart has no place for it."""
    return math.nan if value is None or not abs(value) < _MOST_DRAWN else float(value)
