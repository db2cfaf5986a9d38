"""The dealer of validated sums as a process: its own key, no data, no model."""

from __future__ import annotations

from collections.abc import Callable

from securefl.ids import DEALER, SERVER
from securefl.kernel.effects import Aborted, Finished
from securefl.messages.base import MAX_VECTOR
from securefl.rounds.dealer import DealerMachine
from securefl.rounds.randomness import party_entropy
from securefl.runtime.assemble import open_transport, read_own_identity, stop_on_signals
from securefl.runtime.ports import LocalWork, Witness
from securefl.runtime.settings import ProcessSettings
from securefl.runtime.shell import Shell
from securefl.wire.inbox import Inbox
from securefl.wire.outbox import Outbox


async def run_dealer(settings: ProcessSettings, open_witness: Callable[[], Witness]) -> Finished | Aborted:
    """Deal until the server ends the run; return how it ended.

    Raises:
        ConfigError: nothing is validated in this run, or the key or roster is refused.
        RunAbortedError: the broker is out of reach.
    """
    identity, roster = read_own_identity(settings)
    root = settings.entropy()
    machine = DealerMachine(settings.run, settings.scenario, roster, party_entropy(root, DEALER))
    transport, frame_limit = await open_transport(settings)
    try:
        shell = Shell(
            run=settings.run,
            me=DEALER,
            machine=machine,
            transport=transport,
            # What is sent to everybody reaches the dealer, too, models among it; it does not know their size.
            inbox=Inbox(settings.run, DEALER, roster, max_message=MAX_VECTOR),
            outbox=Outbox(settings.run, identity, root.child("outbox", DEALER), frame_limit),
            work=LocalWork(),
            witness=open_witness(),
            awaited=lambda _phase: (SERVER,),
        )
        stop_on_signals(shell)
        return await shell.run()
    finally:
        await transport.close()
