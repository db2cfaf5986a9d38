"""Checkpoints that earlier versions wrote: this one goes on from each of them.

In ``checkpoints/`` is a folder for each format: "first" knows no rounds whose shares were asked for,
"certified" does. Files are named by the setting of their run and by how many checkpoints it had written
before.
``python -m tests.vectors.test_checkpoints FOLDER`` writes those of this version there.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from securefl.base.ids import SERVER
from securefl.protocol.kernel.effects import Keep
from securefl.protocol.round import Checkpoint
from securefl.protocol.round.shared.reports import EpochLed, RoundDone, RunEffect
from securefl.runtime.process.checkpoint import checkpoint_bytes, checkpoint_from
from tests.looped import looped
from tests.simulation.test_exact_sums import samples, uneven
from tests.simulation.test_resumed_server import SETTINGS, check
from tests.simulation.world import Node, World

FILES = sorted((Path(__file__).parent / "checkpoints").glob("*/*.checkpoint"))


class Checkpoints(NamedTuple):
    """The checkpoints that the version of a format wrote, of those that this one writes."""

    format: str

    def __call__(self, effect: Keep) -> bool:
        """Whether it wrote this one."""
        assert isinstance(effect.state, Checkpoint)
        return self.format != "first" or effect.state.certified is None


class Swapped(World):
    """A run whose server is killed once it has written a checkpoint; the next one finds another file."""

    def __init__(self, path: Path) -> None:
        self.setting, number = path.stem.rsplit("-", 1)
        super().__init__(SETTINGS[self.setting], length=4, train=uneven, samples=samples)
        self.file = path.read_bytes()
        self._left = int(number)
        self._counted = Checkpoints(path.parent.name)

    def _perform(self, node: Node, effects: tuple[RunEffect, ...]) -> None:
        for number, effect in enumerate(effects):
            if node.name == SERVER and isinstance(effect, Keep) and self._counted(effect):
                self._left -= 1
                if self._left == -1:
                    super()._perform(node, effects[:number])
                    node.kept = self.file
                    self.kill_server()
                    return
        super()._perform(node, effects)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_the_run_goes_on(path: Path) -> None:
    world = Swapped(path)
    epoch = checkpoint_from(world.file, world.plan, path.name).epoch
    world.run()
    check(world, world.setting)
    (led,) = world.reports(EpochLed)
    assert led.epoch == epoch + 1
    assert [one.round for one in world.reports(RoundDone)][-1] == 2


def parts(value: Any) -> Any:
    """What can be compared of a checkpoint."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, Mapping):
        return {key: parts(one) for key, one in value.items()}
    if dataclasses.is_dataclass(value):
        return {one.name: parts(getattr(value, one.name)) for one in dataclasses.fields(value)}
    return value


@looped("path", FILES)
def test_nothing_of_it_is_lost(path: Path) -> None:
    plan = Swapped(path).plan
    state = checkpoint_from(path.read_bytes(), plan, path.name)
    again = checkpoint_from(checkpoint_bytes(plan, state), plan, path.name)
    assert parts(again) == parts(state)


@pytest.mark.parametrize("format_", ["first", "certified"])
def test_all_settings_are_there(format_: str) -> None:
    assert {path.stem.rsplit("-", 1)[0] for path in FILES if path.parent.name == format_} == SETTINGS.keys()


class Keeping(World):
    """A run that keeps each checkpoint as it is written."""

    def __init__(self, setting: str) -> None:
        super().__init__(SETTINGS[setting], length=4, train=uneven, samples=samples)
        self.kept: list[tuple[Checkpoint, bytes]] = []

    def _perform(self, node: Node, effects: tuple[RunEffect, ...]) -> None:
        super()._perform(node, effects)
        for effect in effects:
            if node.name == SERVER and isinstance(effect, Keep) and isinstance(effect.state, Checkpoint):
                self.kept.append((effect.state, checkpoint_bytes(self.plan, effect.state)))


def write(folder: Path) -> None:
    """Write for each setting the second checkpoint of a round that is being opened, and the one after it."""
    folder.mkdir(parents=True, exist_ok=True)
    for setting in SETTINGS:
        made = Keeping(setting)
        made.run()
        opening = [n for n, (one, _) in enumerate(made.kept) if one.certified]
        for number in (opening[1], opening[1] + 1) if opening else (2,):
            (folder / f"{setting}-{number}.checkpoint").write_bytes(made.kept[number][1])


if __name__ == "__main__":
    write(Path(sys.argv[1]))
