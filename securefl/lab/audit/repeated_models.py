"""Models that came more than once in a run: their sums are sums of the same updates (docs/adr/0043)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import cast

from securefl.base.ids import SERVER
from securefl.lab.audit import exposed, finding
from securefl.lab.audit.recorded import Recorded
from securefl.methods import leakage
from securefl.runtime import report

_REMEDY = (
    'leakage.mode = "veto" releases nothing that would do this; atoms (clustering.atoms) withstand a server'
    " that changes one bit of its model, too"
)


def repeated_models(
    recorded: Recorded, versions: Sequence[exposed.Exposed], audit: str
) -> Iterator[finding.Finding]:
    """Yield a finding for each model that sums of several rounds were opened on; none where none repeats.

    Args:
        recorded: the run. Which rounds have one model is by the server's transcript.
        versions: what was opened.
        audit: the name of the audit that says it.
    """
    rounds: dict[str, list[int]] = defaultdict(list)
    for entry, _ in recorded.of(SERVER, "round_started"):
        rounds[str(entry.fields["model_digest"])].append(cast("int", entry.fields["round"]))
    for of_model in rounds.values():
        own = [one for one in versions if one.opened.version.round in of_model]
        again = sorted({one.opened.version.round for one in own})
        if len(again) > 1:
            yield _found(recorded, own, again, audit)


def _found(
    recorded: Recorded, own: Sequence[exposed.Exposed], rounds: Sequence[int], audit: str
) -> finding.Finding:
    ledger = leakage.LeakageLedger.begin(
        leakage.UpdateVersion(rounds[0]),
        {p for one in own for p in one.opened.participants},
        exposed.prime_of(recorded),
    )
    opened = (opening for one in own for opening in one.opened.openings if opening.opens(recorded))
    for row in dict.fromkeys(opening.survivors for opening in opened):
        ledger = ledger.open(row)
    numbers = report.listed(map(str, rounds))
    which = f"Rounds {numbers} had one model, so that their sums are of the same updates,"
    evidence = (finding.Evidence(SERVER, None, f"round_started of rounds {numbers}"),)
    if not ledger.exposed:
        claim = f"{which} but for batches; together they determine nobody's."
        return finding.Finding(finding.Severity.HOLDS, audit, claim, evidence=evidence)
    return finding.Finding(
        finding.Severity.WARNING if recorded.noisy else finding.Severity.BREACH,
        audit,
        f"{which} but for batches; together they determine {report.counted(len(ledger.exposed), 'update')}"
        f" ({report.listed(sorted(ledger.exposed))}).",
        evidence=evidence,
        remedy=_REMEDY,
        parties=tuple(sorted(ledger.exposed)),
    )
