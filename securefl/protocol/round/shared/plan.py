"""Plan of a run: constants that all its machines share."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from msgspec.structs import replace

from securefl.base import crypto
from securefl.base.arrays import BoolArray, Ring
from securefl.base.ids import DEALER, Instance, PartyId, RunId
from securefl.base.sums import exact_sum
from securefl.methods import clustering, encoding, feasibility, server_optimisers
from securefl.methods.metrics import MetricWords, metric_words
from securefl.methods.privacy import ComponentPlan, Mechanism, mechanism_of
from securefl.protocol import kernel, messages, secure_sum
from securefl.protocol.round.shared.additions import catalogue
from securefl.protocol.round.shared.additions.addition import StartValues
from securefl.scenario import Scenario, ServerOptimiser, drawn_digest, scenario_digest


def dealer_digest(run: RunId, scenario: Scenario, roster: crypto.Roster) -> bytes:
    """Return the configuration digest of a dealer: that of parties without the model's size."""
    return crypto.digest("dealer config", run, scenario_digest(scenario), roster.digest())


@dataclass(frozen=True)
class RunPlan:
    """A checked scenario, its roster, and the model's length; without slots, so that digests are cached."""

    run: RunId
    scenario: Scenario
    limits: feasibility.DerivedLimits
    roster: crypto.Roster
    length: int
    """d: trained parameters of one model. Others are not sent, noised or weighed."""
    frozen: bytes = b""
    """Digest of frozen parameters."""
    state: server_optimisers.AveragedState = server_optimisers.NO_STATE
    """Coordinates of one model that the server averages."""

    def config_digest(self) -> bytes:
        """Return the digest that every party signs: scenario, roster, run, model, frozen parameters.

        In verified runs it covers files of own rules.
        """
        return self._config_digest

    @cached_property
    def _config_digest(self) -> bytes:
        scenario, roster = scenario_digest(self.scenario), self.roster.digest()
        frozen = (self.frozen,) if self.frozen else ()
        own = ("own rules", self.limits.own_rules) if self.limits.own_rules else ()
        state: tuple[str | int, ...] = ("averaged", *ends) if (ends := self.state.flat()) else ()
        return crypto.digest("config", self.run, scenario, roster, self.length, *frozen, *own, *state)

    def join_digest(self, name: PartyId) -> bytes:
        """Return the configuration digest that ``name`` has to join with."""
        if name == DEALER:
            return dealer_digest(self.run, self.scenario, self.roster)
        return self.config_digest()

    @cached_property
    def draw_digest(self) -> bytes:
        """Digest for the draw of clusters (:mod:`securefl.scenario.draws`)."""
        return crypto.digest(
            "config", self.run, drawn_digest(self.scenario), self.roster.digest(), self.length
        )

    @property
    def models(self) -> int:
        """k: one per task group."""
        return self.scenario.groups.count

    @property
    def total_parameters(self) -> int:
        """Parameters of all models."""
        return self.models * self.length

    @property
    def averaged(self) -> BoolArray:
        """True for coordinates that no optimiser acts on, shape ``(k d,)``."""
        return np.tile(self.state.mask(self.length), self.models)

    def sum_length(self, reclustering: int) -> int:
        """Return the length of a reclustering's vectors: d and words, or k slots' seats for counts."""
        if clustering.hides_groups(self.scenario.groups) and reclustering == clustering.COUNTS:
            return self.models * messages.SEATS
        added = exact_sum(catalogue.words_of(self.scenario).values()) if reclustering == 0 else 0
        return self.length + added

    def words_slice(self, name: str) -> slice:
        """Return an addition's slice of a vector of reclustering 0."""
        words = catalogue.words_of(self.scenario)
        start = self.length + exact_sum(list(words.values())[: list(words).index(name)])
        return slice(start, start + words[name])

    @property
    def upload_length(self) -> int:
        """Length of a training result: d, then w words of metrics."""
        return self.length + self.scenario.evaluation.words

    @property
    def metrics(self) -> MetricWords | None:
        """Words of the run's metrics, after the update in reclustering 0, or None.

        Raises:
            ConfigError: they do not fit the ring.
        """
        return metric_words(self.scenario, self.limits.ring_bits)

    @property
    def first_values(self) -> StartValues:
        """Announced values of the first round."""
        return catalogue.first_values(self.scenario)

    @property
    def fixed_point(self) -> encoding.FixedPoint:
        """Grid of encoded updates."""
        return encoding.FixedPoint(self.scenario.encoding.scale_bits, self.scenario.encoding.range)

    @property
    def mechanism(self) -> Mechanism | None:
        """Release mechanism of updates; None without privacy.

        Raises:
            ConfigError: the scenario does not determine its noise, or it cannot be drawn.
        """
        return mechanism_of(self.scenario, self.length)

    @property
    def optimiser(self) -> ServerOptimiser:
        """Server optimiser, with its learning rate scaled to the noise by ``privacy.transfer``.

        Source: Xiang et al. 2023, section 4.2: eta = eta_b sigma_b / sigma.
        """
        config, privacy = self.scenario.server_optimiser, self.scenario.privacy
        if privacy.unit == "none" or privacy.transfer is None or privacy.multiplier is None:
            return config
        rate = config.learning_rate * privacy.transfer.multiplier / privacy.multiplier
        return replace(config, learning_rate=rate)

    @property
    def published_limits(self) -> messages.Limits:
        """Limits that a party requires before any release."""
        return published_limits(self.scenario)

    @property
    def min_participants(self) -> int:
        """Hellos that a round needs."""
        return clustering.fewest_present(self.scenario)

    @property
    def majority(self) -> int:
        """Parties of a round, so that of two servers on copied disks at most one opens it."""
        return len(self.roster.parties) // 2 + 1

    def participants_of(self, present: int) -> int:
        """Return how many of the present parties take part in a round, or 0.

        A surplus that would exceed ``limits.max_cluster_size`` sits out.
        """
        return clustering.wanted_of(self.scenario, present)

    @property
    def sums(self) -> secure_sum.SecureSum:
        """Secure sum of the run, without its members' software."""
        return secure_sum.sums_of(self.scenario, self.length)

    def setup(self, place: kernel.Place, members: tuple[PartyId, ...], binding: bytes) -> secure_sum.Setup:
        """Return the setup of one attempt of one sum."""
        sums = self.scenario.secure_sum
        return secure_sum.Setup(
            instance=Instance(self.run, place.round, place.reclustering, place.cluster, place.attempt),
            members=members,
            threshold=sums.threshold,
            min_survivors=sums.min_survivors,
            binding=binding,
            length=self.sum_length(place.reclustering),
            ring_bits=self.limits.ring_bits,
            removable=self.removable_noise(self.sum_length(place.reclustering)),
            everyone=self.sums.requires_all_members,
            verified=sums.verified,
        )

    def removable_noise(self, words: int) -> secure_sum.Removable | None:
        """Return the noise, but for metrics, that released shares remove from ``words`` words, or None."""
        mechanism, bits = self.mechanism, self.limits.ring_bits
        if mechanism is None or not isinstance(mechanism.shares, ComponentPlan):
            return None
        drawn = mechanism.component
        shares = mechanism.shares

        def expand(number: int, key: bytes) -> Ring:
            values = drawn(number, key)
            return encoding.to_ring(np.concatenate((values, np.zeros(words - len(values), np.int64))), bits)

        return secure_sum.Removable(shares.planned, len(shares.stds), expand)


def published_limits(scenario: Scenario) -> messages.Limits:
    """Return the limits of a party with this scenario."""
    return messages.Limits(
        min_survivors=scenario.secure_sum.min_survivors,
        k_anonymity=scenario.secure_sum.k_anonymity,
        leakage=scenario.leakage.mode,
        colluders=clustering.leakage_colluders(scenario),
        leverage=math.floor(scenario.leakage.leverage * messages.MILLION + 0.5),
    )
