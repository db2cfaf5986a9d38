"""Parties and a server whose samples lie in files of different kinds, told by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.live.deployed import Site, site
from tests.live.federated import LIMIT

pytestmark = pytest.mark.live

TABLE = """
[data.table]
label = "ill"
features = [
    { name = "age", mean = 50, deviation = 10 },
    { name = "sex", categories = ["f", "m"] },
]
"""


def patients(party: int) -> pd.DataFrame:
    rng = np.random.default_rng(party)
    age, sex = rng.normal(50, 10, 60), rng.integers(0, 2, 60)
    ill = age + 8 * sex > 54
    return pd.DataFrame(
        {"age": age, "sex": np.array(["f", "m"])[sex], "ill": np.array(["no", "yes"])[ill * 1]}
    )


def prepared(frame: pd.DataFrame, path: Path) -> None:
    sex = frame["sex"].to_numpy()[:, None] == np.array(["f", "m"])
    x = np.column_stack([(frame["age"] - 50) / 10, sex])
    np.savez(path, x_train=x, y_train=(frame["ill"] == "yes").to_numpy().astype(int))


def with_tables(where: Site) -> None:
    text = where.scenario.read_text()
    data = text[text.index("[data]") : text.index("[model]")]
    declared = f'[data]\nclasses = ["no", "yes"]\n{TABLE}'
    where.scenario.write_text(text.replace(data, declared).replace("epochs = 1", "epochs = 20"))


def test_a_csv_file_a_parquet_file_an_archive_and_a_function(tmp_path: Path) -> None:
    with site(tmp_path, "embedded") as deployed:
        with_tables(deployed)
        patients(0).to_csv(tmp_path / "a.csv", index=False)
        patients(1).to_parquet(tmp_path / "b.parquet")
        prepared(patients(2), tmp_path / "c.npz")
        (tmp_path / "warehouse.py").write_text(
            f"import numpy as np\ndef load():\n    found = np.load({str(tmp_path / 'd.npz')!r})\n"
            "    return found['x_train'], found['y_train']\n"
        )
        prepared(patients(3), tmp_path / "d.npz")
        patients(4).to_csv(tmp_path / "test.csv.gz", index=False)
        given = ("a.csv", "b.parquet", "c.npz")
        files = [str(tmp_path / name) for name in given]
        server = deployed.start("server", "--data", f"csv:{tmp_path / 'test.csv.gz'}")
        parties = {
            name: deployed.start(name, "--data", data)
            for name, data in zip(deployed.parties, (*files, "warehouse:load"), strict=True)
        }
        for name, party in parties.items():
            assert party.wait(LIMIT)[0] == 0, f"{name}: {party.stderr.read_text()}"
        code, said, _ = server.wait(LIMIT)
        assert code == 0
        accuracy = float(said.split("round 2: accuracy ")[1].split("%")[0])
        assert accuracy > 90, said


def test_a_party_whose_samples_differ_is_told_what_differs(tmp_path: Path) -> None:
    with site(tmp_path, "embedded") as deployed:
        with_tables(deployed)
        np.savez(tmp_path / "odd.npz", x_train=np.zeros((9, 4)), y_train=np.arange(9) % 2)
        code, _, line = deployed.start("p01", "--data", str(tmp_path / "odd.npz")).wait(LIMIT)
        assert code == 2
        assert "odd.npz[x_train]: has samples of shape (4,), but data.table states (3,)" in line
