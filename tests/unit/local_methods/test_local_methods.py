"""FedProx and SCAFFOLD against their papers' equations in numpy, in both training loops."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from securefl.base.arrays import F32, F64
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import ConfigError
from securefl.methods.feasibility.limits import check
from securefl.methods.server_optimisers.averaged import AveragedState
from securefl.scenario.load import parse_scenario
from securefl.scenario.local_method import LocalMethod
from securefl.scenario.parts import names
from securefl.scenario.scenario import Training
from securefl.training.data.shards import Shard
from securefl.training.local_methods.correction import Correction, KeptControls
from securefl.training.local_methods.parts.fedprox import FedProx
from securefl.training.local_methods.parts.scaffold import Scaffold
from securefl.training.local_methods.parts.sgd import LocalSgd
from securefl.training.models.catalogue import build_model, model_of
from securefl.training.models.controls import add_controls, averaged_state, is_control, without_controls
from securefl.training.models.flatten import dimension, load_vector, to_vector, trained_parameters
from securefl.training.models.parts.mlp import Mlp
from securefl.training.models.parts.softmax import Softmax
from securefl.training.models.tensors import write_tensors
from securefl.training.sgd.trainer import LocalTrainer
from securefl.training.sites.site import RoundContext
from securefl.training.sites.torch_site import TorchSite

CPU = torch.device("cpu")
RATE, CLIENTS, INPUTS, CLASSES = 0.2, 3, 4, 3
Batches = Sequence[tuple[F64, Any]]


def data_of(client: int, samples: int = 12) -> tuple[F32, Any]:
    """Samples whose classes lie elsewhere at each client, so that local models drift apart."""
    rng = np.random.default_rng(client)
    y = rng.integers(0, CLASSES, samples)
    x = rng.standard_normal((samples, INPUTS)) + np.eye(CLASSES, INPUTS)[(y + client) % CLASSES] * 2
    return x.astype(np.float32), y


def slope(w: F64, x: F64, y: Any) -> F64:
    """Of the mean cross-entropy of softmax regression; ``w`` is (classes, inputs) and biases, flat."""
    weight, bias = w[: CLASSES * INPUTS].reshape(CLASSES, INPUTS), w[CLASSES * INPUTS :]
    scores = x @ weight.T + bias
    chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    chances[np.arange(len(y)), y] -= 1
    return np.concatenate(((chances.T @ x / len(y)).reshape(-1), chances.mean(axis=0)))


def prox_by_the_paper(x: F64, batches: Batches, mu: float) -> F64:
    """Gradient descent on F(w) + mu / 2 |w - x|^2: Li et al., equation 2."""
    w = x.copy()
    for sample, label in batches:
        w -= RATE * (slope(w, sample, label) + mu * (w - x))
    return w


def scaffold_by_the_paper(x: F64, batches: Sequence[Batches], rounds: int) -> tuple[F64, F64]:
    """Algorithm 1 of Karimireddy et al. with option II, everybody there, a global rate of 1: (x, c)."""
    c = np.zeros_like(x)
    own = [np.zeros_like(x) for _ in batches]
    for _ in range(rounds):
        changes, moves = [], []
        for i, steps in enumerate(batches):
            y = x.copy()
            for sample, label in steps:
                y -= RATE * (slope(y, sample, label) - own[i] + c)
            after = own[i] - c + (x - y) / (len(steps) * RATE)
            changes.append(y - x)
            moves.append(after - own[i])
            own[i] = after
        x = x + np.mean(changes, axis=0)
        c = c + np.mean(moves, axis=0)
    return x, c


def test_a_training_that_diverged_is_not_where_the_next_one_begins() -> None:
    kept = KeptControls()
    for slope_ in (2.0, float("nan"), float("inf")):
        correction = Correction(Scaffold(), [torch.zeros(3)], [torch.zeros(3)], kept)
        correction.correct([torch.full((3,), slope_)])
        (told,) = correction.end()
        assert told.isfinite().all() == np.isfinite(slope_)
    assert kept.own is not None
    assert kept.own[0].tolist() == [2.0] * 3


def shard_of(client: int) -> Shard:
    x, y = data_of(client)
    return Shard(x, y, CLASSES, (INPUTS,))


def whole(client: int, steps: int) -> Batches:
    x, y = data_of(client)
    return [(x.astype(np.float64), y)] * steps


def config(method: LocalMethod, steps: int) -> Training:
    return Training(epochs=steps, batch_size=100, learning_rate=RATE, method=method)


class TestBuiltIn:
    def test_fedprox(self) -> None:
        module = build_model(Softmax(), (INPUTS,), CLASSES, seed=3)
        before = to_vector(module)
        trainer = LocalTrainer(module, shard_of(0), config(FedProx(mu=0.7), 6), CPU)
        after = trainer.train(before, InsecureSeededEntropy(1))
        expected = prox_by_the_paper(before.astype(np.float64), whole(0, 6), 0.7)
        np.testing.assert_allclose(after, expected, rtol=1e-5, atol=1e-6)
        plain = LocalTrainer(module, shard_of(0), config(LocalSgd(), 6), CPU)
        assert np.abs(plain.train(before, InsecureSeededEntropy(1)) - after).max() > 0.01

    def test_scaffold(self) -> None:
        """Parties with 2, 4 and 6 steps: what each sends for c is not what follows from its update alone."""
        module = add_controls(build_model(Softmax(), (INPUTS,), CLASSES, seed=3))
        params = to_vector(module)
        half = len(params) // 2
        trainers = [
            LocalTrainer(module, shard_of(i), config(Scaffold(), 2 * i + 2), CPU) for i in range(CLIENTS)
        ]
        begun = params[half:].astype(np.float64)
        assert not params[:half].any()
        for round_ in range(5):
            ended = [t.train(params, InsecureSeededEntropy(round_)) for t in trainers]
            params = np.asarray(np.mean(ended, axis=0, dtype=np.float64), np.float32)
        x, c = scaffold_by_the_paper(begun, [whole(i, 2 * i + 2) for i in range(CLIENTS)], 5)
        np.testing.assert_allclose(params[half:], x, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(params[:half], c, rtol=1e-5, atol=1e-5)

    def test_samples_do_not_meet_control_variates(self) -> None:
        module = build_model(Mlp(hidden=(5,)), (INPUTS,), CLASSES, seed=3)
        x = torch.from_numpy(data_of(0)[0])
        before = module(x)
        more = add_controls(module)
        vector = to_vector(more)
        vector[: len(vector) // 2] = 7.0
        load_vector(more, vector)
        assert torch.equal(more(x), before)

    def test_a_lost_upload_leaves_no_trace_in_the_next_control(self) -> None:
        """c is a mean of gradients, whatever a party kept of uploads that nobody got."""
        module = add_controls(build_model(Softmax(), (INPUTS,), CLASSES, seed=3))
        params = to_vector(module)
        one, other = (LocalTrainer(module, shard_of(0), config(Scaffold(), 3), CPU) for _ in range(2))
        one.train(params, InsecureSeededEntropy(0))
        half = len(params) // 2
        # With c_i from a lost training, and without: the gradients differ, and c holds nothing else.
        told = one.train(params, InsecureSeededEntropy(1))[:half]
        fresh = other.train(params, InsecureSeededEntropy(1))[:half]
        size = np.linalg.norm(slope(params[half:].astype(np.float64), *whole(0, 1)[0]))
        assert 0.0 < np.linalg.norm(told - fresh) < size
        assert np.linalg.norm(told) < 2 * size


class TestTorchSite:
    def site(self, client: int, method: LocalMethod, **more: Any) -> TorchSite:
        x, y = data_of(client)
        data = TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
        with torch.random.fork_rng():
            torch.manual_seed(3)
            model = nn.Linear(INPUTS, CLASSES)
        sgd = more.pop("optimiser", lambda weights: torch.optim.SGD(weights, lr=RATE))
        loader = DataLoader(data, batch_size=5)
        return TorchSite(model, loader, nn.CrossEntropyLoss(), sgd, epochs=2, method=method, **more)

    def batches(self, client: int) -> Batches:
        x, y = data_of(client)
        return [(x[at : at + 5].astype(np.float64), y[at : at + 5]) for at in (0, 5, 10)] * 2

    def flat(self, arrays: Any, prefix: str = "") -> F64:
        return np.concatenate([np.ravel(arrays[prefix + name]) for name in ("weight", "bias")]).astype(float)

    def test_fedprox(self) -> None:
        site = self.site(1, FedProx(mu=0.5))
        begun = site.parameters()
        assert {*begun} == {"weight", "bias"}
        after, _, _ = site.fit(begun, RoundContext(0, 1, 0))
        expected = prox_by_the_paper(self.flat(begun), self.batches(1), 0.5)
        np.testing.assert_allclose(self.flat(after), expected, rtol=1e-5, atol=1e-6)

    def test_scaffold_with_batches(self) -> None:
        sites = [self.site(i, Scaffold()) for i in range(CLIENTS)]
        arrays = dict(sites[0].parameters())
        assert {*arrays} == {"weight", "bias", "control/weight", "control/bias"}
        begun = self.flat(arrays)
        for round_ in range(4):
            ended = [site.fit(arrays, RoundContext(round_, 4, 0))[0] for site in sites]
            arrays = {name: np.mean([one[name] for one in ended], axis=0) for name in arrays}
        x, c = scaffold_by_the_paper(begun, [self.batches(i) for i in range(CLIENTS)], 4)
        np.testing.assert_allclose(self.flat(arrays), x, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(self.flat(arrays, "control/"), c, rtol=1e-5, atol=1e-5)

    def test_share_moves_the_servers_control_so_far(self) -> None:
        arrays = self.site(0, Scaffold()).parameters()
        arrays = {name: array + 0.25 * ("control" in name) for name, array in arrays.items()}
        all_of_it = self.site(0, Scaffold()).fit(arrays, RoundContext(0, 1, 0))[0]
        fifth = self.site(0, Scaffold(share=0.2)).fit(arrays, RoundContext(0, 1, 0))[0]
        for name in ("control/weight", "control/bias"):
            np.testing.assert_allclose(fifth[name] - 0.25, 0.2 * (all_of_it[name] - 0.25), atol=1e-6)

    def test_personal_parameters_have_no_control_and_no_pull(self) -> None:
        site = self.site(0, Scaffold(), personal=["bias"])
        assert {*site.parameters()} == {"weight", "control/weight"}
        site.fit(site.parameters(), RoundContext(0, 1, 0))

    def test_own_loops_are_not_corrected(self) -> None:
        with pytest.raises(ConfigError, match="scaffold cannot be combined with train="):
            TorchSite(nn.Linear(1, 1), train=lambda _m, _t: None, samples=1, method=Scaffold())


class Damped(LocalMethod, frozen=True, kw_only=True):
    """One of a user's own."""

    def correct(self, slope: Any, weight: Any, begun: Any, shift: Any) -> Any:
        return slope / 2


class TestTable:
    def test_there_are_three(self) -> None:
        assert names(LocalMethod) == ("fedprox", "scaffold", "sgd")

    def test_one_of_a_users_own(self) -> None:
        changes = (f"training.method.type={__name__}:Damped", "training.learning_rate=0.4")
        scenario = parse_scenario('name = "x"\nparties = 6', changes)
        module = build_model(Softmax(), (INPUTS,), CLASSES, seed=3)
        before, entropy = to_vector(module), InsecureSeededEntropy(1)
        half = LocalTrainer(module, shard_of(0), scenario.training, CPU).train(before, entropy)
        plain = LocalTrainer(module, shard_of(0), Training(learning_rate=0.2), CPU)
        assert np.array_equal(half, plain.train(before, InsecureSeededEntropy(1)))

    def test_control_variates_double_the_model(self) -> None:
        scenario = parse_scenario('name = "x"\nparties = 6\ntraining.method.type = "scaffold"')
        assert len(to_vector(model_of(scenario, (4,), 3, 0))) == 2 * len(
            to_vector(build_model(scenario.model, (4,), 3, 0))
        )

    @pytest.mark.parametrize("optimiser", ["{type='adam'}", "{momentum=0.1}", "{learning_rate=1.5}"])
    def test_control_variates_are_averaged_and_not_stepped(self, optimiser: str) -> None:
        """No optimiser acts on them: they are means of gradients, and a step of one is none."""
        changes = ("training.method.type=scaffold", f"server_optimiser={optimiser}")
        made = model_of(parse_scenario('name = "x"\nparties = 6', changes), (4,), 3, 0)
        weights = sum(weight.numel() for weight in without_controls(made))
        controls = averaged_state(made).mask(dimension(made))
        assert controls.sum() == weights
        named = [
            is_control(name) for name, weight in trained_parameters(made).items() for _ in weight.reshape(-1)
        ]
        assert controls.tolist() == named

    def test_those_of_sites_too(self, tmp_path: Path) -> None:
        file = tmp_path / "first.safetensors"
        write_tensors(file, {"weight": np.zeros(3), "control/weight": np.zeros(3), "running_var": np.ones(2)})
        changes = (f"model={{type='weights', file='{file}', averaged=[]}}", "server_optimiser.type=yogi")
        made = model_of(parse_scenario('name = "x"\nparties = 6', changes), (), 0, 0)
        assert averaged_state(made) == AveragedState(((0, 3),), ((3, 5),))

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            (("training.method.type=fedprox",), "training.method.mu: is missing"),
            (("training.method.type=moon",), 'training.method.type: "moon" is not a choice'),
            (("training.method={type='fedprox', mu=0}",), "training.method.mu: expected"),
            (
                ("training.method.type=scaffold", "clustering.new_work=true"),
                r"cannot be combined with this local method, and training\.method\.type",
            ),
            (
                ("training.method.type=scaffold", "groups.count=2"),
                "cannot be combined with a local method that corrects one model, and",
            ),
            (
                ("training.method.type=scaffold", "training.dp_sgd={}"),
                r"cannot be combined with a local method, and training\.method\.type is",
            ),
            (
                (
                    "training.method.type=scaffold",
                    "aggregation.rule.type=fltrust",
                    "data.server_per_class=2",
                ),
                "fltrust needs gradients of the server itself, and",
            ),
            (
                ("training.method.type=scaffold", "model={type='weights', file='x'}"),
                "training.method: is given, but sites have their own training",
            ),
        ],
    )
    def test_refusals(self, changes: tuple[str, ...], said: str) -> None:
        with pytest.raises(ConfigError, match=said):
            check(parse_scenario('name = "x"\nparties = 12', changes))
