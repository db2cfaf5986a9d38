"""Model card of a run's model, in Markdown with the header that model hubs read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import resources
from typing import Any

from securefl.base import crypto
from securefl.base.text import digits
from securefl.base.version import __version__
from securefl.lab import templates
from securefl.lab.handover.validation import SiteValidation
from securefl.lab.run_page import RunFiles, SummaryFields
from securefl.runtime.report import best_evaluated, list_of, printable


def model_card(
    run: RunFiles,
    summary: SummaryFields,
    weights: dict[str, dict[str, Any]],
    validations: Sequence[SiteValidation] = (),
) -> str:
    """Return the card.

    Args:
        run: files of an ended run.
        summary: of the run.
        weights: ``sha256``, ``arrays``, ``parameters`` and ``for_numpy`` by file name, without control
            variates.
        validations: of the first model, by site.
    """
    return templates.render(
        resources.files(__package__).joinpath("card.md.j2"),
        escape=_escape,
        name=run.scenario.name,
        description=printable(run.scenario.description, 400),
        run=summary,
        scenario=run.scenario,
        scenario_digest=crypto.digest("scenario file", run.toml.encode()).hex(),
        weights=weights,
        metrics=_metric_rows(run, kept=summary.outcome.model.which == "best"),
        tested=_test_rows(run),
        validations=validations,
        rounds=len(run.records),
        left_out=sum(len({*record.rejected, *record.failed}) for record in run.records),
        parties=list_of(sorted({party for record in run.records for party in record.counted}), 40),
        audit=run.audit,
        rule_name=type(run.scenario.aggregation.rule).__name__,
        digits=digits,
        version=__version__,
    )


def _escape(value: object) -> object:
    """Escape the markup of Markdown in text: names and reasons come from outside."""
    return re.sub(r"([\\`*\[\]<>|])", r"\\\1", printable(value, 2_000)) if isinstance(value, str) else value


def _metric_rows(run: RunFiles, *, kept: bool) -> dict[str, Any]:
    """Return the sites' metrics of the ``kept`` best model, else the latest, with their round; or nothing."""
    best = best_evaluated(run.records, run.scenario) if kept else None
    found = best or next((one for one in reversed(run.records) if one.metrics), None)
    if found is None:
        return {}
    return {"round": found.round, "exact": best is not None, "rows": found.metrics}


def _test_rows(run: RunFiles) -> dict[str, Any]:
    last = run.records[-1] if run.records else None
    if last is None or last.accuracy is None:
        return {}
    return {"accuracy": last.accuracy, "loss": last.loss, "round": last.round}
