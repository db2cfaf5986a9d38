"""A driver of validated sums: one cluster, its dealer and the server in one process, all in the open."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from securefl.base.arrays import Ring
from securefl.base.crypto.roster import make_identities
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import PeerError
from securefl.base.ids import DEALER, SERVER, Instance, PartyId, RunId
from securefl.methods.privacy.norm_check import NormTest
from securefl.protocol.messages.crypten import PeerBox
from securefl.protocol.messages.masking import KeyList, MaskedInput, Receipt
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.messages.validation import (
    DealRequest,
    Dealt,
    DealtTo,
    Held,
    HeldList,
    SketchNonce,
    SketchNonces,
    Verdict,
    Verdicts,
)
from securefl.protocol.secure_sum import collecting
from securefl.protocol.secure_sum.crypten import member
from securefl.protocol.secure_sum.crypten import server as crypten
from securefl.protocol.secure_sum.crypten.kind import SharesServer
from securefl.protocol.secure_sum.removal import MemoryStore
from securefl.protocol.secure_sum.setup import Setup
from securefl.protocol.secure_sum.validated import evaluation as validated_check
from securefl.protocol.secure_sum.validated import member as validated_member
from securefl.protocol.secure_sum.validated import server as validated_server
from securefl.protocol.secure_sum.validated.check import CryptenChecks
from securefl.protocol.secure_sum.validated.dealer import answer
from securefl.protocol.secure_sum.validated.phases import (
    Advertised,
    Checking,
    Gathering,
    Holding,
    Judged,
    Revealed,
    Step,
    UpdateChecks,
    ValidatedPhase,
)
from securefl.protocol.secure_sum.validated.validation import Validation
from securefl.protocol.wire.codec import decode, encode
from securefl.protocol.wire.outbox import Outbox

RUN = RunId("validated")
NAMES = tuple(PartyId(f"p{i:02d}") for i in range(6))
IDENTITIES, ROSTER = make_identities(NAMES, InsecureSeededEntropy(98), with_dealer=True)

ServerPhase = (
    collecting.CollectingKeys
    | validated_server.CheckedShares
    | collecting.Lost
    | validated_server.ValidatedPhase
)
Tamper = Callable[[PartyId, AnyMessage], AnyMessage | None]
"""What a sender's message becomes on its way to the server; None: it is lost."""


def honest(_sender: PartyId, message: AnyMessage) -> AnyMessage:
    """Change nothing."""
    return message


class ValidatedCluster:
    """One attempt after the other."""

    def __init__(
        self,
        members: int,
        length: int,
        test: NormTest,
        min_survivors: int = 2,
        colluders: int = 0,
        seed: int = 1,
        tamper: Tamper = honest,
    ) -> None:
        self.validation = Validation(test.projections, k_anonymity=2, colluders=colluders)
        self.tests = dict.fromkeys(NAMES, test)
        self.setup = Setup(
            instance=Instance(RUN, 0, 0, 0, 0),
            members=NAMES[:members],
            threshold=min_survivors,
            min_survivors=min_survivors,
            binding=b"b" * 32,
            length=length,
            ring_bits=64,
            everyone=True,
        )
        self.entropy = InsecureSeededEntropy(seed)
        self.tamper = tamper
        self.store = MemoryStore()
        self.engines: Mapping[PartyId, UpdateChecks] = dict.fromkeys(NAMES, CryptenChecks())
        self.phases: dict[PartyId, ValidatedPhase | member.Submitted] = {}
        self.server: (
            collecting.CollectingKeys
            | validated_server.CheckedShares
            | collecting.Lost
            | validated_server.ValidatedPhase
        ) = collecting.CollectingKeys(self.setup)
        self.accused: list[tuple[PartyId, PeerError]] = []
        self.key_lists: list[KeyList] = []
        self.said: list[tuple[PartyId, AnyMessage]] = []
        self._outboxes = {
            name: Outbox(RUN, IDENTITIES[name], self.entropy.child(name)) for name in IDENTITIES
        }
        self._queue: list[tuple[PartyId, AnyMessage]] = []

    def of(self, name: PartyId) -> InsecureSeededEntropy:
        """The entropy of one process in this attempt."""
        return self.entropy.child(name, self.setup.instance.attempt)

    def begin(self, present: Collection[PartyId] | None = None) -> None:
        """Adverts of those present; then the key list and the deal."""
        assert isinstance(self.server, collecting.CollectingKeys)
        for name in self.setup.members if present is None else present:
            tests = tuple(self.tests[member] for member in self.setup.members)
            phase, advert = validated_member.advertise(
                self.setup, name, self.validation, tests, self.of(name)
            )
            self.phases[name] = phase
            self.server = collecting.on_advert(self.server, name, advert, self.signed(name, advert))
        after, key_list, request = validated_server.close_keys(self.server, self.validation)
        self.server = after
        if key_list is not None and request is not None:
            self.key_lists.append(key_list)
            self.to_all(key_list)
            self.deal(request)

    def deal(self, request: DealRequest) -> None:
        """The dealer's answer on its way."""
        for message in answer(request, self.setup.place, ROSTER, RUN, 64, self.of(DEALER)):
            self._queue.append((DEALER, message))
        self.run()

    def share(self, updates: Mapping[PartyId, Ring]) -> None:
        """Everybody's update; then all that follows by itself up to the receipts."""
        for name, update in updates.items():
            phase = self.phases[name]
            assert isinstance(phase, Gathering)
            self._take(name, validated_member.share_update(phase, update, self.of(name)))
        self.run()

    def close(self, max_attempts: int = 2) -> None:
        """End the server's step, whoever is missing; then all that follows by itself."""
        match self.server:
            case validated_server.AwaitingHeld():
                self.server, held = validated_server.close_held(self.server, max_attempts)
                self.to_all(held)
            case validated_server.AwaitingNonces():
                self.server, nonces = validated_server.close_nonces(self.server)
                self.to_all(nonces)
            case validated_server.AwaitingVerdicts():
                self.server, verdicts = validated_server.close_verdicts(self.server)
                self.to_all(verdicts)
            case _:
                raise AssertionError(f"{self.server} is no step to close")
        if isinstance(self.server, collecting.CollectingKeys):
            self.setup, self.phases, self._queue = self.server.setup, {}, []
        self.run()

    def finish(self, updates: Mapping[PartyId, Ring]) -> None:
        """From the first advert to the exported shares."""
        self.begin()
        self.share(updates)
        for _ in range(3):
            if isinstance(self.server, validated_server.ValidatedPhase):
                self.close()

    def open(self) -> Ring:
        """Release by all who have submitted, and the sum."""
        assert isinstance(self.server, validated_server.CheckedShares)
        releases = {}
        for name, phase in self.phases.items():
            assert isinstance(phase, member.Submitted)
            releases[name] = member.seed_for(phase, self.server.submitted)
            crypten.check_seed(self.server, name, releases[name])
        return SharesServer().open(self.server, self.server.submitted, releases, self.store)

    @property
    def accepted(self) -> tuple[PartyId, ...]:
        """Who is in the sum."""
        assert isinstance(self.server, validated_server.CheckedShares)
        return tuple(sorted(self.server.submitted))

    def to_all(self, message: AnyMessage | None) -> None:
        """A message of the server to all members of the attempt."""
        for name in list(self.phases) if message is not None else ():
            assert message is not None
            self.deliver(name, message)

    def run(self) -> None:
        """Deliver until nothing is on its way."""
        while self._queue:
            sender, message = self._queue.pop(0)
            self.said.append((sender, message))
            changed = self.tamper(sender, message)
            if changed is not None:
                self._at_server(sender, decode(encode(changed), sender))

    def _at_server(self, sender: PartyId, message: AnyMessage) -> None:
        signed = self.signed(sender, message)
        match message, self.server:
            case Dealt(), validated_server.AwaitingHeld():
                self.server, (to, passed) = validated_server.on_dealt(self.server, sender, message, signed)
                self.deliver(to, passed)
            case PeerBox(), validated_server.AwaitingHeld():
                self.server, (to, relayed) = validated_server.on_share(self.server, sender, message)
                self.deliver(to, relayed)
            case PeerBox(), validated_server.AwaitingVerdicts():
                self.server, (to, relayed) = validated_server.on_words(self.server, sender, message)
                self.deliver(to, relayed)
            case Held(), validated_server.AwaitingHeld():
                self.server = validated_server.on_held(self.server, sender, message, signed)
            case SketchNonce(), validated_server.AwaitingNonces():
                self.server = validated_server.on_nonce(self.server, sender, message, signed)
            case Verdict(), validated_server.AwaitingVerdicts():
                self.server = validated_server.on_verdict(self.server, sender, message, signed)
            case MaskedInput(), validated_server.CheckedShares():
                self.server = collecting.on_input(self.server, sender, message, self.store)
            case Receipt(), validated_server.CheckedShares():
                self.server = collecting.on_receipt(self.server, sender, message, signed)
            case _:
                raise PeerError(sender, f"sends {type(message).__name__} at the wrong time")

    def deliver(self, name: PartyId, message: AnyMessage) -> None:
        """A message of the server to one member."""
        phase, entropy = self.phases[name], self.of(name)
        message = decode(encode(message), SERVER)
        match message, phase:
            case KeyList(), Advertised():
                self.phases[name] = validated_member.on_key_list(phase, message, ROSTER)
            case DealtTo(), Gathering():
                self._take(name, validated_member.on_deal(phase, message, ROSTER))
            case PeerBox(), Gathering():
                self._take(name, validated_member.on_share(phase, message))
            case HeldList(), Holding():
                self._take(name, validated_check.on_held_list(phase, message, ROSTER))
            case SketchNonces(), Revealed():
                self._take(
                    name, validated_check.on_nonces(phase, message, self.engines[name], ROSTER, entropy)
                )
            case PeerBox(), Revealed() | Checking():
                self._take(name, validated_check.on_check_box(phase, message, entropy))
            case Verdicts(), Judged():
                self._take(name, validated_member.on_verdicts(phase, message, ROSTER))
            case _:
                raise PeerError(SERVER, f"sends {type(message).__name__} at the wrong time")

    def _take(self, name: PartyId, step: Step) -> None:
        self.phases[name] = step.phase
        if step.accused is not None:
            self.accused.append((name, step.accused))
        self._queue += [(name, message) for message in step.outgoing]

    def signed(self, sender: PartyId, message: AnyMessage) -> bytes:
        """A message as its sender signs it for the server; empty when it takes several frames."""
        frames = list(self._outboxes[sender].frames(SERVER, self.setup.place, message))
        return frames[0] if len(frames) == 1 else b""
