"""Proofs, attests and claims of another place, party, run or cluster than they are about (ADR 0044)."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any, cast

import numpy as np
import pytest
from msgspec import structs

from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import PeerError
from securefl.base.ids import SERVER, PartyId, RunId
from securefl.protocol.kernel.events import Place, Received
from securefl.protocol.messages.verification import Attest, ChainedAnnounce, OpeningProof, StepProof
from securefl.protocol.round.party.verifying import follow, on_proof
from securefl.protocol.round.server.features.trust import Trust
from securefl.protocol.round.server.phases import BestOfRun, ModelProgress
from securefl.protocol.round.server.proving import on_attest, without_claim
from securefl.protocol.round.shared.chain import CertifiedRound, committee, link_of, may_attest
from securefl.protocol.round.shared.signed_claim import announced_contents, check_signed, sign_claim
from securefl.protocol.round.shared.statement import bound_statement, proof_context
from securefl.protocol.secure_sum.repeated import opening_contents
from tests.simulation.lying import distinct, reclaimed, resigned, verified
from tests.simulation.test_verifiers import Seen, receipts, recorded, refused, signed, taken
from tests.simulation.world import RUN, Node, World


def certified() -> tuple[Any, CertifiedRound]:
    """The plan of a run, and its round 1 as a survivor knows it."""
    ctx, past, _ = taken(ChainedAnnounce, 2)
    assert past.verifying is not None
    return ctx.plan, past.verifying.certified


def moved(seen: Seen, place: Place) -> Any:
    """The proof, sealed and signed by its server as one of another place."""
    ctx, past, event = seen
    root = link_of(RUN, event.message.claim).root
    plain = ctx.identity.open_sealed(event.message.sealed, proof_context(root, event.place, ctx.me))
    own = ctx.plan.roster.parties[ctx.me]
    sealed = own.seal(plain, proof_context(root, place, ctx.me), InsecureSeededEntropy(9))
    return resigned(ctx, past, place, structs.replace(event.message, sealed=sealed))


class TestAttests:
    def test_are_of_the_round_and_attempt_that_were_certified(self) -> None:
        plan, round_ = certified()
        key = next(iter(round_.commitments))
        member, judge = round_.alive(key)[0], committee(plan, round_)[0]
        assert may_attest(plan, round_, Place(round_.round, *key), member)
        assert may_attest(plan, round_, Place(round_.round), judge)
        for number, attempt in ((round_.round + 1, 0), (round_.round, 1)):
            assert not may_attest(plan, round_, Place(number, *key, attempt), member)
            assert not may_attest(plan, round_, Place(number, attempt=attempt), judge)

    def test_are_of_survivors(self) -> None:
        plan, round_ = certified()
        key = next(iter(round_.commitments))
        member, place = round_.alive(key)[0], Place(round_.round, *key)
        without = replace(round_, survivors=round_.survivors - {member})
        assert [may_attest(plan, one, place, member) for one in (round_, without)] == [True, False]

    def test_of_the_step_are_of_one_committee_whoever_drops_out(self) -> None:
        """Whose input is lost is the server's choice: it could drop members until it likes the committee."""
        plan, round_ = certified()
        for member in committee(plan, round_):
            without = replace(round_, survivors=round_.survivors - {member})
            assert committee(plan, without) == committee(plan, round_)


class TestProofs:
    @pytest.mark.parametrize(
        ("kind", "reason"),
        [(OpeningProof, "which this party is not in"), (StepProof, "outside the committee")],
    )
    def test_of_another_attempt(self, kind: type[Any], reason: str) -> None:
        seen = taken(kind)
        ctx, past, event = seen
        place = event.place._replace(attempt=event.place.attempt + 1)
        with pytest.raises(PeerError, match=reason):
            on_proof(ctx, past, place, moved(seen, place))
        assert on_proof(ctx, past, event.place, moved(seen, event.place)), "of its own place it is attested"

    def test_of_fewer_sums_than_were_certified(self) -> None:
        seen = taken(OpeningProof)
        ctx, past, event = seen
        claim = structs.replace(event.message.claim, sums=event.message.claim.sums[:-1])
        refused(
            seen, reclaimed(ctx, past, event.place, event.message, claim), "claims 2 sums, 3 were certified"
        )

    def test_with_vectors_behind_the_last(self) -> None:
        ctx, past, event = taken(OpeningProof)
        longer = structs.replace(event.message, vectors=event.message.vectors + bytes(4))
        with pytest.raises(PeerError, match="vectors of another length"):
            on_proof(ctx, past, event.place, longer)

    def test_with_a_receipt_of_another_attempt(self) -> None:
        seen = taken(OpeningProof)
        _, (party, stated) = min(receipts(seen).items())
        place = seen[2].place._replace(attempt=1)
        frames = (signed(party, place, stated), *seen[2].message.receipts[1:])
        refused(seen, structs.replace(seen[2].message, receipts=frames), "something else than its receipts")

    def test_with_a_receipt_of_other_lists(self) -> None:
        seen = taken(OpeningProof)
        _, (party, stated) = min(receipts(seen).items())
        other = structs.replace(stated, lists_digest=bytes(32))
        frames = (signed(party, seen[2].place, other), *seen[2].message.receipts[1:])
        refused(seen, structs.replace(seen[2].message, receipts=frames), "receipts of other lists")

    def test_with_a_receipt_twice(self) -> None:
        seen = taken(OpeningProof)
        frames = (*seen[2].message.receipts, seen[2].message.receipts[0])
        refused(
            seen, structs.replace(seen[2].message, receipts=frames), "without one receipt for each vector"
        )


def test_a_party_that_has_missed_a_link_is_not_sure_of_the_next() -> None:
    """It accuses nobody: the server that goes on from a link it has not seen may be honest."""
    ctx, past, event = taken(ChainedAnnounce, 2)
    _, earlier, _ = taken(ChainedAnnounce, 1)
    behind = replace(past, link=earlier.link)
    assert earlier.link is not None
    assert earlier.link.root != event.message.claim.previous
    after, link, sure, noted = follow(ctx, behind, event.place, event.message, event.message.claim.model)
    assert (link.root, sure, noted) == (link_of(RUN, event.message.claim).root, False, ())
    assert after.link == earlier.link


class TestDigests:
    """Each thing that a digest is over changes it, so that none stands for another."""

    def test_of_a_claim_as_the_server_signs_it(self) -> None:
        world, (_, _, event) = recorded()[0], taken(StepProof)
        server, roster = world.identities[SERVER], world.plan.roster
        claim = sign_claim(server, RUN, event.message.claim, event.place, bytes(32))
        check_signed(claim, roster, RUN)
        other = structs.replace(event.message.claim, model=bytes(32))
        for changed, run in (
            (claim, RunId("other")),
            (structs.replace(claim, claim=other), RUN),
            (structs.replace(claim, place=event.place._replace(attempt=1)), RUN),
            (structs.replace(claim, contents=bytes(31) + b"1"), RUN),
        ):
            with pytest.raises(PeerError, match="without a valid signature"):
                check_signed(changed, roster, run)

    def test_of_an_announcement(self) -> None:
        models, attests = (b"m", b"n"), ((), (b"a",), (b"b",), (b"a", b"b"))
        assert len({announced_contents(model, frames) for model in models for frames in attests}) == 8

    def test_of_an_opening(self) -> None:
        _, past, event = taken(OpeningProof)
        assert past.verifying is not None
        setup = past.verifying.instances[event.place.reclustering, event.place.cluster].setup
        right: dict[str, Any] = {
            "setup": setup,
            "sharers": {0, 1},
            "plain": b"p",
            "frames": ((b"a",), (b"r",)),
            "vectors": {0: b"v"},
        }
        others: list[dict[str, Any]] = [
            {"setup": replace(setup, members=setup.members[:-1])},
            {"sharers": {0}},
            {"plain": b"q"},
            {"frames": ((b"b",), (b"r",))},
            {"frames": ((b"a",), (b"s",))},
            {"vectors": {0: b"w"}},
            {"vectors": {1: b"v"}},
        ]
        assert len({opening_contents(**{**right, **other}) for other in ({}, *others)}) == 8

    def test_of_a_sealed_proof(self) -> None:
        me, other = PartyId("p00"), PartyId("p01")
        places = [Place(1), Place(2), Place(1, 0, 0)]
        assert len({proof_context(r, p, n) for r in (b"r", b"s") for p in places for n in (me, other)}) == 12

    def test_of_a_certificate_that_fixes_sums(self) -> None:
        found = {bound_statement(b"s", sums) for sums in ((), (b"a",), (b"b",), (b"a", b"b"), (b"b", b"a"))}
        assert len(found) == 5


@cache
def claimed() -> tuple[Any, Any, Received[Any]]:
    """A server's context, its phase before the first attest of round 1 came, and that attest."""
    seen: list[tuple[Any, Any, Received[Any]]] = []
    world = World(verified(rounds="2", server_optimiser__momentum="0.5"), length=16, train=distinct)

    def look(node: Node, before: Any, event: object, _after: object, _effects: object) -> None:
        if node.name == SERVER and isinstance(event, Received) and isinstance(event.message, Attest):
            seen.append((cast("Any", node.machine)._ctx, before, event))

    world.observers.append(look)
    world.run()
    return next(one for one in seen if one[2].place.round == 1)


class TestServer:
    def test_takes_one_attest_of_each_verifier_of_its_claim(self) -> None:
        ctx, phase, event = claimed()
        sender, place, root = event.sender, event.place, event.message.root
        pending = phase.standing.claims.pending
        assert root == pending.link.root
        after = on_attest(ctx, phase.standing, sender, place, event.message, event.signed)
        assert after.claims.pending is not None
        assert after.claims.pending.attests[place][sender] == event.signed
        with pytest.raises(PeerError, match="that it should not verify"):
            on_attest(ctx, phase.standing, sender, place, Attest(root=bytes(32)), event.signed)
        for standing, frame in ((after, event.signed), (phase.standing, b"")):
            with pytest.raises(PeerError, match="sends a confirmation at the wrong time"):
                on_attest(ctx, standing, sender, place, event.message, frame)

    def test_goes_back_to_all_that_a_void_round_began_with(self) -> None:
        """Model, optimiser, trust and what stopping goes by: an unconfirmed step leaves nothing."""
        _, phase, _ = claimed()
        before = replace(
            phase.standing.claims.pending.before,
            trust=Trust({PartyId("p00"): 1.0}),
            progress=ModelProgress(0.5, 1, BestOfRun(0, 0.5, np.ones(16, dtype=np.float32))),
            updates=3,
            rounds_without_update=2,
        )
        stepped = replace(
            phase.standing,
            params=before.params + np.float32(1),
            moments=before.moments + 1.0,
            trust=Trust({PartyId("p01"): 1.0}),
            updates=4,
            rounds_without_update=0,
            claims=replace(
                phase.standing.claims, pending=replace(phase.standing.claims.pending, before=before)
            ),
            progress=replace(
                phase.standing.progress,
                best=BestOfRun(1, 0.75, np.zeros(16, dtype=np.float32)),
                best_accuracy=0.75,
                stale_rounds=0,
            ),
        )
        void = without_claim(stepped)
        assert void.claims.pending is None
        names = ("params", "moments", "trust", "progress", "updates")
        for name in (*names, "rounds_without_update"):
            assert getattr(void, name) is getattr(before, name), name
