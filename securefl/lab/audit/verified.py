"""Page on the chain of a verified run."""

from dataclasses import asdict
from typing import Final

from securefl.base import version
from securefl.lab.audit import chain
from securefl.runtime import transcript

FORMAT: Final = "securefl verify 1"


def verification_page(run: chain.VerifiedRun) -> str:
    """Return the page in Markdown."""
    lines = [f"# Verified rounds of run {_plain(run.run)}", ""]
    lines += [f"| {' | '.join(chain.COLUMNS)} |", f"|{'---|' * len(chain.COLUMNS)}"]
    lines += [f"| {' | '.join(_plain(str(cell)) for cell in line.cells())} |" for line in run.lines]
    lines.append("")
    for finding in run.findings:
        lines.append(f"- **{finding.severity.label}** {_plain(finding.claim)}")
        shown = "; ".join(_plain(str(one)) for one in finding.evidence[:3])
        lines += [f"  Evidence: {shown}."] if shown else []
        lines += [f"  Remedy: {_plain(finding.remedy)}."] if finding.remedy else []
    return "\n".join([*lines, "", f"**{_plain(run.sentence)}**", ""])


def verification_json(run: chain.VerifiedRun) -> dict[str, transcript.JsonValue]:
    """Return the page as JSON values."""
    return {
        "format": FORMAT,
        "securefl": version.__version__,
        "run": run.run,
        "transcripts": run.transcripts,
        "model": run.digest,
        "rounds": [asdict(line) for line in run.lines],
        "findings": [
            {
                "severity": finding.severity.label,
                "claim": finding.claim,
                "parties": list(finding.parties),
                "evidence": [str(one) for one in finding.evidence],
                "remedy": finding.remedy,
            }
            for finding in run.findings
        ],
        "sentence": run.sentence,
        "exit_code": run.exit_code,
    }


def _plain(text: str) -> str:
    """Replace markup in text from transcripts, which is untrusted."""
    return "".join(c if c.isprintable() and c not in "|<>`*[]" else " " for c in text)
