"""What a process checks of its own key and roster, and the ground truth of lab mode."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from securefl.base.crypto.identity import Identity
from securefl.base.crypto.keyfiles import write_identity, write_roster
from securefl.base.crypto.roster import Roster
from securefl.base.entropy import OsEntropy
from securefl.base.errors import ConfigError, PeerError, RunAbortedError
from securefl.base.ids import SERVER, PartyId
from securefl.methods.attacks.assignment import party_names
from securefl.protocol.kernel.events import Place
from securefl.protocol.messages.masking import MaskedInput
from securefl.protocol.round.party.upload import HONEST, UpdateId
from securefl.protocol.wire.outbox import Outbox
from securefl.runtime.process import assemble
from securefl.runtime.process.assemble import make_inbox, make_plan, read_own_identity
from securefl.runtime.process.ground_truth import recording, upload_file
from securefl.runtime.process.settings import ProcessSettings
from tests.unit.process.processes import settings


def keys(
    folder: Path, parties: int = 6, leave_out: str = ""
) -> tuple[ProcessSettings, dict[PartyId, Identity]]:
    """A folder with everybody's key and a roster, and the settings of p00."""
    made = {n: Identity.generate(n, OsEntropy()) for n in (*party_names(parties), SERVER)}
    for name, identity in made.items():
        write_identity(folder / f"{name}.key", identity)
    listed = {n: i.public for n, i in made.items() if n not in {SERVER, leave_out}}
    write_roster(folder / "roster.toml", Roster(made[SERVER].public, listed))
    return settings(folder), made


def test_the_own_key_and_the_roster_are_read(tmp_path: Path) -> None:
    mine, made = keys(tmp_path)
    identity, roster = read_own_identity(mine)
    assert identity.public == made[PartyId("p00")].public
    assert len(roster.parties) == 6


def test_somebody_elses_key_is_refused(tmp_path: Path) -> None:
    mine, _ = keys(tmp_path)
    with pytest.raises(ConfigError, match="is the key of 'p01', not of 'p00'"):
        read_own_identity(replace(mine, identity=tmp_path / "p01.key"))


def test_a_roster_without_us_is_refused(tmp_path: Path) -> None:
    mine, _ = keys(tmp_path, leave_out="p00")
    with pytest.raises(ConfigError, match="does not list 'p00' with this public key"):
        read_own_identity(mine)


def test_a_roster_with_another_key_of_ours_is_refused(tmp_path: Path) -> None:
    mine, _ = keys(tmp_path)
    (tmp_path / "p00.key").unlink()
    write_identity(tmp_path / "p00.key", Identity.generate(PartyId("p00"), OsEntropy()))
    with pytest.raises(ConfigError, match="does not list 'p00'") as caught:
        read_own_identity(mine)
    assert caught.value.path == str(tmp_path / "roster.toml")


def test_a_roster_of_another_size_is_refused(tmp_path: Path) -> None:
    mine, _ = keys(tmp_path, leave_out="p05")
    _, roster = read_own_identity(mine)
    with pytest.raises(ConfigError, match="lists 5 parties, but the scenario has 6"):
        make_plan(mine, roster, 8, b"")


def test_who_has_another_frozen_part_has_another_configuration(tmp_path: Path) -> None:
    """Without any, the digest is what it was; clusters are drawn as ever."""
    mine, _ = keys(tmp_path)
    _, roster = read_own_identity(mine)
    plans = [make_plan(mine, roster, 8, frozen) for frozen in (b"", bytes(32), bytes(31) + b"x")]
    assert len({plan.config_digest() for plan in plans}) == 3
    assert len({plan.draw_digest for plan in plans}) == 1


def test_the_inbox_takes_a_masked_input_of_the_models_size_and_nothing_far_larger(tmp_path: Path) -> None:
    mine, made = keys(tmp_path)
    _, roster = read_own_identity(mine)
    length = 100_000
    plan = make_plan(mine, roster, length, b"")
    inbox = make_inbox(plan, replace(mine, name=SERVER))
    outbox = Outbox(mine.run, made[PartyId("p00")], OsEntropy())
    fits = MaskedInput(vector=bytes(length * plan.limits.ring_bits // 8))
    delivered = [inbox.accept(f, "p00", 0.0) for f in outbox.frames(SERVER, Place(0, 0, 0), fits)]
    assert delivered[-1] is not None
    huge = MaskedInput(vector=bytes(3 * length * plan.limits.ring_bits // 8))
    frames = list(outbox.frames(SERVER, Place(0, 0, 0), huge))
    with pytest.raises(PeerError, match="exceeds"):
        assert [inbox.accept(frame, "p00", 0.0) for frame in frames]


@pytest.mark.parametrize(("rate", "taken"), [(1e6, False), (1e3, True)])
def test_a_large_message_may_take_as_long_as_the_rate_makes_it(
    rate: float, taken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assemble, "BYTES_PER_SECOND", rate)
    mine, made = keys(tmp_path)
    _, roster = read_own_identity(mine)
    mine = replace(mine, name=SERVER)
    plan = make_plan(mine, roster, 100_000, b"")
    inbox = make_inbox(plan, mine)
    outbox = Outbox(mine.run, made[PartyId("p00")], OsEntropy(), 256 * 1024)
    vector = MaskedInput(vector=bytes(100_000 * plan.limits.ring_bits // 8))
    first, *between, last = outbox.frames(SERVER, Place(0, 0, 0), vector)
    assert inbox.accept(first, "p00", 0.0) is None
    assert [inbox.accept(frame, "p00", 200.0) for frame in between] == [None] * len(between)
    assert (inbox.accept(last, "p00", 300.0) is not None) == taken


def occasion(round_: int, work: int = 0) -> UpdateId:
    return UpdateId(round_, work, np.zeros(3, dtype=np.float32), ())


def test_lab_mode_keeps_what_leaves_the_last_seam(tmp_path: Path) -> None:
    mine = settings(tmp_path)
    seams = recording(replace(HONEST, encoded=lambda values, _occasion: values * 2), mine)
    passed = seams.encoded(np.array([1, -2, 3], dtype=np.int64), occasion(4, 1))
    assert passed.tolist() == [2, -4, 6]
    kept = np.load(upload_file(tmp_path, PartyId("p00"), 4, 1), allow_pickle=False)
    assert kept.tolist() == [2, -4, 6]
    assert kept.dtype == np.int64


def test_lab_mode_on_a_full_disk_aborts_and_leaves_no_torn_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_space(path: Path, _values: object, *, allow_pickle: bool) -> None:
        path.write_bytes(b"torn")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("securefl.runtime.process.ground_truth.np.save", no_space)
    with pytest.raises(RunAbortedError, match="No space left"):
        recording(HONEST, settings(tmp_path)).encoded(np.zeros(3, dtype=np.int64), occasion(0))
    assert not upload_file(tmp_path, PartyId("p00"), 0).exists()
