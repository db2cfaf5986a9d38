"""Sweeps over random reclusterings: what they find, their files, their page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

import scenarios
from securefl.base.errors import ConfigError
from securefl.cli.leakage import STUDY
from securefl.lab.experiments.draws import draw_cell, look
from securefl.lab.experiments.exhibits import Exhibit, sweep_of
from securefl.lab.experiments.experiment import UNNAMED
from securefl.lab.experiments.noise import Accounting, relative_exposure, spent
from securefl.lab.experiments.page import page
from securefl.lab.experiments.pictures import as_csv
from securefl.lab.experiments.record import Record, SeedRecord, read_record
from securefl.lab.experiments.sweep import Sweep, SweepSetting, Work, read_sweep
from securefl.lab.experiments.tabulate import ExhibitResults, tabulate
from securefl.methods.privacy.accountant import epsilon
from securefl.methods.privacy.release import ReleaseEvent
from tests.unit.cli.programs import call, refusal

BUNDLED = Path(scenarios.__path__[0]) / "leakage"
RESULTS = Path(__file__).parents[3] / "docs" / "results" / "leakage"
SMALL = """
name = "small"
title = "A small one"
claim = "Everybody is exposed at once."
draws = 3
parties = [12]
sizes = [3, 12]
"""


def setting(
    parties: int, size: int, *, colluders: int = 0, dropout: float = 0.0, work: Work = "same"
) -> SweepSetting:
    return SweepSetting(parties, size, colluders, dropout, work)


@pytest.mark.parametrize(
    ("parties", "size", "threshold", "draws"), [(100, 5, 6, 1), (60, 3, 4, 3), (40, 5, 6, 3)]
)
def test_everybody_falls_at_once(parties: int, size: int, threshold: int, draws: int) -> None:
    one = setting(parties, size)
    assert one.threshold == threshold
    assert {look(one, threshold, seed).exposed for seed in range(draws)} == {1}
    # Just below, some draws expose somebody all the same: 4 of 60 at (60, 3), one of them 56 parties.
    below = [look(one, threshold - 1, seed).exposed for seed in range(draws)]
    assert below.count(0) >= draws - 1


def test_the_paper_of_share_is_far_beyond_the_threshold() -> None:
    found = look(setting(60, 3), 10, 0)
    assert (found.exposed, found.once) == (1, 1)


def test_two_colluders_expose_nearly_everybody_just_below_the_threshold() -> None:
    shares = [look(setting(60, 3, colluders=2), 3, seed).exposed for seed in range(5)]
    # 54.5 of 58 on average; all of them in 85 % of draws (docs/leakage.md).
    assert 40 / 58 < float(np.mean(shares)) <= 1


def test_one_opening_hides_among_the_others() -> None:
    found = look(setting(60, 3), 1, 4)
    assert found.exposed == 0
    assert found.once == pytest.approx(1 / 3)
    assert found.fresh == pytest.approx(1 / 3)
    assert look(setting(60, 3), 3, 4).fresh == pytest.approx(1)
    assert 1 / 3 < look(setting(60, 3), 3, 4).once < 1


def test_new_work_is_never_combined() -> None:
    found = look(setting(60, 3, work="new"), 6, 2)
    assert found.exposed == 0
    assert found.once == pytest.approx(1 / 3)


def test_atoms_protect_however_often_one_reclusters() -> None:
    with_atoms = SweepSetting(60, 6, 0, 0.05, "same", 3)
    for seed in range(3):
        found = look(with_atoms, 8, seed)
        assert found.exposed == 0
        assert found.once == pytest.approx(1 / 3), "atoms are known, and nothing inside"
    assert look(SweepSetting(60, 6, 0, 0.0, "same"), 8, 0).exposed == 1


def test_dropouts_shrink_clusters_and_single_survivors_are_not_opened() -> None:
    found = [look(setting(60, 3, dropout=0.3), 1, seed) for seed in range(5)]
    assert {one.exposed for one in found} == {0.0}
    assert max(one.once for one in found) == pytest.approx(1 / 2)
    assert {one.counted < 0.9 for one in found} == {True}
    assert look(setting(4, 2, dropout=0.999), 1, 0).counted == 0, "nobody is left"


def sweep_in(path: Path, text: str) -> tuple[Exhibit, Sweep]:
    path.write_text(text)
    exhibit = sweep_of(path, STUDY)
    assert isinstance(exhibit.drawn, Sweep)
    return exhibit, exhibit.drawn


def conclude(exhibit: Exhibit, done: dict[str, tuple[tuple[SeedRecord, ...], dict[str, float]]]) -> Record:
    return tabulate(ExhibitResults(
        exhibit=exhibit, dataset=UNNAMED, scale="desk", plan=exhibit.plan("desk"), jobs=1, versions={},
        results={label: list(draws) for label, (draws, _) in done.items()},
        values={label: values for label, (_, values) in done.items()},
    ))  # fmt: skip


def test_draws_that_open_nothing_do_not_count_as_safe(tmp_path: Path) -> None:
    text = SMALL.replace("12]", "4]").replace("[3, 4]", "[2]") + "reclusterings = [2, 3]\n"
    exhibit, _ = sweep_in(tmp_path / "small.toml", text)

    def draw(seed: int, counted: float, exposed: float) -> SeedRecord:
        found = {"counted": counted, "exposed": exposed, "once": 1.0, "fresh": 1.0}
        return SeedRecord(seed=seed, accuracies=(exposed,) if counted else (), values=found)

    some, none = (draw(0, 0, 0), draw(1, 0.9, 1.0), draw(2, 1.0, 0.5)), (draw(0, 0, 0),)
    record = conclude(exhibit, {"N = 4, m = 2, R = 2": (some, {}), "N = 4, m = 2, R = 3": (none, {})})
    assert [cell.final for cell in record.cells] == [0.75, None]
    shown = "| N = 4, m = 2 | 75% ± 35%<br>1.00 / 1.00<br>1 draw opens nothing | nothing is opened |"
    assert shown in page([exhibit], (record,), "leakage")


def test_settings_are_the_product_without_single_clusters(tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_text(SMALL + "colluders = [0, 'mates']\ndropout = [0, 0.1]\n")
    found = [one.label() for one in read_sweep(path).settings()]
    assert found == [
        "N = 12, m = 3",
        "N = 12, m = 3, 10% drop out",
        "N = 12, m = 3, 2 colluders",
        "N = 12, m = 3, 2 colluders, 10% drop out",
    ]


NOISY = """
name = "noisy"
title = "With noise"
claim = "Local noise is the best, and the most."
draws = 3
parties = [12]
sizes = [3]
reclusterings = [1, 6]
colluders = [0, 1]
work = ["same", "new"]
noise = ["once", "fresh", "local"]

[accounting]
multiplier = 6.0
rounds = 1
delta = 1e-3
"""


def test_noise_once_fresh_and_local(tmp_path: Path) -> None:
    exhibit, sweep = sweep_in(tmp_path / "noisy.toml", NOISY)
    record = conclude(
        exhibit, {cell.label: draw_cell(sweep, cell.place) for cell in exhibit.cells_at("desk")}
    )
    cells: dict[str, list[dict[str, float]]] = {}
    for cell in record.cells:
        cells.setdefault(cell.place[0].removeprefix("N = 12, m = 3, "), []).append(cell.values)
    assert len(cells) == 10, "new work has noise of its own: it is not added once"
    for alone in ("", "1 colluder, "):
        h = 2 if alone else 3
        once, fresh, local, again = (
            [values["exposure"] for values in cells[alone + noise]]
            for noise in ("shared noise once", "fresh shared noise", "local noise", "new work, local noise")
        )
        assert once[0] == fresh[0] == pytest.approx(1, abs=1e-4), "one opening: all of a sum's noise"
        assert local[0] == again[0] == pytest.approx(1 / h, abs=1e-4)
        # Exposed at R = 6, each party has its own noise left: 1 / h of a sum's, or all of it.
        assert (once[1], local[1], again[1]) == pytest.approx((h, 1, 1 / h), abs=1e-4)
        assert fresh[1] > 3 if alone else fresh[1] == pytest.approx(6, abs=1e-4)
    spends = {label: [values["epsilon"] for values in row] for label, row in cells.items()}
    assert spends["fresh shared noise"][1] == spends["new work, fresh shared noise"][1], "without sampling"
    assert spends["shared noise once"][1] > spends["local noise"][1] == spends["shared noise once"][0]
    text = page([exhibit], (record,), "leakage")
    assert f"| N = 12, m = 3, shared noise once | {spends['shared noise once'][0]:.3g}<br>1.00 |" in text
    assert "setting,reclusterings of one update,label,mean" in as_csv(record)


def test_openings_are_one_release_before_they_are_sampled() -> None:
    run = Accounting(multiplier=2.0, rounds=10, records=50, batch=5, delta=1e-3)
    exposure = relative_exposure("fresh", 4, once=0.9, fresh=5 / 4)
    event = ReleaseEvent(
        noise_multiplier=1.0,
        steps=10,
        survivors=(4,) * 5,
        records=50,
        batch=5,
        sampler="poisson",
        denominator=5,
    )
    assert exposure == 5
    assert spent(run, exposure, 1) == pytest.approx(epsilon([event], 1e-3))
    assert spent(run, 1.0, 5) < spent(run, exposure, 1), "not five sampled releases"


def test_the_recorded_sweep_of_noise_is_of_the_bundled_file() -> None:
    exhibit = sweep_of(BUNDLED / "noise.toml", STUDY)
    record = read_record(RESULTS / "noise.json")
    assert [cell.label for cell in record.cells] == [cell.label for cell in exhibit.cells_at("desk")]
    rows: dict[str, list[dict[str, float]]] = {}
    for cell in record.cells:
        rows.setdefault(cell.place[0], []).append(cell.values)
    once, fresh, local = list(rows.values())[:3]
    assert once[0]["epsilon"] == fresh[0]["epsilon"] == pytest.approx(2.0, abs=0.01)
    assert once[-1]["exposure"] == pytest.approx(5), "exposed: h times"
    assert [values["exposure"] for values in fresh] == pytest.approx([1, 2, 3, 5, 8])
    assert local[-1]["exposure"] == pytest.approx(1)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("noise = []", "accounting|noise: is missing"),
        ("dropout = [0.1]", "dropout: a dropout takes its share of the noise with it"),
        ("noise = ['twice']", r"noise\[0\]"),
        ("batch = 2", r"accounting.batch: is 2, more than accounting.records = 1"),
        ("delta = 0.0", "delta"),
    ],
)
def test_noise_that_cannot_be_accounted_for(change: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "noisy.toml"
    key = change.split(" ", maxsplit=1)[0]
    kept = [line for line in NOISY.splitlines() if line.split(" ")[0] != key]
    at = len(kept) if key in {"batch", "delta"} else kept.index("[accounting]")
    path.write_text("\n".join([*kept[:at], change, *kept[at:]]))
    with pytest.raises(ConfigError, match=reason):
        read_sweep(path)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("sizes = [7]", "sizes: 12 parties cannot form two clusters of 7"),
        ("colluders = [11]", "colluders: 11 of 12 parties collude"),
        ("reclusterings = [0]", r"reclusterings\[0\]: expected `int` >= 1"),
        ("reclusterings = [501]", "reclusterings: N = 12, m = 3 needs 2,004 sums"),
        ("dropout = [1.0]", "dropout"),
        ("rounds = 3", "object contains unknown field `rounds`"),
    ],
)
def test_bad_files(change: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    kept = [line for line in SMALL.splitlines() if line.split(" ")[0] != change.split(" ", maxsplit=1)[0]]
    path.write_text("\n".join([*kept, change]))
    with pytest.raises(ConfigError, match=reason):
        read_sweep(path)


def test_bundled_sweeps_can_be_read() -> None:
    found: list[Sweep] = [read_sweep(path) for path in sorted(BUNDLED.glob("*.toml"))]
    names = {"atoms", "colluders", "dropouts", "new-work", "noise", "reclusterings"}
    assert {one.name for one in found} >= names
    wide = next(one for one in found if one.name == "reclusterings")
    assert (wide.parties, wide.sizes, wide.draws) == ((20, 60, 100), (3, 4, 5, 10, 20), 10)


def test_from_file_to_page(tmp_path: Path) -> None:
    path, out = tmp_path / "small.toml", tmp_path / "results" / "leakage"
    path.write_text(SMALL)
    ended = call("leakage", path, "--out", out, "--page")
    assert ended.exit_code == 0, ended.output
    assert "1 of 1: N = 12, m = 3: " in ended.stdout
    assert "R* = 4" in ended.stdout
    assert (out / "small.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "results" / "leakage.md").read_text()
    assert "| N = 12, m = 3 | 0%<br>0.33 / 0.33 |" in page
    first, before = read_record(out / "small.json"), contents(out)
    assert first.jobs == 1
    assert all(seed.seconds > 0 for cell in first.cells for seed in cell.seeds)
    assert call("leakage", path, "--out", out).exit_code == 0
    assert contents(out) == before, "a sweep is reproducible"
    assert untimed(read_record(out / "small.json")) == untimed(first)


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files without times by name."""
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.suffix != ".json"}


def untimed(record: Record) -> Record:
    """Return the record without its times."""
    cells = tuple(
        replace(cell, seeds=tuple(replace(seed, seconds=0.0) for seed in cell.seeds)) for cell in record.cells
    )
    return replace(record, seconds=0.0, cells=cells)


def test_bad_calls_are_one_line(tmp_path: Path) -> None:
    names = "atoms, colluders, dropouts, new-work, noise, reclusterings"
    assert refusal(call("leakage", "--out", tmp_path)).startswith(
        f"SWEEP: is missing: nothing to compute (name one of {names}"
    )
    said = refusal(call("leakage", "lost", "--out", tmp_path))
    assert said.startswith(f"SWEEP: 'lost' is not a bundled sweep (choose from {names}")
    said = refusal(call("leakage", "--page", "--out", tmp_path))
    assert said == f"--page: {tmp_path} holds no result yet (run one first, as --figure atoms)"
