"""Recorded runs in memory, written down as the processes of a run write theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from securefl.base.arrays import F32
from securefl.base.crypto.keyfiles import write_roster
from securefl.base.ids import DEALER, SERVER, PartyId
from securefl.methods.attacks.assignment import party_names
from securefl.protocol.kernel.effects import Aborted, Finished, Report, Send
from securefl.protocol.kernel.events import Received
from securefl.protocol.kernel.machine import Event
from securefl.protocol.messages.control import Software
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.round.party.upload import HONEST, Seams
from securefl.protocol.round.shared.reports import RunEffect
from securefl.protocol.wire.inbox import Delivery
from securefl.runtime.process.ground_truth import LAB_FRAMES, recording
from securefl.runtime.process.settings import ProcessSettings
from securefl.runtime.report.metrics import RunMetrics
from securefl.runtime.report.outcome import RunEnd
from securefl.runtime.report.rundir import RunDirectory
from securefl.runtime.report.summary import summarise
from securefl.runtime.report.witness import ProcessWitness
from securefl.runtime.transcript.ends import ends_in
from securefl.runtime.transport.base import BrokerUrl
from securefl.scenario.scenario import Scenario
from tests.simulation.rosters import seeded_identities
from tests.simulation.world import RUN, Node, Op, World

TrainFn = Callable[[PartyId, int, F32], F32]


def drifting(party: PartyId, round_: int, params: F32) -> F32:
    """Every party and round has another update."""
    of_party = int(party[1:]) if party[1:].isdecimal() else sum(party.encode())
    drawn = np.random.default_rng([of_party, round_])
    return params + drawn.normal(0.0, 0.1, len(params)).astype(np.float32)


class RecordedWorld(World):
    """A world whose nodes have witnesses."""

    witnesses: dict[PartyId, ProcessWitness]
    witness_of: Callable[[PartyId], ProcessWitness]
    """Makes a process's witness; that of a process that starts again writes a transcript of its own."""
    metrics: RunMetrics

    def _revive(self, node: Node) -> None:
        self.witnesses[node.name]._writer.abandon()
        self.witnesses[node.name] = self.witness_of(node.name)
        super()._revive(node)

    def _perform(self, node: Node, effects: tuple[RunEffect, ...]) -> None:
        witness = self.witnesses[node.name]
        for effect in effects:
            match effect:
                case Send():
                    witness.record_sent(self.now, effect)
                case Report(item=item):
                    witness.report(self.now, item)
                    if node.name == SERVER:
                        self.metrics.on_report(self.now, item)
                case Finished() | Aborted():
                    witness.close(effect)
                case _:
                    pass
        super()._perform(node, effects)

    def _step(self, node: Node, event: Event[AnyMessage]) -> None:
        # A process that has ended hears nothing more.
        if isinstance(event, Received) and node.outcome is None:
            delivery = Delivery(event.sender, event.place, event.message, event.signed)
            self.witnesses[node.name].record_received(event.now, delivery)
        refused = len(node.rejects)
        super()._step(node, event)
        for reject in node.rejects[refused:]:
            self.witnesses[node.name].record_refusal(self.now, reject.culprit, reject.reason, reject.evidence)


def record(
    out: Path,
    scenario: Scenario,
    *,
    ops: Iterable[Op] = (),
    length: int = 64,
    train: TrainFn = drifting,
    lab: bool = False,
    prepare: Callable[[World], None] = lambda _world: None,
    choose: Callable[[PartyId, int], int | None] = lambda _party, _round: 0,
    roster: tuple[PartyId, ...] | None = None,
    bounds: Callable[[PartyId], int | None] = lambda _name: None,
    software: Callable[[PartyId], Software | None] = lambda _name: None,
    frozen: bytes = b"",
) -> RunDirectory:
    """Run a world to its end and leave a run directory.

    ``roster``: names of the parties, where a launcher has not given them; ``bounds``: bytes that each
    process's transcript may take; ``software``: versions that each process reports; ``frozen``: digest of
    parameters that are not trained.
    """
    directory = RunDirectory.create(out, scenario.name)
    directory.write_scenario(scenario)
    parties, dealt = roster or party_names(scenario.parties), scenario.secure_sum.validated is not None
    names = [SERVER, *parties, *([DEALER] if dealt else [])]
    roster_file = out.with_name(f"{out.name}-roster.toml")
    write_roster(roster_file, seeded_identities(parties, 1, dealt)[1])
    settings = {
        name: replace(
            _settings(scenario, directory.path, name, roster_file, lab=lab), transcript_bytes=bounds(name)
        )
        for name in names
    }
    seams: dict[PartyId, Seams] = {}
    if lab:
        seams = {name: recording(HONEST, settings[name]) for name in parties}
    world = RecordedWorld(
        scenario,
        length=length,
        train=train,
        ops=ops,
        seams=seams,
        choose=choose,
        parties=roster,
        software=software,
        frozen=frozen,
    )
    bits = world.plan.limits.ring_bits
    world.witness_of = lambda name: ProcessWitness(settings[name], lambda _news: None, bits, world.plan)
    world.witnesses = {name: world.witness_of(name) for name in names}
    rows = directory.metrics()
    world.metrics = RunMetrics(scenario, rows.append, parties=parties)
    prepare(world)
    world.run()
    rows.close()
    for node in world.nodes.values():
        if node.outcome is None:
            # A process that was killed leaves no end.
            world.witnesses[node.name]._writer.abandon()
    if lab:
        frames = b"".join(len(frame).to_bytes(4, "little") + frame for frame in world.frames)
        (directory.lab / LAB_FRAMES).write_bytes(frames)
    outcome = world.server.outcome
    assert outcome is not None
    world.metrics.on_end(RunEnd(reason=outcome.reason, aborted=not isinstance(outcome, Finished)))
    summary = summarise(
        run=RUN,
        scenario=scenario,
        metrics=world.metrics,
        insecure=True,
        seconds=1.0,
        files={},
        ends=ends_in(directory.path / "transcripts"),
    )
    directory.write_json(directory.summary_file.name, summary.to_json())
    return directory


def _settings(
    scenario: Scenario, out: Path, name: PartyId, roster_file: Path, *, lab: bool
) -> ProcessSettings:
    nowhere = Path("nowhere")
    return ProcessSettings(
        scenario=scenario,
        run=RUN,
        name=name,
        identity=nowhere,
        roster_file=roster_file,
        broker=BrokerUrl("mqtt", "localhost", 1),
        data_file=nowhere,
        out=out,
        seed=1,
        insecure=True,
        lab=lab,
    )
