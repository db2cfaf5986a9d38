"""Holdings of a simulation: a split data set, or sites."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

from securefl.base import entropy
from securefl.base.arrays import F32, F64
from securefl.base.ids import PartyId
from securefl.methods import attacks, robust
from securefl.protocol.round import party_entropy, server_entropy
from securefl.runtime import misbehaviour
from securefl.runtime.simulation.trainers import ChosenTrainers, choose_trainers, one_by_one
from securefl.scenario import Scenario
from securefl.training import models, sgd
from securefl.training.data import Dataset, Shard, shards_of, split, turns_of
from securefl.training.sites import Layout, SiteLog, SiteMaker, SiteTrainer, columns_of, make_site

Crew = Callable[[Mapping[PartyId, misbehaviour.PartyBehaviour], entropy.Entropy], ChosenTrainers]
"""Makes trainers from all parties' behaviours and the root of their randomness."""
Consult = Callable[[int, F32, tuple[int, ...]], tuple[F64, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class Holdings:
    """The model, and the data of all parties."""

    module: torch.nn.Module
    """The server's copy, whose parameters may be overwritten."""
    initial: F32
    """Parameters before the first round, shape (d,)."""
    samples: Mapping[PartyId, int]
    crew: Crew
    evaluator: sgd.Evaluator | sgd.GroupEvaluator | sgd.NoTestSet
    title: str
    consult: Callable[[entropy.Entropy], Consult | None] = lambda _root: None
    """Makes ``Consult`` from the root of the run's randomness; None if no rule needs it."""
    choosers: Mapping[PartyId, sgd.Chooser] = field(default_factory=dict)
    """By party; empty with one task group."""


def held_by_split(
    scenario: Scenario, dataset: Dataset, seed: int, where: torch.device, *, exact: bool, threads: int
) -> Holdings:
    """Split ``dataset`` as the launcher of a run does.

    Raises:
        ConfigError: it cannot be split, or does not fit the model.
    """
    names = attacks.party_names(scenario.parties)
    attacks.check_on_data(scenario.behaviours, dataset.classes, dataset.input_shape)
    rows = split(dataset, scenario.data, names, seed, attacks.behaviours_of(scenario, seed).keys())
    shards, test, server = shards_of(dataset, rows, turns_of(scenario.groups, names))
    module = models.model_of(scenario, test.input_shape, test.classes, seed, tokens=test.tokens)

    def crew(
        behaviours: Mapping[PartyId, misbehaviour.PartyBehaviour], root: entropy.Entropy
    ) -> ChosenTrainers:
        model, training = scenario.model, scenario.training
        return choose_trainers(
            model, module, shards, behaviours, training, where, root, exact=exact, threads=threads
        )

    def consult(root: entropy.Entropy) -> Consult | None:
        return _consult(scenario, server, module, where, root)

    return Holdings(
        module,
        sgd.initial_models(scenario, module, test, seed),
        {name: len(shard.y) for name, shard in shards.items()},
        crew,
        sgd.evaluator_of(scenario.groups, module, test, where, attacks.trigger_of(scenario.behaviours)),
        dataset.title or dataset.name,
        consult,
        {n: sgd.Chooser(module, s, where) for n, s in shards.items()} if scenario.groups.count > 1 else {},
    )


def held_by_sites(
    scenario: Scenario,
    maker: SiteMaker,
    seed: int,
    log: Callable[[PartyId], SiteLog],
    hidden: entropy.Entropy,
) -> Holdings:
    """Create one site per party, as its process would. They train one after the other.

    Raises:
        ConfigError: the initial weights, or a site, are refused.
    """
    module = models.model_of(scenario, (), 0, seed)
    layout, rounds = Layout.of(module), scenario.stop.rounds
    if scenario.model.by_columns:
        maker = columns_of(maker, scenario.evaluation)
    sites = {
        name: make_site(maker, name, layout, scenario.model, party_entropy(hidden, name))
        for name in attacks.party_names(scenario.parties)
    }
    trainers = {
        name: SiteTrainer(site, layout, rounds, log(name), scenario.evaluation, scenario.training).update
        for name, site in sites.items()
    }

    def crew(_cast: Mapping[PartyId, misbehaviour.PartyBehaviour], root: entropy.Entropy) -> ChosenTrainers:
        note = "training: at sites, one after the other, with the seeds of a run"
        if scenario.privacy.unit == "party":
            note += "; all in this process, where a run has one for each site"
        return ChosenTrainers(one_by_one([trainers], root), vectorised=False, note=note)

    samples = {name: int(site.samples) for name, site in sites.items()}
    return Holdings(module, models.to_vector(module), samples, crew, sgd.NoTestSet(), "sites")


def _consult(
    scenario: Scenario,
    server: Shard | None,
    module: torch.nn.Module,
    where: torch.device,
    root: entropy.Entropy,
) -> Consult | None:
    rule = robust.server_rule(scenario.aggregation.rule)
    if rule is None or server is None:
        return None
    own = sgd.ServerGradient(module, server, rule, scenario.training, where, server_entropy(root))
    return own.gradients
