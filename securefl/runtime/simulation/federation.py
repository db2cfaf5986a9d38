"""A simulated federation, of a run's scenario, seed and data."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from securefl.base import crypto, entropy
from securefl.base.arrays import F32
from securefl.base.errors import UsageError
from securefl.base.ids import PartyId, RunId
from securefl.methods import attacks, feasibility, privacy
from securefl.protocol.round import RunPlan, UpdateId, party_entropy, try_draws
from securefl.runtime import misbehaviour
from securefl.runtime.simulation import holdings
from securefl.runtime.simulation.limits import check_simulable
from securefl.runtime.simulation.party import SimulatedParty
from securefl.runtime.simulation.trainers import Trainings
from securefl.scenario import Behaviour, CoalitionAttack, Scenario
from securefl.training import models, sgd
from securefl.training.data import Dataset, load_data
from securefl.training.sites import SiteLog, SiteMaker


class SimulatedCoalition:
    """Channels of coalitions in a simulation, and the knowledge of an omniscient attacker.

    It holds the updates of one round: 8 d bytes for each party asked.
    """

    def __init__(self, cast: Mapping[PartyId, Sequence[Behaviour]]) -> None:
        self._cast = cast
        self._trainings: Trainings | None = None
        self._round = -1
        self._known: dict[tuple[CoalitionAttack, int], misbehaviour.Knowledge] = {}
        shown = [behaviour for behaviours in cast.values() for behaviour in behaviours]
        self._asks_everybody = any(map(attacks.is_omniscient, shown))

    def asks(self, party: PartyId) -> bool:
        """Return True if it may request the update of ``party``."""
        return self._asks_everybody or any(map(attacks.shares_updates, self._cast.get(party, ())))

    def connect(self, trainings: Trainings) -> None:
        """Set the source of updates. Trainers are made after the behaviours, which need :meth:`insight`."""
        self._trainings = trainings

    def insight(self, attack: CoalitionAttack, occasion: UpdateId) -> misbehaviour.Knowledge:
        """Return the attackers' knowledge for an update. The first request trains all parties involved."""
        if occasion.round != self._round:
            self._round, self._known = occasion.round, {}
        key = (attack, occasion.work)
        if key not in self._known:
            if self._trainings is None:
                raise UsageError(
                    "cannot train for Byzantine parties: the federation was not connected to their trainings"
                )
            trainings = self._trainings.of(occasion, misbehaviour.tellers(attack, self._cast, occasion))
            self._known[key] = misbehaviour.Knowledge(
                {party: update for party, update in trainings if update is not None}
            )
        return self._known[key]


@dataclass(frozen=True, slots=True, eq=False)
class SimulatedFederation:
    """All parties and the server's model and test set."""

    plan: RunPlan
    parties: Mapping[PartyId, SimulatedParty]
    """Parties in the order of their names."""
    trainings: Trainings
    module: torch.nn.Module
    evaluator: sgd.Evaluator | sgd.GroupEvaluator | sgd.NoTestSet
    initial: F32
    consult: holdings.Consult | None = None
    data: str = ""
    vectorised: bool = False
    """True if training differs from a run's in the rounding of floating-point sums."""
    note: str = ""
    choosers: Mapping[PartyId, sgd.Chooser] = field(default_factory=dict)

    @property
    def training(self) -> str:
        """Description of the training, which determines a simulation's bits."""
        how = "vectorised over parties" if self.vectorised else "party by party"
        return f"{how} on {next(self.module.parameters()).device.type}, {self.data}"


def assemble(
    scenario: Scenario,
    run: RunId,
    seed: int,
    data_dir: Path | None = None,
    device: str | None = None,
    *,
    exact: bool = False,
    threads: int = 1,
    secret: entropy.Entropy | None = None,
    dataset: Dataset | None = None,
    sites: SiteMaker | None = None,
    site_log: Callable[[PartyId], SiteLog] = lambda _party: SiteLog(None),
) -> SimulatedFederation:
    """Split the data, draw the roster and build the model, as the launcher and processes of a run do.

    Everything follows from ``seed``, as in a run with insecure seeded entropy, unless ``secret`` is given.
    This process uses one torch thread per operation, as a run does: their number would change the bits.

    Args:
        scenario: the scenario.
        run: id of the run, which determines the clusters.
        seed: the public seed.
        data_dir: folder of the data sets.
        device: overrides ``training.device``.
        exact: train party by party, to the bits of a run.
        threads: concurrent parties, or groups of them, on a CPU; no result depends on it.
        secret: entropy of batches, rounding and noise: then results are as private as in a run.
        dataset: replaces the scenario's data set.
        sites: makes each party's site, by name, if sites train.
        site_log: log of a party's site.

    Raises:
        ConfigError: the scenario is infeasible or needs messages; the data set is missing or cannot be split;
            sites are missing, or not wanted; there is no such device.
    """
    feasibility.check(scenario)
    check_simulable(scenario)
    feasibility.check_site(scenario, given=sites is not None)
    try_draws(scenario)
    models.limit_threads()
    where = models.pick_device(device or scenario.training.device)
    names = attacks.party_names(scenario.parties)
    root = entropy.InsecureSeededEntropy(seed)
    hidden = root if secret is None else secret
    if sites is None:
        dataset = load_data(scenario.data, data_dir) if dataset is None else dataset
        held = holdings.held_by_split(scenario, dataset, seed, where, exact=exact, threads=threads)
    else:
        held = holdings.held_by_sites(scenario, sites, seed, site_log, hidden)
    behaviours = attacks.behaviours_of(scenario, seed)
    module = held.module
    fewest = min(held.samples.values())
    if sites is None:
        feasibility.check_new_work(scenario, fewest)
    scenario = privacy.settle(scenario, models.dimension(module), fewest)
    _, roster = crypto.make_identities(names, root)
    coalition = SimulatedCoalition(behaviours)
    cast_as = {
        name: misbehaviour.party_behaviour(
            behaviours.get(name, ()), name, party_entropy(root, name), coalition.insight
        )
        for name in names
    }
    declared = {name: cast_as[name].declared_samples(held.samples[name]) for name in names}
    parties = {name: SimulatedParty(name, cast_as[name], declared[name], root, hidden) for name in names}
    crew = held.crew(cast_as, hidden)
    trainings = Trainings(crew.train, coalition.asks)
    coalition.connect(trainings)
    limits = feasibility.check(scenario)
    feasibility.check_proofs(scenario, limits.ring_bits, models.dimension(module))
    plan = RunPlan(
        run,
        scenario,
        limits,
        roster,
        models.dimension(module),
        models.frozen_digest(module),
        models.averaged_state(module),
    )
    # Noise that cannot be drawn is refused here.
    _ = plan.mechanism
    return SimulatedFederation(
        plan,
        parties,
        trainings,
        module,
        held.evaluator,
        held.initial,
        held.consult(root),
        held.title,
        crew.vectorised,
        crew.note,
        held.choosers,
    )
