"""Figure files: what is found, what is refused and with which line, and which scenarios come of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from securefl.base.errors import ConfigError
from securefl.lab.experiments.exhibits import Exhibit, choose_exhibits, exhibits
from securefl.lab.experiments.experiment import UNNAMED, ScaleName
from securefl.lab.experiments.record import scenario_key
from securefl.lab.experiments.tabulate import sheet_key
from tests.unit.experiments.tiny import FIGURE, SCENARIO, shelf


def test_a_curve_is_a_scenario_with_changes_in_order(tmp_path: Path) -> None:
    (preset,) = exhibits(shelf(tmp_path), "tiny")
    desk, paper = preset.plan("desk").scenarios, preset.plan("paper").scenarios
    assert list(desk) == ["no attack", "attack"]
    assert [s.stop.rounds for s in (*desk.values(), *paper.values())] == [4, 4, 5, 5]
    assert [len(s.behaviours) for s in desk.values()] == [0, 1]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('panel = "7b"', 'panel = "7a"', "7b.toml, panel: is '7a', but the file is named 7b.toml"),
        ('panel = "7b"', "panel = 7", "7b.toml, panel: expected `str`, got `int`"),
        ('claim = "The mean breaks."', "", "7b.toml: object missing required field `claim`"),
        ("last = 2", "last = 0", "7b.toml, last: expected `int` >= 1"),
        ("baseline = true", "base = true", "7b.toml, curves[0]: object contains unknown field `base`"),
        ('kind = "below"', 'kind = "beneath"', "7b.toml, claims[0].kind: invalid value 'beneath'"),
        ('label = "attack"', 'label = "no attack"', "7b.toml, curves: two curves have the same label"),
        (
            'than = ["no attack"]',
            'than = ["nobody"]',
            "7b.toml, claims.0: there is no curve 'nobody' (name one of no attack, attack)",
        ),
        ("last = 2", "last 2", "7b.toml: is not TOML: "),
    ],
)
def test_a_figure_file_that_is_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert old in FIGURE
    with pytest.raises(ConfigError) as caught:
        exhibits(shelf(tmp_path, FIGURE.replace(old, new)), "tiny")
    assert message in str(caught.value)


def test_a_curve_that_is_no_feasible_scenario(tmp_path: Path) -> None:
    figure = FIGURE.replace(
        "[[claims]]", '[[curves]]\nlabel = "m"\noverrides = ["clustering.size=7"]\n[[claims]]'
    )
    (preset,) = exhibits(shelf(tmp_path, figure), "tiny")
    plan = preset.plan("desk")
    assert list(plan.scenarios) == ["no attack", "attack"]
    assert plan.refused["m"].startswith("clustering.size: is 7, but only 6 parties")


def test_a_scale_that_there_is_not(tmp_path: Path) -> None:
    figure = FIGURE.replace("[scale.paper]", "[scale.desk.x]").replace('overrides = ["stop.rounds=5"]', "")
    with pytest.raises(ConfigError, match="unknown field `x`"):
        exhibits(shelf(tmp_path / "a", figure), "tiny")
    cut = FIGURE[: FIGURE.index("[scale.paper]")] + FIGURE[FIGURE.index("[[curves]]") :]
    (preset,) = exhibits(shelf(tmp_path / "b", cut), "tiny")
    with pytest.raises(ConfigError, match="figure 7b has no 'paper' scale"):
        preset.plan("paper")


def choose(known: Sequence[Exhibit], wanted: Sequence[str]) -> tuple[Exhibit, ...]:
    return choose_exhibits(known, [("figure", one) for one in wanted])


def test_choosing_panels(tmp_path: Path) -> None:
    folder = shelf(tmp_path)
    for panel in ("7a", "10a"):
        (folder / "tiny" / f"{panel}.toml").write_text(FIGURE.replace('"7b"', f'"{panel}"'))
    presets = exhibits(folder, "tiny")
    assert [p.item.number for p in presets] == ["7a", "7b", "10a"]
    for wanted, panels in (
        (("7b",), ["7b"]),
        (("7",), ["7a", "7b"]),
        (("10a", "7a"), ["7a", "10a"]),
        (("all",), ["7a", "7b", "10a"]),
    ):
        assert [p.item.number for p in choose(presets, wanted)] == panels
    for wanted in (("1",), ("7c",), ("7a", "")):
        with pytest.raises(ConfigError, match=r"there is no figure .* \(give 7a, 7b, 10a, or all\)"):
            choose(presets, wanted)


def test_the_key_of_a_scenario_follows_its_course_only(tmp_path: Path) -> None:
    (one,) = exhibits(shelf(tmp_path / "a"), "tiny")
    (two,) = exhibits(shelf(tmp_path / "b", scenario=SCENARIO.replace("real thing", "test")), "tiny")
    (three,) = exhibits(shelf(tmp_path / "c", scenario=SCENARIO.replace("size = 3", "size = 2")), "tiny")
    keys = [scenario_key(preset.plan("desk").scenarios["attack"]) for preset in (one, two, three)]
    assert keys[0] == keys[1] != keys[2]
    assert scenario_key(one.plan("desk").scenarios["no attack"]) != keys[0]


def test_fields_at_their_default_are_no_part_of_the_key(tmp_path: Path) -> None:
    (plain,) = exhibits(shelf(tmp_path / "a"), "tiny")
    spelled = SCENARIO + "\n[leakage]\nmode = 'veto'\n\n[server_optimiser]\nmomentum = 0.0\n"
    (wordy,) = exhibits(shelf(tmp_path / "b", scenario=spelled), "tiny")
    (other,) = exhibits(
        shelf(tmp_path / "c", scenario=spelled.replace("momentum = 0.0", "momentum = 0.1")), "tiny"
    )
    keys = [scenario_key(preset.plan("desk").scenarios["attack"]) for preset in (plain, wordy, other)]
    assert keys[0] == keys[1] != keys[2]


def test_the_settings_of_a_panel_follow_curves_and_claims(tmp_path: Path) -> None:
    (preset,) = exhibits(shelf(tmp_path), "tiny")
    (stricter,) = exhibits(shelf(tmp_path / "b", FIGURE.replace("margin = 0.1", "margin = 0.2")), "tiny")

    def key(panel: Exhibit, scale: ScaleName) -> str:
        return sheet_key(panel, "desk", UNNAMED, panel.plan(scale).scenarios)

    same = key(preset, "desk")
    assert key(preset, "desk") == same
    assert key(stricter, "desk") != same
    assert key(preset, "paper") != same
