"""Demands on a run, and the refusal of impossible ones."""

import math
from dataclasses import dataclass
from typing import Literal

from securefl.base.errors import ConfigError
from securefl.methods import clustering, privacy
from securefl.protocol import messages

MAX_PARTIES = 1_000
"""Most parties: more take minutes for probabilities and ledger."""
MAX_RECLUSTERINGS = 64
LEAST_DELTA = 1e-12

Case = Literal["worst", "average"]
"""Placement of Byzantine parties: the most harmful, or random."""
Server = Literal["curious", "active"]
Verify = Literal["off", "committee", "all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """Situation of a run and the guarantees that a plan must give.

    >>> import securefl
    >>> securefl.PlanRequest(parties=60, byzantine=0.1).liars
    6
    """

    parties: int
    """N, number of parties."""
    colluders: int = 0
    """q: parties that collude with the server over the whole run."""
    byzantine: float = 0.0
    """Share of parties that send arbitrary messages."""
    case: Case = "average"
    dropout: float = 0.0
    """Probability, per party and round, that a party which has dealt its shares sends no masked input."""
    k: int = 2
    """Honest members that hide each member of an opened sum."""
    parameters: int = 10_000
    """d: length of the model's parameter vector."""
    rounds: int = 20
    """T, number of rounds."""
    server: Server = "curious"
    verify: Verify = "committee"
    """Parties that repeat a round's step, if the server is active and parties may collude."""
    epsilon: float | None = None
    """Epsilon of the whole run; None for no differential privacy."""
    delta: float | None = None
    """None for units ^ -1.1, as ``privacy.delta = "auto"``."""
    unit: privacy.Unit = "record"
    records: int = 600
    """Fewest records of any party (record level)."""
    batch: int = 16
    """Expected records in a batch (record level)."""
    clean: float = 0.95
    """Least probability that a rule withstands the Byzantine clusters of a round, in all reclusterings."""
    lost: float = 0.05
    """Largest probability that a round loses a cluster to dropouts."""
    risk: float = 0.01
    """Largest probability that a given party has more than f colluding mates in any opening of the run."""
    size: int | None = None
    """Cluster size m, if given."""
    reclusterings: int | None = None
    """Reclusterings R, if given."""
    atoms: int | None = None
    """Members of an atom, if given; 1 for no atoms."""

    @property
    def units(self) -> int:
        """Units that epsilon protects: records of the smallest party, or parties."""
        return self.records if self.unit == "record" else self.parties

    @property
    def verified(self) -> bool:
        """True if rounds are verified: an active server and a colluder."""
        return self.server == "active" and self.verify != "off" and self.colluders > 0

    @property
    def liars(self) -> int:
        """Number of Byzantine parties, rounded up."""
        return math.ceil(self.byzantine * self.parties - 1e-9)


def check_demand(demand: PlanRequest) -> None:
    """Refuse invalid situations and demands that no parameters meet.

    Raises:
        ConfigError: it names the option to change.
    """
    _check_population(demand)
    _check_ranges(demand)
    _check_hiding(demand)
    _check_lies(demand)


def _check_population(demand: PlanRequest) -> None:
    n = demand.parties
    if n < 3:
        raise ConfigError(
            "--parties",
            f"{n} parties cannot hide updates: in a sum of two each member can compute the other's update",
            "plan for at least 3 parties",
        )
    if n > MAX_PARTIES:
        raise ConfigError("--parties", f"{n} is above the limit of {MAX_PARTIES} parties", "plan for fewer")
    if not 0 <= demand.colluders < n:
        raise ConfigError(
            "--colluders",
            f"{demand.colluders} of {n} parties collude: no party is left to protect",
            "give fewer",
        )
    if demand.server == "active" and clustering.quorum_of(n, demand.colluders) > n:
        raise ConfigError(
            "--colluders",
            "are too many: a certificate needs more than (N + q) / 2 signatures, all by honest parties",
            "give fewer",
        )


def _check_ranges(demand: PlanRequest) -> None:
    chances = (
        ("--dropout", demand.dropout, demand.dropout < 1, "give 0 to below 1, as in 0.05"),
        ("--byzantine", demand.byzantine, demand.byzantine < 1, "give 0 to below 1, as in 0.1"),
        ("--clean", demand.clean, 0 < demand.clean < 1, "give a number between 0 and 1, as in 0.95"),
        ("--lost", demand.lost, 0 < demand.lost <= 1, "give a number above 0, at most 1"),
        ("--risk", demand.risk, 0 < demand.risk <= 1, "give a number above 0, at most 1"),
    )
    for option, value, fits, remedy in chances:
        if not (fits and 0 <= value <= 1):
            raise ConfigError(option, f"{value:g} is out of range", remedy)
    most = messages.MAX_VECTOR // 8
    for option, number, limit in (
        ("--k", demand.k, demand.parties),
        ("--parameters", demand.parameters, most),
        ("--rounds", demand.rounds, 1_000_000),
        ("--records", demand.records, 10_000_000),
        ("--batch", demand.batch, demand.records),
        ("--size", demand.size or 2, demand.parties),
        ("--reclusterings", 1 if demand.reclusterings is None else demand.reclusterings, MAX_RECLUSTERINGS),
    ):
        if not 1 <= number <= limit:
            raise ConfigError(option, f"{number} is out of range", f"give 1 to {limit}")
    if demand.epsilon is not None and not 0.05 <= demand.epsilon <= 50:
        raise ConfigError("--epsilon", f"epsilon = {demand.epsilon:g} is out of range", "give 0.05 to 50")
    if demand.delta is not None:
        if demand.epsilon is None:
            raise ConfigError("--delta", "has no effect without --epsilon", "add --epsilon, or leave it out")
        if not LEAST_DELTA <= demand.delta < 1 / demand.units:
            raise ConfigError(
                "--delta",
                f"delta = {demand.delta:g} is out of range",
                f"give {LEAST_DELTA:g} to below 1 / {demand.units} = {1 / demand.units:.3g}",
            )


def _check_hiding(demand: PlanRequest) -> None:
    n, q, k = demand.parties, demand.colluders, demand.k
    if k < 2:
        raise ConfigError(
            "--k", "k = 1 allows sums that reveal the update of a single party", "give at least 2"
        )
    if k > n - q:
        raise ConfigError(
            "--k",
            f"is {k}, but only {n - q} of {n} parties are honest (q = {q} collude)",
            f"give at most {n - q}, fewer colluders or more parties",
        )
    if demand.atoms is not None and (demand.atoms < 1 or n % demand.atoms):
        divisors = [size for size in range(k, n // 2 + 1) if n % size == 0]
        raise ConfigError(
            "--atoms",
            f"{n} parties do not divide into atoms of {demand.atoms}",
            f"give one of {', '.join(map(str, divisors))}, or 1 for none" if divisors else "give 1 for none",
        )
    if demand.atoms is not None and 1 < demand.atoms < k:
        raise ConfigError(
            "--atoms",
            f"an atom of {demand.atoms} has fewer than k = {k} honest parties, and its sum can become known",
            f"give at least {k}",
        )
    if demand.size is not None and demand.size < k:
        raise ConfigError(
            "--size",
            f"clusters of {demand.size} have fewer than k = {k} honest parties",
            f"give at least {k}, or a smaller --k",
        )


def _check_lies(demand: PlanRequest) -> None:
    n, liars = demand.parties, demand.liars
    if demand.case == "worst" and 2 * liars >= n // max(2, demand.k):
        most = n // max(2, demand.k)
        raise ConfigError(
            "--byzantine",
            f"no rule has an honest majority in the worst case: {liars} of {n} parties can spoil {liars}"
            f" clusters, and k = {demand.k} allows {most} clusters",
            f"give at most {max(0, (most - 1) // 2) / n:.3g}, --case average, or a smaller --k",
        )
    if 2 * liars >= n:
        raise ConfigError(
            "--byzantine", f"{liars} of {n} parties are Byzantine: no honest majority", "give less than 0.5"
        )
