"""``securefl data check`` and ``export``; tables wherever a data set or a party's samples are asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from securefl.base.errors import ConfigError
from securefl.methods.feasibility.limits import check
from securefl.scenario.load import parse_scenario
from securefl.training.data.shards import load_shard
from tests.unit.cli.programs import call, files, refusal, write_scenario

SCENARIO = """
name = "clinics"
parties = 3
[data]
set = "csv:patients.csv"
classes = ["no", "yes"]
test_fraction = 0.25
[data.table]
label = "ill"
missing = ["", "NA"]
incomplete = "drop"
features = [
    { name = "age", mean = 50, deviation = 10, lower = 0, upper = 120 },
    { name = "weight" },
    { name = "sex", categories = ["f", "m"] },
]
[model]
type = "softmax"
[clustering]
size = 3
[secure_sum]
threshold = 2
min_survivors = 2
[stop]
rounds = 2
"""
HEAD = "id,age,weight,sex,ill\n"
ROWS = [f"{n},{40 + 5 * (n % 7)},{60 + n % 9},{'fm'[n % 2]},{('no', 'yes')[n % 7 > 3]}\n" for n in range(80)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "s.toml").write_text(SCENARIO)
    (tmp_path / "patients.csv").write_text(HEAD + "".join(ROWS))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def told(*arguments: str | Path) -> list[str]:
    ended = call(*arguments)
    assert ended.exit_code == 0, ended.output
    return ended.stdout.splitlines()


def test_a_file_is_read_as_a_party_reads_it(folder: Path) -> None:
    (folder / "north.csv").write_text(HEAD + "1,NA,70,f,no\n" + "".join(ROWS[:14]))
    assert told("data", "check", "s.toml", "north.csv") == [
        "columns left out: id",
        "dropped: 1 rows that lack a value",
        "weight: mean 63.29 and deviation 2.433, far from 0 and 1 (data.table: mean, deviation)",
        "north.csv: 14 samples of shape (4,) in 2 classes",
        "no 8, yes 6",
        "model softmax: 10 parameters",
    ]
    weight = "data.table.features=[{name='weight',mean=64,deviation=3},{name='age',mean=55,deviation=9}]"
    lines = told("data", "check", "s.toml", "north.csv", "--set", weight)
    assert lines[:3] == [
        "columns left out: id, sex",
        *lines[1:2],
        "north.csv: 14 samples of shape (2,) in 2 classes",
    ]


def test_values_that_are_the_same_everywhere_and_bytes_without_constants(folder: Path) -> None:
    (folder / "north.csv").write_text(HEAD + "1,50,0.5,f,no\n2,62,-0.5,f,yes\n")
    assert "sex = m: the same in all samples" in told("data", "check", "s.toml", "north.csv")
    np.savez("own.npz", x_train=np.array([[70.0], [90], [90], [90]]), y_train=[0, 1, 0, 1])
    plain = SCENARIO[: SCENARIO.index("[data.table]")] + SCENARIO[SCENARIO.index("[model]") :]
    (folder / "s.toml").write_text(plain.replace('"csv:patients.csv"', '"digits"'))
    lines = told("data", "check", "s.toml", "own.npz")
    assert lines[0].startswith("all values: mean 85 and deviation 8.66, far from 0 and 1 (data.standardise)")


def test_a_file_that_does_not_fit_is_refused(folder: Path) -> None:
    (folder / "north.csv").write_text(HEAD + "1,130,70,f,no\n")
    assert refusal(call("data", "check", "s.toml", "north.csv")) == (
        "north.csv, line 2, column 'age': holds 130, outside 0 to 120 (correct the file, or declare"
        " another range)"
    )
    np.savez("own.npz", x=np.zeros((2, 3), np.float32), y=[0, 1], classes=np.int64(2))
    assert "own.npz: has samples of shape (3,), but data.table states (4,)" in refusal(
        call("data", "check", "s.toml", "own.npz")
    )
    site = ("--set", 'model={type="weights",file="w.safetensors"}')
    assert "securefl site check" in refusal(call("data", "check", "s.toml", "north.csv", *site))


def test_a_split_is_written_for_a_trial_of_a_deployment(folder: Path) -> None:
    lines = told("data", "export", "s.toml", "--out", "shares", "--set", "data.server_fraction=0.1")
    assert lines == [
        "shares: 3 parties with 18 to 18 samples, and test.npz",
        "server.npz has samples of the server's own, for --server-data",
    ]
    assert files(folder / "shares") == {"p00.npz", "p01.npz", "p02.npz", "server.npz", "test.npz"}
    assert (folder / "shares").stat().st_mode & 0o777 == 0o700
    assert len(load_shard(folder / "shares" / "test.npz").y) == 20
    shown = told("data", "check", "s.toml", "shares/p00.npz")
    assert "shares/p00.npz: 18 samples of shape (4,) in 2 classes" in shown
    assert (
        refusal(call("data", "export", "s.toml", "--out", "shares"))
        == "--out: shares exists already (choose another name)"
    )
    assert "cannot be created" in refusal(call("data", "export", "s.toml", "--out", "s.toml/x"))


def test_the_split_is_that_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_scenario(tmp_path)
    assert told("data", "export", "small.toml", "--out", "a", "--seed", "4")
    assert told("data", "export", "small.toml", "--out", "b", "--seed", "4")
    assert told("data", "export", "small.toml", "--out", "c", "--seed", "5")
    a, b, c = ((tmp_path / name / "p00.npz").read_bytes() for name in "abc")
    assert a == b != c


def test_tables_train(folder: Path) -> None:
    scaled = ("--set", "data.table.features.1.mean=64", "--set", "data.table.features.1.deviation=3")
    expected = ("--set", "expect=[{metric='accuracy',at_least=0.9}]", "--seed", "1")
    ended = call("simulate", "s.toml", *scaled, *expected, "--set", "training.epochs=20")
    assert ended.exit_code == 0, ended.output


def test_settling_needs_no_file_where_the_scenario_says_what_the_data_look_like(folder: Path) -> None:
    private = (
        *("--set", "privacy={unit='record',multiplier=2.0,budget=9.0,delta=0.001}"),
        *("--set", "training={batch_size=8,dp_sgd={}}", "--set", "weighting.mode=ignore"),
        *("--set", "encoding.scale_bits=12"),
    )
    by_schema = told("dp", "settle", "s.toml", "--records", "200", *private)
    by_file = told("dp", "settle", "s.toml", "--records", "200", "--data", "patients.csv", *private)
    assert by_schema == by_file
    plain = SCENARIO[: SCENARIO.index("[data.table]")] + SCENARIO[SCENARIO.index("[model]") :]
    plain = plain.replace('set = "csv:patients.csv"', "")
    (folder / "s.toml").write_text(plain)
    line = refusal(call("dp", "settle", "s.toml", "--records", "200", *private))
    assert line == (
        "data.shape: is missing: the model's size depends on it (declare it, or give the file of any party"
        " as --data)"
    )
    shape = ("--set", "data.shape=[4]")
    declared = told("dp", "settle", "s.toml", "--records", "200", *private, *shape)
    np.savez("own.npz", x_train=np.zeros((9, 4)), y_train=np.arange(9) % 2)
    assert declared == told(
        "dp", "settle", "s.toml", "--records", "200", "--data", "own.npz", *private, *shape
    )
    assert "but data.shape states (5,)" in refusal(
        call("dp", "settle", "s.toml", "--data", "own.npz", *private, "--set", "data.shape=[5]")
    )


BAD = {
    'data.classes=["a"]': "data.classes: has fewer than two classes (give two names or more, each once)",
    'data.classes=["a","b","a"]': "data.classes: 'a' is listed 2 times (give two names or more, each once)",
    "data.standardise={mean=0,deviation=1}": "data.standardise: works on images only, not on",
    "data.shape=[4]": "data.shape: is given, but the columns of data.table determine it (leave it out)",
    "data.table.label=age": "data.table.label: 'age' is the label and a feature (remove it from",
    "data.table.features=[]": "data.table.features: is empty: no column is declared (declare columns, as in",
    "data.table.features.1.name=age": "data.table.features: 'age' is declared 2 times",
    "data.table.features.0.fill=130": "data.table.features.0.fill: 130 is not in 0 to 120",
    "data.table.incomplete=keep": 'data.table.incomplete: "keep" is not a choice (choose one of drop',
    "data.table.delimiter=:": 'data.table.delimiter: ":" is not a choice',
    "data.set=digits": "",
}


@pytest.mark.parametrize("override", BAD)
def test_a_schema_that_contradicts_itself_is_refused(override: str) -> None:
    if not BAD[override]:
        check(parse_scenario(SCENARIO, (override,)))
        return
    assert refused(SCENARIO, override).startswith(BAD[override])


def refused(text: str, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        check(parse_scenario(text, overrides))
    return str(caught.value)


def test_a_table_without_a_schema_and_a_schema_without_classes() -> None:
    plain = SCENARIO[: SCENARIO.index("[data.table]")] + SCENARIO[SCENARIO.index("[model]") :]
    assert refused(plain) == (
        "data.table: is missing, and csv:patients.csv is a table file (declare label and features "
        "(docs/data.md))"
    )
    line = refused(SCENARIO.replace('classes = ["no", "yes"]\n', ""))
    assert line.startswith("data.classes: is missing: which are those of 'ill'?")


@pytest.mark.parametrize("override", ["data.classes=9", "data.shape=[64]"])
def test_published_sets_are_what_they_are(folder: Path, override: str) -> None:
    write_scenario(folder)
    line = refusal(call("simulate", "small.toml", "--set", override))
    assert line.startswith(override.partition("=")[0])
    assert line.endswith("(leave it out)")
    assert told("simulate", "small.toml", "--set", "data.classes=10", "--set", "data.shape=[1,8,8]")
