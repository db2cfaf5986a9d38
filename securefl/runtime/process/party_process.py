"""Process of one party: its own key, data and configuration."""

from collections.abc import Callable, Sequence

from securefl.base import entropy
from securefl.methods import attacks
from securefl.protocol import kernel, wire
from securefl.protocol.round import PartyContext, PartyMachine, first_link, party_entropy
from securefl.runtime import misbehaviour
from securefl.runtime.process import assemble, ports
from securefl.runtime.process.accomplice import accomplice_of
from securefl.runtime.process.ground_truth import recording
from securefl.runtime.process.memory import open_memory
from securefl.runtime.process.model_files import HeardModel, ResultKeeper
from securefl.runtime.process.own_work import own_work
from securefl.runtime.process.privacy import check_own_privacy
from securefl.runtime.process.settings import ProcessSettings
from securefl.runtime.process.shell import Shell
from securefl.runtime.process.software import own_software
from securefl.training import models

KEPT_MODEL = "{}.model.safetensors"
HEARD_MODEL = "{}.last.safetensors"


class DroppedMetrics:
    """Remarks on a site's ignored metrics."""

    def __init__(self, remark: Callable[[str], None]) -> None:
        self._remark = remark
        self._last: tuple[str, ...] = ()

    def __call__(self, round_: int, notes: Sequence[str]) -> None:
        """Report the reasons of a round if they changed."""
        if self._last != tuple(notes):
            self._last = tuple(notes)
            for note in notes:
                self._remark(f"round {round_}: {note}")


async def run_party(
    settings: ProcessSettings, open_witness: ports.OpenWitness
) -> kernel.Finished | kernel.Aborted:
    """Take part in the run until the server ends it; return the outcome.

    ``open_witness`` is called after all checks and the connection: a refused process writes nothing.

    Raises:
        ConfigError: configuration, key or data are refused.
        RunAbortedError: the broker is out of reach, or journal or account cannot be written.
    """
    models.limit_threads()
    scenario, me = settings.scenario, settings.name
    identity, roster = assemble.read_own_identity(settings)
    root = settings.entropy()
    own = party_entropy(root, me)
    shown = attacks.behaviours_of(scenario, settings.seed)
    accomplice = accomplice_of(settings, shown)
    insight = misbehaviour.nobody_tells if accomplice is None else accomplice.insight
    behaviour = misbehaviour.party_behaviour(shown.get(me, ()), me, own, insight)
    work = own_work(settings, behaviour, own)
    plan = assemble.make_plan(
        settings,
        roster,
        models.dimension(work.module),
        models.frozen_digest(work.module),
        models.averaged_state(work.module),
    )
    check_own_privacy(plan, work.data.samples, trusted=settings.accounted or root.insecure)
    with open_memory(settings, identity, plan, work.data) as memory:
        context = PartyContext(
            plan,
            me,
            behaviour.declared_samples(work.data.samples),
            own,
            recording(behaviour.seams, settings) if settings.lab else behaviour.seams,
            **memory.context(plan),
            identity=identity,
            first=first_link(plan, work.initial),
            prepared=plan.sums.prepare(),
            software=own_software(),
            trains_last=work.holds_up,
        )
        # A training may be silent while it holds the interpreter lock.
        silence = scenario.deadlines.training if work.holds_up else 0.0
        transport, frame_limit = await assemble.open_transport(settings, silence)
        machine = PartyMachine(context)
        try:
            witness = open_witness(plan)
            if work.log is not None:
                work.log.follow(DroppedMetrics(witness.remark))
            shell = Shell(
                run=settings.run,
                me=me,
                machine=machine,
                transport=transport,
                inbox=assemble.make_inbox(plan, settings, memory.journal.leader),
                broker_patience=settings.broker_patience,
                outbox=wire.Outbox(settings.run, identity, entropy.OsEntropy(), frame_limit),
                work=ports.LocalWork(
                    train=work.train if accomplice is None else accomplice.telling(work.train),
                    choose=work.choose,
                    holds_up=work.holds_up,
                ),
                witness=ResultKeeper(
                    witness,
                    settings.out / KEPT_MODEL.format(me),
                    work.module,
                    scenario,
                    HeardModel(settings.out / HEARD_MODEL.format(me), work.module, scenario)
                    if settings.keep_heard
                    else None,
                ),
                awaited=machine.awaited_peers,
                journal=memory.journal,
                account=memory.account,
                seam=behaviour.effects
                if accomplice is None
                else misbehaviour.Chain([accomplice, behaviour.effects]),
            )
            assemble.stop_on_signals(shell)
            return await shell.run()
        finally:
            if accomplice is not None:
                accomplice.leave()
            await transport.close()
