"""Tables: what CSV and Parquet files give, and the one line that says what is wrong with them."""

from __future__ import annotations

import contextlib
import csv
import gzip
import importlib.util
import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import securefl
from securefl.base.errors import ConfigError
from securefl.scenario.tables import Column
from securefl.training.data import files, parquet_cells
from securefl.training.data.tables import DataTable, Incomplete, read_table

AGE = Column(name="age", mean=50, deviation=10, lower=0, upper=120)
SEX = Column(name="sex", categories=("f", "m"))
TEXT = "id,age,sex,ill\n1,30,f,no\n2,70.5,m,yes\n"


def written(folder: Path, text: str | bytes, name: str = "a.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_columns_by_name_and_inputs_of_a_model(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, TEXT), [AGE, SEX])
    assert isinstance(table, DataTable)
    assert (table.samples, table.dropped, table.others) == (2, 0, ("id", "ill"))
    assert table["age"].tolist() == [30, 70.5]
    assert table["sex"].tolist() == [0, 1]
    assert table.matrix().tolist() == [[-2, 1, 0], [np.float32(2.05), 0, 1]]
    assert table.matrix("sex", "age").tolist() == [[1, 0, -2], [0, 1, np.float32(2.05)]]
    assert table.matrix().dtype == np.float32
    assert repr(table) == "DataTable(samples=2, columns=age, sex)"
    with pytest.raises(ConfigError, match="has no column 'ill'"):
        table["ill"]


def test_the_same_from_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    frame = pd.DataFrame({"age": [30, 70.5, None], "sex": ["f", "m", None], "n": [1, 2, 3]})
    frame.to_parquet(path)
    table = read_table(path, [AGE, SEX, "n"], incomplete="keep")
    assert table["age"].tolist()[:2] == [30, 70.5]
    assert math.isnan(table["age"][2])
    assert table["sex"].tolist() == [0, 1, -1]
    assert table.matrix("sex").tolist() == [[1, 0], [0, 1], [0, 0]]
    assert read_table(path, [AGE, SEX], incomplete="drop").dropped == 1
    with pytest.raises(ConfigError) as caught:
        read_table(path, [AGE, SEX])
    assert str(caught.value).startswith(f"{path}, row 3, column 'age': has no value (declare fill")


def test_names_of_a_regression_and_of_many_labels(tmp_path: Path) -> None:
    """What sites of tasks beyond classification need: any column may be the target, or several."""
    path = written(tmp_path, "x,days,a,b\n1,12.5,0,1\n2,3,1,1\n")
    table = securefl.read_table(path, ["x", "days", "a", "b"])
    assert table["days"].tolist() == [12.5, 3]
    assert table.matrix("a", "b").tolist() == [[0, 1], [1, 1]]


def test_bom_semicolons_windows_lines_quotes_and_packing(tmp_path: Path) -> None:
    text = '\ufeffage;"sex"\r\n" 30 ";f\r\n\r\n1e1;"m"'
    for name, content in (("a.csv", text.encode()), ("a.csv.gz", gzip.compress(text.encode()))):
        table = read_table(written(tmp_path, content, name), [AGE, SEX], delimiter=";")
        assert (table["age"].tolist(), table["sex"].tolist()) == ([30, 10], [0, 1])
    table = read_table(written(tmp_path, "age\tsex\n1\tf\n"), [AGE, SEX], delimiter="tab")
    assert table.samples == 1


def test_lines_are_counted_as_editors_count_them(tmp_path: Path) -> None:
    path = written(tmp_path, 'note,age\n"two\nlines",1\n\n"x",old\n')
    with pytest.raises(ConfigError) as caught:
        read_table(path, ["age"])
    assert str(caught.value).startswith(f"{path}, line 5, column 'age': holds 'old', which is not a number")


def test_a_column_alone_may_have_empty_lines(tmp_path: Path) -> None:
    path = written(tmp_path, "age\n1\n\n2\n")
    with pytest.raises(ConfigError, match="line 3, column 'age': has no value"):
        read_table(path, ["age"])
    assert read_table(path, ["age"], incomplete="drop")["age"].tolist() == [1, 2]


def test_missing_values_are_refused_dropped_kept_or_filled_as_declared(tmp_path: Path) -> None:
    path = written(tmp_path, "age,sex\n30,f\nNA,m\n,\n50,NA\n")
    missing = ("", "NA")
    with pytest.raises(ConfigError, match=r"line 3, column 'age': has no value, as have 2 of 4 rows"):
        read_table(path, [AGE, SEX], missing=missing)
    with pytest.raises(ConfigError, match=r"line 3, column 'age': holds 'NA', which is not a number"):
        read_table(path, [AGE, SEX])
    dropped = read_table(path, [AGE, SEX], missing=missing, incomplete="drop")
    assert (dropped["age"].tolist(), dropped.samples, dropped.dropped) == ([30], 1, 3)
    kept = read_table(path, [AGE, SEX], missing=missing, incomplete="keep")
    assert (np.isnan(kept["age"]).tolist(), kept.dropped) == ([False, True, True, False], 0)
    assert kept["sex"].tolist() == [0, 1, -1, -1]
    filled = [Column(name="age", fill=40), Column(name="sex", categories=("f", "m"), fill="m")]
    assert read_table(path, filled, missing=missing).matrix().tolist() == [
        [30, 1, 0],
        [40, 0, 1],
        [40, 0, 1],
        [50, 0, 1],
    ]
    empty = written(tmp_path, "age\nNA\n", "empty.csv")
    with pytest.raises(ConfigError, match="has a missing value in each row"):
        read_table(empty, ["age"], missing=missing, incomplete="drop")


def test_a_category_may_be_a_word_that_elsewhere_is_missing(tmp_path: Path) -> None:
    path = written(tmp_path, "age,smokes\n1,NA\n2,yes\n")
    smokes = Column(name="smokes", categories=("yes", "NA"))
    assert read_table(path, ["age", smokes], missing=("NA",))["smokes"].tolist() == [1, 0]


BAD: dict[str, tuple[str | bytes, str, str]] = {
    "empty file": ("", "", "has no first line of column names"),
    "empty line first": ("\nage,sex\n", "", "has no first line of column names"),
    "no rows": ("age,sex\n", "", "has no rows below its first line"),
    "missing column": ("Age,sex\n1,f\n", "", "has no column 'age' (did you mean 'Age'?)"),
    "nothing alike": ("x,sex\n1,f\n", "", "has no column 'age' (columns: 'x', 'sex')"),
    "column twice": ("age,sex,age\n1,f,1\n", "", "has 2 columns 'age'"),
    "another delimiter": ("age;sex\n1;f\n", "", "has no column 'age'"),
    "text": ("age,sex\n1,f\nold,f\n", ", line 3, column 'age'", "holds 'old', which is not a number"),
    "decimal comma": ('age,sex\n"1,5",f\n', ", line 2, column 'age'", "holds '1,5', which is not a number"),
    "underscores": ("age,sex\n1_0,f\n", ", line 2, column 'age'", "holds '1_0'"),
    "other digits": ("age,sex\n٣,f\n", ", line 2, column 'age'", "holds '٣'"),
    "nan": ("age,sex\nnan,f\n", ", line 2, column 'age'", "holds 'nan', which is not a number"),
    "infinity": ("age,sex\ninf,f\n", ", line 2, column 'age'", "holds 'inf', which is not a number"),
    "too large": ("age,sex\n1e999,f\n", ", line 2, column 'age'", "a number that is not finite"),
    "too old": ("age,sex\n1,f\n121,f\n", ", line 3, column 'age'", "holds 121, outside 0 to 120"),
    "below": ("age,sex\n-1,f\n", ", line 2, column 'age'", "holds -1, outside 0 to 120"),
    "no value": ("age,sex\n,f\n", ", line 2, column 'age'", "has no value"),
    "no category": ("age,sex\n1,\n", ", line 2, column 'sex'", "has no value"),
    "unknown category": (
        "age,sex\n1,F\n",
        ", line 2, column 'sex'",
        "holds 'F', which is not one of the",
    ),
    "long cell": ("age,sex\n" + "9" * 50 + "x,f\n", ", line 2, column 'age'", "holds '" + "9" * 37 + "...'"),
    "short row": ("age,sex\n1,f\n2\n", ", line 3", "has 1 cells, but the first line has 2"),
    "long row": ("age,sex\n1,f,x\n", ", line 2", "has 3 cells, but the first line has 2"),
    "loose quote": ('age,sex\n"1"x,f\n', ", line 2", "is not valid CSV"),
    "open quote": ('age,sex\n1,"f\n', ", line 2", "is not valid CSV"),
    "endless cell": ("age,sex\n1," + "f" * 200_000 + "\n", ", line 2, column 'sex'", "holds 'fff"),
    "Latin-1": ("age,sex\n1,f\n2,\xe4\n".encode("latin-1"), ", line 3", "is not UTF-8 text"),
    "UTF-16": ("age,sex\n1,f\n".encode("utf-16"), ", line 1", "is not UTF-8 text"),
    "a picture": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), ", line 1", "is not UTF-8 text"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_csv_file_is_one_line_with_place_reason_and_remedy(tmp_path: Path, case: str) -> None:
    content, place, reason = BAD[case]
    path = written(tmp_path, content)
    with pytest.raises(ConfigError) as caught:
        read_table(path, [AGE, SEX])
    assert caught.value.path == f"{path}{place}"
    assert reason in str(caught.value)
    assert caught.value.remedy
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("length", [131_071, 131_072, 131_073, 1_000_000])
def test_a_long_cell_of_a_column_that_nobody_reads_is_no_error(tmp_path: Path, length: int) -> None:
    """Beyond the limit of the csv module as it is, 131,072 characters."""
    path = written(tmp_path, "age,letter\n20," + "x" * length + "\n21,short\n")
    assert read_table(path, ["age"]).samples == 2


def test_no_file_a_folder_a_torn_gzip_and_a_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        ConfigError, match=r"not found, its folder exists \(paths are relative to the working"
    ):
        read_table(tmp_path / "gone.csv", ["age"])
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        read_table(tmp_path, ["age"])
    packed = gzip.compress(TEXT.encode())
    with pytest.raises(ConfigError, match="is not an intact gzip file"):
        read_table(written(tmp_path, packed[:-9], "a.csv.gz"), ["age"])
    monkeypatch.setattr(files, "MAX_BYTES", 2 * len(packed))
    with pytest.raises(ConfigError, match=f"unpacks to more than {2 * len(packed)} bytes"):
        read_table(written(tmp_path, gzip.compress(TEXT.encode() * 9), "a.csv.gz"), ["age"])
    monkeypatch.setattr(files, "MAX_BYTES", 20)
    with pytest.raises(ConfigError, match="has 40 bytes, more than 20"):
        read_table(written(tmp_path, "age\n" + "1\n" * 18), ["age"])


def of_arrow(path: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


BAD_PARQUET: dict[str, tuple[dict[str, Any], str, str]] = {
    "missing column": ({"sex": ["f"]}, "", "has no column 'age'"),
    "no rows": ({"age": pa.array([], pa.float64()), "sex": pa.array([], pa.string())}, "", "has no rows"),
    "text": (
        {"age": ["1"], "sex": ["f"]},
        ", column 'age'",
        "holds text such as '1', but is declared",
    ),
    "dates": (
        {"age": pa.array([0], pa.timestamp("ms")), "sex": ["f"]},
        ", column 'age'",
        "has type timestamp",
    ),
    "bytes": ({"age": [b"1"], "sex": ["f"]}, ", column 'age'", "has type binary"),
    "lists": ({"age": [[1]], "sex": ["f"]}, ", column 'age'", "which is neither numbers nor text"),
    "null": ({"age": [1.0, None], "sex": ["f", "m"]}, ", row 2, column 'age'", "has no value"),
    "NaN": ({"age": [1.0, math.nan], "sex": ["f", "m"]}, ", row 2, column 'age'", "has no value"),
    "infinity": ({"age": [math.inf], "sex": ["f"]}, ", row 1, column 'age'", "a number that is not finite"),
    "range": ({"age": [1, 130], "sex": ["f", "m"]}, ", row 2, column 'age'", "holds 130, outside"),
    "category": (
        {"age": [1], "sex": ["w"]},
        ", row 1, column 'sex'",
        "holds 'w', which is not one of the",
    ),
    "all null": (
        {"age": pa.nulls(2), "sex": ["f", "m"]},
        ", row 1, column 'age'",
        "as have 2 of 2 rows",
    ),
}


@pytest.mark.parametrize("case", BAD_PARQUET)
def test_a_bad_parquet_file_is_one_line_with_place_reason_and_remedy(tmp_path: Path, case: str) -> None:
    columns, place, reason = BAD_PARQUET[case]
    path = of_arrow(tmp_path / "a.parquet", **columns)
    with pytest.raises(ConfigError) as caught:
        read_table(path, [AGE, SEX])
    assert caught.value.path == f"{path}{place}"
    assert reason in str(caught.value)
    assert caught.value.remedy
    assert "\n" not in str(caught.value)


def test_kinds_of_parquet_columns(tmp_path: Path) -> None:
    path = of_arrow(
        tmp_path / "a.pq",
        whole=pa.array([1, 2, None], pa.int32()),
        flag=[True, False, True],
        money=pa.array([1, 2, 3], pa.decimal128(9, 2)),
        word=pa.array(["b", None, "a"]).dictionary_encode(),
        large=pa.array(["x", "x", "y"], pa.large_string()),
    )
    columns = (
        Column(name="whole", categories=("1", "2")),
        "flag",
        "money",
        Column(name="word", categories=("a", "b")),
        Column(name="large", categories=("y", "x")),
    )
    table = read_table(path, columns, incomplete="keep")
    assert {name: values.tolist() for name, values in table.columns.items()} == {
        "whole": [0, 1, -1],
        "flag": [1, 0, 1],
        "money": [1, 2, 3],
        "word": [1, -1, 0],
        "large": [1, 1, 0],
    }


def test_a_parquet_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = of_arrow(tmp_path / "a.parquet", age=np.zeros(100_000))
    assert path.stat().st_size < 10_000
    monkeypatch.setattr(parquet_cells, "MAX_BYTES", 799_999)
    with pytest.raises(ConfigError, match="unpacks to 800,000 bytes, more than the limit of 799,999"):
        read_table(path, ["age"])


def test_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(
        ConfigError,
        match=r"Parquet needs pyarrow, which is not installed \(pip install 'securefl\[tables\]'\)",
    ):
        read_table(tmp_path / "a.parquet", ["age"])


def refusal(path: Path) -> str:
    """The line with which a file is refused; nothing if it is read."""
    try:
        read_table(path, [AGE, SEX])
    except ConfigError as error:
        return str(error)
    return ""


def test_a_damaged_parquet_file_is_a_config_error_or_a_table(tmp_path: Path) -> None:
    whole = of_arrow(tmp_path / "a.parquet", age=[1.0, 2.0], sex=["f", "m"]).read_bytes()
    path, refused = tmp_path / "b.parquet", 0
    with pytest.raises(ConfigError, match="file not found"):
        read_table(path, [AGE, SEX])
    for cut in (0, 1, 4, 100, len(whole) - 8, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(ConfigError, match="is not a readable Parquet file: "):
            read_table(path, [AGE, SEX])
    for position in range(0, len(whole), 3):
        damaged = bytearray(whole)
        damaged[position] ^= 0x41
        path.write_bytes(damaged)
        line = refusal(path)
        assert "\n" not in line
        refused += bool(line)
    assert refused > 20


BAD_COLUMNS: dict[str, tuple[list[str | Column], str]] = {
    "none": ([], "columns: is empty: no column is declared"),
    "twice": (["a", "a"], "columns: 'a' is declared 2 times"),
    "a word twice": (
        [Column(name="a", categories=("x", "x"))],
        "columns.0.categories: 'x' is listed 2 times",
    ),
    "one word": ([Column(name="a", categories=("x",))], "columns.0.categories: has one word only"),
    "scaled words": (
        [Column(name="a", categories=("x", "y"), mean=1)],
        "columns.0: has categories, and mean",
    ),
    "filled words": (
        [Column(name="a", categories=("x", "y"), fill="z")],
        "columns.0.fill: 'z' is not one of",
    ),
    "word for number": (
        [Column(name="a", fill="z")],
        "columns.0.fill: 'z' is text, and the column has numbers",
    ),
    "no range": (["b", Column(name="a", lower=2, upper=1)], "columns.1.lower: is 2, not below upper = 1"),
    "filled outside": ([Column(name="a", upper=1, fill=2)], "columns.0.fill: 2 is not in -inf to 1"),
}


@pytest.mark.parametrize("case", BAD_COLUMNS)
def test_columns_that_contradict_themselves_are_refused_before_the_file_is_read(case: str) -> None:
    columns, message = BAD_COLUMNS[case]
    with pytest.raises(ConfigError) as caught:
        read_table("nowhere.csv", columns)
    assert str(caught.value).startswith(message)
    assert caught.value.remedy


@pytest.mark.parametrize("delimiter", ["", ";;", '"', "\n"])
def test_a_delimiter_is_one_character(delimiter: str) -> None:
    with pytest.raises(ConfigError, match="' is not a delimiter"):
        read_table("nowhere.csv", ["a"], delimiter=delimiter)


def test_a_number_beyond_32_bits_needs_constants(tmp_path: Path) -> None:
    path = written(tmp_path, "a\n1e300\n")
    with pytest.raises(ConfigError, match="column 'a': holds a number beyond the range of 32 bits"):
        read_table(path, ["a"]).matrix()
    assert read_table(path, [Column(name="a", deviation=1e300)]).matrix().tolist() == [[1]]


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
rows = st.lists(st.tuples(st.floats(allow_nan=False, allow_infinity=False), words), min_size=1, max_size=12)


@settings(deadline=None)
@given(rows=rows, names=st.tuples(words, words).filter(lambda two: all(two) and two[0] != two[1]))
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, kind: str, rows: list[tuple[float, str]], names: tuple[str, str]
) -> None:
    """Any numbers, words and names: newlines, quotes, delimiters and NUL in them included."""
    number, word = names
    path = tmp_path_factory.getbasetemp() / f"round.{kind}"
    if kind == "csv":
        buffer = io.StringIO()
        writer = csv.writer(buffer, quoting=csv.QUOTE_ALL)
        writer.writerows([names, *((repr(value), text) for value, text in rows)])
        path.write_bytes(buffer.getvalue().encode())
    else:
        of_arrow(path, **{number: [value for value, _ in rows], word: [text for _, text in rows]})
    categories = tuple(sorted({text for _, text in rows} | {"one", "two"}))
    table = read_table(path, [number, Column(name=word, categories=categories)], missing=())
    assert table[number].tolist() == [value for value, _ in rows]
    assert [categories[place] for place in table[word]] == [text for _, text in rows]


@settings(deadline=None)
@given(content=st.binary(max_size=200), incomplete=st.sampled_from(["refuse", "drop", "keep"]))
def test_any_bytes_are_a_table_or_a_config_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, incomplete: Incomplete
) -> None:
    columns = (Column(name="a"), Column(name="b", categories=("x", "y")))
    folder = tmp_path_factory.getbasetemp()
    for name, whole in (
        ("fuzz.csv", content),
        ("fuzz.csv", b"a,b\n" + content),
        ("fuzz.parquet", b"PAR1" + content + b"PAR1"),
    ):
        with contextlib.suppress(ConfigError):
            table = read_table(written(folder, whole, name), columns, incomplete=incomplete)
            assert table.matrix().shape == (table.samples, 3)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"incomplete": "skip"}, "incomplete: 'skip' is not a choice (one of refuse, drop, keep)"),
    ],
)
def test_arguments_in_python_are_checked_as_a_scenarios(
    arguments: dict[str, Any], said: str, tmp_path: Path
) -> None:
    (tmp_path / "t.csv").write_text("age\n3\n")
    with pytest.raises(ConfigError) as refused:
        read_table(tmp_path / "t.csv", **({"columns": ["age"]} | arguments))
    assert said in str(refused.value)


def test_one_name_is_one_column(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("mean age,b\n3,4\n")
    assert [*read_table(tmp_path / "t.csv", "mean age").columns] == ["mean age"]
