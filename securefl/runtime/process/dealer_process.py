"""Process of the dealer: its own key, no data, no model."""

from securefl.base import entropy
from securefl.base.ids import DEALER, SERVER
from securefl.protocol import kernel, messages, wire
from securefl.protocol.round import DealerMachine, party_entropy
from securefl.runtime.process import assemble, ports
from securefl.runtime.process.settings import ProcessSettings
from securefl.runtime.process.shell import Shell


async def run_dealer(
    settings: ProcessSettings, open_witness: ports.OpenWitness
) -> kernel.Finished | kernel.Aborted:
    """Deal until the server ends the run; return the outcome.

    Raises:
        ConfigError: no sum is validated, or key or roster are refused.
        RunAbortedError: the broker is out of reach.
    """
    identity, roster = assemble.read_own_identity(settings)
    root = settings.entropy()
    machine = DealerMachine(settings.run, settings.scenario, roster, party_entropy(root, DEALER))
    transport, frame_limit = await assemble.open_transport(settings)
    try:
        shell = Shell(
            run=settings.run,
            me=DEALER,
            machine=machine,
            transport=transport,
            broker_patience=settings.broker_patience,
            # The dealer receives broadcasts, models included, and does not know their size.
            inbox=wire.Inbox(settings.run, DEALER, roster, max_message=messages.MAX_VECTOR),
            outbox=wire.Outbox(settings.run, identity, entropy.OsEntropy(), frame_limit),
            work=ports.LocalWork(),
            witness=open_witness(None),
            awaited=lambda _phase: (SERVER,),
        )
        assemble.stop_on_signals(shell)
        return await shell.run()
    finally:
        await transport.close()
