"""What coalition members in different processes tell each other."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from securefl.base.arrays import F64
from securefl.base.errors import ConfigError, RunAbortedError, UsageError
from securefl.base.ids import PartyId
from securefl.methods.attacks.parts.fall_of_empires import FallOfEmpires
from securefl.methods.attacks.parts.mimic import Mimic
from securefl.methods.attacks.parts.scale import Scale
from securefl.protocol.kernel.effects import Report, Train
from securefl.protocol.kernel.events import DeadlinePassed
from securefl.protocol.round.party.upload import UpdateId
from securefl.protocol.round.shared.reports import ClustersDrawn
from securefl.runtime.misbehaviour.seam import Action
from securefl.runtime.process.accomplice import Accomplice, CoalitionFolder, accomplice_of
from securefl.scenario.behaviours import Behaviour, Drop
from securefl.training.sgd.outcomes import TrainingDivergedError
from tests.simulation.world import scenario
from tests.unit.process.processes import settings

NAMES = tuple(PartyId(f"p{index:02d}") for index in range(4))
ONE, TWO, THREE, HONEST = NAMES
D = 5
FOREVER = float("inf")


def update(value: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.full(D, value, dtype=np.float64)


def test_notes_arrive_whole_and_failures_too(tmp_path: Path) -> None:
    CoalitionFolder(tmp_path, ONE).post(3, 0, update(0.1))
    CoalitionFolder(tmp_path, TWO).post(3, 0, None)
    CoalitionFolder(tmp_path, THREE).post(3, 1, update(9))
    told = CoalitionFolder(tmp_path, THREE).collect(3, 0, (ONE, TWO), D, FOREVER)
    assert list(told) == [ONE]
    assert told[ONE].tobytes() == update(0.1).tobytes()
    assert not list(tmp_path.glob("*.part"))


def test_whoever_has_not_told_in_time_is_gone_without(tmp_path: Path) -> None:
    CoalitionFolder(tmp_path, ONE).post(0, 0, update(1))
    told = CoalitionFolder(tmp_path, TWO).collect(0, 0, (ONE, THREE), D, time.monotonic())
    assert list(told) == [ONE]


def test_waiting_ends_when_the_last_one_tells_or_the_board_closes(tmp_path: Path) -> None:
    mine, theirs = CoalitionFolder(tmp_path, ONE), CoalitionFolder(tmp_path, TWO)
    told: list[dict[PartyId, object]] = []
    waiting = threading.Thread(target=lambda: told.append({**mine.collect(0, 0, (TWO,), D, FOREVER)}))
    waiting.start()
    theirs.post(0, 0, update(2))
    waiting.join(60)
    assert list(told[0]) == [TWO]
    waiting = threading.Thread(target=lambda: told.append({**mine.collect(1, 0, (TWO,), D, FOREVER)}))
    waiting.start()
    mine.close()
    waiting.join(60)
    assert told[1] == {}


def test_old_notes_are_taken_away(tmp_path: Path) -> None:
    board = CoalitionFolder(tmp_path, ONE)
    for round_ in range(6):
        for work in range(2):
            board.post(round_, work, update(round_))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"{r}-{w}-p00.npy" for r in (4, 5) for w in (0, 1)
    ]


@pytest.mark.parametrize("content", [b"", b"no array", b"\x93NUMPY\x01\x00"])
def test_what_is_no_note_is_a_bug(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "0-0-p00.npy").write_bytes(content)
    with pytest.raises(UsageError, match="cannot read"):
        CoalitionFolder(tmp_path, TWO).collect(0, 0, (ONE,), D, FOREVER)


def test_a_note_of_another_length_is_a_bug(tmp_path: Path) -> None:
    CoalitionFolder(tmp_path, ONE).post(0, 0, update(1))
    with pytest.raises(UsageError, match="what p00 posted has shape"):
        CoalitionFolder(tmp_path, TWO).collect(0, 0, (ONE,), D + 1, FOREVER)


def test_a_full_disk_is_said_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: object, **_options: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("securefl.runtime.process.accomplice.np.save", full)
    with pytest.raises(RunAbortedError, match="No space left"):
        CoalitionFolder(tmp_path, ONE).post(0, 0, update(1))
    assert not list(tmp_path.iterdir())


FALL = FallOfEmpires(parties=(ONE, TWO, THREE), rounds=(0, 1))
CAST: dict[PartyId, Sequence[Behaviour]] = dict.fromkeys((ONE, TWO, THREE), (FALL,))
BEFORE = np.zeros(D, dtype=np.float32)


def occasion(round_: int) -> UpdateId:
    return UpdateId(round_, 0, BEFORE, ((NAMES,),))


def accomplice(
    folder: Path, me: PartyId, cast: dict[PartyId, Sequence[Behaviour]] | None = None
) -> Accomplice:
    """One that knows the clusters of round 0 and waits for nobody."""
    made = Accomplice(me, cast or CAST, CoalitionFolder(folder, me), 0.0)
    drawn(made, 0)
    return made


def drawn(member: Accomplice, round_: int) -> None:
    effects: tuple[Action, ...] = (
        Report(ClustersDrawn(round_, b"", ((NAMES,),))),
        Train(round_, 0, BEFORE),
    )
    assert member(DeadlinePassed(0.0), None, effects) is effects


class TrainAs:
    """An update of this value everywhere; fails for a negative one."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __call__(self, asked: Train) -> F64:
        if self.value < 0:
            raise TrainingDivergedError("training came to nothing")
        return np.full(asked.params.size, self.value)


def test_members_know_what_all_of_them_trained(tmp_path: Path) -> None:
    for me, value in ((ONE, 1.0), (TWO, 2.0)):
        assert accomplice(tmp_path, me).telling(TrainAs(value))(Train(0, 0, BEFORE)).tolist() == [value] * D
    last = accomplice(tmp_path, THREE)
    last.telling(TrainAs(3.0))(Train(0, 0, BEFORE))
    assert last.insight(FALL, occasion(0)).rows()[:, 0].tolist() == [1, 2, 3]


def test_a_failure_is_told_and_raised(tmp_path: Path) -> None:
    with pytest.raises(TrainingDivergedError):
        accomplice(tmp_path, ONE).telling(TrainAs(-1))(Train(0, 0, BEFORE))
    assert (tmp_path / "0-0-p00.npy").exists()
    assert CoalitionFolder(tmp_path, TWO).collect(0, 0, (ONE,), D, FOREVER) == {}


def test_whoever_falls_silent_early_tells_nothing_and_is_not_waited_for(tmp_path: Path) -> None:
    cast = {**CAST, TWO: (FALL, Drop(phase="after-keys"))}
    silent = accomplice(tmp_path, TWO, cast)
    silent.telling(TrainAs(2.0))(Train(0, 0, BEFORE))
    assert not list(tmp_path.iterdir())
    assert len(silent.insight(FALL, occasion(0))) == 0


def test_who_does_not_act_tells_all_the_same(tmp_path: Path) -> None:
    fall = FallOfEmpires(parties=(ONE, TWO), actors=1)
    cast: dict[PartyId, Sequence[Behaviour]] = {ONE: (fall,), TWO: (fall,)}
    resting = accomplice(tmp_path, TWO, cast)
    resting.telling(TrainAs(2.0))(Train(0, 0, BEFORE))
    assert (tmp_path / "0-0-p01.npy").exists()
    acting = accomplice(tmp_path, ONE, cast)
    acting.telling(TrainAs(1.0))(Train(0, 0, BEFORE))
    assert acting.insight(fall, occasion(0)).rows()[:, 0].tolist() == [1, 2]


def test_in_rounds_without_the_attack_nothing_is_told(tmp_path: Path) -> None:
    member = accomplice(tmp_path, ONE)
    drawn(member, 2)
    member.telling(TrainAs(1.0))(Train(2, 0, BEFORE))
    lone = accomplice(tmp_path, HONEST, {HONEST: (Scale(parties=(HONEST,)),)})
    lone.telling(TrainAs(1.0))(Train(0, 0, BEFORE))
    assert not list(tmp_path.iterdir())


def test_knowledge_of_the_last_round_goes_with_it(tmp_path: Path) -> None:
    member = accomplice(tmp_path, ONE)
    train = member.telling(TrainAs(1.0))
    train(Train(0, 0, BEFORE))
    drawn(member, 1)
    train(Train(1, 0, BEFORE))
    assert len(member.insight(FALL, occasion(1))) == 1
    with pytest.raises(KeyError):
        member.insight(FALL, occasion(0))
    with pytest.raises(UsageError, match="need its clusters"):
        accomplice(tmp_path, ONE).telling(TrainAs(1.0))(Train(1, 0, BEFORE))


def test_a_straggler_that_trains_for_a_round_that_is_over_tells_nobody(tmp_path: Path) -> None:
    member = accomplice(tmp_path, ONE)
    drawn(member, 1)
    assert member.telling(TrainAs(1.0))(Train(0, 0, BEFORE)).tolist() == [1.0] * D
    assert not list(tmp_path.iterdir())


def test_the_patience_of_all_works_of_a_round_is_half_of_the_deadline(tmp_path: Path) -> None:
    for new_work, works in (("false", 1), ("true", 3)):
        config = scenario(6, reclusterings="3", clustering__new_work=new_work)
        member = accomplice_of(settings(tmp_path, scenario=config, coalition_dir=tmp_path), CAST)
        assert member is not None
        assert 2 * works * member._patience == pytest.approx(config.deadlines.training)


def test_a_coalition_without_a_channel_is_refused(tmp_path: Path) -> None:
    mine = settings(tmp_path)
    with pytest.raises(ConfigError, match="fall-of-empires needs its parties on one machine"):
        accomplice_of(mine, CAST)
    assert accomplice_of(replace(mine, name=HONEST), CAST) is None
    assert accomplice_of(replace(mine, coalition_dir=tmp_path), CAST) is not None


def test_an_omniscient_coalition_is_refused_by_every_party(tmp_path: Path) -> None:
    mimic = Mimic(parties=("p01", "p02"), knowledge="omniscient")
    mine = settings(tmp_path, scenario=msgspec.structs.replace(scenario(6), behaviours=(mimic,)))
    with pytest.raises(ConfigError, match="only in simulate"):
        accomplice_of(mine, {TWO: (mimic,), THREE: (mimic,)})
