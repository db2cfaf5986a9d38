"""Evidence on disk: whole, for its owner only, named in the transcript, and not endless."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from securefl.base.errors import ConfigError, RunAbortedError
from securefl.protocol.kernel.effects import Finished
from securefl.protocol.round.shared.charges import Charge, TwoWords, charge_digest
from securefl.protocol.round.shared.reports import Convicted
from securefl.runtime.report.evidence import evidence_name, keep_evidence, load_evidence
from securefl.runtime.report.witness import Fact, News, ProcessWitness
from securefl.runtime.transcript.chain import read_transcript
from tests.unit.process.processes import settings


def words(n: int = 0) -> TwoWords:
    return TwoWords(first=bytes([n]) * 80, second=b"\x01" * 80)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_charge_is_kept_for_its_owner_only(tmp_path: Path) -> None:
    path = keep_evidence(tmp_path, words())
    assert load_evidence(path) == words()
    assert path.name == evidence_name(words()) == charge_digest(words()).hex()[:32] + ".charge"
    assert (mode(path), mode(path.parent)) == (0o600, 0o700)
    assert [one.name for one in path.parent.iterdir()] == [path.name], "nothing is left beside it"


def test_a_write_that_was_cut_off_is_no_obstacle(tmp_path: Path) -> None:
    path = keep_evidence(tmp_path, words())
    path.with_suffix(".tmp").write_bytes(b"half")
    path.unlink()
    assert load_evidence(keep_evidence(tmp_path, words())) == words()


@pytest.mark.parametrize("raw", [b"", b"\xc0", b"\x93\xa8TwoWords\xc4\x00", b"\x91" * 5_000])
def test_something_else_is_refused(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "x.charge"
    path.write_bytes(raw)
    with pytest.raises(ConfigError, match="holds no charge"):
        load_evidence(path)


def test_a_second_spelling_is_refused(tmp_path: Path) -> None:
    path = keep_evidence(tmp_path, words())
    path.write_bytes(path.read_bytes().replace(b"\xc4\x50", b"\xc5\x00\x50"))
    with pytest.raises(ConfigError, match="holds no charge"):
        load_evidence(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_evidence(tmp_path / "none.charge")


def test_a_disk_that_takes_nothing_ends_the_run(tmp_path: Path) -> None:
    (tmp_path / "evidence").write_bytes(b"")
    with pytest.raises(RunAbortedError, match="cannot be written"):
        keep_evidence(tmp_path, words())


def test_the_first_of_a_kind_against_somebody_is_kept(tmp_path: Path) -> None:
    told: list[News] = []
    witness = ProcessWitness(settings(tmp_path), told.append, 32)

    def report(culprit: str, charge: Charge) -> None:
        witness.report(1.0, Convicted(0, culprit, "attests two outcomes of round 0", charge))

    for culprit, n in (("p01", 0), ("p01", 1), ("p02", 2)):
        report(culprit, words(n))
    witness.close(Finished("done"))
    kept = {one.name for one in (tmp_path / "evidence").iterdir()}
    assert kept == {evidence_name(words(0)), evidence_name(words(2))}
    (transcript,) = (tmp_path / "transcripts").iterdir()
    entries = [one.fields for one in read_transcript(transcript).entries if one.kind == "convicted"]
    assert [(one["culprit"], one["charge"]) for one in entries] == [
        ("p01", {"kind": "TwoWords", "evidence": evidence_name(words(0))}),
        ("p02", {"kind": "TwoWords", "evidence": evidence_name(words(2))}),
    ]
    assert len([one for one in told if isinstance(one, Fact)]) == 2


def test_several_processes_may_find_the_same_lie_at_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        written = list(pool.map(lambda _: keep_evidence(tmp_path, words()), range(400)))
    assert len({*written}) == 1
    assert load_evidence(written[0]) == words()
    assert [one.name for one in (tmp_path / "evidence").iterdir()] == [evidence_name(words())]
