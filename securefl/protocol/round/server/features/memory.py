"""State of rules and of parties' momentum between rounds."""

from dataclasses import replace

from securefl.protocol.round.party.carrying import has_carry
from securefl.protocol.round.server.features.feature import RoundFeature, RoundStep
from securefl.protocol.round.server.phases import ServerState
from securefl.protocol.round.shared.plan import RunPlan


class TrustMemory(RoundFeature):
    """Trust in the parties, by rules with a memory."""

    def record_step(self, step: RoundStep, after: ServerState) -> ServerState:
        return replace(after, trust=step.result.trust)


class FormerModel(RoundFeature):
    """Model of the round before, if parties' momentum starts from its step."""

    def store_former_model(self, plan: RunPlan, standing: ServerState) -> ServerState:
        return replace(standing, before=standing.params) if has_carry(plan, "global") else standing
