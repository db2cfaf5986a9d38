"""Judgement of the evidence that the processes of a run kept (ADR 0044, Evidence)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from securefl.base.errors import ConfigError
from securefl.base.ids import SERVER, PartyId
from securefl.lab.audit import finding
from securefl.lab.audit.kept import AUDIT
from securefl.protocol.round import ChainLink, Charge, ConvictsNobodyError, RunPlan, convicts
from securefl.runtime import report


def charges_in(run: Path) -> dict[str, Charge]:
    """Return the charges of a run directory, by file.

    Raises:
        ConfigError: a file that cannot be read, or is no charge.
    """
    try:
        paths = sorted((run / report.EVIDENCE).glob("*.charge"))
    except OSError as error:
        raise ConfigError(str(run / report.EVIDENCE), f"cannot be read: {error.strerror}") from error
    return {f"{report.EVIDENCE}/{path.name}": report.load_evidence(path) for path in paths}


def convictions(
    plan: RunPlan, charges: Mapping[str, Charge], first: ChainLink | None
) -> Iterator[finding.Finding]:
    """Yield whom charges convict: of the server it is a breach, of a party a warning.

    Args:
        plan: of the run.
        charges: by file.
        first: what the chain of models begins with; None where it is not known.
    """
    for name, charge in charges.items():
        where = (finding.Evidence(name, None),)
        try:
            found = convicts(charge, plan, first)
        except ConvictsNobodyError as error:
            yield finding.note(AUDIT, f"What was kept as evidence convicts nobody: {error}.", evidence=where)
            continue
        claim = f"{found.culprit} is convicted by what it signed: it {found.what}."
        if found.culprit == SERVER:
            yield finding.breach(
                AUDIT, claim, evidence=where, remedy="show the evidence to the other parties"
            )
        else:
            yield finding.warning(AUDIT, claim, evidence=where, parties=(PartyId(found.culprit),))
