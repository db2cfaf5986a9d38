"""Rows of a plan: predicted figures of a design."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from securefl.lab.planning import frames, freezing, noise
from securefl.lab.planning.demand import PlanRequest
from securefl.lab.planning.design import Design, Shape, kept_of
from securefl.lab.planning.drafting import draft
from securefl.lab.planning.noise import multiplier_of
from securefl.lab.planning.resilience import colluders_together, p_clean, p_exceeded
from securefl.lab.planning.traffic import PlannedTraffic, traffic
from securefl.lab.planning.verifiers import VerifierTraffic, verifier_traffic, verifiers_of
from securefl.methods import attacks, clustering, feasibility, privacy, robust


def sampling_variance(demand: PlanRequest, design: Design) -> float:
    """Return the variance of the aggregate around the honest mean, over that of one honest update.

    SHARE (Velicheti et al. 2021), Theorems 3 and 7, for a rule that picks b clean clusters independently of
    their content: (n - q - b m) / (R (n - q - 1) b m). It only compares plans: real rules pick otherwise, and
    medians (b = 1) do better on average.
    """
    clusters, benign = demand.parties // design.shape.size, demand.parties - demand.liars
    kept = kept_of(design.rule, clusters)
    if kept == clusters and not demand.liars:
        return 0.0
    picked = min(kept, benign // design.shape.size)
    if benign < 2 or picked < 1:
        return 1.0
    factor = clustering.exact_variance_factor(
        demand.parties, demand.liars, design.shape.size, picked, design.shape.reclusterings
    )
    return factor / (picked * design.shape.size)


def noise_deviation(demand: PlanRequest, design: Design, multiplier: float) -> float:
    """Return the standard deviation of a coordinate's noise in the aggregate, over one update's sensitivity.

    Without dropouts, each member of b picked clusters of m keeps variance multiplier^2 / h (dropout-exact: /
    (m - f)). Noise added once averages over reclusterings down to that of the mean of all parties, at best.
    """
    clusters, m = demand.parties // design.shape.size, design.shape.size
    picked = kept_of(design.rule, clusters) * m
    sharers = m - design.colluders if design.noise == "dropout-exact" else design.sharers
    one = multiplier**2 / sharers
    if design.shape.openings == 1:
        return float((one / (picked * design.shape.works)) ** 0.5)
    floor = 1 / demand.parties
    return float((one * (floor + (1 / picked - floor) / design.shape.openings)) ** 0.5)


_PER_SUM = 2.0e-3
_PER_MEMBER = 6.5e-4
"""Per member: two X25519 agreements, two verifications, two boxes, shares and their digests, s."""
_PER_MASK_BYTE = 0.45e-9
"""Per byte and member: AES-256-CTR and one addition, s."""
_PER_BYTE = 3.5e-9
"""Per signed byte: SHA-256 and copies, s."""
_PER_ENCODED = 25e-9
"""Per coordinate of an update: clip, rounding and ring, s."""
_PER_NOISE = 35e-9
"""Per draw of noise, s."""
_PER_SIGNATURE = 1.7e-4
"""Per relayed statement of another party: verify and decode, s."""
_PER_OPENED_BYTE = 2.5e-9
"""Per byte of the vectors in a proof of an opening: receive, hash, unmask and add, s."""
_PER_STEPPED = 90e-9
"""Per parameter of a repeated step: optimiser and digests, s."""
_PER_STEPPED_SUM = 20e-9
"""Per coordinate of each sum of a repeated step: receive, open, hash, decode, median, s."""


@dataclass(frozen=True, slots=True)
class Burden:
    """Factors of a round's cost besides its shape."""

    parties: int
    """N: as many hellos and nonces are verified."""
    parameters: int
    """d."""
    word: int
    """Bytes of a ring element: 4 or 8."""
    signatures: int
    """Number in a certificate; 0 without certificates."""
    noisy: int
    """Draws of noise for each coordinate."""
    attests: int = 0
    """Relayed with an announcement; 0 for unverified rounds."""


def cpu_seconds(shape: Shape, members: int, burden: Burden) -> float:
    """Return the CPU seconds of a party in a round without dropouts."""
    vector = burden.parameters * burden.word
    sums = _PER_SUM + members * (_PER_MEMBER + vector * _PER_MASK_BYTE) + vector * _PER_BYTE
    updates = burden.parameters * (_PER_ENCODED + burden.noisy * _PER_NOISE)
    relayed = (2 * burden.parties + burden.signatures + burden.attests) * _PER_SIGNATURE
    return shape.reclusterings * sums + shape.works * updates + relayed


@dataclass(frozen=True, slots=True)
class VerifierCpu:
    """CPU seconds of a verifier beyond :func:`cpu_seconds`; fitted to ``bench verified``."""

    opening: float
    """To receive and repeat the opening of a cluster."""
    step: float
    """To receive and repeat the step, by the median; rules that measure distances take longer."""


def verifier_seconds(members: int, sums: int, burden: Burden) -> VerifierCpu:
    """Return the CPU seconds of verifiers in a round without dropouts."""
    vector = burden.parameters * burden.word
    opening = members * (2 * _PER_SIGNATURE + vector * _PER_OPENED_BYTE)
    return VerifierCpu(opening, burden.parameters * (_PER_STEPPED + sums * _PER_STEPPED_SUM))


FREEZES = 2_000
"""Simulated freezes for a cascade: standard error below 1.1 percentage points."""
DRAWS = 1
_RUN = "run-00000000"
_RARE = 1e-5
"""Probability of a lost cluster below which no cascade is simulated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Row of a plan. Probabilities are per round unless stated otherwise."""

    design: Design
    clusters: int
    """C."""
    ring_bits: Literal[32, 64]
    withstood: int
    p_clean: float
    """P(the rule withstands the spoiled clusters in all reclusterings)."""
    p_aborted: float
    """P(one of the smallest clusters is lost to its own dropouts)."""
    p_lost: float
    """P(any cluster is lost to its own dropouts)."""
    p_cascade: float | None = None
    """P(a lost cluster costs another one), simulated; None if not yet."""
    p_alone: float
    """P(all mates of a given party collude in some opening of the run)."""
    p_exceeded: float
    """P(more than f of them do); with shared noise, for the fewest parties of a round."""
    enough: int | None
    """R*: reclusterings of one update that typically expose all parties (or each atom's sum)."""
    dimensions: int
    """Dimension that no sum shows; as many colluders remove it."""
    exposed: float | None = None
    """With the server and q random colluders, by the ledger; None if not computed."""
    admitted: float | None = None
    """Reclusterings of R that parties open; None if not computed."""
    leverage: float
    """Mean over parties, without colluders."""
    highest: float | None = None
    """Largest of any party with q random colluders, by the ledger; None if not computed."""
    multiplier: float
    """Noise in an opened sum that the adversary does not know, over the sensitivity; 0 without privacy."""
    noise: float
    """Standard deviation of the aggregate's noise, over the sensitivity."""
    variance: float
    """Variance of the aggregate around the honest mean, over that of one update."""
    traffic: PlannedTraffic
    """Bytes per party and round, without verification."""
    verifiers: VerifierTraffic | None
    """In addition; None for unverified rounds."""
    crypten: Mapping[frames.SumKind, PlannedTraffic]
    """With CrypTen's sums, plain and validated, if the settings permit them."""
    cpu: float
    """Seconds per party and round, without training and verification."""
    verifier_cpu: VerifierCpu | None
    committee: int

    @property
    def bytes(self) -> int:
        """Mean bytes of a party and round, both ways, with verification."""
        return self.traffic.total + (0 if self.verifiers is None else self.verifiers.mean.total)

    @property
    def share(self) -> float:
        """Noise multiplier of a party's share of the noise."""
        return self.multiplier / math.sqrt(self.design.sharers)


def predict(demand: PlanRequest, design: Design, data: str) -> Row:
    """Return the row of a design, without results of simulation and ledger.

    Raises:
        ConfigError: the loader refuses the row's scenario.
    """
    shape, n = design.shape, demand.parties
    clusters = n // shape.size
    multiplier = multiplier_of(demand, shape.works) if design.noise is not None else 0.0
    scenario = draft(demand, design, data, multiplier or None)
    limits = feasibility.check(scenario)
    word, components = limits.ring_bits // 8, privacy.components_of(scenario)
    feasibility.check_proofs(scenario, limits.ring_bits, demand.parameters)
    members = round(n / clusters)
    verifiers = verifiers_of(scenario, members)
    cohort = frames.Cohort(
        run=_RUN,
        party=attacks.party_names(n)[-1],
        parties=n,
        members=members,
        reclusterings=shape.reclusterings,
        clusters=clusters,
        parameters=demand.parameters,
        word=word,
        min_survivors=design.min_survivors,
        k=demand.k,
        quorum=limits.quorum,
        components=components,
        verifiers=verifiers,
    )
    noisy = 0 if design.noise is None else 1 + components
    signatures = n if limits.quorum is not None else 0
    burden = Burden(n, demand.parameters, word, signatures, noisy, cohort.attests)
    withstood = robust.breakdown(design.rule, clusters)
    return Row(
        design=design,
        clusters=clusters,
        ring_bits=limits.ring_bits,
        withstood=withstood,
        p_clean=p_clean(demand, shape, withstood),
        p_aborted=noise.p_cluster_lost(demand, shape, design.min_survivors),
        p_lost=noise.p_round_loses(demand, shape, design.min_survivors),
        p_alone=limits.p_alone_in_run,
        p_exceeded=max(p_exceeded(demand, shape, design.colluders), limits.p_shares_fail),
        enough=clustering.r_star(shape.units(n), clusters),
        dimensions=freezing.dimensions_left(n, shape, clusters),
        leverage=freezing.mean_leverage(n, shape, clusters),
        multiplier=multiplier,
        noise=noise_deviation(demand, design, multiplier),
        variance=sampling_variance(demand, design),
        traffic=traffic(cohort),
        verifiers=verifier_traffic(cohort),
        crypten=dict(_with_crypten(cohort, design, smallest=min(shape.sizes(n)))),
        cpu=cpu_seconds(shape, members, burden),
        verifier_cpu=None if verifiers is None else verifier_seconds(members, cohort.sums, burden),
        committee=0 if verifiers is None else verifiers.committee,
    )


def _with_crypten(
    cohort: frames.Cohort, design: Design, *, smallest: int
) -> Iterator[tuple[frames.SumKind, PlannedTraffic]]:
    if design.min_survivors < 2:
        return
    yield "crypten", traffic(replace(cohort, kind="crypten"))
    several = design.shape.openings > 1
    if (
        design.noise is None
        and not several
        and smallest >= feasibility.LEAST_SIZE
        and cohort.members <= feasibility.largest_checked(cohort.projections)
    ):
        yield "validated", traffic(replace(cohort, kind="validated", word=8))


def looked_at(demand: PlanRequest, row: Row) -> Row:
    """Return the row with results of simulated freezes and of the ledger on drawn clusters."""
    shape, n = row.design.shape, demand.parties
    cascade = 0.0
    if shape.reclusterings > 1 and row.p_lost > _RARE:
        cascade = noise.freezes(demand, shape, row.design.min_survivors, FREEZES).p_cascade
    still = replace(shape, reclusterings=shape.openings, new_work=False)
    reckoned = colluders_together(demand, shape, row.design.colluders)
    found = freezing.simulate_disclosure(n, demand.colluders, still, reckoned, demand.k, DRAWS)
    return replace(
        row,
        p_cascade=cascade,
        exposed=found.exposed,
        admitted=found.admitted,
        highest=found.highest,
    )


def is_open(row: Row) -> bool:
    """Return True if parties open all reclusterings without gain to colluders, by the ledger so far.

    In one opening, or with atoms, colluders expose a party only if they are all of its mates; ``p_exceeded``
    bounds that.
    """
    shape = row.design.shape
    if shape.openings > 1 and shape.atoms == 1 and row.exposed:
        return False
    return row.admitted is None or row.admitted >= shape.openings
