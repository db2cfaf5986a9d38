"""Public bug reports by users of federated and distributed training, tried on sites, models and tables."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from torch import nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler, TensorDataset

import securefl
from securefl.training.sites.layout import SiteError
from securefl.training.sites.loaders import to_device
from tests.cases.users.play import MSE, linear, loader, play, samples, scenario, sgd

RANGE = "[encoding]\nrange = 16\n"
SCORES = """metric = "score"
[encoding]
range = 16
[evaluation]
repeats = "accept"
metrics = [{{ name = "score", kind = "mean", lower = 0, upper = 1, better = "{better}" }}]
"""


def fit(site: securefl.TorchSite, number: int = 0) -> Any:
    return site.fit(site.parameters(), securefl.RoundContext(number, 3, 7 + number))


class Numbers:
    """A site that adds ``step`` to its one parameter and scores the model that it receives."""

    def __init__(self, step: float = 1.0, samples: int = 10, scores: tuple[float, ...] = ()) -> None:
        self.step, self.samples, self.scores = step, samples, scores

    def parameters(self) -> dict[str, Any]:
        return {"w": np.zeros(1, np.float32)}

    def fit(self, parameters: Any, context: securefl.RoundContext) -> Any:
        return {"w": parameters["w"] + np.float32(self.step)}, self.samples, {}


class Scored(Numbers):
    def evaluate(self, parameters: Any, context: securefl.RoundContext) -> Any:
        return self.samples, {"score": self.scores[context.number]}


def test_a_small_last_batch_counts_by_its_samples() -> None:
    """Lightning-AI/pytorch-lightning#2924. Eight errors of 0 and one of 9 make 1, not 4.5."""
    targets = torch.zeros(9, 1)
    targets[8] = 3
    model = nn.Linear(4, 1)
    nn.init.zeros_(model.bias)
    site = securefl.TorchSite(model, DataLoader(TensorDataset(torch.zeros(9, 4), targets), 8), MSE, sgd(0))
    assert fit(site)[2] == {"loss": 1.0}


def test_a_distributed_sampler_shuffles_each_epoch_of_each_round() -> None:
    """pytorch/pytorch#31771 and #11324."""
    seen: list[int] = []

    class Recorded(Dataset[Any]):
        def __len__(self) -> int:
            return 16

        def __getitem__(self, index: int) -> Any:
            seen.append(index)
            return torch.zeros(4), torch.zeros(1)

    data = Recorded()
    sampler: DistributedSampler[Any] = DistributedSampler(data, 1, 0)
    site = securefl.TorchSite(linear(), DataLoader(data, 4, sampler=sampler), MSE, sgd(0), epochs=2)
    fit(site, 0)
    fit(site, 1)
    orders = [tuple(seen[start : start + 16]) for start in range(0, 64, 16)]
    assert all(sorted(order) == list(range(16)) for order in orders)
    assert len(set(orders)) == 4


def test_a_kept_optimiser_of_some_parameters_keeps_its_momentum() -> None:
    """KempnerInstitute/KempnerForge PR#115: momentum that starts anew."""
    made: list[torch.optim.Optimizer] = []

    def optimiser(weights: Any) -> torch.optim.Optimizer:
        made.append(torch.optim.SGD([one for one in weights if one.ndim > 1], lr=0.01, momentum=0.9))
        return made[-1]

    site = securefl.TorchSite(linear(), loader(), MSE, optimiser, keep_optimiser=True)
    for number in range(3):
        fit(site, number)
    assert len(made) == 1


@pytest.mark.parametrize(
    ("batches", "found"),
    [
        (DataLoader([{"x": torch.zeros(4), "y": torch.zeros(1)}] * 4, 2), "dict"),  # type: ignore[arg-type]
        (DataLoader(torch.zeros(8, 4), 2), "Tensor"),  # type: ignore[arg-type]
        (DataLoader(TensorDataset(torch.zeros(8, 4)), 2), "list of 1"),
        ([torch.zeros(2, 4).numpy()], "ndarray"),
        ([5], "int"),
    ],
    ids=["mapping", "two rows", "no targets", "array", "number"],
)
def test_a_batch_that_is_no_pair_is_refused_by_name(batches: Any, found: str) -> None:
    """meta-pytorch/opacus#415: batches as mappings. A tensor of two rows passed for inputs and targets."""
    site = securefl.TorchSite(nn.Linear(4, 4), batches, MSE, sgd(0.01), samples=2)
    with pytest.raises(SiteError, match=rf"the loader gives {found}, expected pairs \(inputs, targets\)"):
        fit(site)


def test_inputs_in_mappings_and_lists_reach_the_device() -> None:
    """VectorInstitute/FL4Health PR#124: models that take a mapping of tensors."""
    meta = torch.device("meta")
    batch = to_device({"ids": torch.zeros(2), "more": [torch.zeros(1), (torch.zeros(1), "text")]}, meta)
    assert batch["ids"].device == batch["more"][0].device == batch["more"][1][0].device == meta
    assert batch["more"][1][1] == "text"


class Odd(nn.Module):
    """A scalar, a transposed parameter, an unused layer, and names with slashes, blanks and brackets."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.scale = nn.Parameter(torch.tensor(1.0))
        self.mixed = nn.Parameter(torch.randn(1, 4).t())
        self.unused = nn.Linear(2, 2)
        names = ("a/b", "größe x", "[0]")
        self.named = nn.ParameterDict({name: nn.Parameter(torch.zeros(1)) for name in names})

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        shift = self.named["a/b"] + self.named["größe x"] + self.named["[0]"]
        result: torch.Tensor = self.scale * (inputs @ self.mixed) + shift
        return result


def test_parameters_of_odd_shapes_and_names_are_trained_and_saved(tmp_path: Path) -> None:
    """pytorch/pytorch PR#132934 (scalars), safetensors/safetensors#469, flwrlabs/flower#4344 (shape ())."""
    result = play(tmp_path, lambda _: securefl.TorchSite(Odd(), loader(), MSE, sgd(0.05)), 6)
    model, first = Odd(), Odd().state_dict()
    model.load_state_dict(result.state_dict())
    read = load_file(tmp_path / "out-f" / "model.safetensors")
    for name, value in model.state_dict().items():
        assert np.array_equal(read[name], value.numpy()), name
        assert torch.equal(value, first[name]) == name.startswith("unused"), name
    assert model.scale.shape == ()
    inputs, targets = samples()
    assert MSE(model(inputs), targets) < 0.3 * MSE(Odd()(inputs), targets)


def test_a_name_with_brackets_can_be_personal() -> None:
    site = securefl.TorchSite(Odd(), loader(), MSE, sgd(0.05), personal=["named.[0]", "unused.*"])
    assert set(site.parameters()) == {"scale", "mixed", "named.a/b", "named.größe x"}


class Adapted(nn.Module):
    """A frozen layer with a low-rank adapter, whose second factor begins at 0."""

    def __init__(self) -> None:
        super().__init__()
        self.base = linear().requires_grad_(requires_grad=False)
        self.down = nn.Parameter(torch.randn(2, 4, generator=torch.Generator().manual_seed(0)) / 10)
        self.up = nn.Parameter(torch.zeros(1, 2))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.base(inputs) + inputs @ self.down.t() @ self.up.t()
        return result


def test_an_adapter_travels_alone_and_is_trained(tmp_path: Path) -> None:
    """huggingface/peft#1402 and #793: the second factor stays 0."""
    made: list[Adapted] = []

    def site(_: str) -> securefl.TorchSite:
        made.append(Adapted())
        return securefl.TorchSite(made[-1], loader(), MSE, sgd(0.05))

    result = play(tmp_path, site, 5)
    assert set(result.arrays()) == {"down", "up"}
    assert np.abs(result.arrays()["up"]).max() > 0.5
    assert all(torch.equal(model.base.weight, linear().weight) for model in made)


def test_the_mean_goes_by_samples(tmp_path: Path) -> None:
    """OpenMined/PySyft#3863: the average is not that of the models."""
    parts = {"p00": Numbers(1, 1), "p01": Numbers(5, 10), "p02": Numbers(9, 1000)}
    result = play(tmp_path, parts.__getitem__, 1, RANGE)
    assert result.arrays()["w"] == pytest.approx((1 + 5 * 10 + 9 * 1000) / 1011, abs=1e-4)


def test_metrics_go_by_samples(tmp_path: Path) -> None:
    """Nota-NetsPresso/netspresso-trainer#360: a mean of means."""
    parts = {"p00": Scored(1, 1, (1.0,)), "p01": Scored(1, 10, (0.5,)), "p02": Scored(1, 100, (0.1,))}
    result = play(tmp_path, parts.__getitem__, 1, SCORES.format(better="higher"))
    assert result.rounds[0].metrics[0].value == pytest.approx(16 / 111, abs=1e-3)


NAN = float("nan")


@pytest.mark.parametrize(
    ("better", "scores", "best"),
    [
        ("higher", (0.5, 0.9, 0.4, 0.6), 1),
        ("lower", (0.5, 0.9, 0.4, 0.6), 2),
        ("higher", (NAN, 0.3, 0.9, NAN), 2),
        ("lower", (NAN, 0.3, 0.9, NAN), 1),
        ("higher", (0.5, float("inf"), 0.4, 0.3), 0),
    ],
)
def test_the_best_model_is_that_of_the_best_number(
    tmp_path: Path, better: str, scores: tuple[float, ...], best: int
) -> None:
    """Lightning-AI/pytorch-lightning#2636 (NaN first), alibaba/FederatedScope PR#374 (larger is better)."""
    toml = scenario(tmp_path, Numbers().parameters(), 4, SCORES.format(better=better))
    result = securefl.simulate(toml, site=lambda _: Scored(scores=scores), out=tmp_path / "out", seed=1)
    assert result.arrays()["w"] == best
    assert load_file(tmp_path / "out" / "best.safetensors")["w"] == best
    assert load_file(tmp_path / "out" / "model.safetensors")["w"] == 4


def test_augmentation_differs_in_workers_epochs_and_rounds() -> None:
    """pytorch/pytorch#5059 and #41329: numpy draws the same in each worker and epoch."""
    drawn: list[float] = []

    class Augmented(Dataset[Any]):
        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> Any:
            return torch.full((4,), np.random.rand()), torch.zeros(1)  # noqa: NPY002 - as in the reports

    class Recording(nn.Linear):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            drawn.extend(inputs[:, 0].tolist())
            return super().forward(inputs)

    batches = DataLoader(Augmented(), 1, num_workers=2)
    site = securefl.TorchSite(Recording(4, 1), batches, MSE, sgd(0), epochs=2)
    fit(site, 0)
    fit(site, 1)
    assert len(drawn) == len(set(drawn)) == 16


def table(tmp_path: Path, content: str, *columns: Any, **options: Any) -> securefl.DataTable:
    path = tmp_path / "x.csv"
    path.write_bytes(content.encode(options.pop("encoding", "utf-8")))
    return securefl.read_table(path, columns, **options)


@pytest.mark.parametrize(
    ("content", "column", "options", "message"),
    [
        ("a,b,a\n1,2,3\n", "a", {}, "has 2 columns 'a'"),
        ("a,b\n1,2\n", "a", {"encoding": "utf-16"}, "is not UTF-8 text"),
        ("a;b\n1,5;2\n", "a", {}, r"the first line is 'a;b': declare delimiter = \";\""),
        ("a\tb\n1\t2\n", "a", {}, r"declare delimiter = \"tab\""),
        ("a;b\n1,5;2\n", "a", {"delimiter": ";"}, "line 2, column 'a': holds '1,5', which is not a number"),
        ("a,b\n1582218195625938945,\n", "a", {}, "holds 1582218195625938945, which no 64-bit"),
        ("größe\n1\n", unicodedata.normalize("NFD", "größe"), {}, r"the file writes it 'gr\\xf6\\xdfe'"),
        (unicodedata.normalize("NFD", "größe\n1\n"), "größe", {}, r"the file writes it 'gro\\u0308\\xdfe'"),
    ],
    ids=["twice", "utf-16", "semicolons", "tabs", "decimal comma", "identifier", "composed", "decomposed"],
)
def test_a_table_that_is_read_wrongly_elsewhere_is_refused(
    tmp_path: Path, content: str, column: str, options: dict[str, Any], message: str
) -> None:
    """pandas-dev/pandas#9424, #24130 and #48170, SheetJS/sheetjs#2239."""
    with pytest.raises(securefl.ConfigError, match=message):
        table(tmp_path, content, column, **options)


def test_words_that_others_take_for_missing_or_numbers_stay_words(tmp_path: Path) -> None:
    """wireservice/csvkit#806 (Namibia), and identifiers with leading zeros; lines end as on Windows."""
    column = securefl.Column(name="c", categories=("NA", "007", "7"))
    read = table(tmp_path, "a,c\r\n1,NA\r\n2,007\r\n3,7\r\n", "a", column)
    assert read["c"].tolist() == [0, 1, 2]
    assert read["a"].tolist() == [1, 2, 3]


def test_outputs_and_targets_of_other_shapes_are_refused() -> None:
    """deepset-ai/FARM#229: (n, 1) and (n,) make n x n pairs, torch warns, and the model is another."""
    inputs, targets = samples(8)
    rows = DataLoader(TensorDataset(inputs, targets[:, 0]), 8)
    site = securefl.TorchSite(linear(), rows, MSE, sgd(0.05))
    with pytest.raises(SiteError, match=r"outputs of shape \(8, 1\) and targets of \(8,\) by broadcasting"):
        fit(site)


def test_an_optimiser_that_needs_a_closure_is_refused_at_once() -> None:
    with pytest.raises(
        securefl.ConfigError,
        match=r"optimiser: LBFGS needs a closure, which computes the loss several times.*train=",
    ):
        securefl.TorchSite(linear(), loader(), MSE, lambda weights: torch.optim.LBFGS(list(weights)))
