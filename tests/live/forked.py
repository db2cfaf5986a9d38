"""Programs that do not import everything anew: forked from the fork server that runs share."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import sys
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, cast

from securefl.protocol.round import AnyReport
from securefl.protocol.wire import Delivery
from securefl.runtime.process import parent_death
from securefl.runtime.process.children import PRELOAD
from securefl.runtime.transport import leader_lock
from tests.live.slow import slow_down


@dataclass(frozen=True)
class Forked:
    """``securefl`` with these arguments, as a process of its own."""

    process: ForkServerProcess
    stdout: Path
    stderr: Path

    def wait(self, seconds: float) -> tuple[int | None, str, str]:
        """Exit code (None for one that hangs, and is killed), stdout and stderr."""
        self.process.join(seconds)
        code = self.process.exitcode
        self.process.kill()
        self.process.join()
        return code, self.stdout.read_text(), self.stderr.read_text()


def fork(
    folder: Path,
    *arguments: str,
    training: float = 0.0,
    room: int | None = None,
    listening: float = 0.5,
    dies_at: tuple[int, str] | None = None,
) -> Forked:
    """Start ``securefl``; what it says goes to new files in ``folder``.

    Training takes ``training`` seconds longer. The disk is full for every file beyond ``room`` bytes. A
    server listens for others for ``listening`` seconds. It is killed as it has received the first message of
    that round and kind, ``dies_at``, or with kind "RoundDone" after its step, before the round is reported.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOAD))
    folder.mkdir()
    forked = Forked(
        context.Process(
            target=_program, args=(folder, arguments, training, room, listening, dies_at), daemon=True
        ),
        folder / "stdout",
        folder / "stderr",
    )
    forked.process.start()
    return forked


def _program(
    folder: Path,
    arguments: tuple[str, ...],
    training: float,
    room: int | None,
    listening: float,
    dies_at: tuple[int, str] | None,
) -> None:
    parent_death.heed_signals()
    # As from a terminal, whatever was ignored as the fork server began: a shell has what it starts in the
    # background ignore SIGINT, and a command that is being ended ignores SIGTERM and SIGHUP.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    for stream, name in ((1, "stdout"), (2, "stderr")):
        file = os.open(folder / name, os.O_WRONLY | os.O_CREAT)
        os.dup2(file, stream)
        os.close(file)
    sys.argv = ["securefl", *arguments]
    vars(leader_lock)["LISTEN_SECONDS"] = listening
    if room is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    if training:
        slow_down(training)
    if dies_at is not None:
        _die_at(*dies_at)
    from securefl.cli.app import main  # noqa: PLC0415 - in the process that it is for

    main()


def _die_at(round_: int, kind: str) -> None:
    """Let this process be killed at a message, however busy the machine is, and not some time after it."""
    from securefl.runtime.report.witness import ProcessWitness  # noqa: PLC0415 - in the process that it is for

    received = ProcessWitness.record_received

    def last(witness: ProcessWitness, now: float, delivery: Delivery, *, idle: bool = False) -> None:
        received(witness, now, delivery, idle=idle)
        # After a round without a release hellos are of a kind that states so.
        if (delivery.place.round, type(delivery.message).__name__.removeprefix("Stating")) == (round_, kind):
            os.kill(os.getpid(), signal.SIGKILL)

    cast("Any", ProcessWitness).record_received = last
    report = ProcessWitness.report

    def ended(witness: ProcessWitness, now: float, item: AnyReport) -> None:
        if (getattr(item, "round", -1), type(item).__name__) == (round_, kind) == (round_, "RoundDone"):
            os.kill(os.getpid(), signal.SIGKILL)
        report(witness, now, item)

    cast("Any", ProcessWitness).report = ended
