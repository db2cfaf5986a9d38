"""What leaves a verifying party depends on its data through certified sums only.

As in :mod:`tests.simulation.test_non_interference`, each federation runs twice with the same entropy, one
party on D and then on D'. Here models follow from sums. By the median of three clusters one of which differs
the model is the same in both, and roots of the chain are all that differs. Settings with noise run for one
round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from _pytest.mark.structures import ParameterSet
from msgspec import structs

from securefl.base.ids import SERVER
from securefl.protocol.kernel.effects import ROOT, Send
from securefl.protocol.messages.crypten import PeerBox
from securefl.protocol.messages.masking import MaskedInput, VectorReceipt
from securefl.protocol.messages.rounds import Endorse, Release
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.messages.validation import Held
from securefl.protocol.messages.verification import (
    Attest,
    ChainedAnnounce,
    ChainedReveal,
    OpeningProof,
    StepProof,
)
from securefl.protocol.round.party import machine, verifying
from securefl.protocol.round.shared.reports import LinkFollowed, Repeated, RunEffect
from securefl.protocol.wire.codec import encode
from tests.simulation.lying import verified
from tests.simulation.test_non_interference import DATA, VICTIM, _one
from tests.simulation.test_verified_rounds import MODES
from tests.simulation.world import World

LENGTH = 8
MEDIAN = {"aggregation__rule": '{type = "median"}', "rounds": "2"}
ONE_ROUND = {"rounds": "1"}
SETTINGS: dict[str, dict[str, str]] = {name: MEDIAN | mode for name, mode in MODES.items()} | {
    "atoms": MODES["atoms"] | ONE_ROUND,
    "validated": MODES["validated"]
    | ONE_ROUND
    | {"secure_sum__validate": "{norm = 8.0}", "encoding__clip": "6.0"},
    **{name: mode | ONE_ROUND for name, mode in MODES.items() if "noise" in name},
    "open groups that begin": MODES["open groups that begin"] | ONE_ROUND,
    "passthrough": MEDIAN | {"weighting__mode": "passthrough"},
}
ANSWERS = ("raises", "huge", "slow")
"""What training ends in on D'; on D in ones. Validation tells of an update that is too long, by design."""


def _another_model(message: Any) -> Any:
    return structs.replace(message, claim=structs.replace(message.claim, model=bytes(32)))


def _another_link(message: Any) -> Any:
    return structs.replace(message, claim=structs.replace(message.claim, previous=bytes(32)))


def _no_secrets(message: Any) -> Any:
    return structs.replace(message, sealed=bytes(len(message.sealed)))


def _unattested(message: Any) -> Any:
    return structs.replace(message, attests=())


SERVERS: dict[str, tuple[tuple[type[Any], ...], Callable[[Any], Any]]] = {
    "honest": ((), lambda message: message),
    "proves another model": ((OpeningProof, StepProof), _another_model),
    "proves from another link": ((OpeningProof, StepProof), _another_link),
    "proves with boxes that do not open": ((OpeningProof, StepProof), _no_secrets),
    "announces a model that nobody attests": ((ChainedAnnounce,), _unattested),
}


class Seen(World):
    """A federation of which all that leaves the victim is kept."""

    def __init__(self, setting: str, server: str, data: str) -> None:
        train = DATA.get(data, _one)
        super().__init__(
            verified(**SETTINGS[setting]),
            LENGTH,
            train=lambda name, _round, params: (train if name == VICTIM else _one)(params),
        )
        self.working = dict.fromkeys(self.parties, 3.0)
        if data == "slow":
            self.working[VICTIM] = 6.0
        kinds, change = SERVERS[server]
        if kinds:
            self.server.seam = partial(_told, kinds, change)

    def left(self) -> dict[str, object]:
        """All that left the victim, and what decides what a restarted victim will do."""
        node = self.nodes[VICTIM]
        return {
            "messages": [
                (s.to, s.place, type(s.message).__name__, _open(s.message))
                for s in self.sent
                if s.sender == VICTIM
            ],
            "refused": node.rejects,
            "outcome": node.outcome,
            "repeated": [(r.round, r.reclustering, r.cluster) for r in self.reports(Repeated, VICTIM)],
            "followed": [r.round for r in self.reports(LinkFollowed, VICTIM)],
            "journal": [(at, ROOT if line.startswith(ROOT) else line) for at, line in node.journal],
            "refused by the server": self.nodes[SERVER].rejects,
            "others": [
                (s.sender, s.to, s.place, type(s.message).__name__)
                for s in sorted(self.sent, key=lambda s: s.sender)
                if s.sender not in {VICTIM, SERVER}
            ],
        }


def _told(
    kinds: tuple[type[Any], ...],
    change: Callable[[Any], Any],
    _event: object,
    effects: tuple[RunEffect, ...],
) -> tuple[RunEffect, ...]:
    return tuple(
        replace(effect, message=change(effect.message))
        if isinstance(effect, Send) and isinstance(effect.message, kinds)
        else effect
        for effect in effects
    )


HIDDEN: dict[type[Any], Callable[[Any], object]] = {
    MaskedInput: lambda said: len(said.vector),
    PeerBox: lambda said: (said.peer, said.number, len(said.box)),
    Held: lambda said: (said.lists, len(said.shares)),
    VectorReceipt: lambda said: said.lists_digest,
    Release: lambda said: len(said.sealed),
    Endorse: lambda said: len(encode(said)),
    Attest: lambda said: len(said.root),
    ChainedReveal: lambda said: (said.nonce, len(said.root)),
}
"""What is left of a message without what masks and keys hide, and without what names that: digests of masked
vectors, and the root, which follows from certified sums."""


def _open(message: AnyMessage) -> object:
    opened = HIDDEN.get(type(message))
    return message if opened is None else opened(message)


def _each_in_turn() -> Iterator[ParameterSet]:
    """Each setting under one server and on three data, each server and data under several settings.

    Validated sums take as long as all others and are slow.
    """
    answers = tuple(ANSWERS)
    for place, setting in enumerate(SETTINGS):
        data = tuple(answers[(3 * place + k) % len(answers)] for k in range(3))
        marks = (pytest.mark.slow,) if setting == "validated" else ()
        yield pytest.param(setting, tuple(SERVERS)[place % len(SERVERS)], data, marks=marks)


def _every_pair() -> Iterator[ParameterSet]:
    """Each setting under the honest server and one other, in turn; all pairs with ``-m paper``."""
    names = tuple(SERVERS)
    for place, setting in enumerate(SETTINGS):
        usual = {"honest", names[1 + place % (len(names) - 1)]}
        for server in names:
            mark = pytest.mark.slow if server in usual else pytest.mark.paper
            yield pytest.param(setting, server, tuple(ANSWERS), marks=mark, id=f"{setting}-{server}")


@pytest.mark.parametrize(("setting", "server", "answers"), [*_each_in_turn(), *_every_pair()])
def test_what_leaves_a_verifier_is_the_same_on_other_data(
    setting: str, server: str, answers: tuple[str, ...]
) -> None:
    on_d = Seen(setting, server, "ones")
    on_d.run()
    expected = on_d.left()
    assert expected["messages"]
    if server == "honest":
        assert expected["followed"] == [*range(on_d.plan.scenario.stop.rounds - 1)]
    for data in answers:
        if setting == "validated" and data == "huge":
            continue
        other = Seen(setting, server, data)
        with np.errstate(all="ignore"):
            other.run()
        for what, seen in other.left().items():
            assert seen == expected[what], f"{what} on data {data}"


def test_a_verifier_that_kept_a_word_to_itself_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    on_d, other = Seen("masking", "honest", "ones"), Seen("masking", "honest", "ones")
    on_d.run()
    honest = verifying.on_proof

    def picky(ctx: Any, past: Any, place: Any, message: Any) -> Any:
        after, effects = honest(ctx, past, place, message)
        return after, effects[:1] if ctx.me == VICTIM else effects

    monkeypatch.setattr(machine, "on_proof", picky)
    other.run()
    assert on_d.left()["messages"] != other.left()["messages"]
