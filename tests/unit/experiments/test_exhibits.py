"""Sheet files: what is found, what is refused and with which line, and which scenarios come of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from securefl.base.errors import ConfigError
from securefl.lab.experiments.exhibits import Exhibit, choose_exhibits, exhibits, papers
from securefl.lab.experiments.sources import Source, asked_for, present
from securefl.lab.experiments.tabulate import sheet_key
from tests.unit.experiments.small import SHEET, STUDY, shelf

ON_OWN = """
[[items.claims_on.own]]
kind = "at-most"
says = "it falls to a half"
curves = ["half, -10"]
value = 0.5
"""
FIRST = 'quoted = [{ what = "others, half malicious", accuracy = 0.2 }]\n'


def known(folder: Path, sheet: str = SHEET, study: str = STUDY) -> dict[str, Exhibit]:
    return {one.item.key: one for one in exhibits(shelf(folder, sheet, study), "small")}


def test_one_sheet_is_many_tables_in_their_order(tmp_path: Path) -> None:
    assert list(known(tmp_path)) == ["table-2", "table-10", "figure-1"]
    assert papers(tmp_path / "papers") == ("small",)


def test_a_cell_is_a_scenario_with_its_numbers(tmp_path: Path) -> None:
    table = known(tmp_path)["table-2"]
    digits, own = (Source(one, Path("/x/$1.npz")) for one in table.study.datasets)
    paper = table.plan("paper", digits).scenarios
    assert list(paper) == ["none, 1/2", "none, -1", "none, -10", "half, 1/2", "half, -1", "half, -10"]
    assert [s.parties for s in paper.values()] == [4, 4, 4, 8, 8, 8]
    # 160 samples of 4 honest workers, 0.6 epochs, batches of 8.
    assert {s.stop.rounds for s in paper.values()} == {3}
    assert {(s.data.train_limit, s.data.test_limit) for s in paper.values()} == {(160, 60)}
    assert [len(s.behaviours) for s in paper.values()] == [0, 0, 0, 1, 1, 1]
    (attack,) = paper["half, -10"].behaviours
    assert (attack.kind, attack.count) == ("scale", 4)

    desk = table.plan("desk", own).scenarios
    assert list(desk) == ["none, 1/2", "none, -10", "half, 1/2", "half, -10"]
    assert {s.data.set for s in desk.values()} == {"npz:/x/$1.npz"}
    assert [s.parties for s in desk.values()] == [2, 2, 4, 4]


def test_numbers_that_do_not_fit_are_a_refused_cell(tmp_path: Path) -> None:
    figure = known(tmp_path)["figure-1"]
    plan = figure.plan("desk", Source(figure.study.datasets[0]))
    assert plan.scenarios.keys() == {"half, 1/2", "half, -10"}
    assert plan.refused.keys() == {"none, 1/2", "none, -10"}
    assert "krum" in plan.refused["none, 1/2"]
    with pytest.raises(
        ConfigError, match=r"^scaled.toml, figure 1: all 4 cells are refused, 'none, 1/2' for this reason: "
    ):
        figure.plan("desk", Source(figure.study.datasets[1]))


def test_published_numbers_are_found_by_cell(tmp_path: Path) -> None:
    table = known(tmp_path)["table-2"]
    numbers = table.item.published["digits"]
    by_label = {cell.label: table.sheet.number_at(numbers, cell) for cell in table.sheet.cells()}
    assert by_label["none, 1/2"] == 0.8
    assert by_label["half, -1"] == 0.5
    assert by_label["half, -10"] == 0.1


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('number = "10"', 'number = "2"', "scaled.toml, items: table 2 is in scaled.toml, too"),
        ('number = "10"', "number = 10", "scaled.toml, items[1].number: expected `str`, got `int`"),
        ('only = ["digits"]', 'only = ["letters"]', "items.1.only: there is no data set 'letters'"),
        (
            "digits = [[0.8, 0.8, 0.8], [",
            "words = [[0.8, 0.8, 0.8], [",
            "published.words: there is no data set",
        ),
        (
            "digits = [[0.8, 0.8, 0.8], [0.8, 0.5, 0.1]]",
            "digits = [[0.8, 0.8, 0.8]]",
            "items.0.published.digits: does not fit the axes, which need 2 rows of 3 numbers",
        ),
        (
            "[[0.3, 0.3, 0.3], [0.3, 0.3, 0.3]]",
            "[[0.3, 0.3, 0.3], [0.3]]",
            "items.0.spread.digits: does not fit the axes, which need 2 rows of 3 numbers",
        ),
        (
            'keep = { factor = ["1/2", "-10"] }',
            'keep = { factor = ["7"] }',
            "keep.factor: '7' is not a choice of factor",
        ),
        ('keep = { factor = ["1/2", "-10"] }', 'keep = { f = ["1"] }', "keep.f: '1' is not a choice of f"),
        ('name = "factor"', 'name = "malicious"', "axes: two axes have the same name"),
        ('label = "-1"', 'label = "1/2"', "curves: two curves have the same label"),
        (
            'than = ["none, -1"]',
            'than = ["none"]',
            "claims.1: there is no curve 'none' (name one of none, 1/2, ",
        ),
        (
            ON_OWN,
            ON_OWN.replace(".own", ".letters"),
            "items.0.claims_on.letters: there is no data set 'letters'",
        ),
        (
            ON_OWN,
            ON_OWN.replace("half, -10", "all"),
            "items.0.claims_on.own, claims.0: there is no curve 'all'",
        ),
        ("share = 0.5", "share = true", "axes[0].choices[1].values[...]: expected `int | float | str`"),
    ],
)
def test_a_sheet_that_is_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    sheet = SHEET.replace(FIRST, FIRST + ON_OWN)
    assert old in sheet
    with pytest.raises(ConfigError) as caught:
        known(tmp_path, sheet.replace(old, new))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("$factor,", "$power,", "cell 'none, 1/2': \"behaviours=[{ kind = 'scale', factor = $power"),
        (
            "'krum', byzantine",
            "'krum', bizantine",
            "cell 'none, 1/2': aggregation.rule.bizantine: is not a field",
        ),
        ("share = 0.5", "share = 1.5", "values.share: is 1.5"),
    ],
)
def test_a_cell_that_cannot_be_made(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert old in SHEET
    figure = known(tmp_path, SHEET.replace(old, new))["figure-1"]
    with pytest.raises(ConfigError) as caught:
        figure.plan("desk", Source(figure.study.datasets[0]))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "own"', 'name = "digits"', "_study.toml, datasets: two data sets have the same name"),
        ('place = "own.npz"', 'where = "own.npz"', "datasets[1]: object contains unknown field `where`"),
    ],
)
def test_a_study_that_is_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        known(tmp_path, study=STUDY.replace(old, new))
    assert message in str(caught.value)


def test_choosing(tmp_path: Path) -> None:
    everything = tuple(known(tmp_path).values())
    assert [one.item.key for one in choose_exhibits(everything, [("table", "all")])] == [
        "table-2",
        "table-10",
    ]
    assert [one.item.key for one in choose_exhibits(everything, [("figure", "1"), ("table", "2")])] == [
        "table-2",
        "figure-1",
    ]
    with pytest.raises(ConfigError, match=r"^--table: there is no table '1' \(give 2, 10, or all\)$"):
        choose_exhibits(everything, [("table", "1")])


def test_data_sets_are_where_they_are_said_to_be(tmp_path: Path) -> None:
    datasets = next(iter(known(tmp_path).values())).study.datasets
    there, lacking = present(datasets, tmp_path)
    assert [source.dataset.name for source in there] == ["digits"]
    assert lacking == [f"own: there is no own.npz in {tmp_path} (make one)"]
    assert present(datasets, None)[1] == [
        "own: is read from files (name their folder by --data-dir, or the data by --dataset npz:PATH)"
    ]
    with pytest.raises(ConfigError, match=r"^--data-dir: .* does not hold own \(own: there is no own.npz"):
        present(datasets[1:], tmp_path)
    with pytest.raises(ConfigError, match=r"^--data-dir: is missing, but own is read from files \(name its"):
        present(datasets[1:], None)
    with pytest.raises(ConfigError, match=r"^--data-dir: is missing, but own, own are read from files \("):
        present([*datasets[1:], *datasets[1:]], None)

    (tmp_path / "own.npz").touch()
    there, lacking = present(datasets, tmp_path)
    assert [source.quoted for source in there] == ['"digits"', f'"npz:{tmp_path}/own.npz"']
    assert lacking == []
    elsewhere = asked_for(f"npz:{tmp_path}/own.npz", datasets, None)
    assert (elsewhere.dataset.name, elsewhere.path) == ("own", tmp_path / "own.npz")


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("own", "--dataset own: there is no own.npz in DIR (make one)"),
        ("npz:/no/such.npz", "--dataset npz:/no/such.npz: no such file or folder (make one)"),
        ("mnist", "--dataset: there is no data set 'mnist' here (give one of digits, own, npz:PATH)"),
        (
            "folder:/tmp",
            "--dataset: there is no data set 'folder:/tmp' here (give one of digits, own, npz:PATH)",
        ),
    ],
)
def test_data_that_are_asked_for_and_not_there(wanted: str, message: str, tmp_path: Path) -> None:
    datasets = next(iter(known(tmp_path).values())).study.datasets
    with pytest.raises(ConfigError) as caught:
        asked_for(wanted, datasets, tmp_path)
    assert str(caught.value).replace(str(tmp_path), "DIR") == message


def test_the_key_follows_cells_claims_and_numbers_and_not_the_place_of_the_data(tmp_path: Path) -> None:
    def key(folder: str, path: str, sheet: str = SHEET) -> str:
        table = known(tmp_path / folder, sheet)["table-2"]
        source = Source(table.study.datasets[1], Path(path))
        return sheet_key(table, "desk", source.dataset, table.plan("desk", source).scenarios)

    same = key("a", "/a/own.npz")
    assert same == key("b", "/b/own.npz")
    assert same == key("c", "/a/own.npz", SHEET.replace("Section 1", "Section 2"))
    for index, (old, new) in enumerate(
        [
            ("margin = 0.1", "margin = 0.2"),
            ("own = [[0.9", "own = [[0.8"),
            ("tolerance = 0.1", "tolerance = 0.2"),
        ]
    ):
        assert same != key(f"d{index}", "/a/own.npz", SHEET.replace(old, new))


def test_a_claim_about_one_data_set_leaves_the_others_as_they_were(tmp_path: Path) -> None:
    without = known(tmp_path / "a")["table-2"]
    having = known(tmp_path / "b", SHEET.replace(FIRST, FIRST + ON_OWN))["table-2"]
    digits, own = having.study.datasets
    assert sheet_key(having, "desk", digits, {}) == sheet_key(without, "desk", digits, {})
    assert sheet_key(having, "desk", own, {}) != sheet_key(without, "desk", own, {})
    assert having.item.claims_about("digits") == ()
    assert [claim.says for claim in having.item.claims_about("own")] == ["it falls to a half"]
