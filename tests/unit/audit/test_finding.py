from __future__ import annotations

import pytest

from securefl.base.errors import UsageError
from securefl.lab.audit.exhibits import AuditHeatMap, Curve, Table
from securefl.lab.audit.finding import Evidence, Finding, Severity, worst


def test_severities_are_ordered_from_harmless_to_bad() -> None:
    assert sorted(Severity) == [Severity.HOLDS, Severity.NOTE, Severity.WARNING, Severity.BREACH]
    assert [severity.label for severity in Severity] == ["holds", "note", "warning", "breach"]


def test_the_worst_finding_counts() -> None:
    found = [Finding(s, "views", "") for s in (Severity.NOTE, Severity.WARNING)]
    assert worst(found) is Severity.WARNING
    assert worst([]) is Severity.HOLDS


def test_evidence_names_the_entry() -> None:
    assert str(Evidence("p03", 17, "shares released")) == "p03 #17: shares released"
    assert str(Evidence("summary.json", None)) == "summary.json"


def test_exhibits_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UsageError, match="its 2 columns"):
        Table(title="t", columns=("a", "b"), rows=(("1",),))
    with pytest.raises(UsageError, match="found 1 and 0"):
        Curve(label="c", x=(1.0,), y=())
    with pytest.raises(UsageError, match="one row per row title"):
        AuditHeatMap(title="h", row_name="", column_name="", rows=("a",), columns=("b",), values=((),))
