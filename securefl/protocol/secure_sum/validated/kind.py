"""Sums of checked updates as a kind of secure sum (ADR 0024)."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from securefl.base import crypto
from securefl.base.arrays import Ring
from securefl.base.entropy import Entropy
from securefl.base.errors import PeerError, UsageError
from securefl.base.ids import DEALER, SERVER, PartyId, RunId
from securefl.base.sums import exact_sum
from securefl.methods import feasibility, privacy
from securefl.protocol import kernel, messages
from securefl.protocol.secure_sum import port
from securefl.protocol.secure_sum.collecting import CollectingInputs, CollectingKeys, Lost, ServerPhase
from securefl.protocol.secure_sum.crypten.kind import SharesServer
from securefl.protocol.secure_sum.crypten.library import check_machine
from securefl.protocol.secure_sum.crypten.member import Submitted, seed_for
from securefl.protocol.secure_sum.removal import VectorStore
from securefl.protocol.secure_sum.setup import Setup
from securefl.protocol.secure_sum.validated import evaluation, member, phases, server
from securefl.protocol.secure_sum.validated.dealer import answer
from securefl.protocol.secure_sum.validated.server import (
    AwaitingHeld,
    AwaitingNonces,
    AwaitingVerdicts,
    CheckedShares,
    ValidatedPhase,
)
from securefl.protocol.secure_sum.validated.validation import Validation, is_too_long, validated_lists
from securefl.scenario import Deadlines, Scenario


@dataclass(frozen=True, slots=True)
class Tests:
    """Tests of updates in one run."""

    scenario: Scenario
    length: int

    @property
    def validation(self) -> Validation:
        """Validation parameters, the same for all."""
        sums = self.scenario.secure_sum
        if sums.validated is None:
            raise UsageError("cannot validate updates: the scenario has no [secure_sum.validated]; add it")
        return Validation(sums.validated.projections, sums.k_anonymity, sums.colluders_per_cluster)

    def of(self, weight: float) -> privacy.NormTest:
        """Return the test for a party of this public weight.

        Raises:
            ConfigError: numbers do not fit, which ``check`` rejects before.
            UsageError: the scenario validates nothing.
        """
        test = feasibility.norm_test_of(self.scenario, weight, self.length)
        if test is None:
            raise UsageError(
                "cannot test norms of updates: the scenario has no [secure_sum.validated]; add it"
            )
        return test


@dataclass(frozen=True, slots=True)
class ValidatedSums(port.SecureSum):
    """Sums of updates that all others accepted; all listed members open them."""

    tests: Tests
    checks: phases.UpdateChecks | None = None

    requires_all_members: ClassVar[bool] = True
    dropouts_release: ClassVar[bool] = True
    dealer: ClassVar[PartyId | None] = DEALER
    bad: ClassVar[str] = "a message that cannot be"
    preload: ClassVar[tuple[str, ...]] = ("securefl.protocol.secure_sum.crypten.preloaded",)

    @property
    def member(self) -> port.MemberEnd:
        return _Member(self.tests, self.checks)

    @property
    def server(self) -> port.ServerEnd:
        return _Server(self.tests)

    def vectors(self, _step: Literal["shares", "training"], members: int) -> int:
        """Return the most vectors of a step, in which all exchange shares."""
        return 1 + 2 * (members - 1)

    def checking(self, deadlines: Deadlines) -> float:
        """Return the seconds for nonces, checks, and shares."""
        return 2 * deadlines.shares + deadlines.training

    def lists_digest(
        self, setup: Setup, key_list: bytes, sharers: frozenset[int], alive: Collection[int]
    ) -> bytes:
        """Return the digest of lists and of the accepted members."""
        return validated_lists(setup.lists_digest(key_list, sharers), frozenset(alive))

    def check_machine(self) -> None:
        check_machine(self.tests.scenario.training.device)

    def prepare(self) -> port.SecureSum:
        self.check_machine()
        from securefl.protocol.secure_sum.validated.check import CryptenChecks  # noqa: PLC0415 - imports CrypTen

        return replace(self, checks=CryptenChecks())

    def deal(
        self,
        request: messages.DealRequest,
        place: kernel.Place,
        roster: crypto.Roster,
        run: RunId,
        entropy: Entropy,
    ) -> tuple[messages.Dealt, ...]:
        return answer(request, place, roster, run, self.tests.validation.projections, entropy)


def sums_of(scenario: Scenario, length: int) -> ValidatedSums:
    """Return the kind for the scenario and updates of d = ``length`` parameters."""
    return ValidatedSums(Tests(scenario, length))


@dataclass(frozen=True, slots=True)
class _Member(port.MemberEnd):
    tests: Tests
    checks: phases.UpdateChecks | None

    def advertise(
        self, setup: Setup, me: PartyId, weights: Mapping[PartyId, float], entropy: Entropy
    ) -> tuple[port.MemberPhase, messages.KeyAdvert]:
        tests = tuple(self.tests.of(weights[name]) for name in setup.members)
        return member.advertise(setup, me, self.tests.validation, tests, entropy)

    def receive(
        self, phase: port.MemberPhase, message: messages.SumToMember, roster: crypto.Roster, entropy: Entropy
    ) -> port.MemberStep:
        match message, phase:
            case messages.KeyList(), phases.Advertised():
                return port.MemberStep(member.on_key_list(phase, message, roster))
            case messages.DealtTo(), phases.Gathering():
                step = member.on_deal(phase, message, roster)
            case messages.PeerBox(), phases.Gathering():
                step = member.on_share(phase, message)
            case messages.HeldList(), phases.Holding():
                step = evaluation.on_held_list(phase, message, roster)
            case messages.SketchNonces(), phases.Revealed():
                if self.checks is None:
                    raise UsageError(
                        "cannot check updates: this party was created without CrypTen; pass checks"
                    )
                step = evaluation.on_nonces(phase, message, self.checks, roster, entropy)
            case messages.PeerBox(), phases.Revealed() | phases.Checking():
                step = evaluation.on_check_box(phase, message, entropy)
            case messages.Verdicts(), phases.Judged():
                step = member.on_verdicts(phase, message, roster)
            case _, phases.Spoiled():
                # Sent before the attempt was spoiled.
                return port.MemberStep(phase)
            case _:
                raise PeerError(SERVER, f"sends {type(message).__name__} at the wrong time")
        return _member_step(step)

    def submit(
        self, phase: port.MemberPhase, encoded: Ring, entropy: Entropy, _without: int
    ) -> port.MemberStep | None:
        if not isinstance(phase, phases.Gathering) or phase.shared:
            return None
        return _member_step(member.share_update(phase, encoded, entropy))

    def awaits_update(self, phase: port.MemberPhase) -> bool:
        return isinstance(phase, phases.Gathering) and not phase.shared

    def input_sent(self, phase: port.MemberPhase) -> port.InputSent | None:
        return phase if isinstance(phase, Submitted) else None

    def release(self, phase: port.InputSent, survivors: Collection[PartyId]) -> port.Opening:
        return seed_for(port.own(phase, Submitted), survivors)

    def is_final(self, phase: port.MemberPhase) -> bool:
        return isinstance(phase, phases.NO_RETURN)

    def running(self, phase: port.MemberPhase) -> Iterable[port.Running]:
        return phase.running.values() if isinstance(phase, phases.Checking) else ()


def _member_step(step: phases.Step) -> port.MemberStep:
    messages_out: tuple[messages.AnyMessage, ...] = step.outgoing
    if step.accused is not None and isinstance(step.phase, phases.Spoiled):
        messages_out += (messages.Complaint(accused=step.accused.culprit),)
    return port.MemberStep(step.phase, messages_out, step.accused)


@dataclass(frozen=True, slots=True)
class _Server(SharesServer):
    collected: ClassVar[type[CollectingInputs]] = CheckedShares
    tests: Tests

    def receive(
        self,
        phase: ServerPhase,
        sender: PartyId,
        message: messages.SumToServer,
        signed: bytes,
        store: VectorStore,
    ) -> port.Taken:
        relayed: tuple[tuple[PartyId, messages.AnyMessage], ...] = ()
        after: ServerPhase
        match message, phase:
            case messages.Dealt(), AwaitingHeld():
                after, dealt = server.on_dealt(phase, sender, message, signed)
                relayed = (dealt,)
            case messages.PeerBox(), AwaitingHeld():
                after, share = server.on_share(phase, sender, message)
                relayed = (share,)
            case messages.PeerBox(), AwaitingVerdicts():
                after, words = server.on_words(phase, sender, message)
                relayed = (words,)
            case messages.Held(), AwaitingHeld():
                after = server.on_held(phase, sender, message, signed)
            case messages.SketchNonce(), AwaitingNonces():
                after = server.on_nonce(phase, sender, message, signed)
            case messages.Verdict(), AwaitingVerdicts():
                after = server.on_verdict(phase, sender, message, signed)
            case _:
                return SharesServer.receive(self, phase, sender, message, signed, store)
        return port.Taken(after, relayed)

    def close(self, phase: ServerPhase, max_attempts: int) -> port.Closed:
        match phase:
            case CollectingKeys():
                awaiting, key_list, request = server.close_keys(phase, self.tests.validation)
                if isinstance(awaiting, Lost) or key_list is None or request is None:
                    return port.Closed(awaiting)
                closed = _next(awaiting, awaiting, key_list, "training", vectors=True)
                return replace(closed, outgoing=(*closed.outgoing, (self.tests.validation.dealer, request)))
            case AwaitingHeld():
                after, held = server.close_held(phase, max_attempts)
                return _next(phase, after, held, "keys" if isinstance(after, CollectingKeys) else "shares")
            case AwaitingNonces():
                return _next(phase, *server.close_nonces(phase), "training", vectors=True)
            case AwaitingVerdicts():
                # Each member's share of the sum is a vector.
                closed = _next(phase, *server.close_verdicts(phase), "shares", vectors=True)
                return replace(closed, passed=_passed_members(phase))
            case _:
                raise UsageError(
                    f"cannot close a validated sum: phase {type(phase).__name__} does not end with a deadline"
                )

    def complaint(
        self, phase: ServerPhase, sender: PartyId, accused: PartyId, *, over: bool
    ) -> CollectingInputs | Lost:
        found = phase.base if isinstance(phase, AwaitingHeld) else phase
        sharing = found.names(found.sharers) if isinstance(found, CollectingInputs) else frozenset()
        if accused == self.tests.validation.dealer and sender in sharing:
            # No retry can succeed without the dealer.
            return Lost(found.setup, f"{sender} received unusable triples from the dealer")
        return SharesServer.complaint(self, found, sender, accused, over=over)

    def doubt(self, phase: CollectingInputs, opened: Ring, weights: Mapping[PartyId, float]) -> str:
        accepted = port.own(phase, CheckedShares).accepted
        # Largest possible norm of the sum of the accepted updates, in steps.
        longest = exact_sum(self.tests.of(weights[phase.setup.members[i]]).norm for i in accepted)
        if is_too_long(opened, longest):
            return "its norm is above that of all accepted updates together: a member sent a wrong share"
        return ""


def _next(
    before: ValidatedPhase,
    after: ServerPhase,
    message: messages.AnyMessage | None,
    step: port.Step,
    *,
    vectors: bool = False,
) -> port.Closed:
    messages_out = () if message is None else tuple((name, message) for name in _listed_members(before))
    return port.Closed(after, step, vectors, messages_out)


def _passed_members(phase: AwaitingVerdicts) -> port.Passed | None:
    if phase.frames.keys() != phase.listed:
        return None
    rejected = server.rejected_members(phase)
    accepted = tuple(name for name in _listed_members(phase) if name not in rejected)
    return port.Passed(accepted, rejected, phase.validation.projections)


def _listed_members(phase: ValidatedPhase) -> tuple[PartyId, ...]:
    return tuple(phase.setup.members[index] for index in sorted(phase.listed))
