"""How often the host waits for the device: as often for many batches and parties as for few.

Collected by ``test_fake_device.py`` only: no other device counts its waits.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from securefl.base.entropy import InsecureSeededEntropy
from securefl.methods.robust.rules.inner_product import InnerProduct
from securefl.scenario import DpSgd, Training
from securefl.training.batched import DenseFleet, DpFleet, DpJob, Job, LayerFleet
from securefl.training.data.pool import pool_samples
from securefl.training.dpsgd.trainer import DpSgdTrainer
from securefl.training.models.catalogue import build_model
from securefl.training.models.flatten import dimension, to_vector
from securefl.training.models.parts.mlp import Mlp
from securefl.training.sgd.evaluation import Evaluator
from securefl.training.sgd.server_gradient import ServerGradient
from securefl.training.sgd.trainer import LocalTrainer
from securefl.training.sites.site import RoundContext
from securefl.training.sites.torch_site import TorchSite
from tests import fake_device as fake
from tests.contracts.devices import CLASSES, MAPPED_NORM, SHAPE, device, seed_of, shard_of, smooth_model

__all__ = ["device"]

COPY = "aten::_to_copy"
SIZES = (9, 30, 17, 12, 25, 8)


@pytest.mark.parametrize("epochs", [1, 10])
def test_training(epochs: int, device: torch.device) -> None:
    start, config = to_vector(smooth_model()), Training(batch_size=8, epochs=epochs, learning_rate=0.01)
    trainer = LocalTrainer(smooth_model(), shard_of(43), config, device)
    with fake.waits_of() as waits:
        trainer.train(start, InsecureSeededEntropy(1))
    assert waits == [COPY], "the result"


@pytest.mark.parametrize("samples", [100, 2500])
def test_evaluation(samples: int, device: torch.device) -> None:
    start = to_vector(smooth_model())
    evaluator = Evaluator(smooth_model(), shard_of(samples), device)
    with fake.waits_of() as waits:
        evaluator.evaluate(start)
    assert waits == [COPY], "accuracy and loss"


@pytest.mark.parametrize("samples", [100, 1500])
def test_gradient_of_the_server(samples: int, device: torch.device) -> None:
    start = to_vector(smooth_model())
    asks = ServerGradient(
        smooth_model(),
        shard_of(samples),
        InnerProduct(gamma=0.5),
        Training(),
        device,
        InsecureSeededEntropy(1),
    )
    with fake.waits_of() as waits:
        asks.gradients(0, start, (0,))
    assert waits == [COPY]


@pytest.mark.parametrize("parties", [1, 6])
@pytest.mark.parametrize("momentum", [0.0, 0.3])
def test_steps_of_dp_sgd(parties: int, momentum: float, device: torch.device) -> None:
    module, dp = smooth_model(), DpSgd(momentum=momentum, carry="own")
    start = to_vector(module)
    pool, portions = pool_samples([(s.x, s.y) for s in map(shard_of, SIZES[:parties])], device)
    fleet = DpFleet(module, pool, SHAPE, Training(batch_size=8), dp)
    carry = np.full(dimension(module), 0.01)
    jobs = [DpJob(portion, InsecureSeededEntropy(1), carry) for portion in portions]
    with fake.waits_of() as waits:
        assert len(list(fleet.updates(start, jobs))) == parties
    lengths, sums = 1, 1
    products, carries = (1, 1) if momentum else (0, 0)
    assert waits == [COPY] * (lengths + sums + products + carries)


def test_a_step_of_one_party(device: torch.device) -> None:
    module = smooth_model()
    start = to_vector(module)
    trainer = DpSgdTrainer(module, shard_of(30), Training(batch_size=8), DpSgd(), device)
    with fake.waits_of() as waits:
        trainer.update(start, None, InsecureSeededEntropy(1))
    assert waits == [COPY, COPY], "lengths, and the sum"


@pytest.mark.parametrize("kind", ["dense", "layers"])
@pytest.mark.parametrize("epochs", [1, 5])
def test_fleets(kind: str, epochs: int, device: torch.device) -> None:
    config = Training(batch_size=8, epochs=epochs)
    pool, portions = pool_samples([(s.x, s.y) for s in map(shard_of, SIZES)], device)
    jobs = [Job(portion, seed_of(party)) for party, portion in enumerate(portions)]
    model = Mlp(hidden=(5,))
    module = build_model(model, SHAPE, CLASSES, 3) if kind == "dense" else smooth_model(normed=MAPPED_NORM)
    start = to_vector(module)
    widths = model.vectorised_widths(SHAPE, CLASSES)
    assert widths is not None
    fleet = DenseFleet(widths, pool, config) if kind == "dense" else LayerFleet(module, pool, SHAPE, config)
    with fake.waits_of() as waits:
        assert len(list(fleet.train(start, jobs))) == len(SIZES)
    assert waits == [COPY], "one chunk"


@pytest.mark.parametrize("epochs", [1, 3])
def test_a_round_of_a_site(epochs: int, device: torch.device) -> None:
    shard = shard_of(40)
    data = TensorDataset(torch.from_numpy(shard.x), torch.from_numpy(shard.y))
    site = TorchSite(
        smooth_model(),
        DataLoader(data, batch_size=8),
        torch.nn.functional.cross_entropy,
        lambda weights: torch.optim.SGD(weights, 0.05),
        epochs=epochs,
        personal=["0.*"],
        device=device,
    )
    given = site.parameters()
    with fake.waits_of() as waits:
        site.fit(given, RoundContext(0, 1, 7))
    finite_before_and_after, losses, parameters = 3, epochs, 1
    assert waits == [COPY] * (finite_before_and_after + losses + parameters)


def test_waits_are_seen(device: torch.device) -> None:
    """What this file rests on."""

    def reads() -> Iterator[object]:
        numbers = torch.ones(3, device=device)
        yield numbers.cpu
        yield lambda: float(numbers[0])
        yield lambda: bool((numbers > 0).all())
        yield numbers[0].item
        yield lambda: torch.zeros(3).copy_(numbers)
        yield lambda: torch.equal(numbers, numbers)

    for read in reads():
        with fake.waits_of() as waits:
            read()  # type: ignore[operator]
        assert len(waits) == 1, read
    with pytest.raises(RuntimeError, match="one device"):
        torch.ones(3, device=device) + torch.ones(3)
