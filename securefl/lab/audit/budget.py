"""*budget*: claimed epsilon beside the one recomputed from releases (docs/privacy.md).

A party releases an update in each round whose clusters contain it, even if no sum opens. Counting is
independent; the accountant is that of the run.
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
_SUMMARY: Final = finding.Evidence("summary.json", None, "privacy")


def audit_budget(recorded: Recorded) -> finding.Chapter:
    """Compare claimed releases and epsilon with recomputed ones."""
    findings: list[finding.Finding] = []
    exhibits: tuple[Exhibit, ...] = ()
    claim: Mapping[str, Any] = recorded.summary.get("privacy") or {}
    if recorded.scenario.privacy.unit == "none":
        findings.append(
            _note("Nothing to check: the scenario has no differential privacy, and the run claims none.")
        )
        if claim.get("epsilon") is not None:
            findings = [_breach("The claimed epsilon is wrong: the scenario adds no noise.")]
    else:
        releases = releases_of(recorded)
        findings += [*_beyond(recorded, releases), *_counts(claim, releases), *_unsaid(recorded, claim)]
        more, exhibits = _epsilons(recorded, claim, releases)
        findings += more
    return finding.Chapter(
        audit=AUDIT,
        title="Budget: epsilon recomputed",
        method=(
            "Each party's releases are counted from the transcripts: one for each local training in a round"
            " whose clusters contain the party. The accountant computes epsilon from them and the scenario's"
            " noise. Both are compared with summary.json and metrics.jsonl."
        ),
        findings=tuple(findings),
        exhibits=exhibits,
    )


def releases_of(recorded: Recorded) -> Mapping[PartyId, int]:
    """Return the number of updates that each party released, drawn or sent."""
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
            f"{report.count_of(len(over), 'party budget')} exceeded ({report.list_of(sorted(over))}): {worst}"
            f" released {over[worst]} updates, but epsilon {recorded.scenario.privacy.budget} allows"
            f" {allowed}.",
            parties=tuple(sorted(over)),
            remedy="check if these parties lost their journals, in which they count releases, at a restart",
        )


def _counts(claim: Mapping[str, Any], releases: Mapping[PartyId, int]) -> Iterator[finding.Finding]:
    stated: Mapping[str, Any] | None = claim.get("releases")
    if stated is None:
        return
    differing = sorted(p for p, made in releases.items() if made != stated.get(p, 0))
    fewer = [p for p in differing if releases[p] > stated.get(p, 0)]
    if fewer:
        yield _breach(
            f"The stated epsilon is too small: the run states too few releases of {report.list_of(fewer)}."
            f" For {fewer[0]} it states {stated.get(fewer[0], 0)}, the transcripts have"
            f" {releases[fewer[0]]}.",
            parties=tuple(fewer),
            remedy="use the recomputed epsilon",
        )
    elif differing:
        yield finding.note(
            AUDIT,
            f"The run states more releases than the transcripts have for {report.list_of(differing)}.",
            remedy="nothing to do: more releases only make the stated epsilon larger",
        )
    else:
        most = max(releases.values(), default=0)
        yield finding.holds(
            AUDIT,
            f"The stated numbers of releases agree with the transcripts; the largest is {most}.",
            evidence=(_SUMMARY,),
        )


def _unsaid(recorded: Recorded, claim: Mapping[str, Any]) -> Iterator[finding.Finding]:
    """Yield a breach if the run omits parties without a guarantee."""
    if recorded.seed is None or "without_guarantee" not in claim:
        return
    unsaid = sorted(report.forgoing(recorded.scenario, recorded.seed).difference(claim["without_guarantee"]))
    if unsaid:
        yield _breach(
            f"The run claims a guarantee for {report.list_of(unsaid)}, which skip noise or clipping.",
            parties=tuple(unsaid),
            remedy="do not rely on a privacy guarantee for these parties",
        )


def _epsilons(
    recorded: Recorded, claim: Mapping[str, Any], releases: Mapping[PartyId, int]
) -> tuple[list[finding.Finding], tuple[Exhibit, ...]]:
    claimed = claim.get("epsilon")
    insecure = recorded.seeded and not recorded.simulated
    if claimed is None:
        return [_note(f"The run claims no epsilon: {claim.get('guarantee', 'summary.json has none')}.")], ()
    if insecure:
        return [_breach(f"Epsilon {claimed:.4g} is wrong: anyone can compute the noise from its seed.")], ()
    length = _length(recorded)
    mechanism = None if length is None else privacy.mechanism_of(recorded.scenario, length)
    if mechanism is None:
        return [_note("Epsilon was not recomputed: no transcript states the size of the model.")], ()
    kept = {p: made for p, made in releases.items() if p not in set(claim.get("without_guarantee", ()))}
    most = max(kept.values(), default=0)
    try:
        found = privacy.ledger_of(mechanism, most).guarantee()
        exhibits = _exhibits(recorded, claim, mechanism, releases, most)
    except ConfigError as error:
        return [_note(f"Epsilon was not recomputed: {error}.")], ()
    text = (
        f"epsilon {found.epsilon:.4g} for {report.count_of(most, 'release')} at delta {found.delta:.3g},"
        f" by privacy loss distributions ({found.epsilon_rdp:.4g} by RDP)"
    )
    if claimed < found.epsilon * (1 - _TOLERANCE):
        return [
            _breach(
                f"The claimed epsilon {claimed:.4g} is too small. Recomputed: {text}.",
                remedy="use the recomputed epsilon",
            )
        ], exhibits
    above = "" if claimed <= found.epsilon * (1 + _TOLERANCE) else f" The run claims {claimed:.4g}: more."
    return [
        finding.holds(
            AUDIT, f"The claimed epsilon is right. Recomputed: {text}.{above}", evidence=(_SUMMARY,)
        )
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
            title="Epsilon over the run",
            x_name="rounds or releases",
            y_name="epsilon",
            curves=(
                Curve(
                    label="claimed in metrics.jsonl, largest of all parties, by round",
                    x=tuple(map(float, claimed)),
                    y=tuple(claimed.values()),
                ),
                Curve(
                    label="recomputed, by number of releases",
                    x=tuple(map(float, steps)),
                    y=tuple(spending.after(made) for made in steps),
                    predicted=True,
                ),
            ),
            note="The curves agree if some party releases once in every round.",
        ),
        Table(
            title="Releases and epsilon by party",
            columns=("party", "releases", "epsilon"),
            rows=rows,
            note="A dash: no guarantee for this party, because it skips noise or clipping.",
        ),
    )


def _length(recorded: Recorded) -> int | None:
    """Return d, from any recorded vector, or None."""
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
    claim: str,
    *,
    remedy: str = "do not rely on a privacy guarantee of this run",
    parties: tuple[PartyId, ...] = (),
) -> finding.Finding:
    return finding.breach(AUDIT, claim, evidence=(_SUMMARY,), remedy=remedy, parties=parties)
