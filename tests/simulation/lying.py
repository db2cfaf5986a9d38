"""Servers that lie about what a round came to, with whatever parties collude, against the real machines."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from msgspec import structs

from securefl.base.arrays import F32
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.ids import SERVER, PartyId
from securefl.protocol import messages
from securefl.protocol.kernel.effects import Send
from securefl.protocol.kernel.events import Place, Received
from securefl.protocol.kernel.machine import Event
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.messages.verification import (
    Attest,
    ChainedAnnounce,
    OpeningProof,
    RoundClaim,
    StepProof,
)
from securefl.protocol.round.server import opening, proving
from securefl.protocol.round.server.proving import OpenedSums
from securefl.protocol.round.server.stacking import ClusterSum
from securefl.protocol.round.shared.chain import link_of
from securefl.protocol.round.shared.charges import Charge, parse_evidence
from securefl.protocol.round.shared.reports import ClaimConfirmed, ClaimRefused, RunEffect
from securefl.protocol.round.shared.signed_claim import announced_contents, sign_claim, step_contents
from securefl.protocol.round.shared.statement import proof_context
from securefl.protocol.secure_sum.evidence import OpenedSecrets
from securefl.protocol.secure_sum.repeated import opening_contents, proven_vectors
from securefl.scenario.scenario import Scenario
from tests.simulation.rosters import seeded_identities
from tests.simulation.world import RUN, Op, World, scenario

PARTIES = 12
Trained = tuple[PartyId, int, bytes]


def verified(**more: str) -> Scenario:
    """Twelve parties in clusters of four, an active server, one colluder in a cluster and two in all."""
    settings = {
        "size": "4",
        "threshold": "3",
        "min_survivors": "3",
        "server": "active",
        "rounds": "3",
        "secure_sum__verify": '"committee"',
        "secure_sum__colluders": "2",
        "secure_sum__colluders_per_cluster": "1",
    }
    return scenario(PARTIES, **{**settings, **more})


def distinct(name: PartyId, round_: int, params: F32) -> F32:
    """An update that has no symmetry: no two parties, rounds or coordinates have the same."""
    drawn = np.random.default_rng([int(name[1:]), round_]).normal(0.0, 4.0, len(params))
    return np.asarray(params + drawn.astype(np.float32), dtype=np.float32)


class Evidence(NamedTuple):
    """A refusal and the charge that came with it."""

    culprit: str
    reason: str
    charge: Charge


def kept_evidence(world: World, *names: str) -> list[Evidence]:
    """Return the evidence of the named processes, of the server's if none is named."""
    return [
        Evidence(one.culprit, one.reason, parse_evidence(one.evidence))
        for name in names or (SERVER,)
        for one in world.nodes[PartyId(name)].rejects
        if one.evidence
    ]


@dataclass
class Followed:
    """A run, and every model that somebody trained on."""

    world: World
    trained: set[Trained]

    def models(self, round_: int, honest: Collection[PartyId]) -> set[bytes]:
        """What honest parties trained on in a round."""
        return {params for party, at, params in self.trained if at == round_ and party in honest}

    @property
    def confirmed(self) -> list[int]:
        """Rounds whose claim the server saw confirmed."""
        return [one.round for one in self.world.reports(ClaimConfirmed)]

    @property
    def refused(self) -> list[tuple[int, str]]:
        """Rounds whose step is void, and why."""
        return [(one.round, one.reason) for one in self.world.reports(ClaimRefused)]

    def reasons(self, honest: Collection[PartyId]) -> str:
        """Why honest parties refused what the server sent."""
        return "\n".join(r.reason for name in honest for r in self.world.nodes[name].rejects)


def followed(
    made: Scenario, corrupt: Collection[PartyId] = (), ops: Collection[Op] = (), **more: Any
) -> Followed:
    """Run the machines; ``corrupt`` parties attest whatever is claimed, unseen."""
    trained: set[Trained] = set()

    def train(party: PartyId, round_: int, params: F32) -> F32:
        trained.add((party, round_, params.tobytes()))
        return distinct(party, round_, params)

    world = World(made, length=16, train=train, ops=ops, **more)
    for name in corrupt:
        world.nodes[name].seam = attesting
    world.run()
    return Followed(world, trained)


def attesting(event: Event[AnyMessage], effects: tuple[RunEffect, ...]) -> tuple[RunEffect, ...]:
    """A colluder's seam: it attests every claim that it is shown."""
    if not isinstance(event, Received) or not isinstance(event.message, OpeningProof | StepProof):
        return effects
    kept = tuple(one for one in effects if not (isinstance(one, Send) and isinstance(one.message, Attest)))
    root = link_of(RUN, event.message.claim).root
    return (*kept, Send(SERVER, event.place, Attest(root=root)))


def resigned(ctx: Any, past: Any, place: Place, message: Any, seed: int = 1, model: bytes = b"") -> Any:
    """A proof or an announcement that was altered, with the signature of a server that sends it so."""
    plan = ctx.plan
    server = seeded_identities(tuple(plan.roster.parties), seed, plan.roster.dealer is not None)[0][SERVER]
    if isinstance(message, ChainedAnnounce):
        contents = announced_contents(model or message.claim.model, message.attests)
    else:
        context = proof_context(link_of(RUN, message.claim).root, place, ctx.me)
        plain = ctx.identity.open_sealed(message.sealed, context)
        contents = step_contents(plain)
        if isinstance(message, OpeningProof):
            known = past.verifying.instances[place.reclustering, place.cluster]
            digests = proven_vectors(known, message.vectors).digests
            frames = message.adverts, message.receipts
            contents = opening_contents(known.setup, known.sharers, plain, frames, digests)
    signature = sign_claim(server, RUN, message.claim, place, contents).signature
    return structs.replace(message, signature=signature)


def reclaimed(ctx: Any, past: Any, place: Place, message: Any, claim: RoundClaim) -> Any:
    """The same proof of another claim, sealed and signed as a server would."""
    before, after = (proof_context(link_of(RUN, one).root, place, ctx.me) for one in (message.claim, claim))
    plain = ctx.identity.open_sealed(message.sealed, before)
    sealed = ctx.plan.roster.parties[ctx.me].seal(plain, after, InsecureSeededEntropy(9))
    return resigned(ctx, past, place, structs.replace(message, claim=claim, sealed=sealed))


Sums = tuple[ClusterSum, ...]


@contextmanager
def other_sums(change: Callable[[Sums], Sums]) -> Iterator[None]:
    """The server takes other sums than it opened, and claims them."""
    honest = opening.unmask_all

    def unmask(*args: Any) -> Any:
        unmasked, effects = honest(*args)
        return replace(unmasked, sums=change(unmasked.sums)), effects

    with patch.object(opening, "unmask_all", unmask):
        yield


@contextmanager
def other_secrets(change: Callable[[OpenedSecrets], OpenedSecrets]) -> Iterator[None]:
    """The server proves its sums with other secrets than members shared."""
    honest = opening.unmask_all

    def unmask(*args: Any) -> Any:
        unmasked, effects = honest(*args)
        secrets: Mapping[Any, OpenedSecrets] = {k: change(one) for k, one in unmasked.secrets.items()}
        return OpenedSums(unmasked.sums, secrets), effects

    with patch.object(opening, "unmask_all", unmask):
        yield


@contextmanager
def other_outcome(**changes: Callable[[Any], Any]) -> Iterator[None]:
    """The server's step ends in another ``params`` or ``moments`` than its sums make, and it claims that."""
    honest = proving.claim_step

    def claim(ctx: Any, before: Any, after: Any, *rest: Any) -> Any:
        lied = {name: change(getattr(after, name)) for name, change in changes.items()}
        return honest(ctx, before, replace(after, **lied), *rest)

    with patch.object(proving, "claim_step", claim):
        yield


@contextmanager
def other_claim(change: Callable[[RoundClaim], RoundClaim]) -> Iterator[None]:
    """The server claims and proves something else about its round."""

    class Changed:
        """The package of messages as the server's proofs use it, with other claims."""

        def RoundClaim(self, **fields: Any) -> RoundClaim:  # noqa: N802 - the name of the message
            return change(RoundClaim(**fields))

        def __getattr__(self, name: str) -> Any:
            return getattr(messages, name)

    with patch.object(proving, "messages", Changed()):
        yield
