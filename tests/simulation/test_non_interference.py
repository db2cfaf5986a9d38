"""What leaves a party does not depend on its data, but through the words that masks and keys hide.

Each test runs a federation twice with the same entropy. One party holds D in the first run and D' in the
second. The server announces the same models in both, as a hostile one may: what sums allow to differ then
changes no later message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pytest
from _pytest.mark.structures import ParameterSet

from securefl.base.arrays import F32
from securefl.base.ids import SERVER, PartyId
from securefl.protocol.kernel.effects import Choose, Send, Train
from securefl.protocol.kernel.events import Trained
from securefl.protocol.kernel.machine import Event
from securefl.protocol.messages.crypten import PeerBox
from securefl.protocol.messages.masking import MaskedInput
from securefl.protocol.messages.rounds import Certificate, Freeze, InstanceAttempt
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.messages.validation import Held
from securefl.protocol.round import walk
from securefl.protocol.round.server import opening as server_open
from securefl.protocol.round.shared.reports import RunEffect, SatOut
from tests.seen import patch_seen
from tests.simulation.test_silence_oracle import falls_silent
from tests.simulation.world import Node, Op, Revival, World, scenario
from tests.vectors.test_transcripts import CRYPTEN, MODES, PARTY_NOISE

VICTIM = PartyId("p00")
LENGTH = 8
RECORD = {
    "privacy__unit": "record",
    "privacy__multiplier": "1.5",
    "privacy__delta": "0.05",
    "privacy__records": "100",
    "training__batch_size": "16",
    "training__dp_sgd": "{}",
    "weighting__mode": "ignore",
    "encoding__scale_bits": "13",
}
NEW_WORK = {"reclusterings": "2", "clustering__new_work": "true", "leakage__mode": "report"}
SETTINGS = MODES | {
    "new work": NEW_WORK,
    "new work, active": NEW_WORK | {"server": "active", "size": "6", "threshold": "4", "min_survivors": "5"},
    "passthrough": {"weighting__mode": "passthrough"},
    "truncated": {"weighting__mode": "truncate", "weighting__alpha": "0.1"},
    "crypten, ignored weights": CRYPTEN | {"weighting__mode": "ignore"},
    "record noise": RECORD,
    "record noise, threshold": RECORD | {"privacy__placement": "threshold"},
    "record noise, removable": RECORD | {"privacy__placement": "dropout-exact"},
    "local noise, two reclusterings": PARTY_NOISE | {"reclusterings": "2", "leakage__mode": "report"},
}
SERVERS: dict[str, tuple[float, tuple[Op, ...]]] = {
    "honest": (0.0, ()),
    "repeated model": (1.0, ()),
    "huge model": (3e38, ()),
    "model not finite": (float("nan"), ()),
    "infinite model": (float("inf"), ()),
    "lost inputs": (0.0, (Op("drop", "p01", "MaskedInput"), Op("drop", "p01", "PeerBox"))),
    "lost input of the victim": (0.0, (Op("drop", "p00", "MaskedInput"), Op("drop", "p00", "PeerBox"))),
    "void draw": (0.0, (Op("drop", "p02", "Reveal"),)),
    "dead in shares": (0.0, (Op("crash", "p02", "Hello"), Op("crash", "p04", "Receipt"))),
}
"""By name: all coordinates of each model, and what is lost."""


def _freeze_without(message: AnyMessage, _to: PartyId) -> AnyMessage:
    if not isinstance(message, Freeze):
        return message
    return msgspec.structs.replace(message, survivors=message.survivors[:-1])


def _freeze_with_a_stranger(message: AnyMessage, _to: PartyId) -> AnyMessage:
    if not isinstance(message, Freeze):
        return message
    return msgspec.structs.replace(message, survivors=(*message.survivors, "p99"))


def _freeze_without_receipts(message: AnyMessage, _to: PartyId) -> AnyMessage:
    return msgspec.structs.replace(message, receipts=()) if isinstance(message, Freeze) else message


def _freeze_of_another_attempt(message: AnyMessage, _to: PartyId) -> AnyMessage:
    if not isinstance(message, Freeze):
        return message
    attempt = InstanceAttempt(reclustering=0, cluster=0, attempt=1)
    return msgspec.structs.replace(message, attempts=(attempt,))


def _two_freezes(message: AnyMessage, to: PartyId) -> AnyMessage:
    """The victim and those before it in the alphabet are told another survivor set than the others."""
    return _freeze_without(message, to) if to > VICTIM else message


def _half_a_certificate(message: AnyMessage, _to: PartyId) -> AnyMessage:
    if not isinstance(message, Certificate):
        return message
    return msgspec.structs.replace(message, endorsements=message.endorsements[::2])


LIES: dict[str, Callable[[AnyMessage, PartyId], AnyMessage]] = {
    "freeze without a member": _freeze_without,
    "freeze with a stranger": _freeze_with_a_stranger,
    "freeze without receipts": _freeze_without_receipts,
    "freeze of another attempt": _freeze_of_another_attempt,
    "two freezes": _two_freezes,
    "half a certificate": _half_a_certificate,
}
"""Servers that change what they send: the message and to whom it goes, to another message."""
SERVERS |= dict.fromkeys(LIES, (0.0, ()))


def _one(params: F32) -> F32 | None:
    return np.ones_like(params)


def _raises(_params: F32) -> F32 | None:
    return None


def _not_finite(params: F32) -> F32 | None:
    return np.full_like(params, np.nan)


def _nothing(params: F32) -> F32 | None:
    return params.copy()


def _huge(params: F32) -> F32 | None:
    return np.full_like(params, np.finfo(np.float32).max)


DATA = {"raises": _raises, "not finite": _not_finite, "no gradient": _nothing, "huge": _huge, "slow": _one}
SPOILT = {
    "too long": np.ones(LENGTH + 1),
    "two axes": np.ones((LENGTH, 1)),
    "near overflow": np.full(LENGTH, 1e308),
}
"""Updates that a part of one's own may end in, by name."""
WORLDS = (*DATA, *SPOILT)
"""Training on D', by name. That on D ends in ones."""


class Seen(World):
    """A federation of which all that leaves the victim, and all that it asks of its own machine, is kept."""

    def __init__(self, setting: str, server: str, data: str) -> None:
        value, ops = SERVERS[server]
        overrides = {**SETTINGS[setting], "rounds": "2"}
        train = DATA.get(data, _one)
        config = scenario(8 if setting == "hidden" else 6, **overrides)
        self.first = np.full(LENGTH * (2 if "groups__count" in overrides else 1), value, dtype=np.float32)
        super().__init__(
            config,
            LENGTH,
            ops=ops,
            train=lambda name, _round, params: (train if name == VICTIM else _one)(params),
            initial=self.first,
        )
        self.working = dict.fromkeys(self.parties, 3.0)
        if data == "slow":
            self.working[VICTIM] = 6.0
        self.spoilt = SPOILT.get(data)
        self.asked: list[object] = []
        self.observers.append(self._keep)
        if server in LIES:
            self.server.seam = partial(_told, LIES[server])

    def _keep(self, node: Node, _before: object, _event: object, _after: object, effects: Any) -> None:
        if node.name == VICTIM:
            for effect in effects:
                if isinstance(effect, Train):
                    self.asked.append(("train", effect.round, effect.work, effect.params.tobytes()))
                elif isinstance(effect, Choose):
                    self.asked.append(("choose", effect.round, effect.params.tobytes()))

    def run(self) -> World:
        """Until the end, with the first model in the place of each later one."""
        first, honest = self.first, walk.decide_end

        def chosen(plan: Any, standing: Any, done: Any) -> Any:
            after, outcome = honest(plan, replace(standing, rounds_without_update=0, updates=1), done)
            return replace(after, params=first), outcome

        with patch_seen(server_open, "decide_end", chosen), np.errstate(all="ignore"):
            return super().run()

    def _schedule(self, delay: float, to: PartyId, event: Event[AnyMessage] | bytes | Revival) -> None:
        if isinstance(event, Trained) and to == VICTIM and self.spoilt is not None:
            event = replace(event, update=self.spoilt)
        super()._schedule(delay, to, event)

    def left(self) -> dict[str, object]:
        """All that left the victim, and what decides what a restarted victim will do."""
        node = self.nodes[VICTIM]
        return {
            "messages": [
                (s.to, s.place, type(s.message).__name__, _open(s.message))
                for s in self.sent
                if s.sender == VICTIM
            ],
            "asked": self.asked,
            "refused": node.rejects,
            "outcome": node.outcome,
            "sat out": self.reports(SatOut, VICTIM),
            "journal": node.journal,
            "refused by the server": self.nodes[SERVER].rejects,
            "others": [
                (s.sender, s.to, s.place, type(s.message).__name__)
                for s in sorted(self.sent, key=lambda s: s.sender)
                if s.sender not in {VICTIM, SERVER}
            ],
        }


def _told(
    lie: Callable[[AnyMessage, PartyId], AnyMessage], _event: object, effects: tuple[RunEffect, ...]
) -> tuple[RunEffect, ...]:
    return tuple(
        replace(effect, message=lie(effect.message, effect.to)) if isinstance(effect, Send) else effect
        for effect in effects
    )


def _open(message: object) -> object:
    """A message without what masks and keys hide, which is there by its length only."""
    if isinstance(message, MaskedInput):
        # The update under masks that the server lacks: uniform to it until a certified sum is opened.
        return len(message.vector)
    if isinstance(message, PeerBox):
        # Sealed for a member. It holds shares and masked words.
        return message.peer, message.number, len(message.box)
    if isinstance(message, Held):
        # ``shares`` is a hash of the shares of others' updates, each uniform by itself.
        return message.lists, len(message.shares)
    return message


def _each_in_turn() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Each setting under one server and on three data, each server and data under several settings."""
    for place, setting in enumerate(SETTINGS):
        data = tuple(WORLDS[(3 * place + k) % len(WORLDS)] for k in range(3))
        yield setting, tuple(SERVERS)[place % len(SERVERS)], data


def _every_pair() -> Iterator[ParameterSet]:
    """Each setting under the honest server and one other, in turn; all pairs with ``-m paper``."""
    names = tuple(SERVERS)
    for place, setting in enumerate(SETTINGS):
        usual = {"honest", names[1 + place % (len(names) - 1)]}
        for server in names:
            mark = pytest.mark.slow if server in usual else pytest.mark.paper
            yield pytest.param(setting, server, WORLDS, marks=mark, id=f"{setting}-{server}")


@pytest.mark.parametrize(("setting", "server", "worlds"), [*_each_in_turn(), *_every_pair()])
def test_what_leaves_a_party_is_the_same_on_other_data(
    setting: str, server: str, worlds: tuple[str, ...]
) -> None:
    on_d = Seen(setting, server, "ones")
    on_d.run()
    expected = on_d.left()
    assert expected["messages"]
    for data in worlds:
        other = Seen(setting, server, data)
        other.run()
        for what, seen in other.left().items():
            assert seen == expected[what], f"{what} on data {data}"


def test_a_party_that_fell_silent_would_be_seen() -> None:
    with falls_silent():
        on_d, other = Seen("masking", "honest", "ones"), Seen("masking", "honest", "raises")
        on_d.run()
        other.run()
    assert on_d.left()["messages"] != other.left()["messages"]
