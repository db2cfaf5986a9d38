"""Header lines on verified rounds."""

from __future__ import annotations

from collections.abc import Iterator

from securefl.base import text
from securefl.methods import clustering, feasibility
from securefl.scenario import Scenario


def on_verification(scenario: Scenario, limits: feasibility.DerivedLimits) -> Iterator[str]:
    """Header lines on verified rounds: who repeats what, at which odds, and what is left to the server."""
    sums = scenario.secure_sum
    if not sums.verified:
        if sums.server == "active":
            yield "ROUNDS ARE NOT VERIFIED: the server chooses the model (secure_sum.verify)"
        return
    members, f = clustering.committee_size(scenario), sums.colluders_per_cluster
    asked = feasibility.openers_asked(scenario, clustering.max_cluster_size(scenario))
    who = f"a committee of {members}, drawn in each round,"
    if sums.verification == "all":
        who = "all who take part"
    fails = clustering.committee_failure(scenario)
    odds_of = "never" if fails == 0 else f"with probability {text.percent(fails)} in the run"
    yield (
        f"verified rounds: {asked} members of each cluster are asked to repeat its opening, and {who}"
        f" the step; {min(f + 1, asked)} of a cluster and"
        f" {clustering.attests_needed(scenario, members)} for the step"
        " must attest them before anybody trains on the model"
    )
    yield f"  colluders are enough to attest a model of the server's choice {odds_of}, redraws included"
    yield (
        "  left to an active server: whether a round counts (1 bit a round), and in which round the run ends;"
        f" a cluster of more than f = {f} colluders may choose its sum after the others"
    )
    if limits.breakdown < min(sums.colluders, limits.clusters):
        several, rule = text.count(limits.breakdown + 1, "colluder"), scenario.aggregation.rule.name
        yield (
            f"  NOT ENOUGH AGAINST COLLUDERS: {rule} withstands {limits.breakdown} of"
            f" {limits.clusters} clusters, so that {several} and the server choose the model, within what"
            f" members can encode; q = {sums.colluders}"
        )
    yield from _on_proofs(scenario, limits)


def _on_proofs(scenario: Scenario, limits: feasibility.DerivedLimits) -> Iterator[str]:
    """Line on what verifiers are sent in a round, whatever the size of the model."""
    million = feasibility.proofs_of(scenario, limits.ring_bits, 1_000_000)
    yield (
        f"  for each million parameters the server sends verifiers up to {million.total / 1e6:,.0f} MB a"
        f" round ({million.openings / 1e6:,.0f} MB openings, {million.steps / 1e6:,.0f} MB steps), and models"
        f" have at most {feasibility.most_parameters(scenario, limits.ring_bits):,} parameters"
    )
