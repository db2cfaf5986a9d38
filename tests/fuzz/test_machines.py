"""Whatever a peer signs: a machine never raises, and what it refuses leaves its phase as it was."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, TypeAlias

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from securefl.base.ids import SERVER, PartyId
from securefl.protocol.kernel.effects import Reject
from securefl.protocol.kernel.events import Received
from securefl.protocol.kernel.machine import Event
from securefl.protocol.messages.rounds import Release
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.round.party import phases as party_phases
from securefl.protocol.round.party.following import follow_session
from securefl.protocol.round.server import phases as server_phases
from securefl.protocol.round.server.connections import record_session
from securefl.protocol.round.shared.reports import RunEffect
from securefl.protocol.secure_sum.removal import MemoryStore
from tests.simulation.world import Node, World, scenario
from tests.tiers import examples

from .strategies import Pool, places


@dataclass(frozen=True)
class Moment:
    """A machine in a phase that a real run went through."""

    machine: Any
    phase: Any
    now: float
    store: MemoryStore
    vectors: dict[int, bytes] = field(repr=False)

    def step(self, event: Event[AnyMessage]) -> tuple[Any, tuple[RunEffect, ...]]:
        """Take one event, as if nothing else had happened since."""
        self.store._vectors = dict(self.vectors)
        after, effects = self.machine.step(self.phase, event)
        return after, effects


Step: TypeAlias = tuple[Moment, Received[AnyMessage]]


@dataclass
class Run:
    """Moments of one kind of run, one per kind of phase, and what was said in it."""

    moments: dict[str, Moment] = field(default_factory=dict)
    taken: list[Step] = field(default_factory=list)
    """What server and one party received, and the moment at which they did."""
    blobs: set[bytes] = field(default_factory=set)
    frames: set[bytes] = field(default_factory=set)
    names: set[str] = field(default_factory=set)


def kind_of(phase: Any) -> str:
    instances = getattr(phase, "instances", {})
    inner = {type(instance).__name__ for instance in instances.values()}
    return f"{type(phase).__name__}({', '.join(sorted(inner))})"


@cache
def recorded(server: str) -> Run:
    run = Run()
    more = {"aggregation__rule": '{ type = "zeno++" }', "data__server_fraction": "0.1"}
    world = World(
        scenario(6, server=server, reclusterings="2", rounds="2", **(more if server == "active" else {}))
    )
    run.names = {*world.parties, "server"}
    store = world.server_store
    vectors: list[dict[int, bytes]] = [{}]

    def observe(
        node: Node,
        before: object,
        event: Event[AnyMessage],
        after: object,
        _effects: tuple[RunEffect, ...],
    ) -> None:
        if isinstance(event, Received):
            fields = [getattr(event.message, name) for name in event.message.__struct_fields__]
            run.blobs |= {value for value in fields if isinstance(value, bytes)}
            run.frames.add(event.signed)
        if node.name not in {SERVER, world.parties[0]}:
            return
        if isinstance(event, Received):
            run.taken.append((Moment(node.machine, before, event.now, store, vectors[-1]), event))
        vectors.append(dict(store._vectors))
        who = "server" if node.name == SERVER else "party"
        moment = Moment(node.machine, after, event.now, store, vectors[-1])
        run.moments.setdefault(f"{who} {kind_of(after)}", moment)

    world.observers.append(observe)
    world.run()
    return run


def steps(run: Run) -> st.SearchStrategy[Step]:
    """An arbitrary message at an arbitrary moment, or a real one altered in one respect at its moment."""
    pool = Pool(sorted(run.names), sorted(run.frames), sorted(run.blobs))
    anywhere = places([event.place for _, event in run.taken])
    senders = st.sampled_from([PartyId(name) for name in sorted(run.names)])
    moments = st.sampled_from(sorted(run.moments))

    def arbitrary(name: str) -> st.SearchStrategy[Step]:
        moment = run.moments[name]
        sender = st.just(SERVER) if name.startswith("party") else senders
        signed = st.sampled_from(sorted(run.frames))
        event = st.builds(Received, st.just(moment.now), sender, anywhere, pool.messages(), signed)
        return st.tuples(st.just(moment), event)

    def altered(real: Step) -> st.SearchStrategy[Step]:
        moment, event = real
        events = st.one_of(
            pool.altered(event.message).map(lambda message: replace(event, message=message)),
            anywhere.map(lambda place: replace(event, place=place)),
            senders.map(lambda sender: replace(event, sender=sender)),
            st.just(replace(event, signed=b"")),
        )
        return st.tuples(st.just(moment), events)

    def misplaced(real: Step) -> st.SearchStrategy[Step]:
        return moments.map(lambda name: (run.moments[name], replace(real[1], now=run.moments[name].now)))

    real = st.sampled_from(run.taken)
    return st.one_of(real.flatmap(altered), real.flatmap(misplaced), moments.flatmap(arbitrary))


FUZZ = settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))


def with_session(phase: Any, event: Received[AnyMessage]) -> Any:
    """The phase with the sender's session, which a machine notes before it looks at what the message is."""
    if hasattr(phase, "past"):
        return follow_session(phase, event.session)[0] if event.sender == SERVER else phase
    return record_session(phase, event.sender, event.session) if hasattr(phase, "standing") else phase


def check(step: Step) -> None:
    moment, event = step
    after, effects = moment.step(event)
    refused = [effect for effect in effects if isinstance(effect, Reject)]
    # A release may be refused for one instance and taken for the others.
    if refused and not isinstance(event.message, Release):
        assert after == with_session(moment.phase, event)
        assert len(refused) == 1
        assert refused[0].reason


def test_the_runs_reach_every_phase() -> None:
    reached = {name.split("(")[0] for server in ("curious", "active") for name in recorded(server).moments}
    of_server = (
        server_phases.Joining,
        server_phases.CollectingHellos,
        server_phases.CollectingNonces,
        server_phases.Summing,
        server_phases.Certifying,
        server_phases.Releasing,
        server_phases.Consulting,
        server_phases.Evaluating,
        server_phases.Ended,
    )
    of_party = (
        party_phases.Idle,
        party_phases.ModelReceived,
        party_phases.HelloSent,
        party_phases.NonceRevealed,
        party_phases.Working,
        party_phases.Endorsed,
        party_phases.Ended,
    )
    wanted = {f"server {kind.__name__}" for kind in of_server}
    wanted |= {f"party {kind.__name__}" for kind in of_party}
    assert wanted == reached


@given(st.deferred(lambda: steps(recorded("curious"))))
@FUZZ
def test_with_a_curious_server(step: Step) -> None:
    check(step)


@given(st.deferred(lambda: steps(recorded("active"))))
@FUZZ
def test_with_an_active_server(step: Step) -> None:
    check(step)
