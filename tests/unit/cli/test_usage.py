"""Usage errors: one line that names the option, the reason and where to look; exit code 2."""

from __future__ import annotations

import re

import pytest

import securefl.cli.party
from securefl.cli.program import run_program
from tests.looped import looped
from tests.unit.cli.programs import call, refusal


@looped(
    "words, said",
    [
        (
            "run",
            "SCENARIO: is missing (Scenario file (TOML), or the name of a bundled one; see: root run -h)",
        ),
        ("plan", "--parties: is missing (Number of parties N, at least 3; see: root plan -h)"),
        ("weights", "COUNTS.csv: is missing (A file with one line per party"),
        (
            "plan --parties x",
            "--parties: 'x' is not a whole number (Number of parties N, at least 3; see: root plan -h)",
        ),
        ("plan --parties 12 --lost y", "--lost: 'y' is not a number (Largest"),
        ("run quickstart --seed -3", "--seed: '-3' is below 0 or not a number (Public seed"),
        ("compare ahead --seeds 1000", "--seeds: '1000' is above 100 or not a number (Simulations per"),
        ("run quickstart --sed 3", "--sed: is not an option of root run (did you mean --seed or"),
        ("run quickstart --xyzzy", "--xyzzy: is not an option of root run (see: root run -h)"),
        ("run quickstart --seed", "--seed: requires an argument (see: root run -h)"),
        ("run quickstart --tls=3", "--tls: does not take a value (see: root run -h)"),
        ("run quickstart again", "root run: got unexpected extra argument(s) (again) (see: root run -h)"),
        ("pla", "root: no such command 'pla'. Did you mean 'plan'? (see: root -h)"),
        ("bench foo", "root bench: no such command 'foo' (see: root bench -h)"),
        ("bench robust --rows 7y50", "--rows: '7y50' is not a size (use clusters x coordinates"),
        (
            "bench secagg --repetitions 0",
            "--repetitions: '0' is below 1 or not a number (Repetitions of each row",
        ),
        ("party x --budget nan", "--budget: 'nan' is below 0.0 or not a number (This party's own"),
        ("broker --parties 10000000000000", "--parties: '10000000000000' is above 100000 or not a number ("),
        ("--nonsense", "--nonsense: is not an option of root (see: root -h)"),
        ("party x", "--broker: is missing (mqtt://host:port or mqtts://host:port; "),
    ],
)
def test_a_mistake_in_a_command_line_is_one_line(words: str, said: str) -> None:
    result = call(*words.split())
    assert refusal(result).startswith(said)
    assert result.stdout == ""


def test_control_characters_of_an_argument_stay_off_the_terminal() -> None:
    assert "\x1b" not in refusal(call("plan", "--parties", "\x1b[2J\n"))


def test_programs_of_parties_say_it_alike(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["securefl.cli.party", "small.toml", "--name", "p00"])
    with pytest.raises(SystemExit) as ended:
        run_program(securefl.cli.party.party)
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("refused --broker: is missing (mqtt://host:port or mqtts://host:port; ")


@pytest.mark.parametrize("words", [(), ("dp",), ("bench",)])
def test_a_group_without_a_command_shows_its_help_once(words: tuple[str, ...]) -> None:
    shown = call(*words)
    assert shown.output.count("Usage:") == 1
    assert re.search("Commands|Start here", shown.output)


def test_usage_lines_have_names_without_braces() -> None:
    for path, arguments in {
        ("run",): "SCENARIO",
        ("weights",): "COUNTS.csv",
        ("audit",): "RUN",
        ("reproduce",): "[PAPER]",
        ("leakage",): "[SWEEP]...",
        ("data", "histogram"): "SCENARIO",
        ("dp", "settle"): "SCENARIO",
    }.items():
        shown = call(*path, "-h").stdout
        usage = re.search(r"Usage: (.*)", shown)
        assert usage is not None
        assert usage.group(1).split("[OPTIONS] ")[1].strip() == arguments
