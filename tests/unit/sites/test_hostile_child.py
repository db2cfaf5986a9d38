"""Replies of a site's process that break the protocol: each costs its training, and none the party."""

from __future__ import annotations

import fcntl
import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import ConfigError
from securefl.training.sites import channel
from securefl.training.sites.apart import ApartSite, SiteProcess
from securefl.training.sites.channel import Region
from securefl.training.sites.layout import LONGEST, Layout, SiteError
from securefl.training.sites.log import SiteLog
from securefl.training.sites.site import RoundContext
from securefl.training.sites.trainer import SiteTrainer
from tests.unit.sites import hostile_child

LAYOUT = Layout({"b": (), "a": (2, 3)})
PARAMS = np.arange(7, dtype=np.float32)
NO_REPLY = "its process wrote what is no reply"
NO_ARRAYS = "its process describes no arrays"
LINE = "a forged: line [2J"
"""How a name with a line break and an escape sequence is shown."""
F_SEAL_FUTURE_WRITE = 0x10


@pytest.fixture(autouse=True)
def hostile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "_CHILD", Path(hostile_child.__file__))


def apart(way: str, party: str = "p00", seconds: float = 60) -> ApartSite:
    return ApartSite(f"ward:{way}", party, SiteProcess(Path(sys.executable)), seconds)


def trainer_of(site: ApartSite) -> SiteTrainer:
    return SiteTrainer(site, LAYOUT, 4, SiteLog(None))


def update(trainer: SiteTrainer, number: int) -> Any:
    return trainer.update(number, PARAMS, None, InsecureSeededEntropy(3).child(number))


@pytest.fixture
def pipes(tmp_path: Path) -> tuple[Path, Path]:
    """Named pipes: the child waits at the first and answers on the second."""
    wait, answer = tmp_path / "wait", tmp_path / "answer"
    for one in (wait, answer):
        os.mkfifo(one)
    return wait, answer


def tell(pipes: tuple[Path, Path]) -> None:
    """Have the child do what it waits for."""
    wait, answer = pipes
    wait.write_bytes(b"now")
    assert answer.read_bytes()


@pytest.mark.parametrize(
    ("way", "line"),
    [
        ("number-before", NO_REPLY),
        ("number-after", NO_REPLY),
        ("number-zero", NO_REPLY),
        ("magic", NO_REPLY),
        ("no-byte", NO_REPLY),
        ("one-byte", NO_REPLY),
        ("too-long", NO_REPLY),
        ("cut-off", "its process ended (exit code 7)"),
        ("twice", "its process wrote more than its reply"),
        ("list", NO_REPLY),
        ("text", NO_REPLY),
        ("null", NO_REPLY),
        ("half", NO_REPLY),
        ("deep", NO_REPLY),
        ("no-text", NO_REPLY),
        ("digits", NO_REPLY),
        ("nothing", NO_ARRAYS),
        ("no-list", NO_ARRAYS),
        ("no-triple", NO_ARRAYS),
        ("array-twice", NO_ARRAYS),
        ("name-of-a-number", NO_ARRAYS),
        ("negative", NO_ARRAYS),
        ("fraction", NO_ARRAYS),
        ("truth", NO_ARRAYS),
        ("huge", NO_ARRAYS),
        ("huge-product", NO_ARRAYS),
        ("many-dimensions", NO_ARRAYS),
        ("turned", "fit returned a of shape (3, 2), expected (2, 3)"),
        ("flat", "fit returned a of shape (6,), expected (2, 3)"),
        ("one-less", "fit returned no array b, but a"),
        ("one-more", "fit returned c, which the model does not have: it has b, a"),
        ("integers", "fit returned b of dtype int64, expected floating-point numbers"),
        ("objects", "fit returned b of dtype object, expected floating-point numbers"),
        ("fields", "its process describes an array of dtype 'f8,f8,"),
        ("wide", "its process describes an array of dtype 'S2000000000'"),
        ("no-dtype", "its process describes an array of dtype 'float\\n33'"),
        ("line-in-name", f"fit returned {LINE}, which the model does not have"),
        ("line-in-kind", f"fit returned {LINE}, expected"),
        ("line-in-error", "a"),
        ("long-error", "e" * 400),
        ("no-error", "None"),
        ("no-samples", "fit returned None samples, expected a whole number"),
        ("samples-of-a-list", "fit returned [5] samples, expected a whole number"),
        ("fewer-than-none", "fit returned -1 samples, expected a whole number"),
        ("true-samples", "fit returned True samples, expected a whole number"),
    ],
)
def test_a_reply_that_breaks_the_protocol_costs_its_training(way: str, line: str) -> None:
    trainer = trainer_of(site := apart(way, seconds=3 if way == "too-long" else 60))
    np.testing.assert_array_equal(update(trainer, 0), 1 - PARAMS)
    with pytest.raises(SiteError) as refused:
        update(trainer, 1)
    assert str(refused.value).startswith(line)
    assert str(refused.value).isprintable(), "one line, which moves no cursor"
    assert len(str(refused.value)) <= LONGEST
    np.testing.assert_array_equal(update(trainer, 2), 1 - PARAMS)
    site.close()


@pytest.mark.parametrize(
    ("way", "note"),
    [
        ("line-in-metric", f"metric dropped: fit returned the metric {LINE} = 'x', expected a number"),
        ("true-metric", "metric dropped: fit returned the metric ok = True, expected a number"),
        ("no-metrics", "no metrics: fit returned metrics of type list, expected numbers by name"),
    ],
)
def test_metrics_that_break_the_protocol_cost_no_training(way: str, note: str) -> None:
    trainer = trainer_of(site := apart(way))
    found = trainer.fit(PARAMS, RoundContext(1, 4, 0), InsecureSeededEntropy(3))
    assert [line[: len(note)] for line in found.notes] == [note]
    assert all(line.isprintable() for line in found.notes)
    site.close()


def test_an_answer_to_a_question_that_was_not_asked_yet_is_refused(pipes: tuple[Path, Path]) -> None:
    trainer = trainer_of(site := apart("in-advance", party=",".join(map(str, pipes))))
    np.testing.assert_array_equal(update(trainer, 1), 1 - PARAMS)
    tell(pipes)
    with pytest.raises(SiteError, match="its process wrote more than its reply"):
        update(trainer, 2)
    np.testing.assert_array_equal(update(trainer, 3), 1 - PARAMS)
    site.close()


class Racing(Mapping[str, Any]):
    """Arrays of which the child overwrites all, just before one of them is read for the n-th time."""

    def __init__(self, arrays: Mapping[str, Any], pipes: tuple[Path, Path], reads: int) -> None:
        self._arrays, self._pipes, self.left = arrays, pipes, reads

    def __getitem__(self, name: str) -> Any:
        self.left -= 1
        if not self.left:
            tell(self._pipes)
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


def vector_or_none(arrays: Mapping[str, Any]) -> Any:
    """The vector that a party makes of arrays; None where it refuses them."""
    try:
        return LAYOUT.vector(arrays, "fit returned")
    except SiteError:
        return None


def test_numbers_that_change_after_their_check_are_not_used(pipes: tuple[Path, Path]) -> None:
    """Whenever the child overwrites what it has returned, the party has finite numbers, or none."""
    reads, refused = 1, 0
    while True:
        site = apart("memory", party=",".join(map(str, pipes)))
        arrays, _, _ = site.fit(LAYOUT.views(PARAMS), RoundContext(1, 4, 7))
        assert isinstance(arrays, Mapping)
        racing = Racing(arrays, pipes, reads)
        vector = vector_or_none(racing)
        assert vector is None or np.isfinite(vector).all()
        refused += vector is None
        site.close()
        if racing.left > 0:
            break
        reads += 1
    assert refused, "it came before some check"
    assert reads > 2, "and after another one"


def test_shared_memory_keeps_its_size_and_takes_no_further_seal() -> None:
    """The parent would be killed as it reads memory that was cut off, or could not write to it any more."""
    site: Any = apart("seals")
    _, possible = site.evaluate(LAYOUT.views(PARAMS), RoundContext(0, 4, 7))
    assert possible == {"shrink": 0.0, "grow": 0.0, "seal": 0.0}
    site.close()
    region = Region(LAYOUT)
    for size in (0, region.bytes - 1, region.bytes + 1):
        with pytest.raises(PermissionError):
            os.ftruncate(region.descriptor, size)
    with pytest.raises(PermissionError):
        fcntl.fcntl(region.descriptor, fcntl.F_ADD_SEALS, F_SEAL_FUTURE_WRITE)


def test_it_finds_no_modules_of_its_party(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by PYTHONPATH nor in the party's folder, nor beside the program of the process."""
    folders = {name: tmp_path / name for name in ("on_the_path", "in_the_folder", "beside_the_child", "ward")}
    for name, folder in folders.items():
        folder.mkdir()
        (folder / f"{name}.py").write_text("")
    program = folders["beside_the_child"] / "child.py"
    program.write_text(Path(hostile_child.__file__).read_text())
    monkeypatch.setattr(channel, "_CHILD", program)
    monkeypatch.syspath_prepend(folders["ward"])
    monkeypatch.setenv("PYTHONPATH", str(folders["on_the_path"]))
    monkeypatch.chdir(folders["in_the_folder"])
    site: Any = apart("surroundings")
    site.evaluate(LAYOUT.views(PARAMS), RoundContext(0, 4, 7))
    site.close()
    found = json.loads(site.output())
    assert found == {"folder": str(folders["ward"].resolve()), "modules": [], "path": None}


class TestOpening:
    @pytest.mark.parametrize(
        ("way", "line"),
        [
            ("too-many-parameters", "its process offers more than 2,147,483,648 parameters"),
            ("offered-twice", NO_ARRAYS),
            ("nothing-offered", NO_ARRAYS),
            ("lacking", f"has no {LINE}: docs/sites.md"),
        ],
    )
    def test_a_site_that_offers_nonsense_is_refused(self, way: str, line: str) -> None:
        with pytest.raises(SiteError) as refused:
            apart(way)
        assert str(refused.value).startswith(line)
        assert str(refused.value).isprintable()

    def test_an_app_that_is_refused_says_so_in_one_line(self) -> None:
        with pytest.raises(ConfigError) as refused:
            apart("refused")
        assert (refused.value.reason, refused.value.remedy) == ("a", "['none']")

    @pytest.mark.parametrize(
        ("way", "line"),
        [
            ("failed", "OSError: the data are away"),
            ("other-samples", "has other samples or parameters after a restart"),
            ("other-shapes", "has other samples or parameters after a restart"),
            ("no-shapes", NO_ARRAYS),
        ],
    )
    def test_a_restarted_site_is_checked_each_time(self, way: str, line: str, tmp_path: Path) -> None:
        """One that was refused is ended: no later training goes on with it, unchecked."""
        mark = tmp_path / "mark"
        trainer = trainer_of(site := apart(way, party=str(mark)))
        with pytest.raises(SiteError, match="its process ended"):
            update(trainer, 1)
        for number in (2, 3):
            with pytest.raises(SiteError, match=line):
                update(trainer, number)
        mark.unlink()
        np.testing.assert_array_equal(update(trainer, 0), 1 - PARAMS)
        site.close()

    def test_memory_that_was_not_shared_is_not_read(self, tmp_path: Path) -> None:
        """The zeros in it would count as parameters: the party would send minus the model."""
        trainer = trainer_of(site := apart("unshared", party=str(tmp_path / "mark")))
        with pytest.raises(SiteError, match="MemoryError: no address is left"):
            update(trainer, 0)
        np.testing.assert_array_equal(update(trainer, 2), 1 - PARAMS)
        site.close()

    def test_parameters_that_it_was_not_given_do_not_come_back(self) -> None:
        site = apart("good")
        arrays, _, _ = site.fit({"b": PARAMS[0]}, RoundContext(0, 4, 7))
        assert isinstance(arrays, Mapping)
        with pytest.raises(SiteError, match="fit returned a, which the model does not have: it has b"):
            Layout({"b": ()}).vector(arrays, "fit returned")
        site.close()
