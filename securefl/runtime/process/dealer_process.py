"""The dealer of validated sums as a process: its own key, no data, no model."""

from __future__ import annotations

from securefl.base.entropy import OsEntropy
from securefl.base.ids import DEALER, SERVER
from securefl.protocol.kernel import Aborted, Finished
from securefl.protocol.messages import MAX_VECTOR
from securefl.protocol.round import DealerMachine, party_entropy
from securefl.protocol.wire import Inbox, Outbox
from securefl.runtime.process.assemble import open_transport, read_own_identity, stop_on_signals
from securefl.runtime.process.ports import LocalWork, OpenWitness
from securefl.runtime.process.settings import ProcessSettings
from securefl.runtime.process.shell import Shell


async def run_dealer(settings: ProcessSettings, open_witness: OpenWitness) -> Finished | Aborted:
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
            broker_patience=settings.broker_patience,
            # What is sent to everybody reaches the dealer, too, models among it; it does not know their size.
            inbox=Inbox(settings.run, DEALER, roster, max_message=MAX_VECTOR),
            outbox=Outbox(settings.run, identity, OsEntropy(), frame_limit),
            work=LocalWork(),
            witness=open_witness(None),
            awaited=lambda _phase: (SERVER,),
        )
        stop_on_signals(shell)
        return await shell.run()
    finally:
        await transport.close()
