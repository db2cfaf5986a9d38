"""Conversions of users' numbers to other dtypes are exact, or refused by name."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import securefl
from securefl.base.errors import ConfigError, UsageError
from securefl.base.narrowing import NarrowingError, check_f32, exact_f64
from securefl.scenario import Column, Metric, SiteEvaluation
from securefl.training.data.npz import finite_f32
from securefl.training.data.sources.function_files import OwnFunction
from securefl.training.sites.columns import differences
from securefl.training.sites.layout import SiteError
from securefl.training.sites.tables import class_counts, column_table, score_histogram
from securefl.training.sites.torch_site import TorchSite
from securefl.training.sites.transfer import read_arrays, write_arrays

BIG = 2**53 + 1
"""The first whole number that f64 does not hold."""


class TestNumbers:
    @pytest.mark.filterwarnings("error")
    def test_tensors_come_back_without_a_warning(self) -> None:
        assert exact_f64(torch.tensor([1.0, 2.5])).tolist() == [1.0, 2.5]

    @given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
    def test_whole_numbers_come_back_or_are_refused(self, wholes: list[int]) -> None:
        exact = all(int(float(one)) == one for one in wholes)
        if exact:
            assert [int(one) for one in exact_f64(np.array(wholes, np.int64)).tolist()] == wholes
        else:
            with pytest.raises(NarrowingError, match="no 64-bit floating-point number"):
                exact_f64(np.array(wholes, np.int64))

    @pytest.mark.parametrize(
        ("values", "said"),
        [
            (["1", "2"], "text"),
            ([1.0, "2"], "text"),
            (np.array([1, "2"], dtype=object), "text"),
            ([1 + 2j], "complex"),
            (np.array([1j], dtype=object), "complex"),
            (np.array(["2020-01-01"], "M8[D]"), "dates"),
            (np.array([1], "m8[s]"), "durations"),
            ([BIG], str(BIG)),
            (np.array([BIG], dtype=object), str(BIG)),
            (np.array([2**64 - 1], np.uint64), str(2**64 - 1)),
            ([-BIG], str(-BIG)),
        ],
    )
    def test_what_f64_does_not_hold_is_refused(self, values: Any, said: str) -> None:
        with pytest.raises(NarrowingError, match=said):
            exact_f64(values)

    def test_what_it_holds_passes(self) -> None:
        found = exact_f64([1, None, True, 2.5, Decimal("0.5"), 2**60])
        np.testing.assert_array_equal(found, [1, np.nan, 1, 2.5, 0.5, 2.0**60])
        assert exact_f64(np.array([0.1], np.float16)).tolist() == [float(np.float16(0.1))]

    def test_32_bits_must_hold_the_differences(self) -> None:
        seconds = 1.7e9 + np.arange(100.0)
        with pytest.raises(NarrowingError, match="differences"):
            check_f32(seconds, seconds.astype(np.float32))
        for fine in (
            seconds - 1.7e9,
            np.full(9, 0.1),
            np.linspace(-1e9, 1e9, 50),
            np.array([0.1], np.float32),
        ):
            check_f32(fine, fine.astype(np.float32))


class TestTables:
    def test_identifiers_in_csv(self, tmp_path: Path) -> None:
        path = tmp_path / "north.csv"
        path.write_text(f"patient\n{BIG - 1}\n{BIG}\n")
        with pytest.raises(ConfigError, match=rf"line 3, column 'patient': .*{BIG}"):
            securefl.read_table(path, ["patient"])
        words = Column(name="patient", categories=(str(BIG - 1), str(BIG)))
        assert securefl.read_table(path, [words])["patient"].tolist() == [0, 1]

    def test_decimals_that_become_zero(self, tmp_path: Path) -> None:
        path = tmp_path / "north.csv"
        path.write_text("dose\n0e9\n1e-400\n")
        with pytest.raises(ConfigError, match=r"line 3, column 'dose'.*round to 0"):
            securefl.read_table(path, ["dose"])

    @pytest.mark.parametrize("kind", ["int64", "uint64", "decimal"])
    def test_identifiers_in_parquet(self, kind: str, tmp_path: Path) -> None:
        pa = pytest.importorskip("pyarrow")
        pq = pytest.importorskip("pyarrow.parquet")
        path, value = tmp_path / "north.parquet", Decimal(BIG) if kind == "decimal" else BIG
        type_ = pa.decimal128(20, 0) if kind == "decimal" else getattr(pa, kind)()
        pq.write_table(pa.table({"patient": pa.array([1, value, None], type_)}), path)
        with pytest.raises(ConfigError, match=f"column 'patient': holds {BIG}"):
            securefl.read_table(path, ["patient"], incomplete="keep")
        categories = Column(name="patient", categories=("1", str(BIG - 1)))
        with pytest.raises(ConfigError, match=f"column 'patient': holds {BIG}"):
            securefl.read_table(path, [categories], incomplete="keep")

    def test_seconds_since_1970_as_inputs(self, tmp_path: Path) -> None:
        path = tmp_path / "north.csv"
        path.write_text("when\n" + "\n".join(str(1_700_000_000 + n) for n in range(50)) + "\n")
        with pytest.raises(ConfigError, match=r"column 'when': holds .* \(declare mean and deviation\)"):
            securefl.read_table(path, ["when"]).matrix()
        declared = Column(name="when", mean=1.7e9, deviation=20.0)
        found = securefl.read_table(path, [declared]).matrix()
        np.testing.assert_allclose(found[:, 0], np.arange(50) / 20)

    def test_archives(self) -> None:
        x = np.stack([np.linspace(0, 1, 50), 1.7e9 + np.arange(50)], axis=1)
        with pytest.raises(ConfigError, match="numbers in column 1 whose differences"):
            finite_f32(x, "x")
        assert finite_f32(x - [0, 1.7e9], "x").dtype == np.float32

    def test_a_label_beyond_64_bits(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(
            "securefl.training.data.sources.function_files.load_own",
            lambda _name: lambda: (Pairs(),),
        )
        with pytest.raises(ConfigError, match=r"item 0: has the label \d{22}"):
            _ = OwnFunction("own:data").divided


class Pairs:
    """One sample, with a label that no array of 64 bits holds."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, number: int) -> tuple[Any, int]:
        if number:
            raise IndexError
        return np.zeros(2, np.float32), 2**70


class TestStatistics:
    EVALUATION = SiteEvaluation(
        samples=9, metrics=(Metric(name="a", kind="column", lower=0, upper=2.0**60, bins=4),)
    )

    @pytest.mark.parametrize("values", [["1", "2"], [1j, 2], [BIG, 1], np.array(["2020-01-01"], "M8[D]")])
    def test_columns_that_are_no_numbers(self, values: Any) -> None:
        ((line, serious),) = differences({"a": values}, self.EVALUATION)
        assert serious
        assert line.startswith("'a' holds ")

    def test_tables(self) -> None:
        for wrong in (["0.5"], [0.5j], [BIG]):
            with pytest.raises(UsageError, match="a column holds"):
                score_histogram(wrong)
            with pytest.raises(UsageError, match="a column holds"):
                column_table(wrong, 0, 1)
        with pytest.raises(UsageError, match="class labels must be whole numbers"):
            class_counts(np.array([1 + 1j]), 3)


class TestSites:
    def test_double_precision_travels_as_it_is(self) -> None:
        model = nn.Linear(1, 1, bias=False).double()
        site = TorchSite(model, train=lambda _model, _told: None, samples=1)
        with torch.no_grad():
            model.weight.fill_(1 + 2**-40)
        assert site.parameters()["weight"].tolist() == [[1 + 2**-40]]
        assert read_arrays({"w": torch.ones(2, dtype=torch.bfloat16)})["w"].dtype == np.float32

    def test_half_precision_refuses_what_it_would_make_infinite(self) -> None:
        weight = torch.zeros(1, dtype=torch.float16)
        with pytest.raises(SiteError, match=r"w came with 7e\+04, beyond the range of float16"):
            write_arrays({"w": weight}, {"w": np.array([70_000], np.float32)})
        write_arrays({"w": weight}, {"w": np.array([60_000], np.float32)})
        assert weight.item() == 60_000

    def test_complex_weights_and_buffers_are_refused(self) -> None:
        class Complex(nn.Module):
            def __init__(self, *, trained: bool) -> None:
                super().__init__()
                self.last = nn.Linear(1, 1)
                values = torch.ones(1, dtype=torch.complex64)
                if trained:
                    self.odd = nn.Parameter(values)
                else:
                    self.register_buffer("odd", values)

        with pytest.raises(ConfigError, match="odd has dtype complex64"):
            TorchSite(Complex(trained=True), train=lambda _m, _t: None, samples=1)
        with pytest.raises(ConfigError, match="odd holds complex numbers"):
            TorchSite(Complex(trained=False), train=lambda _m, _t: None, samples=1, buffers="average")
        TorchSite(Complex(trained=False), train=lambda _m, _t: None, samples=1)
