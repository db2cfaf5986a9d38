"""``securefl weights``: counts of one's own, a sample of them, and those of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from safetensors.numpy import load, save

from securefl.runtime.report import rundir
from securefl.scenario.load import load_scenario
from securefl.scenario.scenario import Scenario
from tests.unit.cli.programs import SCENARIO, call, refusal, write_scenario

COUNTS = "name,count\n" + "".join(f"c{n},{n}\n" for n in range(1, 10)) + "liar,10000000\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "counts.csv"
    path.write_text(text)
    return path


def test_where_counts_are_cut_and_whose(tmp_path: Path) -> None:
    done = call("weights", written(tmp_path, COUNTS), "--out", tmp_path / "curve.png")
    assert done.exit_code == 0
    assert "; the largest holds 100.0 % (alpha = 0.1)\n" in done.output
    assert "U = 45 (rounds use 45): it weighs 50.0 %; 1 of 10 truncated" in done.output
    assert "liar: 10,000,000 counts as 45" in done.output
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    table = [line.split() for line in done.output.splitlines() if line.strip()[:2] in {"0.", "1"}]
    assert [row for row in table if row[0] == "0.1"] == [["0.1", "45"]]


def test_numbers_alone_in_a_file_with_comments(tmp_path: Path) -> None:
    done = call("weights", written(tmp_path, "# mine\n\n5\n5\n 6 \n6\n6\n6\n6\n6\n6\n6\n"))
    assert (
        "U = 6: no count needs truncation if the rule tolerates 50.0 % of the weight (alpha* = 0.5)"
        in done.output
    )


def test_a_sample_of_all_counts(tmp_path: Path) -> None:
    even = written(tmp_path, "5\n" * 400)
    assert "the bound holds of all parties" in call("weights", even, "--delta", "0.05", "--cap", "5").output
    assert "does not show" in call("weights", even, "--delta", "0.05", "--cap", "100").output
    wide = written(tmp_path, "1\n" * 399 + "100000\n")
    assert "it bounds no weight at all" in call("weights", wide, "--delta", "0.05", "--cap", "9000").output
    few = call("weights", written(tmp_path, "5\n" * 100), "--delta", "0.05", "--cap", "5")
    assert few.stdout == ""
    assert "a sample of 100 counts is too small" in refusal(few)
    assert refusal(few).count("205") == 1


def test_losses_in_a_third_column(tmp_path: Path) -> None:
    done = call(
        "weights", written(tmp_path, "a,8,1\nb,1,3\nc,1,5\n"), "--alpha", "0.3", "--alpha-star", "0.5"
    )
    assert "objective: 1.6 with declared counts, 2.5 truncated; the difference -0.9" in done.output


@pytest.mark.parametrize(
    ("weighting", "first", "use"),
    [
        ("mode = 'ignore'", "the run ignored counts", "not used in the run; rounds would use"),
        (
            "mode = 'truncate'\ncap = 17",
            "the run truncated counts at 17",
            "not used in the run; rounds would",
        ),
        (
            "mode = 'truncate'\nalpha = 0.2\nalpha_star = 0.4",
            "the run truncated counts in each round by alpha = 0.2",
            "its rounds with all parties used",
        ),
    ],
)
def test_what_the_run_did_comes_first(weighting: str, first: str, use: str, tmp_path: Path) -> None:
    uneven = f"partition = {{ type = 'log-normal', sigma = 1.5 }}\n[weighting]\n{weighting}\n[model]"
    scenario = write_scenario(tmp_path, SCENARIO.replace("[model]", uneven))
    assert call("simulate", scenario, "--out", tmp_path / "run").exit_code == 0
    lines = call("weights", tmp_path / "run", "--alpha", "0.2", "--alpha-star", "0.4").output.splitlines()
    assert lines[0].startswith(first)
    (found,) = [line for line in lines if line.startswith("U = ")]
    assert f"({use}" in found


def test_counts_and_losses_of_a_run(tmp_path: Path) -> None:
    scenario = write_scenario(
        tmp_path, SCENARIO.replace("[model]", "partition = { type = 'log-normal' }\n[model]")
    )
    assert call("simulate", scenario, "--out", tmp_path / "run", "--seed", "3").exit_code == 0
    done = call("weights", tmp_path / "run", "--alpha", "0.2", "--alpha-star", "0.4")
    assert "6 parties, 120 samples" in done.output
    assert "the run used the counts as declared" in done.output
    declared, truncated = (
        float(done.output.split(word)[0].split()[-1]) for word in (" with declared", " truncated;")
    )
    assert 0 < declared < 2.4
    assert 0 < truncated < 2.4
    assert difference(done.output) == pytest.approx(declared - truncated, abs=1e-4)
    assert difference(done.output) <= float(done.output.split("is at most ")[1].split()[0])
    summary = tmp_path / "run" / "summary.json"
    said = json.loads(summary.read_text())
    assert said.pop("seed") == 3
    summary.write_text(json.dumps(said))
    assert "summary.json: has no seed, so the data split is unknown" in refusal(
        call("weights", tmp_path / "run")
    )


def test_of_a_run_that_truncates_its_own_shares_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    truncating = "[weighting]\nmode = 'truncate'\nalpha = 0.2\nalpha_star = 0.4\n[model]"
    scenario = write_scenario(tmp_path, SCENARIO.replace("[model]", truncating))
    assert call("simulate", scenario, "--out", tmp_path / "run").exit_code == 0
    reads: list[Path] = []

    def counted(path: Path) -> Scenario:
        reads.append(path)
        return load_scenario(path)

    monkeypatch.setattr(rundir, "load_scenario", counted)
    own = call("weights", tmp_path / "run").output
    assert reads == [tmp_path / "run" / "scenario.toml"]
    assert "(alpha = 0.2)" in own
    assert "the run truncated counts in each round by alpha = 0.2, alpha* = 0.4" in own
    assert "(alpha* = 0.4)" in own
    other = call("weights", tmp_path / "run", "--alpha", "0.1", "--alpha-star", "0.5").output
    assert "(alpha = 0.1)" in other
    assert "(alpha* = 0.5)" in other


def difference(output: str) -> float:
    return float(output.split("the difference ")[1].split(maxsplit=1)[0])


def test_of_task_groups_each_party_has_the_model_that_it_would_choose(tmp_path: Path) -> None:
    scenario = write_scenario(tmp_path, SCENARIO.replace("[model]", "[groups]\ncount = 2\n[model]"))
    run = tmp_path / "run"
    assert (
        call("simulate", scenario, "--out", run, "--seed", "3", "--set", "clustering.size=2").exit_code == 0
    )

    def objective() -> float:
        done = call("weights", run, "--alpha", "0.2", "--alpha-star", "0.4")
        return float(done.output.split("objective: ")[1].split()[0])

    first, second = run / "model.safetensors", run / "model-1.safetensors"
    both = objective()
    models = first.read_bytes(), second.read_bytes()
    for one in models:
        first.write_bytes(one)
        second.write_bytes(one)
        assert objective() > both
    arrays = load(models[1])
    name = min(arrays)
    second.write_bytes(save({**arrays, name: arrays[name][:1]}))
    said = refusal(call("weights", run))
    assert f"model-1.safetensors[{name}]: is of shape" in said


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "holds no sample counts"),
        ("a,3\nb,0\n", "line 2: declares 0 samples"),
        ("a,3\nb,-4\n", "line 2: declares -4 samples"),
        ("a,3\nb,2.5\n", "line 2: '2.5' is not a whole number"),
        ("a,3\nb,1e3\n", "line 2: '1e3' is not a whole number"),
        ("a,3\nb,1_000\n", "line 2: '1_000' is not a whole number"),
        ("a,3\nb,\N{ARABIC-INDIC DIGIT THREE}\n", "line 2: '\N{ARABIC-INDIC DIGIT THREE}' is no"),
        ("a,3\nb," + "9" * 5000 + "\n", "line 2: has a sample count of 5000 digits, more than"),
        ("a,3\nb," + "-9" * 5000 + "\n", f"line 2: '{'-9' * 15}...' is not a number"),
        ("a,5O\nb,6\n", "line 1: '5O' is not a number"),
        ("a,NaN\nb,6\n", "line 1: 'NaN' is not a whole number"),
        ("a,n/a\nb,6\n", "line 1: 'n/a' is not a number"),
        ("name;count\na;5\n", "line 1: 'name;count' has semicolons in it (use commas between fields"),
        ("a\t5\n", "line 1: 'a\\t5' has tabs in it"),
        ('a,"1,200"\n', "line 1: '1,200' has commas in it (use commas between fields only"),
        ('a,"5\nb,6\n', "is not valid CSV: unexpected end of data"),
        ('a,"' + "x" * 200_000 + '"\n', "line 1: is not valid CSV: field larger"),
        ("a,\nb,5\nc,5\n", "line 1: '' is not a number"),
        ("a,3\nb,many\n", "line 2: 'many' is not a number"),
        ("a,3\nb,2147483649\n", "line 2: declares 2,147,483,649 samples, more than the maximum"),
        ("a,3\na,4\n", "line 2: names 'a' a second time"),
        (
            "a,3\n4\n",
            "line 2: has 1 field, and the lines before have 2: names belong on all lines or on none",
        ),
        ("3\na,4\n", "line 2: has 2 fields, and the lines before have 1: names belong"),
        ("a,3,1\nb,4\n", "line 2: has 2 fields, and the lines before have 3: losses belong"),
        ("a,3,1,1\n", "line 1: has 4 fields (write count, or"),
        ("a,3,nan\n", "line 1: has the loss 'nan'"),
    ],
)
def test_a_bad_file_is_refused_by_line(tmp_path: Path, text: str, reason: str) -> None:
    assert reason in refusal(call("weights", written(tmp_path, text)))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--alpha", "0.5"), "--alpha: no cap keeps 50.0 % of the parties"),
        (("--alpha", "0"), "--alpha: is 0, which is not a share"),
        (("--alpha", "nan"), "--alpha: is nan, which is not a share"),
        (("--alpha-star", "1"), "--alpha-star: is 1"),
        (("--alpha", "0.42", "--alpha-star", "0.45"), "ceil(0.42 x 10) = 5 of 10"),
        (("--delta", "2"), "--delta: is 2"),
        (("--delta", "0.05"), "--delta: needs a cap that does not depend on the sample"),
        (("--cap", "9"), "--cap: has no effect without --delta"),
        (("--out", "x.pdf"), "does not end in .png"),
    ],
)
def test_bad_shares_are_refused(tmp_path: Path, options: tuple[str, ...], reason: str) -> None:
    assert reason in refusal(call("weights", written(tmp_path, COUNTS), *options))


def test_a_first_line_of_words_is_said_to_be_taken_for_a_heading(tmp_path: Path) -> None:
    bare = COUNTS.removeprefix("name,count\n")
    done = call("weights", written(tmp_path, "A,twelve\n" + bare))
    assert "the first line is taken for a heading: A,twelve" in done.stdout
    assert "heading" not in call("weights", written(tmp_path, bare)).stdout


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    refused = refusal(call("weights", tmp_path / "none.csv"))
    assert "cannot be read: No such file or directory (name an existing CSV file, or the" in refused
    assert "is not the directory of a run: scenario.toml is missing (name the directory" in refusal(
        call("weights", tmp_path)
    )
