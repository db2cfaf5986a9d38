"""*budget*: epsilon counted again from release events, beside what the run claimed (docs/privacy.md).

A release is an update of a round in whose clusters the party is, whether or not anything was opened: from
there on its masked input may leave. The accountant is that of the run; the counting is independent.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

from securefl.base.errors import ConfigError
from securefl.base.ids import SERVER, PartyId
from securefl.lab.audit import finding
from securefl.lab.audit.exhibits import AuditPlot, Curve, Exhibit, Table
from securefl.lab.audit.recorded import Recorded
from securefl.methods import clustering, privacy
from securefl.runtime import report

AUDIT: Final = "budget"
_TOLERANCE: Final = 1e-6
"""Relative difference of two epsilons that is rounding."""
_SUMMARY: Final = finding.Evidence("summary.json", None, "privacy")


def audit_budget(recorded: Recorded) -> finding.Chapter:
    """Releases and epsilon by party, recounted and claimed."""
    findings: list[finding.Finding] = []
    exhibits: tuple[Exhibit, ...] = ()
    claim: Mapping[str, Any] = recorded.summary.get("privacy") or {}
    if recorded.scenario.privacy.unit == "none":
        findings.append(_note("The scenario claims no differential privacy, and neither does the run."))
        if claim.get("epsilon") is not None:
            findings = [_breach("The run claims an epsilon, and its scenario has no noise.")]
    else:
        releases = releases_of(recorded)
        findings += [*_beyond(recorded, releases), *_counts(claim, releases), *_unsaid(recorded, claim)]
        more, exhibits = _epsilons(recorded, claim, releases)
        findings += more
    return finding.Chapter(
        audit=AUDIT,
        title="Budget: epsilon counted again",
        method=(
            "Each party's releases are counted from the transcripts, one for every local work of a round in"
            " whose clusters it was, and given to the accountant with the scenario's noise. Claims are those"
            " of summary.json and metrics.jsonl."
        ),
        findings=tuple(findings),
        exhibits=exhibits,
    )


def releases_of(recorded: Recorded) -> Mapping[PartyId, int]:
    """Updates that each party released: what was drawn, or what it sent if that is more."""
    drawn: dict[PartyId, set[tuple[int, int]]] = defaultdict(set)
    works = clustering.works_of(recorded.scenario.clustering)
    if recorded.simulated:
        for record in recorded.records:
            for party in record.participants if record.sums or record.lost else ():
                drawn[party] |= {(record.round, work) for work in range(works)}
    for vantage in (SERVER, *recorded.watched):
        for entry, _ in recorded.of(vantage, "clusters_drawn"):
            clusters: Any = entry.fields["clusters"]
            for party in (PartyId(p) for members in clusters[0] for p in members):
                drawn[party] |= {(int(str(entry.fields["round"])), work) for work in range(works)}
    for party in recorded.watched:
        for entry, _ in recorded.messages(party, "sent", "MaskedInput"):
            place: Any = entry.fields["place"]
            drawn[party].add((place[0], clustering.work_of(recorded.scenario.clustering, place[1])))
    return {party: len(drawn[party]) for party in recorded.parties}


def _beyond(recorded: Recorded, releases: Mapping[PartyId, int]) -> Iterator[finding.Finding]:
    allowed = recorded.scenario.privacy.releases
    over = {p: made for p, made in releases.items() if allowed is not None and made > allowed}
    if over:
        worst = max(over, key=lambda party: (over[party], party))
        yield _breach(
            f"{report.counted(len(over), 'party budget')} exceeded"
            f" ({report.listed(sorted(over))}): {worst} released"
            f" {over[worst]} times, and {allowed} keep to epsilon {recorded.scenario.privacy.budget}.",
            parties=tuple(sorted(over)),
            remedy="a party counts for itself and stays away: look whether its journal was lost at a restart",
        )


def _counts(claim: Mapping[str, Any], releases: Mapping[PartyId, int]) -> Iterator[finding.Finding]:
    stated: Mapping[str, Any] | None = claim.get("releases")
    if stated is None:
        return
    differing = sorted(p for p, made in releases.items() if made != stated.get(p, 0))
    fewer = [p for p in differing if releases[p] > stated.get(p, 0)]
    if fewer:
        yield _breach(
            f"The run claims fewer releases than the transcripts have for {report.listed(fewer)}:"
            f" {stated.get(fewer[0], 0)} and not {releases[fewer[0]]} for {fewer[0]}.",
            parties=tuple(fewer),
            remedy="epsilon was computed from too few releases: take the recounted one",
        )
    elif differing:
        yield _note(f"The run claims more releases than the transcripts have for {report.listed(differing)}.")
    else:
        most = max(releases.values(), default=0)
        yield finding.holds(
            AUDIT, f"Releases by party are those that the run claims, at most {most}.", evidence=(_SUMMARY,)
        )


def _unsaid(recorded: Recorded, claim: Mapping[str, Any]) -> Iterator[finding.Finding]:
    """Parties without a guarantee that the run does not name."""
    if recorded.seed is None or "without_guarantee" not in claim:
        return
    unsaid = sorted(report.forgoing(recorded.scenario, recorded.seed).difference(claim["without_guarantee"]))
    if unsaid:
        yield _breach(
            f"{report.listed(unsaid)} leave out noise or bounds, and the run claims a guarantee for them.",
            parties=tuple(unsaid),
            remedy="no figure holds for a party that does not do what it rests on",
        )


def _epsilons(
    recorded: Recorded, claim: Mapping[str, Any], releases: Mapping[PartyId, int]
) -> tuple[list[finding.Finding], tuple[Exhibit, ...]]:
    claimed = claim.get("epsilon")
    insecure = recorded.seeded and not recorded.simulated
    if claimed is None:
        return [_note(f"The run guarantees nothing: {claim.get('guarantee', 'no summary')}.")], ()
    if insecure:
        return [_breach(f"The run claims epsilon {claimed:.4g}, and its noise follows from a seed.")], ()
    length = _length(recorded)
    mechanism = None if length is None else privacy.mechanism_of(recorded.scenario, length)
    if mechanism is None:
        return [_note("The model's size is not recorded, so that epsilon cannot be computed.")], ()
    kept = {p: made for p, made in releases.items() if p not in set(claim.get("without_guarantee", ()))}
    most = max(kept.values(), default=0)
    try:
        found = privacy.ledger_of(mechanism, most).guarantee()
        exhibits = _exhibits(recorded, claim, mechanism, releases, most)
    except ConfigError as error:
        return [_note(f"Epsilon was not computed again: {error}.")], ()
    text = (
        f"epsilon {found.epsilon:.4g} by privacy loss distributions and {found.epsilon_rdp:.4g} by RDP for"
        f" {report.counted(most, 'release')} at delta {found.delta:.3g}"
    )
    if claimed < found.epsilon * (1 - _TOLERANCE):
        return [
            _breach(f"Recounted: {text}. The run claims {claimed:.4g}.", remedy="take the recounted figure")
        ], exhibits
    above = "" if claimed <= found.epsilon * (1 + _TOLERANCE) else f" (claimed: {claimed:.4g}, which is more)"
    return [
        finding.holds(AUDIT, f"Recounted: {text}. That is what the run claims{above}.", evidence=(_SUMMARY,))
    ], exhibits


def _exhibits(
    recorded: Recorded,
    claim: Mapping[str, Any],
    mechanism: privacy.Mechanism,
    releases: Mapping[PartyId, int],
    most: int,
) -> tuple[Exhibit, ...]:
    spending = privacy.Spending(mechanism, most)
    claimed = {
        r.round + 1: max((e for e in r.epsilon.values() if e is not None), default=0.0)
        for r in recorded.records
        if r.epsilon is not None
    }
    steps = sorted({*range(1, most + 1, max(1, most // 40)), most})
    without = set(claim.get("without_guarantee", ()))
    rows = tuple(
        (party, made, None if party in without else spending.after(made)) for party, made in releases.items()
    )
    return (
        AuditPlot(
            title="Epsilon as it was spent",
            x_name="rounds, or releases",
            y_name="epsilon",
            curves=(
                Curve(
                    label="claimed in metrics.jsonl, highest of all parties, by round",
                    x=tuple(map(float, claimed)),
                    y=tuple(claimed.values()),
                ),
                Curve(
                    label="recounted, by number of releases",
                    x=tuple(map(float, steps)),
                    y=tuple(spending.after(made) for made in steps),
                    predicted=True,
                ),
            ),
            note="They are the same where the most frequent party releases once a round.",
        ),
        Table(
            title="Releases and epsilon by party",
            columns=("party", "releases", "epsilon"),
            rows=rows,
            note="A dash: no guarantee for this party, which leaves out noise or bounds.",
        ),
    )


def _length(recorded: Recorded) -> int | None:
    """d, from any vector that is recorded."""
    for entry, _ in recorded.of(SERVER, "model_final"):
        params: Any = entry.fields["params"]
        return int(params["length"])
    for vantage, kind in ((SERVER, "received"), *((party, "sent") for party in recorded.watched)):
        for entry, _ in recorded.messages(vantage, kind, "MaskedInput"):
            vector: Any = entry.fields["vector"]
            return int(vector["length"])
    return None


def _note(claim: str) -> finding.Finding:
    return finding.note(AUDIT, claim)


def _breach(
    claim: str, *, remedy: str = "believe no guarantee of this run", parties: tuple[PartyId, ...] = ()
) -> finding.Finding:
    return finding.breach(AUDIT, claim, evidence=(_SUMMARY,), remedy=remedy, parties=parties)
