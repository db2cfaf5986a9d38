"""``securefl run`` on bad input: one line, the documented code, and nothing left behind."""

from __future__ import annotations

import gzip
import importlib.metadata
from pathlib import Path

import numpy as np
import pytest

from securefl.runtime.launch.bundled import find_bundled
from tests.unit.cli.programs import SCENARIO, call, files, refusal, write_scenario


def replaced(old: str, new: str) -> str:
    assert old in SCENARIO
    return SCENARIO.replace(old, new)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        (SCENARIO + 'colour = "red"\n', "stop.colour"),
        (replaced("parties = 6", 'parties = "six"'), "parties"),
        (replaced("threshold = 2", "threshold = 4"), "secure_sum.threshold"),
        (replaced("min_survivors = 2", "min_survivors = 9"), "secure_sum.min_survivors"),
        (replaced("size = 3", "size = 1"), "clustering.size"),
        (replaced("parties = 6", "parties = 2"), "clustering.size"),
        (
            SCENARIO + "[encoding]\nscale_bits = 30\nrange = 1024\nring_bits = 32\n",
            "encoding",
        ),
        (
            SCENARIO + '[aggregation]\nrule = {type = "median"}\nbyzantine = 3\nclaim = "worst-case"\n',
            "aggregation",
        ),
        (replaced('name = "small"', "name = "), "small.toml:"),
        (replaced('set = "digits"', 'set = "imagenet"'), "data.set"),
    ],
)
def test_a_bad_scenario_is_refused_by_field(text: str, field: str, tmp_path: Path) -> None:
    scenario = write_scenario(tmp_path, text)
    reason = refusal(call("run", scenario, "--out", tmp_path / "run"))
    assert field in reason.partition(": ")[0] + ": "
    assert files(tmp_path) == {"small.toml"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--metrics-port", "70000"), "--metrics-port"),
        (("--metrics-port", "-1"), "--metrics-port"),
        (("--metrics-port", "x"), "--metrics-port"),
        (("--metrics-port", "0", "--metrics-host", "no.such.invalid"), "--metrics-host: cannot listen on"),
    ],
)
def test_a_bad_address_of_metrics_is_refused(options: tuple[str, ...], words: str, tmp_path: Path) -> None:
    scenario = write_scenario(tmp_path, SCENARIO)
    assert words in refusal(call("run", scenario, "--out", tmp_path / "run", *options))
    assert files(tmp_path) == {"small.toml"}


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("nonsense", "is not of the form path=value"),
        ("stop.rounds=many", "stop.rounds"),
        ("stop.rounds=0", "stop.rounds"),
        ("stop.rounds.deep=1", "stop.rounds"),
        ("=5", "is not of the form"),
        ("name=[bold]x", "name"),
    ],
)
def test_a_bad_override_is_refused(override: str, words: str, tmp_path: Path) -> None:
    scenario = write_scenario(tmp_path)
    assert words in refusal(call("run", scenario, "--set", override, "--out", tmp_path / "run"))
    assert files(tmp_path) == {"small.toml"}


def test_a_directory_does_not_stand_for_a_bundled_scenario(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dropout").mkdir()
    monkeypatch.chdir(tmp_path)
    assert find_bundled(Path("dropout")).name == "dropout.toml"


def test_an_unknown_scenario_is_refused(tmp_path: Path) -> None:
    reason = refusal(call("run", "nosuch", "--out", tmp_path / "run"))
    assert reason.startswith(
        "nosuch: no such file, and no bundled scenario of this name (bundled: backdoor, byzantine, "
    )
    assert "quickstart" in reason
    assert "file not found" in refusal(call("run", "nosuch.toml", "--out", tmp_path / "run"))
    assert "cannot be read" in refusal(call("run", tmp_path, "--out", tmp_path / "run"))
    assert files(tmp_path) == set()


def test_a_used_run_directory_is_refused_and_untouched(tmp_path: Path) -> None:
    out = tmp_path / "run"
    out.mkdir()
    (out / "precious").write_text("data")
    reason = refusal(call("run", write_scenario(tmp_path), "--out", out))
    assert "exists and is not empty" in reason
    assert files(out) == {"precious"}


def no_npz(folder: Path) -> str:
    return f"npz:{folder / 'gone.npz'}"


def torn_npz(folder: Path) -> str:
    (folder / "torn.npz").write_bytes(b"PK\x03\x04 torn")
    return f"npz:{folder / 'torn.npz'}"


def short_npz(folder: Path) -> str:
    np.savez(folder / "short.npz", x_train=np.zeros((4, 2), np.float32), y_train=np.zeros(4, np.int64))
    return f"npz:{folder / 'short.npz'}"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (no_npz, "file not found"),
        (torn_npz, "is not a readable npz archive: File is not a zip file"),
        (short_npz, "is missing; the archive holds x_train, y_train"),
    ],
)
def test_bad_npz_data_is_refused(make: object, words: str, tmp_path: Path) -> None:
    assert callable(make)
    name = make(tmp_path)
    before = files(tmp_path) | {"small.toml"}
    result = call("run", write_scenario(tmp_path), "--set", f'data.set="{name}"', "--out", tmp_path / "run")
    assert words in refusal(result)
    assert files(tmp_path) == before, "the run directory is taken away again"


def test_a_missing_data_directory_is_refused(tmp_path: Path) -> None:
    scenario = write_scenario(tmp_path, replaced('set = "digits"', 'set = "mnist"'))
    assert "--data-dir" in refusal(call("run", scenario, "--out", tmp_path / "run"))
    reason = refusal(call("run", scenario, "--data-dir", tmp_path / "gone", "--out", tmp_path / "run"))
    assert "train-images-idx3-ubyte.gz" in reason
    assert files(tmp_path) == {"small.toml"}


def test_a_corrupt_data_file_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "mnist"
    folder.mkdir(parents=True)
    (folder / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(b"\x00\x00\x08\x03 not these images"))
    before = files(tmp_path) | {"small.toml"}
    scenario = write_scenario(tmp_path, replaced('set = "digits"', 'set = "mnist"'))
    result = call("run", scenario, "--data-dir", tmp_path / "data", "--out", tmp_path / "run")
    assert "train-images-idx3-ubyte.gz" in refusal(result)
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--broker", "http://host"), "unknown scheme"),
        (("--broker", "localhost"), "no scheme"),
        (("--broker", "mqtt://host", "--tls-ca", "x.pem"), "mqtts://"),
        (("--broker", "mqtts://host", "--tls-ca", "/no/such.pem"), "no such file"),
        (("--broker", "mqtt://user@host", "--password-file", "/no/such"), "cannot be read"),
        (("--device", "abacus"), "--device"),
        (("--broker", "mqtts://host", "--tls"), "--tls: is for a broker that this run starts"),
        (("--broker", "mqtt://host", "--tls"), "--tls: is for a broker that this run starts"),
        (("--tls-ca", "x.pem"), "needs a broker at a URL, and this run starts 'auto' itself"),
        (("--tls", "--tls-cert", "x.pem"), "needs a broker at a URL, and this run starts 'auto' itself"),
        (
            ("--broker", "mosquitto", "--tls-key", "x.pem"),
            "needs a broker at a URL, and this run starts 'mosquitto' itself",
        ),
        (
            ("--broker", "embedded", "--password-file", "x"),
            "needs a broker at a URL, and this run starts 'embedded' itself",
        ),
    ],
)
def test_bad_options_are_refused_before_anything_is_made(
    arguments: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    assert words in refusal(call("run", write_scenario(tmp_path), *arguments, "--out", tmp_path / "run"))
    assert files(tmp_path) == {"small.toml"}


def test_an_unreachable_broker_aborts_in_one_line(tmp_path: Path) -> None:
    # Port 1 (tcpmux) is served nowhere.
    arguments = ("--broker", "mqtt://127.0.0.1:1", "--out", tmp_path / "run")
    reason = refusal(call("run", write_scenario(tmp_path), *arguments), code=3)
    assert (
        reason == "cannot reach the broker mqtt://127.0.0.1:1: connection refused; check that it is"
        " running, and the host and port"
    )
    assert files(tmp_path) == {"small.toml"}, "nothing started: the same --out can be used again"


def test_a_path_with_brackets_is_shown_as_it_is(tmp_path: Path) -> None:
    odd = tmp_path / "[bold]"
    odd.mkdir()
    assert "[bold]" in refusal(call("run", odd, "--out", tmp_path / "run"))


def test_a_machine_without_crypten_is_told_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr("securefl.protocol.secure_sum.crypten.library.importlib.metadata.version", absent)
    scenario = write_scenario(tmp_path)
    reason = refusal(call("run", scenario, "--set", "secure_sum.kind=crypten", "--out", tmp_path / "run"))
    assert reason.startswith("secure_sum.kind: ")
    assert "pip install --no-deps crypten==0.4.1" in reason
    assert files(tmp_path) == {"small.toml"}


def test_sums_that_hide_nothing_are_refused(tmp_path: Path) -> None:
    scenario = write_scenario(tmp_path)
    reason = refusal(call("run", scenario, "--set", "secure_sum.kind=plain", "--out", tmp_path / "run"))
    assert reason == (
        "secure_sum.kind: protects nothing: the server would see every update"
        ' (set kind = "masking", or use securefl simulate)'
    )
    assert files(tmp_path) == {"small.toml"}
