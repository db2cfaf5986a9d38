"""Parts that party and server processes share."""

import asyncio
import math
import signal
from typing import Final, TypeGuard, TypeVar

from securefl.base import crypto
from securefl.base.errors import ConfigError
from securefl.base.ids import SERVER
from securefl.methods import feasibility, server_optimisers
from securefl.protocol import kernel, messages, secure_sum
from securefl.protocol.round import BYTES_PER_SECOND, RunPlan, proof_bytes
from securefl.protocol.wire import NOBODY, Inbox, topics
from securefl.runtime.process.publisher import GONE
from securefl.runtime.process.settings import ProcessSettings
from securefl.runtime.process.shell import Shell
from securefl.runtime.transport import (
    MqttLimits,
    MqttTransport,
    Transport,
    check_retention,
    measure_frame_limit,
    meeting_of,
)

PhaseT = TypeVar("PhaseT")
_STOPPED: Final = "stopped by "
LEFT: Final = "asked to leave before the next round"


def read_own_identity(settings: ProcessSettings) -> tuple[crypto.Identity, crypto.Roster]:
    """Return this process's identity and roster.

    Raises:
        ConfigError: a bad file, another identity's key, or a name or key that the roster lacks.
    """
    given = settings.identity
    identity = given if isinstance(given, crypto.Identity) else crypto.read_identity(given)
    roster = crypto.read_roster(settings.roster_file)
    if identity.name != settings.name:
        where = "--key" if isinstance(given, crypto.Identity) else str(given)
        raise ConfigError(
            where,
            f"is the key of {identity.name!r}, not of {settings.name!r}",
            f"name the key file of {settings.name!r}",
        )
    if roster.get(settings.name) != identity.public:
        raise ConfigError(
            str(settings.roster_file),
            f"does not list {settings.name!r} with this public key",
            "use the roster that was made from this party's .pub file",
        )
    return identity, roster


def make_plan(
    settings: ProcessSettings,
    roster: crypto.Roster,
    length: int,
    frozen: bytes,
    state: server_optimisers.AveragedState = server_optimisers.NO_STATE,
) -> RunPlan:
    """Return the run's plan; length, frozen digest and state are the initial model's.

    Raises:
        ConfigError: an infeasible scenario, sums that hide nothing, noise that does not follow from it,
            proofs beyond their budget, a roster of the wrong size.
    """
    limits = feasibility.check(settings.scenario)
    if len(roster.parties) != settings.scenario.parties:
        raise ConfigError(
            str(settings.roster_file),
            f"lists {len(roster.parties)} parties, but the scenario has {settings.scenario.parties}",
            "use the roster and the scenario of one run",
        )
    sums = secure_sum.sums_of(settings.scenario, length)
    sums.check_run()
    if sums.dealer is not None and roster.dealer is None:
        raise ConfigError(
            str(settings.roster_file),
            "lists no dealer, which validated sums need",
            "run securefl keygen --party dealer, and make the roster with its .pub file",
        )
    feasibility.check_proofs(settings.scenario, limits.ring_bits, length)
    plan = RunPlan(settings.run, settings.scenario, limits, roster, length, frozen, state)
    # Refuse a bad mechanism here: later it would be a bug.
    _ = plan.mechanism
    return plan


def make_inbox(plan: RunPlan, settings: ProcessSettings, leader: bytes = NOBODY) -> Inbox:
    """Return an inbox with the smallest bounds that fit this run.

    ``leader``: session of the server followed before.
    """
    per_party = 2_048
    vectors = max(plan.total_parameters * plan.limits.ring_bits // 8, *proof_bytes(plan))
    largest = vectors + per_party * len(plan.roster.parties) + 64 * 1024
    # Parties receive vectors from the server only, one at a time.
    budget = None if settings.name == SERVER else 4 * largest
    # Age for a large message over a slow shared connection.
    max_age = max(120.0, 2 * largest / BYTES_PER_SECOND)
    return Inbox(
        settings.run,
        settings.name,
        plan.roster,
        max_message=largest,
        max_age=max_age,
        budget=budget,
        leader=leader,
    )


async def open_transport(settings: ProcessSettings, silence: float = 0.0) -> tuple[Transport, int]:
    """Connect to a broker; return the transport and the frame size in bytes.

    All brokers reachable now carry such frames whole; later connections are measured anew. This process may
    be silent for ``silence`` seconds before it counts as gone.

    Raises:
        ConfigError, RunAbortedError: as :meth:`MqttTransport.connect`; for the server also as
            :func:`check_retention`.
    """
    run, name = settings.run, settings.name
    client_id = f"{run}-{name}"
    limit = settings.frame_limit
    if limit is None:
        limit = await measure_frame_limit(settings.broker, client_id, topics.probe(run, name))
        if name == SERVER:
            await check_retention(settings.broker, client_id, topics.probe(run, name))
    will = (topics.status(run, name), GONE)
    transport = await MqttTransport.connect(
        settings.broker,
        client_id,
        topics.subscriptions(run, name),
        will,
        MqttLimits(
            give_up_after=settings.broker_patience,
            # After a measurement a broker is known to exist.
            first_within=0.0 if settings.frame_limit is None else settings.broker_patience,
            silence=math.ceil(silence),
        ),
        meeting_of(run, name),
        topics.probe(run, name),
    )
    return transport, min(limit, messages.MAX_FRAME)


def stop_on_signals(shell: Shell[PhaseT]) -> None:
    """Let SIGTERM, SIGINT and SIGHUP end the shell's run in good order.

    SIGTERM and SIGHUP first request a pause if another process can resume the run. Signals ignored at the
    start (``nohup``, a launcher) stay ignored. SIGUSR1 lets a party leave before the next round.
    """
    loop = asyncio.get_running_loop()
    if shell.leaves:
        loop.add_signal_handler(signal.SIGUSR1, shell.leave, LEFT)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            end = shell.stop if number == signal.SIGINT else shell.pause
            loop.add_signal_handler(number, end, stopped_by(signal.Signals(number).name))


def stopped_by(signal_name: str) -> str:
    """Return an end reason for :func:`was_stopped`."""
    return f"{_STOPPED}{signal_name}"


def was_stopped(outcome: object) -> TypeGuard[kernel.Aborted]:
    """Return True if a signal to this process ended the run."""
    return isinstance(outcome, kernel.Aborted) and outcome.reason.startswith(_STOPPED)
