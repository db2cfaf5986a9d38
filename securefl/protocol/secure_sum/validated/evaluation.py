"""Evaluation of the other members' updates: from receipts to one's own verdict (ADR 0024, 6 to 9)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from securefl.base.crypto import Roster
from securefl.base.entropy import Entropy
from securefl.base.errors import PeerError
from securefl.base.ids import SERVER
from securefl.protocol.messages import (
    AnyMessage,
    CheckWords,
    HeldList,
    PeerBox,
    SketchNonce,
    SketchNonces,
    Verdict,
)
from securefl.protocol.secure_sum.crypten.progress import MAX_AHEAD, Done, Failed, Incoming
from securefl.protocol.secure_sum.validated.phases import (
    Checking,
    Holding,
    Judged,
    Revealed,
    Step,
    UpdateChecks,
)
from securefl.protocol.secure_sum.validated.relayed import nonces_of, receipts_of
from securefl.protocol.secure_sum.validated.sketch import project, sketch_seed
from securefl.protocol.secure_sum.validated.validation import CHECK_NUMBERS
from securefl.protocol.wire import decode_struct, encode


def on_held_list(phase: Holding, message: HeldList, roster: Roster) -> Step:
    """Reveal the nonce: every listed member holds its shares and triples, and says so.

    Raises:
        PeerError: a receipt is missing, not authentic, or of other lists.
    """
    core = phase.core
    listed = core.listed
    receipts = receipts_of(core.setup, listed.listed, listed.lists_digest, message.receipts, roster)
    revealed = Revealed(core, phase.words, phase.tuples, receipts)
    return Step(revealed, (SketchNonce(nonce=core.nonce),))


def on_nonces(
    phase: Revealed, message: SketchNonces, checks: UpdateChecks, roster: Roster, entropy: Entropy
) -> Step:
    """Project the shares that are held, and begin all checks.

    Nothing is refused once a check has begun: its triples are taken.

    Raises:
        PeerError: a nonce is missing or is not the one committed to.
    """
    core, setup = phase.core, phase.setup
    nonces = nonces_of(setup, core.commitments, message.nonces, roster)
    seed = sketch_seed(nonces, setup.instance, phase.receipts)
    owners = sorted(phase.words)
    words = np.stack([phase.words[owner] for owner in owners])
    projected = project(seed, words, core.validation.projections)
    running = {}
    for owner, projections in zip(owners, projected, strict=True):
        lines = core.checks[owner]
        names = [setup.members[index] for index in lines.evaluators]
        rank = lines.evaluators.index(core.listed.me)
        running[owner] = checks.check(
            names, rank, lines.zeros, projections, core.tests[owner], phase.tuples[owner]
        )
    step = Step(Checking(core, phase.words, running, {}))
    for owner in owners:
        step = _more(step, _resume(step, owner, phase.early.get(owner, ()), entropy))
    return step


def on_check_box(phase: Revealed | Checking, message: PeerBox, entropy: Entropy) -> Step:
    """Take one message of one check.

    Raises:
        PeerError: of no check in which both take part, one that came before or far too early, or that does
            not open.
    """
    owner, number = divmod(message.number, CHECK_NUMBERS)
    lines = phase.core.checks.get(owner)
    if lines is None or message.peer not in lines.evaluators or message.peer == phase.core.listed.me:
        raise PeerError(SERVER, f"relays message {message.number} of member {message.peer} out of turn")
    name = phase.setup.members[message.peer]
    if isinstance(phase, Checking) and owner not in phase.running:
        raise PeerError(name, f"sends message {number} of a check that has ended")
    words = decode_struct(CheckWords, lines.peers.open(message.peer, number, message.box), name)
    rank = lines.evaluators.index(message.peer)
    incoming = [Incoming(rank, number + i, payload) for i, payload in enumerate(words.payloads)]
    if isinstance(phase, Checking):
        return _resume(Step(phase), owner, incoming, entropy)
    waiting = phase.early.get(owner, ())
    known = {(one.sender, one.number) for one in waiting}
    if any((one.sender, one.number) in known or one.number >= MAX_AHEAD for one in incoming):
        raise PeerError(name, f"sends message {number} of a check that has not begun")
    return Step(replace(phase, early={**phase.early, owner: (*waiting, *incoming)}))


def _resume(step: Step, owner: int, incoming: Iterable[Incoming], entropy: Entropy) -> Step:
    """Go on with one check; after the last one, say the verdict. A check that fails accepts nobody."""
    phase = step.phase
    if not isinstance(phase, Checking):
        return step
    progress = phase.running[owner].resume(incoming)
    core, lines = phase.core, phase.core.checks[owner]
    said: list[AnyMessage] = []
    for rank, to in enumerate(lines.evaluators):
        outgoing = [out for out in progress.outbound if out.to == rank]
        if outgoing:
            first = outgoing[0].number
            words = encode(CheckWords(payloads=tuple(out.payload for out in outgoing)))
            box = lines.peers.seal(to, first, words, entropy.child("check nonce", owner, to, first))
            said.append(PeerBox(peer=to, number=owner * CHECK_NUMBERS + first, box=box))
    accused = progress.error if isinstance(progress, Failed) else None
    if not isinstance(progress, Done | Failed):
        return Step(phase, tuple(said))
    passed = isinstance(progress, Done) and progress.result
    running = {other: check for other, check in phase.running.items() if other != owner}
    results = {**phase.results, owner: passed}
    if running:
        return Step(replace(phase, running=running, results=results), tuple(said), accused)
    return Step(
        Judged(core, phase.words, verdict := frozenset(o for o, fits in results.items() if fits)),
        (*said, Verdict(accepted=tuple(sorted(verdict)))),
        accused,
    )


def _more(before: Step, after: Step) -> Step:
    return Step(after.phase, (*before.said, *after.said), after.accused or before.accused)
