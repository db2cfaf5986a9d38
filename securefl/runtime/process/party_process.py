"""One party: its own key, its own data, its own configuration."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Literal, cast

from securefl.base.arrays import F32, F64
from securefl.base.errors import UsageError
from securefl.base.ids import SERVER
from securefl.methods.attacks import behaviours_of, check_on_data
from securefl.methods.feasibility import check_new_work
from securefl.protocol.kernel import Aborted, Finished, Train
from securefl.protocol.round import PartyContext, PartyMachine, first_of, party_entropy, training_entropy
from securefl.protocol.wire import Outbox
from securefl.runtime.misbehaviour import Chain, nobody_tells, party_behaviour
from securefl.runtime.process.accomplice import accomplice_of
from securefl.runtime.process.assemble import (
    make_inbox,
    make_plan,
    open_transport,
    read_own_identity,
    stop_on_signals,
)
from securefl.runtime.process.ground_truth import recording
from securefl.runtime.process.memory import remembered
from securefl.runtime.process.ports import LocalWork, Witness
from securefl.runtime.process.privacy import check_own_privacy
from securefl.runtime.process.settings import ProcessSettings
from securefl.runtime.process.shell import Shell
from securefl.training.data import load_shard
from securefl.training.models import build_model, dimension, frozen_digest, limit_threads, pick_device
from securefl.training.rounds import RoundTrainer
from securefl.training.sgd import Chooser, initial_models


async def run_party(settings: ProcessSettings, open_witness: Callable[[], Witness]) -> Finished | Aborted:
    """Take part in the run until the server ends it; return how it ended.

    Args:
        settings: of this process.
        open_witness: called once all is checked and the broker is reached: a refused process writes nothing.

    Raises:
        ConfigError: something about this party's configuration, key or data is refused.
        RunAbortedError: the broker is out of reach, or journal or account cannot be written.
    """
    limit_threads()
    scenario, me = settings.scenario, settings.name
    identity, roster = read_own_identity(settings)
    root = settings.entropy()
    own = party_entropy(root, me)
    shown = behaviours_of(scenario, settings.seed)
    accomplice = accomplice_of(settings, shown)
    insight = nobody_tells if accomplice is None else accomplice.insight
    behaviour = party_behaviour(shown.get(me, ()), me, own, insight)
    shard = load_shard(settings.data_file)
    check_on_data(scenario.behaviours, shard.classes, shard.input_shape)
    check_new_work(scenario, len(shard.y))
    shape, seed = shard.input_shape, settings.seed
    module = build_model(scenario.model, shape, shard.classes, seed, tokens=shard.tokens)
    device = pick_device(cast("Literal['auto', 'cpu', 'cuda']", settings.device or scenario.training.device))
    trainer = RoundTrainer(module, shard, scenario.training, device, behaviour.data, behaviour.poisons)
    # A module of its own: a party chooses while it may still be at the last round's training.
    chooser = Chooser(deepcopy(module), shard, device) if scenario.groups.count > 1 else None
    plan = make_plan(settings, roster, dimension(module), frozen_digest(module))
    check_own_privacy(plan, len(shard.y), trusted=settings.accounted or root.insecure)

    def train(asked: Train) -> F64:
        limit_threads()  # in the thread that trains, too
        entropy = training_entropy(own, asked.round, asked.work)
        return trainer.update(asked.round, asked.params, asked.carry, entropy, asked.samples)

    def choose(params: F32) -> int | None:
        if chooser is None:
            raise UsageError("without task groups there is nothing to choose")
        limit_threads()
        return chooser.choose(params)

    with remembered(settings, identity, plan, shard) as memory:
        context = PartyContext(
            plan,
            me,
            behaviour.declared(len(shard.y)),
            own,
            recording(behaviour.seams, settings) if settings.lab else behaviour.seams,
            spent=memory.spent,
            releases=memory.releases,
            atom_seed=memory.atom_seed,
            allowed=memory.allowed,
            given=memory.given,
            choice=memory.choice,
            identity=identity,
            first=first_of(plan, initial_models(scenario, module, shard, seed)),
            root=memory.journal.root,
            rooted=memory.journal.rooted,
            prepared=plan.sums.prepared(),
        )
        transport, frame_limit = await open_transport(settings)
        try:
            shell = Shell(
                run=settings.run,
                me=me,
                machine=PartyMachine(context),
                transport=transport,
                inbox=make_inbox(plan, settings),
                outbox=Outbox(settings.run, identity, root.child("outbox", me), frame_limit),
                work=LocalWork(
                    train=train if accomplice is None else accomplice.telling(train), choose=choose
                ),
                witness=open_witness(),
                awaited=lambda _phase: (SERVER,),
                journal=memory.journal,
                account=memory.book,
                seam=behaviour.effects if accomplice is None else Chain([accomplice, behaviour.effects]),
            )
            stop_on_signals(shell)
            return await shell.run()
        finally:
            if accomplice is not None:
                accomplice.leave()
            await transport.close()
