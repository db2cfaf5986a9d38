"""Each check of a verifier by itself: a proof with one thing wrong is refused for that thing (ADR 0044).

Whole rounds are in ``test_verified_rounds.py``, where a lie mostly fails several checks at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, cast

import numpy as np
import pytest
from msgspec import structs

from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import PeerError
from securefl.base.ids import SERVER, PartyId, RunId
from securefl.protocol.kernel.effects import Journal
from securefl.protocol.kernel.events import Place, Received
from securefl.protocol.messages.masking import KeyAdvert, VectorReceipt
from securefl.protocol.messages.rounds import Reveal
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.messages.verification import (
    Attest,
    ChainedAnnounce,
    ChainedReveal,
    Opened,
    OpeningProof,
    Step,
    StepProof,
)
from securefl.protocol.round.party.phases import PartyHistory
from securefl.protocol.round.party.verifying import accept_link, follow, is_vouched_for, on_proof
from securefl.protocol.round.shared.chain import (
    LOST,
    check_attests,
    committee,
    link_of,
    may_attest,
    sum_digest,
)
from securefl.protocol.round.shared.statement import proof_context
from securefl.protocol.secure_sum.evidence import commitment_of, input_digest
from securefl.protocol.secure_sum.setup import key_list_digest
from securefl.protocol.wire.codec import decode_struct, encode
from securefl.protocol.wire.inbox import open_relayed
from securefl.protocol.wire.outbox import Outbox
from tests.simulation.lying import distinct, reclaimed, resigned, verified
from tests.simulation.world import RUN, Node, World

Seen = tuple[Any, PartyHistory, Received[Any]]
"""Context, past and event of a step in which a party takes a message."""


@cache
def recorded() -> tuple[World, list[Seen]]:
    """An honest run with momentum, and every proof and announcement as parties took them."""
    seen: list[Seen] = []
    world = World(verified(rounds="3", server_optimiser__momentum="0.5"), length=16, train=distinct)
    kinds = OpeningProof | StepProof | ChainedAnnounce

    def look(node: Node, before: Any, event: object, _after: object, _effects: object) -> None:
        if isinstance(event, Received) and isinstance(event.message, kinds) and node.name != SERVER:
            seen.append((cast("Any", node.machine)._ctx, before.past, event))

    world.observers.append(look)
    world.run()
    return world, seen


def taken(kind: type[Any], round_: int = 1) -> Seen:
    return next(
        one for one in recorded()[1] if isinstance(one[2].message, kind) and one[2].place.round == round_
    )


def unsealed(seen: Seen, kind: type[Any]) -> Any:
    ctx, _, event = seen
    root = link_of(RUN, event.message.claim).root
    plain = ctx.identity.open_sealed(event.message.sealed, proof_context(root, event.place, ctx.me))
    return decode_struct(kind, plain, SERVER)


def resealed(seen: Seen, message: Any, inside: Any) -> Any:
    """The proof with other contents, sealed as the server seals them."""
    ctx, _, event = seen
    root = link_of(RUN, message.claim).root
    own = ctx.plan.roster.parties[ctx.me]
    context = proof_context(root, event.place, ctx.me)
    return structs.replace(message, sealed=own.seal(encode(inside), context, InsecureSeededEntropy(9)))


def refused(seen: Seen, message: Any, reason: str, past: PartyHistory | None = None) -> None:
    """For that reason if the server signs it so; if it does not, for that."""
    ctx, before, event = seen
    if message.claim == event.message.claim:
        with pytest.raises(PeerError, match="without a valid signature"):
            on_proof(ctx, past or before, event.place, message)
        message = resigned(ctx, past or before, event.place, message)
    with pytest.raises(PeerError, match=reason):
        on_proof(ctx, past or before, event.place, message)


def signed(party: str, place: Place, message: AnyMessage) -> bytes:
    outbox = Outbox(RUN, recorded()[0].identities[PartyId(party)], InsecureSeededEntropy(5))
    (frame,) = outbox.frames(SERVER, place, message)
    return frame


def receipts(seen: Seen) -> dict[int, tuple[str, VectorReceipt]]:
    """By member: its name, and what it states."""
    ctx, past, event = seen
    setup = past.verifying.instances[event.place.reclustering, event.place.cluster].setup  # type: ignore[union-attr]
    found: dict[int, tuple[str, VectorReceipt]] = {}
    for frame in event.message.receipts:
        said = open_relayed(frame, ctx.plan.roster, RUN, SERVER, SERVER)
        found[setup.index(said.sender)] = said.sender, cast("VectorReceipt", said.message)
    return found


def test_the_true_proofs_are_attested() -> None:
    for kind in (OpeningProof, StepProof):
        ctx, past, event = taken(kind)
        _, effects = on_proof(ctx, past, event.place, event.message)
        assert effects


class TestOpenings:
    """A member of the cluster signs whatever the server likes, once it has seen the other sums."""

    def test_a_vector_that_its_receipt_does_not_state(self) -> None:
        seen = taken(OpeningProof)
        vectors = bytearray(seen[2].message.vectors)
        vectors[0] ^= 1
        message = structs.replace(seen[2].message, vectors=bytes(vectors))
        refused(seen, message, "another vector of")

    def test_a_second_receipt_and_its_vector(self) -> None:
        seen = taken(OpeningProof)
        _, past, event = seen
        known = past.verifying.instances[event.place.reclustering, event.place.cluster]  # type: ignore[union-attr]
        index, (party, stated) = min(receipts(seen).items())
        size = len(event.message.vectors) // len(event.message.receipts)
        other = bytes(size)
        again = structs.replace(stated, input_digest=input_digest(known.setup, index, other))
        frames = (signed(party, event.place, again), *event.message.receipts[1:])
        message = structs.replace(
            event.message, receipts=frames, vectors=other + event.message.vectors[size:]
        )
        refused(seen, message, "other inputs than were certified")

    def test_a_second_advert_and_its_seed(self) -> None:
        seen = taken(OpeningProof)
        ctx, past, event = seen
        known = past.verifying.instances[event.place.reclustering, event.place.cluster]  # type: ignore[union-attr]
        frame = event.message.adverts[0]
        said = open_relayed(frame, ctx.plan.roster, RUN, SERVER, SERVER)
        index = known.setup.index(said.sender)
        advert = structs.replace(
            cast("KeyAdvert", said.message), seed_digest=known.setup.seed_digest(index, bytes(32))
        )
        adverts = (signed(said.sender, event.place, advert), *event.message.adverts[1:])
        opened = unsealed(seen, Opened)
        seeds = tuple((i, bytes(32) if i == index else seed) for i, seed in opened.seeds)
        message = resealed(
            seen, structs.replace(event.message, adverts=adverts), structs.replace(opened, seeds=seeds)
        )
        refused(seen, message, "other adverts than were listed")
        assert key_list_digest({0: frame}) != key_list_digest({0: adverts[0]})

    def test_a_seed_that_its_member_did_not_advertise_is_the_servers(self) -> None:
        """A server that got such a seed has no sum to claim: whoever blamed the member would be led to."""
        seen = taken(OpeningProof)
        ctx, past, event = seen
        opened = unsealed(seen, Opened)
        ((index, _), *rest) = opened.seeds
        message = resealed(seen, event.message, structs.replace(opened, seeds=((index, bytes(32)), *rest)))
        with pytest.raises(PeerError, match="another self-mask seed") as caught:
            on_proof(ctx, past, event.place, resigned(ctx, past, event.place, message))
        assert caught.value.culprit == SERVER

    def test_the_sum_of_another_cluster(self) -> None:
        """Each cluster has a digest of its own in a claim; that of another cluster does not count for it."""
        seen = taken(OpeningProof)
        ctx, past, event = seen
        first, second, *others = event.message.claim.sums
        claim = structs.replace(event.message.claim, sums=(second, first, *others))
        refused(seen, reclaimed(ctx, past, event.place, event.message, claim), "claims another sum of")

    def test_a_digest_is_of_one_run_round_and_cluster(self) -> None:
        """Equal sums have different digests, so that none stands for another."""
        ring = np.zeros(4, dtype=np.uint32)
        places = [("a", 0, (0, 0)), ("b", 0, (0, 0)), ("a", 1, (0, 0)), ("a", 0, (1, 0)), ("a", 0, (0, 1))]
        assert len({sum_digest(RunId(run), round_, key, ring) for run, round_, key in places}) == len(places)

    def test_the_commitment_covers_lists_and_every_vector(self) -> None:
        seen = taken(OpeningProof)
        _, past, event = seen
        known = past.verifying.instances[event.place.reclustering, event.place.cluster]  # type: ignore[union-attr]
        inputs = {index: said.input_digest for index, (_, said) in receipts(seen).items()}
        right = commitment_of(known.setup, known.lists_digest, inputs)
        others = [
            commitment_of(known.setup, bytes(32), inputs),
            commitment_of(known.setup, known.lists_digest, {**inputs, min(inputs): bytes(32)}),
            commitment_of(known.setup, known.lists_digest, dict(list(inputs.items())[1:])),
        ]
        assert right not in others
        assert past.verifying.certified.commitments[0, event.place.cluster] == right  # type: ignore[union-attr]


class TestSteps:
    def test_sums_that_are_not_claimed(self) -> None:
        seen = taken(StepProof)
        step = unsealed(seen, Step)
        sums = bytearray(step.sums)
        sums[0] ^= 1
        message = resealed(seen, seen[2].message, structs.replace(step, sums=bytes(sums)))
        refused(seen, message, "another sum of cluster")

    def test_a_state_that_is_not_in_the_chain(self) -> None:
        seen = taken(StepProof)
        step = unsealed(seen, Step)
        moments = np.frombuffer(step.moments) + 1.0
        message = resealed(seen, seen[2].message, structs.replace(step, moments=moments.tobytes()))
        refused(seen, message, "another state than the chain has")

    def test_a_state_of_another_length(self) -> None:
        seen = taken(StepProof)
        step = unsealed(seen, Step)
        for moments in (b"", step.moments[:-8], step.moments[:-3], step.moments * 2):
            message = resealed(seen, seen[2].message, structs.replace(step, moments=moments))
            refused(seen, message, "a state of another size")

    def test_a_sum_too_many_and_one_too_few(self) -> None:
        seen = taken(StepProof)
        step = unsealed(seen, Step)
        longer = resealed(seen, seen[2].message, structs.replace(step, sums=step.sums + bytes(64)))
        refused(seen, longer, "more sums than were certified")
        shorter = resealed(seen, seen[2].message, structs.replace(step, sums=step.sums[:-64]))
        refused(seen, shorter, "has 64 bytes, not 0")

    def test_a_sum_that_is_said_to_be_lost(self) -> None:
        """Where the model is what the other sums make: the server is to have no choice among them."""
        seen = taken(StepProof)
        ctx, past, event = seen
        claim = structs.replace(event.message.claim, sums=(LOST, *event.message.claim.sums[1:]))
        message = reclaimed(ctx, past, event.place, event.message, claim)
        refused(seen, message, "only some of the certified sums")

    def test_a_party_outside_the_committee_repeats_no_step(self) -> None:
        ctx, past, event = taken(StepProof)
        certified = past.verifying.certified  # type: ignore[union-attr]
        members = committee(ctx.plan, certified)
        outsider = next(p for p in certified.drawn.assignment.participants if p not in members)
        with pytest.raises(PeerError, match="a party outside the committee"):
            on_proof(replace(ctx, me=outsider), past, event.place, event.message)


class TestAttests:
    def frames(self, how: str) -> Sequence[bytes]:
        world, _ = recorded()
        _, past, event = taken(ChainedAnnounce, 2)
        said = event.message
        certified = past.verifying.certified  # type: ignore[union-attr]
        first = open_relayed(said.attests[0], world.plan.roster, RUN, SERVER, SERVER)
        mates = [p for p in certified.alive((0, first.place.cluster)) if p != first.sender]
        root = link_of(RUN, said.claim).root
        others = said.attests[1:]
        strangers = [p for p in world.parties if p not in (*mates, first.sender)]
        found: dict[str, Sequence[bytes]] = {
            "right": said.attests,
            "another root": (signed(first.sender, first.place, Attest(root=bytes(32))), *others),
            "one twice": (said.attests[0], said.attests[0], *said.attests[2:]),
            "of another cluster": (signed(strangers[0], first.place, Attest(root=root)), *others),
        }
        return found[how]

    def test_only_the_committee_attests_the_step(self) -> None:
        ctx, past, event = taken(ChainedAnnounce, 2)
        link = link_of(RUN, event.message.claim)
        certified = past.verifying.certified  # type: ignore[union-attr]
        step, members = Place(certified.round), committee(ctx.plan, certified)
        outsider = next(p for p in certified.drawn.assignment.participants if p not in members)
        assert [may_attest(ctx.plan, certified, step, p) for p in (*members, outsider)] == [
            *(True for _ in members),
            False,
        ]
        others = [
            frame
            for frame in self.frames("right")
            if open_relayed(frame, ctx.plan.roster, RUN, SERVER, SERVER).place != step
        ]
        mine = [signed(party, step, Attest(root=link.root)) for party in members]
        check_attests(ctx.plan, certified, link, [*others, *mine])
        foreign = signed(outsider, step, Attest(root=link.root))
        with pytest.raises(PeerError, match=f"a confirmation of {outsider}, which is not a verifier"):
            check_attests(ctx.plan, certified, link, [*others, *mine[1:], foreign])

    @pytest.mark.parametrize("how", ["another root", "one twice", "of another cluster"])
    def test_words_that_do_not_count(self, how: str) -> None:
        ctx, past, event = taken(ChainedAnnounce, 2)
        link = link_of(RUN, event.message.claim)
        certified = past.verifying.certified  # type: ignore[union-attr]
        check_attests(ctx.plan, certified, link, self.frames("right"))
        with pytest.raises(PeerError):
            check_attests(ctx.plan, certified, link, self.frames(how))


class TestNewcomers:
    @pytest.mark.parametrize(("saying", "believed"), [(0, False), (2, False), (3, True), (11, True)])
    def test_more_than_q_others_have_to_say_so(self, saying: int, believed: bool) -> None:
        ctx, _, event = taken(ChainedAnnounce, 2)
        link = link_of(RUN, event.message.claim)
        others = [name for name in recorded()[0].parties if name != ctx.me]
        reveals: dict[PartyId, Reveal] = {
            name: ChainedReveal(nonce=bytes(32), root=link.root if n < saying else b"")
            for n, name in enumerate(others)
        }
        own = ChainedReveal(nonce=bytes(32), root=link.root)
        assert is_vouched_for(ctx, link, {**reveals, ctx.me: own}) is believed, "its own word is none"

    def test_who_was_away_is_not_sure(self) -> None:
        ctx, past, event = taken(ChainedAnnounce, 2)
        away = replace(past, verifying=None)
        _, link, sure, noted = follow(ctx, away, event.place, event.message, event.message.claim.model)
        assert (link.root, sure, noted) == (link_of(RUN, event.message.claim).root, False, ())

    def test_who_starts_again_knows_its_root(self) -> None:
        ctx, past, event = taken(ChainedAnnounce, 2)
        root = link_of(RUN, event.message.claim).root
        fresh = replace(past, link=None, verifying=None)
        said = event.message
        for known, sure in ((root, True), (bytes(32), False)):
            again = replace(ctx, root=known, root_round=said.claim.round - (not sure))
            assert follow(again, fresh, event.place, said, said.claim.model)[2] is sure
        for reached in (said.claim.round, said.claim.round + 1):
            further = replace(ctx, root=bytes(31) + b"1", root_round=reached)
            with pytest.raises(PeerError, match="earlier state"):
                follow(further, fresh, event.place, said, said.claim.model)


def test_a_root_is_noted_before_it_is_stated() -> None:
    _, past, event = taken(ChainedAnnounce, 2)
    link = link_of(RUN, event.message.claim)
    after, effects = accept_link(past, link)
    assert after.link == link
    assert after.verifying is None, "what is confirmed need not be verified again"
    assert isinstance(effects[0], Journal)
    assert effects[0].step == f"root {link.root.hex()}"
