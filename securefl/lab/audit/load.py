"""Loading and checking of a run directory."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from securefl.base import crypto
from securefl.base.errors import ConfigError
from securefl.base.ids import DEALER, SERVER, PartyId
from securefl.lab.audit.missing_transcripts import round_of
from securefl.lab.audit.recorded import Recorded
from securefl.lab.audit.truth import GroundTruth
from securefl.lab.audit.wellformed import check_entries
from securefl.methods import attacks, feasibility
from securefl.runtime import report, transport
from securefl.runtime.transcript import Transcript, check_ends, start_of
from securefl.scenario import Scenario


def load(path: Path, colluders: Collection[str] = (), roster: Path | None = None) -> Recorded:
    """Read a run directory.

    Args:
        path: folder of ``securefl run --out`` or ``securefl simulate --out``; in a deployment the server's,
            with the parties' transcripts.
        colluders: parties assumed to collude with the server.
        roster: file that names the parties; None for the transcripts' names or, without any, a launcher's.

    Raises:
        ConfigError: no run, a broken hash chain, an invalid entry, an end that differs from the summary,
            files of different runs, an unknown colluder, or no honest party. Transcripts that break off or
            are empty, as after a kill, are accepted.
    """
    directory = report.RunDirectory.open(path)
    scenario = directory.read_scenario()
    transcripts = directory.read_transcripts()
    parties = _parties(scenario, transcripts, roster)
    supposed = _colluders(parties, colluders)
    blank = tuple(name for name in directory.transcript_names() if name not in transcripts)
    summary = directory.read_summary() if directory.summary_file.exists() else {}
    runs = {transcript.run for transcript in transcripts.values()}
    stated = summary.get("run")
    if stated is not None and runs - {stated}:
        raise ConfigError(
            str(directory.summary_file),
            f"is of run {stated}, but the transcripts are of {', '.join(sorted(runs))}",
            "restore the files of one run",
        )
    if not transcripts and not summary.get("simulated", False):
        raise ConfigError(
            str(directory.path / "transcripts"), "contains no transcript", "name the directory of a run"
        )
    by_vantage = _by_vantage(transcripts, parties)
    _check_blank(directory, blank, parties)
    check_ends(summary.get("transcripts", {}), transcripts, blank)
    return Recorded(
        run=next(iter(runs), str(stated)),
        scenario=scenario,
        limits=feasibility.check(scenario),
        parties=parties,
        transcripts=by_vantage,
        blank=blank,
        records=_records(directory),
        summary=summary,
        frames=directory.frame_folder,
        colluders=supposed,
    )


def _parties(
    scenario: Scenario, transcripts: Mapping[str, Transcript], roster: Path | None
) -> tuple[PartyId, ...]:
    stated: dict[tuple[str, ...], str] = {}
    for name, transcript in sorted(transcripts.items()):
        listed = transcript.header.get("parties")
        if isinstance(listed, list) and all(isinstance(one, str) for one in listed):
            stated.setdefault(tuple(sorted(map(str, listed))), name)
    if roster is not None:
        where, found = str(roster), tuple(sorted(crypto.read_roster(roster).parties))
    elif len(stated) > 1:
        first, second = list(stated.values())[:2]
        raise ConfigError(
            "transcripts",
            f"are of different rosters: {first}.jsonl and {second}.jsonl name different parties",
            "give the roster of the run: --roster FILE",
        )
    elif stated:
        ((names, where),) = stated.items()
        where, found = f"{where}.jsonl", tuple(map(PartyId, names))
    else:
        return attacks.party_names(scenario.parties)
    if len(found) != scenario.parties:
        raise ConfigError(
            where,
            f"names {len(found)} parties, but the scenario has {scenario.parties}",
            "use the roster and the scenario of one run",
        )
    return found


def load_truth(path: Path, recorded: Recorded) -> GroundTruth:
    """Return the ground truth of a run with ``--lab``.

    Raises:
        ConfigError: there is none.
    """
    kept = any(t.header.get("lab") is True for ts in recorded.transcripts.values() for t in ts)
    folder = report.RunDirectory.open(path).lab
    if not kept:
        found = " (the lab folder is of another run)" if folder.exists() else ""
        raise ConfigError(
            "--lab", f"run {recorded.run} kept no updates{found}", "repeat it with: securefl run --lab"
        )
    if not folder.is_dir():
        raise ConfigError("--lab", f"{folder} is missing", "restore it, or audit without --lab")
    return GroundTruth(folder)


def _colluders(parties: tuple[PartyId, ...], named: Collection[str]) -> frozenset[PartyId]:
    for name in named:
        if name not in parties:
            known = parties[0] if len(parties) == 1 else f"{parties[0]} to {parties[-1]}"
            raise ConfigError("--colluders", f"{name!r} is not a party of this run", f"parties: {known}")
    if len(set(named)) >= len(parties):
        raise ConfigError("--colluders", "names all parties: no honest one is left", "name fewer parties")
    return frozenset(map(PartyId, named))


def _by_vantage(
    transcripts: dict[str, Transcript], parties: tuple[PartyId, ...]
) -> dict[str, tuple[Transcript, ...]]:
    """Return the transcripts of each process in the order of its starts."""
    found: dict[str, list[Transcript]] = defaultdict(list)
    for stem, transcript in sorted(transcripts.items(), key=lambda item: start_of(item[0])):
        vantage = transcript.header.get("vantage")
        if vantage not in {*parties, SERVER, DEALER, "broker"}:
            raise ConfigError(
                str(transcript.path),
                f"is of {vantage!r}, which is not in this run (parties: {report.list_of(parties)})",
                "remove it if it is of another run, or give the roster of this run: --roster FILE",
            )
        if stem.split(".")[0] not in {str(vantage), transport.OBSERVER}:
            raise ConfigError(str(transcript.path), f"is the transcript of {vantage}", "restore its name")
        check_entries(transcript)
        found[str(vantage)].append(_whole_rounds(transcript))
    return {vantage: tuple(some) for vantage, some in found.items()}


def _whole_rounds(transcript: Transcript) -> Transcript:
    """Return the transcript without a round whose beginning is missing."""
    first = transcript.round
    if first is None:
        return transcript
    kept = (entry for entry in transcript.entries if (number := round_of(entry)) is None or number >= first)
    return replace(transcript, entries=tuple(kept))


def _check_blank(
    directory: report.RunDirectory, blank: tuple[str, ...], parties: tuple[PartyId, ...]
) -> None:
    """Check the name of an empty transcript, which alone names its process."""
    for name in blank:
        if start_of(name)[0] not in {*parties, SERVER, DEALER, transport.OBSERVER}:
            raise ConfigError(
                str(directory.transcript_folder / f"{name}.jsonl"),
                "is empty, and its name is of no process in this run",
                "remove it if it is of another run",
            )


def _records(directory: report.RunDirectory) -> tuple[report.RoundRecord, ...]:
    if not directory.metrics_file.exists():
        return ()
    rows: tuple[dict[str, Any], ...] = directory.read_metrics()
    return directory.read_records(before=len(rows))
