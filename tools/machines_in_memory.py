"""What simulating with the machines of a run would cost: they, in memory, beside the rounds of ``simulate``.

    python tools/machines_in_memory.py course|machines|shared PARTIES ROUNDS

``course`` are the rounds of ``simulate``. ``machines`` are those of a run with ``secure_sum.kind = "plain"``,
without frames, signatures and sealed boxes. ``shared`` also computes once what every party computes for
itself: the draw and the answers of the leakage ledger. Nobody trains: all send the same update. Printed: CPU
seconds of a round, peak MB.

Results: docs/adr/0039-a-port-for-sums.md.
"""

from __future__ import annotations

import gc
import resource
import sys
import time
from collections import deque
from contextlib import ExitStack
from unittest.mock import patch

import numpy as np
import torch

from securefl.base.crypto.identity import PublicIdentity
from securefl.base.crypto.roster import make_identities
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.ids import EVERYONE, SERVER, RunId
from securefl.methods.attacks.assignment import party_names
from securefl.methods.feasibility.limits import check
from securefl.protocol.kernel.effects import AwaitSent, Evaluate, Report, Send, Train
from securefl.protocol.kernel.events import AllSent, Evaluated, Received, Trained
from securefl.protocol.round.party import draw as party_draw
from securefl.protocol.round.party import release as party_release
from securefl.protocol.round.party.machine import PartyMachine
from securefl.protocol.round.party.phases import PartyContext
from securefl.protocol.round.server.machine import ServerMachine
from securefl.protocol.round.server.phases import ServerContext
from securefl.protocol.round.shared.leakage import Question
from securefl.protocol.round.shared.plan import RunPlan
from securefl.protocol.round.shared.randomness import party_entropy
from securefl.protocol.round.shared.reports import SumOpened
from securefl.protocol.secure_sum import adverts
from securefl.protocol.secure_sum.removal import MemoryStore
from securefl.protocol.wire.inbox import Delivery
from securefl.runtime.misbehaviour.assignment import party_behaviour
from securefl.runtime.simulation.federation import SimulatedFederation
from securefl.runtime.simulation.party import SimulatedParty
from securefl.runtime.simulation.rounds import SimulatedRounds
from securefl.runtime.simulation.trainers import Trainings, one_by_one
from securefl.scenario.load import parse_scenario
from securefl.training.sgd.outcomes import Evaluation

LENGTH = 25_450
SCENARIO = """
name = "cost"
parties = {parties}
[clustering]
size = 5
[secure_sum]
kind = "plain"
threshold = 3
min_survivors = 3
[aggregation]
rule = {{ type = "median" }}
[deadlines]
hello = 8e4
reveal = 8e4
[stop]
rounds = {rounds}
"""
RUN = RunId("cost")


def machines(plan, root, update, shared):  # noqa: C901 - one branch per effect
    """All rounds with machines, every message handed over as it is."""
    frames, queue, phases, opened = {}, deque(), {}, 0
    names = list(plan.roster.parties)
    context = ServerContext(plan, IDENTITY, MemoryStore(), START, root.child("server"))
    machine_of = {SERVER: ServerMachine(context)}
    machine_of |= {n: PartyMachine(PartyContext(plan, n, 10, party_entropy(root, n))) for n in names}

    def send(name, effect):
        signed = b""
        if name != SERVER:
            signed = len(frames).to_bytes(64, "big")
            frames[signed] = Delivery(name, effect.place, effect.message, signed)
        got = Received(0.0, name, effect.place, effect.message, signed)
        queue.extend((one, got) for one in (names if effect.to == EVERYONE else [effect.to]))

    def perform(name, effects):
        nonlocal opened
        for effect in effects:
            match effect:
                case Send():
                    send(name, effect)
                case Report(item=SumOpened()):
                    opened += 1
                case Train():
                    queue.append((name, Trained(0.0, effect.round, effect.work, update)))
                case Evaluate():
                    frames.clear()
                    queue.append((name, Evaluated(0.0, effect.round, 0.5, 1.0)))
                case AwaitSent():
                    queue.append((name, AllSent(0.0, effect.round, effect.draw)))

    with ExitStack() as stack:
        for module in (party_draw, party_release, adverts):
            stack.enter_context(patch.object(module, "open_relayed", lambda frame, *_: frames[frame]))
        stack.enter_context(patch.object(PublicIdentity, "seal", lambda _self, plain, *_: plain))
        stack.enter_context(patch.object(type(IDENTITY), "open_sealed", lambda _self, box, *_: box))
        if shared:
            once(stack, party_draw, "draw_round", lambda _plan, round_, draw, *_: (round_, draw))
            once(stack, party_draw, "announced_digest", lambda hellos: next(iter(hellos.values())).commitment)
            once(stack, Question, "answer", lambda self, seed=b"": (self.round, self.survivors, seed))
        for name, machine in machine_of.items():
            phases[name], effects = machine.start(0.0)
            perform(name, effects)
        while queue:
            name, event = queue.popleft()
            phases[name], effects = machine_of[name].step(phases[name], event)
            perform(name, effects)
    if opened != len(names) // 5 * plan.scenario.stop.rounds:
        raise SystemExit(f"only {opened} sums were opened")


def once(stack, owner, name, key):
    """Compute ``owner.name`` once for each key."""
    real, known = getattr(owner, name), {}

    def cached(*args, **kwargs):
        found = key(*args, **kwargs)
        if found not in known:
            known[found] = real(*args, **kwargs)
        return known[found]

    stack.enter_context(patch.object(owner, name, cached))


def course(plan, root, update):
    """All rounds as ``simulate`` has them."""
    parties = {n: SimulatedParty(n, party_behaviour((), n), 10, root) for n in plan.roster.parties}
    crew = one_by_one([{n: lambda *_: update for n in parties}], root)
    federation = SimulatedFederation(plan, parties, Trainings(crew), torch.nn.Identity(), None, START)
    SimulatedRounds(federation, ()).run(lambda _params: Evaluation(0.5, 1.0))


mode, count, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
scenario = parse_scenario(SCENARIO.format(parties=count, rounds=rounds), ())
root = InsecureSeededEntropy(1)
identities, roster = make_identities(party_names(count), root)
IDENTITY = identities[SERVER]
START = np.zeros(LENGTH, dtype=np.float32)
plan = RunPlan(RUN, scenario, check(scenario), roster, LENGTH)
update = np.random.default_rng(1).standard_normal(LENGTH) / 100
gc.collect()
began = time.process_time()
if mode == "course":
    course(plan, root, update)
else:
    machines(plan, root, update, mode == "shared")
spent = (time.process_time() - began) / rounds
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(f"{mode:9} {count:6} parties: {spent:8.3f} CPU s a round, peak {peak:7.0f} MB")
