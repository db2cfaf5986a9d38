"""Training on a party's shard, or at its site."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass

import torch

from securefl.base.arrays import F32, F64
from securefl.base.entropy import Entropy
from securefl.methods import attacks, feasibility
from securefl.protocol import kernel
from securefl.protocol.round import training_entropy
from securefl.runtime import account, misbehaviour
from securefl.runtime.process.settings import ProcessSettings
from securefl.training import models, rounds, sgd, sites
from securefl.training.data import Shard, load_samples


@dataclass(frozen=True)
class OwnWork:
    """Model, data and training of a party."""

    module: torch.nn.Module
    """The model, whose parameters may be overwritten."""
    initial: F32
    """f32 ``(d,)``, before the first round."""
    data: account.OwnData
    train: Callable[[kernel.Train], F64]
    choose: Callable[[F32], int | None] | None
    log: sites.SiteLog | None = None
    holds_up: bool = False
    """True if a user's training code in this process may hold the interpreter lock."""


def own_work(settings: ProcessSettings, behaviour: misbehaviour.PartyBehaviour, own: Entropy) -> OwnWork:
    """Return the work of a party.

    Raises:
        ConfigError: data or site are refused, or the scenario's model needs the other one.
    """
    if settings.gpu_processes > 1:
        models.share_gpu(settings.gpu_processes)
    apart = settings.site_python is not None
    feasibility.check_site(settings.scenario, given=bool(settings.site), apart=apart)
    return _at_site(settings, own) if settings.site else _on_shard(settings, behaviour, own)


def _at_site(settings: ProcessSettings, own: Entropy) -> OwnWork:
    scenario = settings.scenario
    module = models.model_of(scenario, (), 0, settings.seed)
    layout = sites.Layout.of(module)
    # In this process, a site's crashes, exits and interpreter locks would show in its messages.
    required = scenario.privacy.unit == "party"
    apart = sites.SiteProcess.of_party(settings.site_python, settings.site_memory, required=required)
    python, memory = (apart.python, apart.memory) if apart else (None, settings.site_memory)
    maker = sites.maker_of(settings.site, scenario, python, memory)
    if scenario.model.by_columns:
        maker = sites.columns_of(maker, scenario.evaluation)
    site = sites.make_site(maker, settings.name, layout, scenario.model, own)
    log = sites.SiteLog(settings.out / sites.SITE_LOG.format(settings.name))
    trainer = sites.SiteTrainer(
        site, layout, scenario.stop.rounds, log, scenario.evaluation, scenario.training
    )
    data = account.OwnData.at_site(settings.site, int(site.samples))
    return OwnWork(
        module, models.to_vector(module), data, _training(trainer.update, own), None, log, apart is None
    )


def _on_shard(settings: ProcessSettings, behaviour: misbehaviour.PartyBehaviour, own: Entropy) -> OwnWork:
    scenario, seed = settings.scenario, settings.seed
    shard = load_samples(settings.data_file, scenario.data, "train")
    attacks.check_on_data(scenario.behaviours, shard.classes, shard.input_shape)
    feasibility.check_new_work(scenario, len(shard.y))
    module = models.model_of(scenario, shard.input_shape, shard.classes, seed, tokens=shard.tokens)
    device = models.pick_device(settings.device or scenario.training.device)
    trainer = rounds.ShardTrainer(module, shard, scenario.training, device, behaviour.data, behaviour.poisons)
    choose = _choosing(module, shard, device) if scenario.groups.count > 1 else None
    initial = sgd.initial_models(scenario, module, shard, seed)
    return OwnWork(module, initial, account.OwnData.of(shard), _training(trainer.update, own), choose)


def _training(update: rounds.Trainer, own: Entropy) -> Callable[[kernel.Train], F64]:
    def train(asked: kernel.Train) -> F64:
        models.limit_threads()
        entropy = training_entropy(own, asked.round, asked.work)
        return update(asked.round, asked.params, asked.carry, entropy, asked.samples)

    return train


def _choosing(module: torch.nn.Module, shard: Shard, device: torch.device) -> Callable[[F32], int | None]:
    # A separate module: a party may choose while the last training still runs.
    chooser = sgd.Chooser(deepcopy(module), shard, device)

    def choose(params: F32) -> int | None:
        models.limit_threads()
        return chooser.choose(params)

    return choose
