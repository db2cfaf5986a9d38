"""Loading a run directory as :class:`securefl.lab.audit.recorded.Recorded`: verified, or refused."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from pathlib import Path
from typing import Any

from securefl.base.errors import ConfigError
from securefl.base.ids import DEALER, SERVER, PartyId
from securefl.lab.audit.recorded import Recorded
from securefl.lab.audit.truth import GroundTruth
from securefl.lab.audit.wellformed import check_entries
from securefl.methods.attacks import party_names
from securefl.methods.feasibility import check
from securefl.runtime.report import RoundRecord, RunDirectory
from securefl.runtime.transcript import Transcript, check_ends
from securefl.runtime.transport import OBSERVER


def load(path: Path, colluders: Collection[str] = ()) -> Recorded:
    """Read a run directory.

    Args:
        path: what ``securefl run --out`` or ``securefl simulate --out`` named.
        colluders: names of parties that are taken to pool what they know with the server.

    Raises:
        ConfigError: no run, a broken hash chain or an entry that is none (file and entry), a transcript that
            ends otherwise than the summary says, transcripts of different runs, a summary of another run, an
            unknown colluder, or nobody else left. A transcript that breaks off, or is empty, is what a killed
            process leaves, and the rest is read.
    """
    directory = RunDirectory.open(path)
    scenario = directory.read_scenario()
    parties = party_names(scenario.parties)
    supposed = _colluders(parties, colluders)
    transcripts = directory.read_transcripts()
    blank = tuple(name for name in directory.transcript_names() if name not in transcripts)
    summary = directory.read_summary() if directory.summary_file.exists() else {}
    runs = {transcript.run for transcript in transcripts.values()}
    stated = summary.get("run")
    if stated is not None and runs - {stated}:
        raise ConfigError(
            str(directory.summary_file),
            f"is of run {stated}, the transcripts are of {', '.join(sorted(runs))}",
            "put back the files that belong together",
        )
    if not transcripts and not summary.get("simulated", False):
        raise ConfigError(
            str(directory.path / "transcripts"), "holds no transcript", "audit the directory of a whole run"
        )
    by_vantage = _by_vantage(transcripts, parties)
    _check_blank(directory, blank, parties)
    check_ends(summary.get("transcripts", {}), transcripts, blank)
    return Recorded(
        run=next(iter(runs), str(stated)),
        scenario=scenario,
        limits=check(scenario),
        parties=parties,
        transcripts=by_vantage,
        blank=blank,
        records=_records(directory),
        summary=summary,
        frames=directory.frame_folder,
        colluders=supposed,
    )


def load_truth(path: Path, recorded: Recorded) -> GroundTruth:
    """The ground truth that a run with ``--lab`` kept.

    Raises:
        ConfigError: the run was not told to keep any, or it is gone.
    """
    kept = any(t.header.get("lab") is True for ts in recorded.transcripts.values() for t in ts)
    folder = RunDirectory.open(path).lab
    if not kept:
        found = " (the lab folder there is not of this run)" if folder.exists() else ""
        raise ConfigError(
            "--lab", f"run {recorded.run} kept no ground truth{found}", "repeat it with: securefl run --lab"
        )
    if not folder.is_dir():
        raise ConfigError("--lab", f"{folder} is gone", "put it back, or audit without --lab")
    return GroundTruth(folder)


def _colluders(parties: tuple[PartyId, ...], named: Collection[str]) -> frozenset[PartyId]:
    for name in named:
        if name not in parties:
            known = parties[0] if len(parties) == 1 else f"{parties[0]} to {parties[-1]}"
            raise ConfigError("--colluders", f"{name!r} is no party of this run", f"parties are {known}")
    if len(set(named)) >= len(parties):
        raise ConfigError("--colluders", "names everybody: nobody is left to learn about", "name fewer")
    return frozenset(map(PartyId, named))


def _by_vantage(
    transcripts: dict[str, Transcript], parties: tuple[PartyId, ...]
) -> dict[str, tuple[Transcript, ...]]:
    """A process that was restarted left several; their files sort in the order of the starts."""
    found: dict[str, list[Transcript]] = defaultdict(list)
    for stem, transcript in sorted(transcripts.items(), key=lambda item: _start(item[0])):
        vantage = transcript.header.get("vantage")
        if vantage not in {*parties, SERVER, DEALER, "broker"}:
            raise ConfigError(
                str(transcript.path), f"is of vantage point {vantage!r}, which is none of this scenario's"
            )
        if stem.split(".")[0] not in {str(vantage), OBSERVER}:
            raise ConfigError(str(transcript.path), f"is a transcript of {vantage}, under another name")
        check_entries(transcript)
        found[str(vantage)].append(transcript)
    return {vantage: tuple(some) for vantage, some in found.items()}


def _check_blank(directory: RunDirectory, blank: tuple[str, ...], parties: tuple[PartyId, ...]) -> None:
    """Check the name of an empty transcript: only it tells whose it is."""
    for name in blank:
        if _start(name)[0] not in {*parties, SERVER, DEALER, OBSERVER}:
            raise ConfigError(
                str(directory.transcript_folder / f"{name}.jsonl"),
                "is empty, and by its name of no vantage point of this scenario",
                "remove it if it is not of this run",
            )


def _start(stem: str) -> tuple[str, int]:
    name, _, number = stem.partition(".")
    return name, int(number) if number.isdecimal() else 1


def _records(directory: RunDirectory) -> tuple[RoundRecord, ...]:
    if not directory.metrics_file.exists():
        return ()
    rows: tuple[dict[str, Any], ...] = directory.read_metrics()
    return directory.read_records(before=len(rows))
