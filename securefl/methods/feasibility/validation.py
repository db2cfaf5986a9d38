"""Limits of validated sums (ADR 0024) and of verified rounds."""

import math

from securefl.base.errors import ConfigError, UsageError
from securefl.methods import robust
from securefl.methods.privacy import HONEST_SHARE, LONGEST, NormTest, norm_test
from securefl.scenario import DEAL_BYTES, Scenario

FIELD = "secure_sum.validate"
LEAST_SIZE = 3
"""Smallest cluster: a check takes two members besides the owner."""
_WORD = 8
_DEAL_SEED = _DEAL_FIXED = 50
"""Bytes of a deal besides its words, rounded up: for each check, and in total."""


def norm_test_of(scenario: Scenario, weight: float = 1.0, length: int = LONGEST) -> NormTest | None:
    """Return the check for updates of one public weight; None without validation.

    A party of weight w, in (0, 1], sends w times its clipped update, each of d coordinates rounded to an
    adjacent step. Its norm is below w * clip + sqrt(d) steps for any draw, and

        C = ceil(w * norm * 2^scale_bits) + ceil(ceil(sqrt(d)) / HONEST_SHARE)  steps

    accepts it as often as stated. Every party gets the same integer: only a correctly rounded product of w is
    inexact. ``length`` is d, by default that of the longest vector that can be checked.

    Raises:
        ConfigError: its numbers do not fit into the ring, or it has too few projections.
    """
    wanted = scenario.secure_sum.validated
    if wanted is None:
        return None
    rounding = math.isqrt(length - 1) + 1
    norm = math.ceil(weight * wanted.norm * 2**scenario.encoding.scale_bits) + math.ceil(
        rounding / HONEST_SHARE
    )
    try:
        return norm_test(norm, wanted.projections, wanted.failure)
    except UsageError as error:
        raise ConfigError(FIELD, str(error)) from error


def largest_checked(projections: int) -> int:
    """Return the largest cluster in which updates can be validated, so that triples fit into a frame.

    A member takes part in m - 1 checks on n projections, each with a seed. In the one in which it is the
    first evaluator, it gets a word for each of 13 (m - 2) (n + 1) + 2n + 6 products
    (:func:`securefl.protocol.secure_sum.validated.dealing.requests_of`).
    """
    room = DEAL_BYTES - _DEAL_FIXED - _DEAL_SEED - _WORD * (2 * projections + 6)
    return 2 + room // (_WORD * 13 * (projections + 1) + _DEAL_SEED)


def check_validation(scenario: Scenario, sizes: tuple[int, ...]) -> None:
    """Raise a ConfigError for a scenario whose updates cannot be validated."""
    wanted, sums = scenario.secure_sum.validated, scenario.secure_sum
    if wanted is None:
        return
    if sums.kind != "crypten":
        raise ConfigError(FIELD, "validation needs CrypTen sums", 'set secure_sum.kind = "crypten"')
    if min(sizes) < LEAST_SIZE:
        raise ConfigError(
            FIELD,
            f"a cluster of {min(sizes)} is too small: each update is checked by two other members",
            f"set clustering.size to at least {LEAST_SIZE}",
        )
    largest = largest_checked(wanted.projections)
    if max(sizes) > largest:
        raise ConfigError(
            FIELD,
            f"the checks of a cluster of {max(sizes)} on {wanted.projections} projections are too large "
            "for one message",
            f"set clusters of at most {largest}, or fewer projections",
        )
    if scenario.clustering.reclusterings > 1 and not scenario.clustering.new_work:
        raise ConfigError(
            FIELD,
            f"an attacker could try to pass a check in each of {scenario.clustering.reclusterings}"
            " reclusterings",
            "set clustering.reclusterings = 1, or clustering.new_work = true",
        )
    if scenario.privacy.unit != "none":
        raise ConfigError(
            FIELD, "validation cannot be combined with privacy noise", 'set privacy.unit = "none"'
        )
    if scenario.encoding.ring_bits == 32:
        raise ConfigError(FIELD, "validation needs encoding.ring_bits = 64", "set it")
    clip, most = scenario.encoding.clip, HONEST_SHARE * wanted.norm
    if clip == "none" or clip > most:
        reason = "are not clipped" if clip == "none" else f"are clipped to {clip:g}"
        raise ConfigError(
            FIELD,
            f"honest updates {reason}, but validation may reject norms above {HONEST_SHARE:g} x"
            f" {wanted.norm:g} = {most:g}",
            f"set encoding.clip to at most {most:g}",
        )
    norm_test_of(scenario)


def check_verification(scenario: Scenario) -> None:
    """Raise a ConfigError if parties could not check the rounds that the scenario verifies.

    Verification needs an active server (certificates), sums with proofs (not plain ones), and a rule
    that does not use the server's data.
    """
    sums = scenario.secure_sum
    if not sums.verified:
        return
    if sums.server != "active":
        raise ConfigError(
            "secure_sum.verify",
            "verification needs certificates, which a curious server does not make",
            "set secure_sum.server = active, or secure_sum.verify = off",
        )
    if sums.kind == "plain":
        raise ConfigError(
            "secure_sum.verify",
            "plain sums have no proofs",
            "choose another secure_sum.kind, or verify = off",
        )
    if robust.needs_server_gradient(scenario.aggregation.rule):
        raise ConfigError(
            "secure_sum.verify",
            "parties cannot repeat a rule that uses the server's own data",
            "choose another aggregation.rule, or secure_sum.verify = off",
        )
