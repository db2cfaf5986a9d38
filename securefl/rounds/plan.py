"""What all machines of one run know and never changes."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from securefl.config.derived import Limits
from securefl.config.resolved import scenario_digest
from securefl.config.scenario import Scenario, ServerOptimiser
from securefl.config.sizes import cluster_sizes, participants_of
from securefl.crypto.labels import digest
from securefl.crypto.roster import Roster
from securefl.encoding.fixed_point import FixedPoint
from securefl.encoding.ring import to_ring
from securefl.ids import Instance, PartyId, RunId
from securefl.kernel.events import Place
from securefl.messages.rounds import Limits as PublishedLimits
from securefl.privacy.components import ComponentPlan
from securefl.privacy.mechanism import Mechanism, mechanism_of
from securefl.secagg.removal import Removable
from securefl.secagg.setup import Setup


@dataclass(frozen=True, slots=True)
class Plan:
    """A checked scenario, its roster, and the length of the model's parameter vector."""

    run: RunId
    scenario: Scenario
    limits: Limits
    roster: Roster
    length: int
    """d: parameters of the model."""

    def config_digest(self) -> bytes:
        """Return what every party signs as its configuration: scenario, roster, run and model size."""
        return digest("config", self.run, scenario_digest(self.scenario), self.roster.digest(), self.length)

    @property
    def fixed_point(self) -> FixedPoint:
        """The grid of encoded updates."""
        return FixedPoint(self.scenario.encoding.scale_bits, self.scenario.encoding.range)

    @property
    def mechanism(self) -> Mechanism | None:
        """How updates are noised; None without privacy.

        Raises:
            ConfigError: the scenario's noise does not follow from it, or cannot be drawn.
        """
        return mechanism_of(self.scenario, self.length)

    @property
    def optimiser(self) -> ServerOptimiser:
        """The server's, its learning rate scaled to the run's noise where ``privacy.transfer`` says so.

        Source: Xiang et al. 2023, section 4.2: eta = eta_b sigma_b / sigma.
        """
        config, privacy = self.scenario.server_optimiser, self.scenario.privacy
        if privacy.unit == "none" or privacy.transfer is None or privacy.multiplier is None:
            return config
        rate = config.learning_rate * privacy.transfer.multiplier / privacy.multiplier
        return replace(config, learning_rate=rate)

    @property
    def published_limits(self) -> PublishedLimits:
        """What a party with this configuration demands before it releases anything."""
        sums = self.scenario.secure_sum
        return PublishedLimits(
            min_survivors=sums.min_survivors,
            k_anonymity=sums.k_anonymity,
            leakage=self.scenario.leakage.mode,
        )

    @property
    def fewest(self) -> int:
        """Parties below which there is no round: one cluster, and the signatures of a certificate.

        The second keeps a server from showing a party a round in which nearly everybody else colludes.
        """
        return max(self.scenario.clustering.size, self.limits.quorum or 0)

    def wanted(self, present: int) -> int:
        """Return how many of the present parties take part in a round; 0 when there can be none.

        It is the largest number, up to the planned one, whose clusters stay within
        ``limits.max_cluster_size``: fewer parties make fewer and so larger clusters, in which two groups of
        ``threshold`` members may share no honest one. The surplus sits the round out.
        """
        size, largest = self.scenario.clustering.size, self.limits.max_cluster_size
        most = min(participants_of(self.scenario), present)
        feasible = (n for n in range(most, self.fewest - 1, -1) if max(cluster_sizes(n, size)) <= largest)
        return next(feasible, 0)

    def setup(self, place: Place, members: tuple[PartyId, ...], binding: bytes) -> Setup:
        """Return one attempt of one secure sum of this run."""
        sums = self.scenario.secure_sum
        return Setup(
            instance=Instance(self.run, place.round, place.reclustering, place.cluster, place.attempt),
            members=members,
            threshold=sums.threshold,
            min_survivors=sums.min_survivors,
            binding=binding,
            length=self.length,
            ring_bits=self.limits.ring_bits,
            removable=self.removable,
        )

    @property
    def removable(self) -> Removable | None:
        """The noise that released shares take out of a sum again; None without dropout-exact shares."""
        mechanism, bits = self.mechanism, self.limits.ring_bits
        if mechanism is None or not isinstance(mechanism.shares, ComponentPlan):
            return None
        drawn = mechanism.component
        shares = mechanism.shares
        return Removable(
            shares.planned, len(shares.stds), lambda number, key: to_ring(drawn(number, key), bits)
        )
