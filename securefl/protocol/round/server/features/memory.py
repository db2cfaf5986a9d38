"""State of rules and of parties' momentum between rounds."""

from dataclasses import replace

from securefl.protocol.round.party.carrying import carries
from securefl.protocol.round.server.features.feature import RoundFeature, RoundStep
from securefl.protocol.round.server.phases import Standing
from securefl.protocol.round.shared.plan import RunPlan


class TrustMemory(RoundFeature):
    """Trust in the parties, by rules with a memory (:mod:`securefl.protocol.round.server.features.trust`)."""

    def stepped(self, step: RoundStep, after: Standing) -> Standing:
        """Store the trust of the aggregate."""
        return replace(after, trust=step.result.trust)


class FormerModel(RoundFeature):
    """Model of the round before, if parties' momentum starts from its step."""

    def left(self, plan: RunPlan, standing: Standing) -> Standing:
        """Store the parameters that the step replaces."""
        return replace(standing, before=standing.params) if carries(plan, "global") else standing
