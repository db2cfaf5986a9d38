"""Evaluation of the other members' updates, from receipts to verdict (ADR 0024, steps 6 to 9)."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from securefl.base import crypto
from securefl.base.entropy import Entropy
from securefl.base.errors import PeerError
from securefl.base.ids import SERVER
from securefl.protocol import messages, wire
from securefl.protocol.secure_sum.crypten.progress import MAX_AHEAD, Done, Failed, Incoming
from securefl.protocol.secure_sum.validated import phases, relayed, sketch
from securefl.protocol.secure_sum.validated.validation import CHECK_NUMBERS


def on_held_list(phase: phases.Holding, message: messages.HeldList, roster: crypto.Roster) -> phases.Step:
    """Reveal the nonce once every listed member has acknowledged its shares and triples.

    Raises:
        PeerError: a receipt is missing, not authentic, or of other lists.
    """
    core = phase.core
    listed = core.listed
    receipts = relayed.receipts_of(core.setup, listed.listed, listed.lists_digest, message.receipts, roster)
    revealed = phases.Revealed(core, phase.words, phase.tuples, receipts)
    return phases.Step(revealed, (messages.SketchNonce(nonce=core.nonce),))


def on_nonces(
    phase: phases.Revealed,
    message: messages.SketchNonces,
    checks: phases.UpdateChecks,
    roster: crypto.Roster,
    entropy: Entropy,
) -> phases.Step:
    """Project the held shares, and begin all checks; then no message is rejected.

    Raises:
        PeerError: a nonce is missing or does not match its commitment.
    """
    core, setup = phase.core, phase.setup
    nonces = relayed.nonces_of(setup, core.commitments, message.nonces, roster)
    seed = sketch.sketch_seed(nonces, setup.instance, phase.receipts)
    owners = sorted(phase.words)
    words = np.stack([phase.words[owner] for owner in owners])
    projected = sketch.project(seed, words, core.validation.projections)
    running = {}
    for owner, projections in zip(owners, projected, strict=True):
        lines = core.checks[owner]
        names = [setup.members[index] for index in lines.evaluators]
        rank = lines.evaluators.index(core.listed.me)
        running[owner] = checks.check(
            names, rank, lines.zeros, projections, core.tests[owner], phase.tuples[owner]
        )
    step = phases.Step(phases.Checking(core, phase.words, running, {}))
    for owner in owners:
        step = _more(step, _resume(step, owner, phase.early.get(owner, ()), entropy))
    return step


def on_check_box(
    phase: phases.Revealed | phases.Checking, message: messages.PeerBox, entropy: Entropy
) -> phases.Step:
    """Process one message of one check.

    Raises:
        PeerError: the members share no such check, or the message is repeated, far too early or unreadable.
    """
    owner, number = divmod(message.number, CHECK_NUMBERS)
    lines = phase.core.checks.get(owner)
    if lines is None or message.peer not in lines.evaluators or message.peer == phase.core.listed.me:
        raise PeerError(
            SERVER, f"relays message {message.number} of member {message.peer}, which is not for this member"
        )
    name = phase.setup.members[message.peer]
    if isinstance(phase, phases.Checking) and owner not in phase.running:
        raise PeerError(name, f"sends message {number} of a check that has ended already")
    words = wire.decode_struct(messages.CheckWords, lines.peers.open(message.peer, number, message.box), name)
    rank = lines.evaluators.index(message.peer)
    incoming = [Incoming(rank, number + i, payload) for i, payload in enumerate(words.payloads)]
    if isinstance(phase, phases.Checking):
        return _resume(phases.Step(phase), owner, incoming, entropy)
    waiting = phase.early.get(owner, ())
    known = {(one.sender, one.number) for one in waiting}
    if any((one.sender, one.number) in known or one.number >= MAX_AHEAD for one in incoming):
        raise PeerError(name, f"sends message {number} twice or too early, before the check has begun")
    return phases.Step(replace(phase, early={**phase.early, owner: (*waiting, *incoming)}))


def _resume(step: phases.Step, owner: int, incoming: Iterable[Incoming], entropy: Entropy) -> phases.Step:
    """Continue one check; after the last, send the verdict. A failed check rejects its owner."""
    phase = step.phase
    if not isinstance(phase, phases.Checking):
        return step
    progress = phase.running[owner].resume(incoming)
    core, lines = phase.core, phase.core.checks[owner]
    messages_out: list[messages.AnyMessage] = []
    for rank, to in enumerate(lines.evaluators):
        outgoing = [out for out in progress.outbound if out.to == rank]
        if outgoing:
            first = outgoing[0].number
            words = wire.encode(messages.CheckWords(payloads=tuple(out.payload for out in outgoing)))
            box = lines.peers.seal(to, first, words, entropy.child("check nonce", owner, to, first))
            messages_out.append(messages.PeerBox(peer=to, number=owner * CHECK_NUMBERS + first, box=box))
    accused = progress.error if isinstance(progress, Failed) else None
    if not isinstance(progress, Done | Failed):
        return phases.Step(phase, tuple(messages_out))
    passed = isinstance(progress, Done) and progress.result
    running = {other: check for other, check in phase.running.items() if other != owner}
    results = {**phase.results, owner: passed}
    if running:
        return phases.Step(replace(phase, running=running, results=results), tuple(messages_out), accused)
    return phases.Step(
        phases.Judged(core, phase.words, verdict := frozenset(o for o, fits in results.items() if fits)),
        (*messages_out, messages.Verdict(accepted=tuple(sorted(verdict)))),
        accused,
    )


def _more(before: phases.Step, after: phases.Step) -> phases.Step:
    return phases.Step(after.phase, (*before.outgoing, *after.outgoing), after.accused or before.accused)
