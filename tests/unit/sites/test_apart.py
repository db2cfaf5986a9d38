"""Sites in a process of their own: what they may do wrong, and what is left of it."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import ConfigError
from securefl.base.ids import PartyId
from securefl.training.models.parts.weights import SiteWeights
from securefl.training.sites.apart import ApartSite, SiteProcess, site_apart, site_folder
from securefl.training.sites.layout import Layout, SiteError
from securefl.training.sites.load import make_site, site_maker
from securefl.training.sites.log import SiteLog
from securefl.training.sites.site import RoundContext
from securefl.training.sites.trainer import SiteTrainer

LAYOUT = Layout({"b": (), "a": (2, 3)})
"""In an order that is not that of names: a site draws in the order of what it gets."""
PARAMS = np.arange(7, dtype=np.float32)
PYTHON = Path(sys.executable)
WARD = """
import os, sys, signal, time
import numpy as np

class Good:
    samples = 5
    def __init__(self, name):
        self.name = name
    def parameters(self):
        return {"a": np.ones((2, 3), np.float32), "b": np.zeros((), np.float32)}
    def fit(self, parameters, context):
        rng = np.random.default_rng(context.seed)
        after = {n: a + rng.normal(size=a.shape) for n, a in parameters.items()}
        return self.broken(after, context) if context.number == 1 else (after, 5, {"loss": np.float32(0.5)})
    def evaluate(self, parameters, context):
        return 2, {"b": parameters["b"]}

def site(broken):
    return type(broken.__name__, (Good,), {"broken": broken})

class Based(Good):
    frozen_sha256 = "ab" * 32


class Swapped(Good):
    def fit(self, parameters, context):
        after, samples, metrics = super().fit(parameters, context)
        return {n: a.astype(">f8") for n, a in after.items()}, samples, metrics

class Long(Good):
    def fit(self, parameters, context):
        after, samples, metrics = super().fit(parameters, context)
        return {n: a.astype(np.longdouble) for n, a in after.items()}, samples, metrics

class Tables(Good):
    def evaluate(self, parameters, context):
        return 2, {"hits": np.array([[1, 0], [0, 1]]), "auc": np.float64(0.5)}

def put(data):
    os.write(int(sys.argv[1]), data)
    return 5

def raises(self, after, context): raise KeyError("no such patient")
def hangs(self, after, context): signal.pause()
def not_finite(self, after, context): return after | {"b": float("nan")}, 5, {}
def other_name(self, after, context): return after | {"c": np.ones(2)}, 5, {}
def no_name(self, after, context): return {"a": after["a"]}, 5, {}
def other_shape(self, after, context): return after | {"b": np.zeros(4)}, 5, {}
def other_dtype(self, after, context): return after | {"b": np.int32(4)}, 5, {}
def too_many(self, after, context): return after, 6, {}
def no_count(self, after, context): return after, 2.0, {}
def no_metric(self, after, context): return after, 5, {"auc": "high"}
def no_arrays(self, after, context): return [1.0], 5, {}
def much(self, after, context): return after, 5, {"n" * 100_000: [1.0] * 100_000}
def two_things(self, after, context): return after, 5
def exits(self, after, context): sys.exit(3)
def reserves(self, after, context): return after, 5, {"bytes": float(np.empty(1 << 30).nbytes)}
def waits(self, after, context):
    with open(os.path.join(os.path.dirname(__file__), "entered"), "w") as pipe:
        pipe.write(str(os.getpid()))
    signal.pause()
def dies(self, after, context): os._exit(9)
def killed(self, after, context): os.kill(os.getpid(), signal.SIGKILL)
def eats(self, after, context): return np.ones(1 << 40), 5, {}
def garbage(self, after, context): return after, put(b"x" * 100), {}
def long(self, after, context):
    import struct
    put(struct.pack("!4sII", b"SFL1", 4, 0xFFFFFFFF))
    signal.pause()
def prints(self, after, context):
    while True:
        print("patient " * 1000)

for each in [raises, hangs, not_finite, other_name, no_name, other_shape, other_dtype, too_many, no_count,
             no_metric, no_arrays, much, two_things, reserves, waits, exits, dies, killed, eats, garbage,
             long, prints]:
    globals()[each.__name__] = site(each)

class Forks(Good):
    def broken(self, after, context):
        if not os.fork():
            signal.pause()
        os._exit(1)

class Environment(Good):
    def parameters(self):
        print(sorted(os.environ), os.getcwd(), sys.path, sorted(os.listdir("/proc/self/fd")))
        print("securefl" in sys.modules, os.getsid(0) == os.getpid())
        return super().parameters()

class Prepared(Good):
    def __init__(self, name):
        raise ValueError(f"{name} has no data")
"""


@pytest.fixture
def ward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "ward_apart.py").write_text(WARD)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("ward_apart", None)


def apart(name: str, seconds: float = 60, memory: int = 0) -> ApartSite:
    return ApartSite(f"ward_apart:{name}", "p00", SiteProcess(PYTHON, memory), seconds)


def update(trainer: SiteTrainer, number: int) -> Any:
    return trainer.update(number, PARAMS, None, InsecureSeededEntropy(3).child(number))


@pytest.mark.parametrize(
    ("name", "notes"),
    [
        ("no_count", ()),
        ("no_metric", ("metric dropped: fit returned the metric auc = 'high', expected a number",)),
        ("much", ("metric dropped: fit returned the metric nnn",)),
    ],
)
def test_a_metric_that_is_no_number_costs_no_round(name: str, notes: tuple[str, ...], ward: Path) -> None:
    """A whole float is a count, and a long text is cut in the log."""
    log = ward / "p00.site.jsonl"
    trainer = SiteTrainer(apart(name), LAYOUT, 4, SiteLog(log))
    for number in range(2):
        assert np.isfinite(update(trainer, number)).all()
    found = json.loads(log.read_text().splitlines()[1]).get("notes", [])
    assert len(found) == len(notes)
    for line, note in zip(found, notes, strict=True):
        assert line.startswith(note)
        assert line.isprintable()
        assert len(line) <= 600


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("raises", " in raises: KeyError: 'no such patient'"),
        ("hangs", "took too long and was killed"),
        ("not_finite", "fit returned b with numbers that are not finite"),
        ("other_name", "fit returned c, which the model does not have: it has b, a"),
        ("no_name", "fit returned no array b, but a"),
        ("other_shape", "fit returned b of shape (4,), expected ()"),
        ("other_dtype", "fit returned b of dtype int32, expected floating-point numbers"),
        ("too_many", "fit trained on 6 samples, and the party has declared 5"),
        ("no_arrays", "fit returned list, expected arrays by name"),
        ("two_things", "fit returned 2 things, expected (parameters, samples, metrics)"),
        ("exits", "exits with 3 in place of returning"),
        ("dies", "its process ended (exit code 9)"),
        ("killed", "its process ended (signal 9)"),
        ("eats", "MemoryError"),
        ("garbage", "wrote what is no reply"),
        ("long", "wrote what is no reply"),
        ("prints", "took too long and was killed"),
        ("Forks", "its process ended (exit code 1)"),
    ],
)
def test_what_fails_costs_its_round_and_the_next_one_trains(name: str, said: str, ward: Path) -> None:
    log = ward / "p00.site.jsonl"
    site = apart(name, seconds=3 if name in {"hangs", "prints"} else 60)
    trainer = SiteTrainer(site, LAYOUT, 4, SiteLog(log))
    assert np.isfinite(update(trainer, 0)).all()
    with pytest.raises(SiteError) as refused:
        update(trainer, 1)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) <= 500
    assert np.isfinite(update(trainer, 2)).all()
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    assert said in next(entry["error"] for entry in entries if "error" in entry)
    assert log.stat().st_size < 200_000
    site.close()


def test_the_bits_are_those_of_a_site_in_the_partys_process(ward: Path) -> None:
    here = SiteTrainer(site_maker("ward_apart:Good")("p00"), LAYOUT, 4, SiteLog(None))
    site = apart("Good")
    first = site.parameters()
    there = SiteTrainer(site, LAYOUT, 4, SiteLog(None))
    for number in (0, 2):
        np.testing.assert_array_equal(update(here, number), update(there, number))
        told = RoundContext(number, 4, 7)
        drawn = InsecureSeededEntropy(1)
        assert here.fit(PARAMS, told, drawn)[1:] == there.fit(PARAMS, told, drawn)[1:]
    for offered in (first, site.parameters()):
        np.testing.assert_array_equal(offered["a"], np.ones((2, 3)))
    site.close()


def test_the_digest_of_what_is_frozen_is_compared_here(ward: Path) -> None:
    with pytest.raises(ConfigError, match="p00: it has frozen parameters with the SHA-256 abababab"):
        make_site(lambda _: apart("Based"), PartyId("p00"), LAYOUT, SiteWeights(frozen_sha256="cd" * 32))


@pytest.mark.parametrize("name", ["Swapped", "Long"])
def test_numbers_of_another_width_or_order_are_not_zeros(name: str, ward: Path) -> None:
    found = update(SiteTrainer(apart(name), LAYOUT, 4, SiteLog(None)), 0)
    expected = update(SiteTrainer(apart("Good"), LAYOUT, 4, SiteLog(None)), 0)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", [">f4", "float128", "f8"])
def test_a_dtype_that_nothing_lies_there_of_is_refused(dtype: str, ward: Path) -> None:
    """An array without memory of such a type would count as zeros."""
    site = apart("Good")
    site.parameters()
    site.fit(LAYOUT.views(PARAMS), RoundContext(0, 4, 1))
    with pytest.raises(SiteError, match=f"describes an array of dtype '{dtype}'"):
        site._arrays([["b", dtype, []], ["a", "float32", [2, 3]]])


def test_tables_of_numbers_come_as_lists(ward: Path) -> None:
    site: Any = apart("Tables")
    found = site.evaluate(LAYOUT.arrays(PARAMS), RoundContext(0, 1, 0))
    assert found == (2, {"hits": [[1.0, 0.0], [0.0, 1.0]], "auc": 0.5})
    site.close()


def test_the_whole_group_is_killed(ward: Path) -> None:
    """The pipe breaks once nobody holds its other end: neither the process nor the one it forked."""
    reading, writing = os.pipe()
    (ward / "ward_apart.py").write_text(
        WARD + f"\nclass Leaves(Good):\n    def __init__(self, name):\n"
        f"        self.pipe = os.open('/proc/{os.getpid()}/fd/{writing}', os.O_WRONLY)\n"
        "        if not os.fork():\n            signal.pause()\n"
    )
    site = apart("Leaves")
    os.close(writing)
    site.close()
    ended, _, _ = select.select([reading], [], [], 30)
    assert ended == [reading]
    assert os.read(reading, 1) == b""
    os.close(reading)


def test_it_inherits_no_secret_and_no_descriptor(ward: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECUREFL_MQTT", "secret")
    monkeypatch.setenv("BROKER_PASSWORD", "secret")
    reading, writing = os.pipe()
    inheritable = True
    for descriptor in (reading, writing):
        os.set_inheritable(descriptor, inheritable)
    site = apart("Environment")
    site.close()
    said = site.output()
    assert "SECUREFL" not in said
    assert "PASSWORD" not in said
    assert str(ward) in said
    assert "False True" in said
    assert f"'{writing}'" not in said.partition("]")[2].partition("]")[2]
    os.close(reading)
    os.close(writing)


def test_memory_is_limited(ward: Path) -> None:
    site = apart("eats", memory=4000)
    trainer = SiteTrainer(site, LAYOUT, 4, SiteLog(None))
    with pytest.raises(SiteError, match="MemoryError"):
        update(trainer, 1)
    site.close()


def test_memory_beyond_the_limit_is_not_there(ward: Path) -> None:
    """8 GiB that no page of is used: the machine would give them."""
    for memory, fits in ((0, True), (4000, False)):
        site = apart("reserves", memory=memory)
        trainer = SiteTrainer(site, LAYOUT, 4, SiteLog(None))
        if fits:
            assert np.isfinite(update(trainer, 1)).all()
        else:
            with pytest.raises(SiteError, match="MemoryError"):
                update(trainer, 1)
        site.close()


def test_a_site_that_trains_ends_with_its_party(ward: Path) -> None:
    """Also where the party is killed, so that it ends nothing itself."""
    os.mkfifo(ward / "entered")
    program = (
        "import sys; from pathlib import Path; import numpy as np; sys.path.insert(0, sys.argv[1])\n"
        "from securefl.training.sites.apart import ApartSite, SiteProcess\n"
        "from securefl.training.sites.site import RoundContext\n"
        "site = ApartSite('ward_apart:waits', 'p00', SiteProcess(Path(sys.executable)), 60)\n"
        "site.fit({'b': np.zeros(()), 'a': np.zeros((2, 3))}, RoundContext(1, 4, 7))\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(ward)]) as party:
        trains = os.pidfd_open(int((ward / "entered").read_text()))
        party.kill()
    ended, _, _ = select.select([trains], [], [], 15)
    if not ended:
        signal.pidfd_send_signal(trains, signal.SIGKILL)
    os.close(trains)
    assert ended == [trains]


def test_the_process_of_a_partys_site(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one is required: this interpreter, and all memory of the machine, unless others are named."""
    assert SiteProcess.of_party(None, 0, required=False) is None
    found = SiteProcess.of_party(None, 0, required=True)
    assert found is not None
    assert found.python == Path(sys.executable)
    assert found.memory * 1_000_000 == pytest.approx(psutil.virtual_memory().total, rel=1e-3)
    assert SiteProcess.of_party(None, 300, required=True) == SiteProcess(Path(sys.executable), 300)
    assert SiteProcess.of_party(PYTHON, 0, required=True) == SiteProcess(PYTHON, 0)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert SiteProcess.of_party(None, 0, required=False) is None
    with pytest.raises(ConfigError, match="needs Linux"):
        SiteProcess.of_party(None, 0, required=True)


def test_what_cannot_start_is_refused(ward: Path) -> None:
    with pytest.raises(SiteError, match="p00 has no data"):
        apart("Prepared")
    with pytest.raises(SiteError, match="AttributeError"):
        apart("Nix")
    with pytest.raises(ConfigError, match="is not a file"):
        site_apart("ward_apart:Good", SiteProcess(ward / "python"), 5)
    with pytest.raises(ConfigError, match="'ward_apart' does not name a site"):
        site_apart("ward_apart", SiteProcess(PYTHON), 5)
    assert site_folder("ward_apart:Good") == ward.resolve()
    assert site_folder("numpy:array") is None
