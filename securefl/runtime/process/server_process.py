"""Server process, and its store of masked vectors.

The server holds the model, the test set, its own samples if the rule needs some, and never an update.
"""

import asyncio
import contextlib
import os
import signal
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import torch

from securefl.base import text
from securefl.base.arrays import F32, F64
from securefl.base.entropy import OsEntropy
from securefl.base.errors import ConfigError, RunAbortedError, SecureflError
from securefl.base.ids import EVERYONE, SERVER
from securefl.methods import attacks, robust
from securefl.protocol import kernel, messages, wire
from securefl.protocol.round import MAX_VECTOR_BYTES, Resumed, ServerContext, ServerMachine, server_entropy
from securefl.protocol.wire import topics
from securefl.runtime import misbehaviour
from securefl.runtime.process import assemble, ports
from securefl.runtime.process.checkpoint import CheckpointFile
from securefl.runtime.process.journal import FileJournal
from securefl.runtime.process.model_files import ResultKeeper, RoundModels
from securefl.runtime.process.publisher import FAREWELL_SECONDS
from securefl.runtime.process.settings import ProcessSettings
from securefl.runtime.process.shell import Shell
from securefl.runtime.process.software import own_software
from securefl.runtime.transport import RunOverError, Transport, sole_server
from securefl.training import data, sgd
from securefl.training.models import (
    averaged_state,
    dimension,
    frozen_digest,
    keep_model,
    limit_threads,
    model_of,
    pick_device,
    to_vector,
)


class SpoolingStore:
    """``VectorStore`` that spills to one unlinked temporary file.

    Masked vectors are uniform: the file needs no protection beyond mode 0600.
    """

    def __init__(self, memory_limit: int, directory: Path | None = None) -> None:
        self._limit = memory_limit
        self._directory = directory
        self._memory: dict[int, bytes] = {}
        self._used = 0
        self._file: int | None = None
        self._spooled: dict[int, tuple[int, int]] = {}
        self._end = 0
        self._next = 0

    def put(self, vector: bytes) -> int:
        """Store ``vector`` and return its handle.

        Raises:
            RunAbortedError: the disk is full.
        """
        self._next += 1
        if self._used + len(vector) <= self._limit:
            self._memory[self._next] = vector
            self._used += len(vector)
        else:
            self._spill(self._next, vector)
        return self._next

    def get(self, handle: int) -> bytes:
        """Return the vector of ``handle``."""
        if handle in self._memory:
            return self._memory[handle]
        offset, size = self._spooled[handle]
        if self._file is None:
            raise KeyError(handle)
        return os.pread(self._file, size, offset)

    def discard_all(self) -> None:
        """Drop all vectors and free the disk space."""
        self._memory.clear()
        self._spooled.clear()
        self._used = self._end = 0
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _spill(self, handle: int, vector: bytes) -> None:
        try:
            if self._file is None:
                self._file, name = tempfile.mkstemp(prefix="securefl-spool-", dir=self._directory)
                Path(name).unlink()
            written = 0
            while written < len(vector):
                written += os.pwrite(self._file, memoryview(vector)[written:], self._end + written)
        except OSError as error:
            raise RunAbortedError(
                f"the run ended: the disk is too full for masked inputs ({error.strerror}); free disk space"
            ) from error
        self._spooled[handle] = (self._end, len(vector))
        self._end += len(vector)


JOURNAL = "server.journal"
JOURNAL_BOUND = 2**16
MODEL_FILE = "model.safetensors"
BEST_MODEL = "best.safetensors"
Consult: TypeAlias = Callable[[int, F32, tuple[int, ...]], tuple[F64, ...]]


async def run_server(
    settings: ProcessSettings, open_witness: ports.OpenWitness
) -> kernel.Finished | kernel.Aborted:
    """Lead the run to its end; the latest model is always in ``settings.out``.

    ``open_witness`` is called as in ``run_party``.

    Raises:
        ConfigError: configuration, keys or data are refused.
        RunAbortedError: the broker is out of reach, or a disk is full.
    """
    limit_threads()
    scenario = settings.scenario
    identity, roster = assemble.read_own_identity(settings)
    work = _without_data(settings) if scenario.model.by_sites else _on_test_set(settings)
    module = work.module
    plan = assemble.make_plan(
        settings, roster, dimension(module), frozen_digest(module), averaged_state(module)
    )
    root = settings.entropy()
    checkpoint = CheckpointFile(settings.out, plan)
    journal = FileJournal(settings.out / JOURNAL, settings.run, JOURNAL_BOUND)
    resumed = _read_resumed(checkpoint, journal) if settings.resumes else None
    context = ServerContext(
        plan,
        identity,
        SpoolingStore(MAX_VECTOR_BYTES, settings.out),
        work.initial,
        server_entropy(root),
        resumed,
        own_software(),
    )

    def evaluate(params: F32) -> sgd.Evaluation | None:
        limit_threads()
        # An aborted run keeps its model.
        keep_model(settings.out / MODEL_FILE, module, params)
        return work.evaluator.evaluate(params)

    def farewell(reason: str) -> tuple[kernel.Send[messages.AnyMessage], ...]:
        text_sent = text.without_folders(reason)[:1000]
        goes_on = settings.resumes and reason != assemble.stopped_by(signal.SIGINT.name)
        last = (
            messages.Pause(reason=text_sent) if goes_on else messages.Goodbye(reason=text_sent, aborted=True)
        )
        return (kernel.Send(EVERYONE, kernel.Place(-1), last),)

    models = RoundModels(settings.out / MODEL_FILE, module, settings.keep_models, scenario.groups.count)
    shown = attacks.behaviours_of(scenario, settings.seed).get(SERVER, ())
    honest = ServerMachine(context)
    known = 0 if resumed is None else resumed.checkpoint.epoch
    async with AsyncExitStack() as stack:
        if not settings.alone:
            patience = settings.broker_patience
            only = sole_server(settings.broker, settings.run, identity, known, patience=patience)
            try:
                await stack.enter_async_context(only)
            except RunOverError as over:
                if resumed is None:
                    raise
                # An earlier server was killed before recording the end.
                open_witness(plan)
                return (
                    kernel.Aborted(over.goodbye.reason)
                    if over.goodbye.aborted
                    else kernel.Finished(over.goodbye.reason)
                )
        transport, frame_limit = await assemble.open_transport(settings)
        try:
            outbox = wire.Outbox(settings.run, identity, OsEntropy(), frame_limit)
            try:
                if settings.resumes and resumed is None:
                    # First file of the run: a server killed while waiting can resume.
                    checkpoint.keep(honest.first_checkpoint())
                witness = open_witness(plan)
            except SecureflError as error:
                if isinstance(error, ConfigError) and resumed is None:
                    checkpoint.remove()
                # Parties that joined already would wait for a server that cannot write.
                await _decline(settings, transport, outbox, *farewell(str(error)))
                raise
            shell = Shell(
                run=settings.run,
                me=SERVER,
                machine=misbehaviour.server_machine(honest, plan, shown),
                transport=transport,
                broker_patience=settings.broker_patience,
                inbox=assemble.make_inbox(plan, settings),
                outbox=outbox,
                work=ports.LocalWork(evaluate=evaluate, consult=work.consult),
                witness=ResultKeeper(witness, settings.out / BEST_MODEL, module, scenario, models),
                farewell=farewell,
                awaited=honest.awaited_peers,
                asked=honest.count_asked,
                agreed=honest.agreed_seconds,
                journal=journal if settings.resumes else None,
                keeper=checkpoint if settings.resumes else None,
                pauses=settings.resumes,
            )
            assemble.stop_on_signals(shell)
            return await shell.run()
        finally:
            await transport.close()


def _read_resumed(checkpoint: CheckpointFile, journal: FileJournal) -> Resumed | None:
    """Return the state of an earlier server of the run.

    Raises:
        ConfigError: the checkpoint is invalid, or the journal is there without it, or ahead of it.
    """
    state = checkpoint.read()
    if state is not None:
        reached = state.standing.round + (state.done is not None)
        if journal.spent > reached:
            raise ConfigError(
                str(checkpoint.path),
                f"ends before round {reached}, and {JOURNAL} says that round {journal.spent} of this run was"
                " drawn: it is an older copy",
                "restore the newest copy, or start a new run with another --run and another --out",
            )
        return Resumed(state, journal.spent, journal.drew, journal.atom_seed, journal.claimed)
    if journal.spent >= 0:
        raise ConfigError(
            str(checkpoint.path),
            f"is missing, and {JOURNAL} says that round {journal.spent} of this run was drawn",
            "restore it, or start a new run with another --run and another --out",
        )
    return None


@dataclass(frozen=True)
class _ServerWork:
    module: torch.nn.Module
    initial: F32
    evaluator: sgd.Evaluator | sgd.GroupEvaluator | sgd.NoTestSet
    consult: Consult | None


def _without_data(settings: ProcessSettings) -> _ServerWork:
    module = model_of(settings.scenario, (), 0, settings.seed)
    return _ServerWork(module, to_vector(module), sgd.NoTestSet(), None)


def _on_test_set(settings: ProcessSettings) -> _ServerWork:
    scenario, seed = settings.scenario, settings.seed
    shard = data.load_samples(settings.data_file, scenario.data, "test")
    module = model_of(scenario, shard.input_shape, shard.classes, seed, tokens=shard.tokens)
    initial = sgd.initial_models(scenario, module, shard, seed)
    device = pick_device(settings.device or scenario.training.device, settings.gpu_processes)
    attacks.check_on_data(scenario.behaviours, shard.classes, shard.input_shape)
    evaluator = sgd.evaluator_of(
        scenario.groups, module, shard, device, attacks.trigger_of(scenario.behaviours)
    )
    return _ServerWork(module, initial, evaluator, _consulting(settings, shard, module, device))


async def _decline(
    settings: ProcessSettings,
    transport: Transport,
    outbox: wire.Outbox,
    last: kernel.Send[messages.AnyMessage],
) -> None:
    topic, retain = topics.down(settings.run, last.to), isinstance(last.message, messages.Goodbye)
    with contextlib.suppress(Exception):
        async with asyncio.timeout(FAREWELL_SECONDS):
            for frame in outbox.frames(last.to, last.place, last.message):
                await transport.publish(topic, frame, retain=retain)


def _consulting(
    settings: ProcessSettings, test: data.Shard, module: torch.nn.Module, device: torch.device
) -> Consult | None:
    scenario, path = settings.scenario, settings.server_data_file
    rule = robust.server_rule(scenario.aggregation.rule)
    if rule is None:
        return None
    if path is None:
        raise ConfigError(
            "--server-data",
            f"{rule.__struct_config__.tag} needs samples of the server's own",
            "name their file, made like a party's",
        )
    own = data.load_samples(path, scenario.data, "train")
    kinds = [f"{s.x.dtype} samples of shape {s.input_shape} in {s.classes} classes" for s in (own, test)]
    if kinds[0] != kinds[1]:
        raise ConfigError(
            str(path), f"holds {kinds[0]}, the test set {kinds[1]}", "prepare both in the same way"
        )
    entropy = server_entropy(settings.entropy())
    asked = sgd.ServerGradient(module, own, rule, scenario.training, device, entropy)

    def consult(round_: int, params: F32, reclusterings: tuple[int, ...]) -> tuple[F64, ...]:
        limit_threads()
        return asked.gradients(round_, params, reclusterings)

    return consult
