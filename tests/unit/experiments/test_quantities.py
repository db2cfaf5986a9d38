"""Numbers that follow from other numbers, and overrides with both put in."""

from __future__ import annotations

from math import comb, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from securefl.base.errors import ConfigError
from securefl.lab.experiments.experiment import Values
from securefl.lab.experiments.quantities import derive_quantities, fill


@pytest.mark.parametrize(
    ("honest", "share", "byzantine"),
    [
        (20, 0.0, 0),
        (20, 0.2, 5),
        (20, 0.4, 13),
        (20, 0.6, 30),
        (20, 0.9, 180),
        (20, 0.95, 380),
        (20, 0.99, 1980),
        (10, 0.2, 2),
        (10, 0.4, 6),
        (10, 0.6, 15),
        (10, 0.5, 10),
    ],
)
def test_byzantine_workers_come_on_top(honest: int, share: float, byzantine: int) -> None:
    known = derive_quantities({"honest": honest, "share": share})
    assert (known["byzantine"], known["parties"]) == (byzantine, honest + byzantine)
    assert known["gamma"] == honest / (honest + byzantine)


@given(honest=st.integers(1, 200), tenths=st.integers(0, 9))
def test_no_more_byzantine_workers_than_their_share(honest: int, tenths: int) -> None:
    known = derive_quantities({"honest": honest, "share": tenths / 10})
    byzantine = known["byzantine"]
    assert isinstance(byzantine, int)
    assert byzantine * (10 - tenths) <= honest * tenths < (byzantine + 1) * (10 - tenths)


def test_the_papers_rounds() -> None:
    values: Values = {"honest": 20, "train": 60_000, "epochs": 8, "batch": 16}
    assert derive_quantities(values)["records"] == 3000
    assert derive_quantities(values)["rounds"] == 1500
    assert derive_quantities({**values, "honest": 10, "train": 7291, "epochs": 10})["rounds"] == 456
    assert derive_quantities({**values, "epochs": 0.001})["rounds"] == 1


def test_clean_clusters_and_roots() -> None:
    known = derive_quantities({"honest": 20, "share": 0.2, "m": 3})
    assert known["clean"] == pytest.approx(comb(20, 3) / comb(25, 3))
    assert known["root"] == sqrt(20)
    assert derive_quantities({"honest": 2, "share": 0.5, "m": 3})["clean"] == 1 / 4


def test_liars_are_the_last_parties_by_name() -> None:
    assert derive_quantities({"honest": 2, "share": 0.5})["liars"] == "'p02', 'p03'"
    assert derive_quantities({"honest": 99, "share": 0.02})["liars"] == "'p099', 'p100'"
    assert derive_quantities({"honest": 99, "share": 0.0})["liars"] == ""


@pytest.mark.parametrize(("share", "minority"), [(0.0, 0), (0.2, 5), (0.5, 19), (0.6, 24)])
def test_a_minority_is_less_than_half(share: float, minority: int) -> None:
    assert derive_quantities({"honest": 20, "share": share})["minority"] == minority


def test_what_is_given_is_not_replaced() -> None:
    known = derive_quantities(
        {"honest": 20, "share": 0.5, "gamma": 0.8, "rounds": 7, "epochs": 8, "records": 9, "batch": 1}
    )
    assert (known["gamma"], known["rounds"]) == (0.8, 7)


def test_names_become_values() -> None:
    templates = ("parties=$parties", "aggregation.rule={ type = 'x', gamma = $gamma }", "a=$$", "b=$b")
    assert fill(templates, {"honest": 4, "share": 0.5, "b": "word"}) == (
        "parties=8",
        "aggregation.rule={ type = 'x', gamma = 0.5 }",
        "a=$",
        "b=word",
    )


@pytest.mark.parametrize(
    ("template", "values", "message"),
    [
        ("x=$y", {"z": 1}, "'x=$y': $y is not a value of this file (use $z)"),
        ("x=$", {"z": 1}, "'x=$': has a $ without a name (write one behind it, as in $epsilon)"),
        (
            "x=1",
            {"honest": 4, "share": 1},
            "values.share: is 1, so no worker would be honest (give less than 1)",
        ),
        ("x=1", {"honest": "many"}, "values.honest: is 'many' (give a number of at least 1)"),
        ("x=1", {"honest": 4, "share": -0.1}, "values.share: is -0.1 (give a number of at least 0)"),
        ("x=1", {"honest": float("nan")}, "values.honest: is nan (give a number of at least 1)"),
    ],
)
def test_values_that_are_refused(template: str, values: Values, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        fill((template,), values)
    assert str(caught.value) == message
