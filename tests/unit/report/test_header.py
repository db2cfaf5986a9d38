"""The header of a run: at most eight short lines, and the explanation that has all sentences."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

import scenarios
from securefl.base.header import LINES, WIDTH, RunHeader, Sentence, end, tolerance
from securefl.base.ids import RunId
from securefl.methods.feasibility.limits import check
from securefl.runtime.report.header import header_of, on_start, run_header, scenario_sentences
from securefl.runtime.report.privacy import OMNISCIENT, SEEDED
from securefl.runtime.simulation.limits import notes
from securefl.scenario.load import load_scenario, parse_scenario
from securefl.scenario.scenario import Scenario
from tests.looped import looped
from tests.unit.report.test_privacy import plan
from tests.unit.scenario.samples import SMALL, small

ROOT = Path(__file__).parents[3]
FILES = (
    *sorted(Path(scenarios.__file__).parent.glob("*.toml")),
    *sorted((ROOT / "examples").glob("*/federation.toml")),
    *sorted((ROOT / "examples" / "own_servers").glob("*.toml")),
)
FOLDER = Path("runs/run-2026-11-27-0123456789")
RUN = RunId("run-2026-11-27-0123456789")
ALIE = (
    "behaviours=[{kind='alie', count=5, knowledge='omniscient'}, {kind='drop', phase='after-keys', count=1}]"
)


def shown(scenario: Scenario, *, seeded: bool = False, lab: bool = False) -> RunHeader:
    start = on_start(7, seeded=seeded, lab=lab, keys=("all keys are local", "local run"), files=FOLDER)
    return header_of(RUN, scenario, start, seeded=seeded)


@cache
def loaded(file: Path) -> Scenario:
    return load_scenario(file)


@cache
def plain(file: Path) -> RunHeader:
    """The header of a file that this module's tests share."""
    return shown(loaded(file))


def line_of(header: RunHeader, name: str) -> str:
    (line,) = (line for line in header.lines if line.startswith((f"{name}: ", f"{name} ")))
    return line


def test_of_each_bundled_scenario_and_example_it_is_eight_short_lines_that_hide_nothing() -> None:
    assert len(FILES) >= 25
    for file in FILES:
        scenario = loaded(file)
        for header in (
            shown(scenario, seeded=True, lab=True),
            header_of(
                RUN,
                scenario,
                (*notes(scenario), *on_start(7, seeded=True, simulated=True, files=FOLDER)),
                seeded=True,
            ),
        ):
            assert 5 <= len(header.lines) <= 8, file
            assert [line for line in header.lines if len(line) > WIDTH] == [], file
            for name in ("faults", "privacy", "limits", "seed", "end"):
                assert not [line for line in header.lines if line.startswith(name) and "--explain" in line], (
                    file,
                    name,
                )
        lines = plain(file).lines
        assert not [line for line in lines if "--explain" in line], (file, lines)
        assert lines[-1].endswith(f"; files in {FOLDER}")


def test_a_short_form_has_at_most_twelve_words_and_the_explanation_has_it() -> None:
    for file in FILES:
        scenario = loaded(file)
        explanation = "\n".join(plain(file).explanation)
        for one in scenario_sentences(scenario, check(scenario)):
            assert len(one.short.split()) <= 12, one
            assert one.line in LINES
            assert one.short or one.more
            assert f"  {one.whole}" in explanation


def test_no_sentence_repeats_and_behaviours_of_one_kind_share_their_place() -> None:
    for file in FILES:
        found = [one.whole for one in plain(file).sentences]
        assert len(found) == len(set(found)), file
    dropping = load_scenario(Path(scenarios.__file__).parent / "dropout.toml")
    assert len(dropping.behaviours) == 6
    assert line_of(shown(dropping), "faults") == "faults: drop by 10 parties; kill by 1 party"
    short = load_scenario(Path(scenarios.__file__).parent / "dp_mqtt.toml", ("stop.rounds=2",))
    assert line_of(shown(short), "faults") == (
        "faults: AFTER THE LAST ROUND: 4 faults; no-noise by 2 parties; drop by 6 parties"
    )


def test_lines_come_in_one_order_and_name_the_run() -> None:
    lines = shown(small(ALIE)).lines
    assert lines[0].startswith(f"run {RUN}: ")
    assert [line.split(":")[0].split()[0] for line in lines] == [
        name for name in LINES if name not in {"limits"}
    ]


@looped(
    "overrides, line, words",
    [
        (("clustering.reclusterings=9", "leakage.mode=report"), "server", "LEAKAGE IS ONLY REPORTED"),
        (("clustering.reclusterings=9", "leakage.mode=report"), "server", "SUMS EXPOSE UPDATES"),
        (("clustering.fixed=true", "leakage.mode=report"), "server", "CLUSTERS ARE FIXED"),
        (("privacy.epsilon=8",), "privacy", "EPSILON 8 IS NOT ENFORCED; none"),
        (("training.dp_sgd={}",), "privacy", "DP-SGD WITHOUT NOISE; none"),
        (("encoding.clip=500",), "tolerance", "ENCODING RANGE BELOW CLIP"),
        ((ALIE,), "faults", "OMNISCIENT ATTACK alie; alie by 5 parties; drop by 1 party"),
        ((), "privacy", "none"),
        ((), "seed", "7 determines first model, data split, faults; all keys are local"),
        ((), "end", "after 3 rounds"),
        (("stop.target=0.5", "stop.patience=2"), "end", "at accuracy 0.5"),
        (("stop.target=0.5", "stop.patience=2"), "end", "2 rounds without better accuracy"),
    ],
)
def test_what_a_reader_acts_on_is_in_the_line_concerned(
    overrides: tuple[str, ...], line: str, words: str
) -> None:
    assert words in line_of(shown(small(*overrides)), line)


def test_seeds_of_sites_are_never_hidden() -> None:
    sites = shown(load_scenario(ROOT / "examples" / "own_training" / "federation.toml"))
    assert line_of(sites, "seed").endswith("; also sites' generators")
    assert "not seeded: its own generators, making a site apart" in "\n".join(sites.explanation)


def test_seeded_entropy_and_the_lab_are_never_hidden() -> None:
    header = shown(small(ALIE), seeded=True, lab=True)
    assert line_of(header, "seed").startswith("seed: INSECURE: all secrets derive from --seed 7")
    assert line_of(header, "server").startswith("server: LAB: UPDATES ARE RECORDED")


@pytest.mark.parametrize("placement", ["threshold", "local", "dropout-exact"])
@pytest.mark.parametrize(("q", "chance"), [("2", False), ("4", True)])
def test_privacy_and_its_premise_are_never_hidden(placement: str, q: str, chance: bool) -> None:
    of = plan(
        privacy__placement=placement, secure_sum__colluders=q, clustering__fixed="false", privacy__budget=""
    )
    start = tuple(on_start(0, seeded=False))
    header = header_of(of.run, of.scenario, start, of.mechanism, seeded=False)
    privacy, premise = line_of(header, "privacy"), line_of(header, "limits")
    assert re.match(
        r"privacy: epsilon [\d.]+, delta 0.065 for each party \(add-remove, no sampling\)$", privacy
    )
    shared = "epsilon if <= 2 dishonest parties per cluster"
    rests = "epsilon holds whatever other parties do" if placement == "local" else shared
    assert premise.startswith(f"limits: LARGE DELTA; {rests}")
    assert ("(risk " in premise) is (chance and placement != "local")
    assert ": at most epsilon " in "\n".join(header.explanation)
    assert len(header.lines) <= 8
    void = header_of(of.run, of.scenario, start, of.mechanism, seeded=True)
    assert line_of(void, "privacy") == f"privacy: {SEEDED}"
    assert not re.search(r"epsilon \d", "\n".join((*void.lines, *void.explanation)))


def test_a_clip_that_follows_a_quantile_is_explained() -> None:
    found = run_header(
        small("privacy={unit='party', multiplier=1, clip={quantile=0.3}}", "weighting.mode=ignore")
    )
    assert "  updates are clipped to the quantile 0.3 of norms, at first 0.1;" in "\n".join(found.explanation)


def test_an_omniscient_attacker_voids_privacy_in_its_line() -> None:
    of = plan()
    scenario = parse_scenario(SMALL, (ALIE,))
    of_attacked = type(of.scenario)(
        **{
            **{name: getattr(of.scenario, name) for name in of.scenario.__struct_fields__},
            "behaviours": scenario.behaviours,
        }
    )
    header = header_of(of.run, of_attacked, (), of.mechanism, seeded=False)
    assert line_of(header, "privacy") == f"privacy: {OMNISCIENT}"


def test_the_longest_privacy_and_premise_fit() -> None:
    """Record level with copies of records, a large delta, and a premise that rests on chance."""
    longest = (
        Sentence(
            "privacy",
            "epsilon 12.34, delta 1.23e-05 for each record (replace-one, Poisson sampling)",
        ),
        Sentence("limits", "LARGE DELTA"),
        Sentence("limits", "epsilon if <= 10 dishonest parties per cluster (risk < 0.1 %)"),
    )
    privacy, premise = RunHeader(longest).lines
    assert privacy.endswith("Poisson sampling)")
    assert "--explain" not in premise


def test_warnings_come_first_and_the_rest_is_counted() -> None:
    header = RunHeader((*(tolerance("word " * 8 + str(n)) for n in range(4)), tolerance("LOUD")), "r1")
    (line,) = header.lines
    assert line == f"tolerance: LOUD; {'word ' * 8}0; 3 more (--explain)"
    assert len(header.explanation) == 6
    assert RunHeader((end("x" * 200),)).lines[0].endswith("...")


def test_a_resumed_run_states_what_was_done() -> None:
    header = header_of(RUN, small(), on_start(0, seeded=False), seeded=False, done=2)
    assert (header.rounds, header.done) == (3, 2)
    assert line_of(header, "end") == "end: after 3 rounds; 2 rounds already done"
