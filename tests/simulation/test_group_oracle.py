"""A server that reads from choices of task groups what its parties' data are, and one that places colluders.

The server makes the models. With softmax models that ignore the image, the one of least loss is the one
whose classes are nearest to the party's labels: each choice is a question about their histogram, with as
many answers as there are groups. Machines, choosers and samples are the real ones.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from securefl.base.arrays import F32, F64, I64
from securefl.base.errors import ConfigError
from securefl.base.ids import PartyId
from securefl.methods.feasibility.limits import check
from securefl.methods.privacy.response import randomised_response, truth_probability
from securefl.protocol.kernel.effects import CHOSE, ChoiceGiven, Enter, Send
from securefl.protocol.messages.rounds import Hello
from securefl.protocol.round import walk
from securefl.protocol.round.party.machine import PartyMachine
from securefl.protocol.round.party.phases import PartyContext
from securefl.protocol.round.server import opening as server_open
from securefl.protocol.round.shared import choices
from securefl.protocol.round.shared.choices import LastChoice, choices_due, choices_epsilon
from securefl.protocol.round.shared.reports import RoundDone, RunEffect, SumOpened
from securefl.scenario.scenario import Groups
from securefl.training.data.shards import Shard
from securefl.training.models.catalogue import build_model
from securefl.training.models.flatten import dimension
from securefl.training.models.parts.softmax import Softmax
from securefl.training.sgd.task_groups import Chooser
from tests.seen import patch_seen
from tests.simulation.world import World, scenario

CLASSES, SAMPLES, GROUPS, PARTIES, ROUNDS = 10, 200, 4, 24, 20
MODULE = build_model(Softmax(), (1,), CLASSES, 0)
D = dimension(MODULE)
OPEN = {
    "groups__count": str(GROUPS),
    "groups__mode": "open",
    "size": "2",
    "weighting__mode": "ignore",
    "rounds": str(ROUNDS),
}
PRIOR = np.random.default_rng(1).dirichlet(np.full(CLASSES, 0.5), 4_000)
"""What the server knows beforehand of label histograms, f64 (candidates, classes)."""
ASKED = np.random.default_rng(2).dirichlet(np.full(CLASSES, 0.7), (ROUNDS, GROUPS))
"""Its questions: classes of each model in each round."""


def crafted(round_: int) -> F32:
    """All models of a round, f32 (k d,): scores are the logarithms of their classes, whatever the image."""
    models = np.zeros((GROUPS, D), dtype=np.float32)
    models[:, -CLASSES:] = np.log(np.maximum(ASKED[round_], 1e-6))
    return models.ravel()


def preferred(histograms: F64, round_: int) -> I64:
    """The model of least loss by histogram, i64 (n,)."""
    losses = -histograms @ np.log(np.maximum(ASKED[round_], 1e-6)).T
    best: I64 = losses.argmin(axis=1)
    return best


class Oracle(World):
    """A federation whose server sends its questions, whatever was learned."""

    def __init__(self, **sets: str) -> None:
        config = scenario(PARTIES, **(OPEN | sets))
        rng = np.random.default_rng(3)
        self.truth: dict[PartyId, F64] = {}
        self.choosers: dict[PartyId, Chooser] = {}
        for number in range(PARTIES):
            labels = rng.choice(CLASSES, SAMPLES, p=rng.dirichlet(np.full(CLASSES, 0.5)))
            own = Shard(np.zeros((SAMPLES, 1), np.float32), labels.astype(np.int64), CLASSES, (1,))
            name = PartyId(f"p{number:02}")
            self.truth[name] = np.bincount(labels, minlength=CLASSES) / SAMPLES
            self.choosers[name] = Chooser(MODULE, own, torch.device("cpu"))
        super().__init__(config, length=D, initial=crafted(0), choose=self._choose)

    def _choose(self, name: PartyId, round_: int) -> int | None:
        return self.choosers[name].choose(crafted(round_))

    def run(self) -> World:
        honest = walk.decide_end

        def asking(plan: Any, standing: Any, done: Any) -> Any:
            after, outcome = honest(plan, replace(standing, rounds_without_update=0, updates=1), done)
            return replace(after, params=crafted(after.round)), outcome

        with patch_seen(server_open, "decide_end", asking):
            return super().run()

    def named(self) -> dict[PartyId, list[tuple[int, int]]]:
        """By party: round and group of each hello."""
        found: dict[PartyId, list[tuple[int, int]]] = {name: [] for name in self.parties}
        for sent in self.sent:
            if isinstance(sent.message, Hello):
                found[sent.sender].append((sent.place.round, sent.message.group))
        return found

    def errors(self, epsilon: float | None) -> list[float]:
        """Total variation of the server's best guess from each party's histogram.

        It weighs candidates by how likely they make the answers, and takes their mean. A party that keeps its
        answer says nothing by repeating it.
        """
        found = []
        for name, said in self.named().items():
            weights = np.ones(len(PRIOR))
            for round_, group in said[: len(said) if epsilon is None else 1]:
                fits = preferred(PRIOR, round_) == group
                if epsilon is None:
                    weights *= np.where(fits, 1.0, 1e-9)
                else:
                    true = truth_probability(epsilon, GROUPS)
                    weights *= np.where(fits, true, (1 - true) / (GROUPS - 1))
            guess = weights @ PRIOR / weights.sum()
            found.append(float(np.abs(guess - self.truth[name]).sum() / 2))
        return found


def blind(world: Oracle) -> float:
    """The error of a server that guesses what it knew beforehand, on average."""
    return float(np.mean([np.abs(PRIOR.mean(axis=0) - own).sum() / 2 for own in world.truth.values()]))


@pytest.mark.slow
def test_choices_in_every_round_tell_the_labels() -> None:
    """The attack is real: the error falls from .46 to .21, with questions that were drawn beforehand."""
    world = Oracle()
    world.run()
    assert all(len(said) == ROUNDS for said in world.named().values())
    assert np.mean(world.errors(None)) < 0.25
    assert blind(world) > 0.45


@pytest.mark.parametrize(("epsilon", "gain"), [pytest.param(1.0, 0.03, marks=pytest.mark.slow), (4.0, 0.05)])
def test_an_answer_that_is_kept_tells_no_more_than_its_epsilon(epsilon: float, gain: float) -> None:
    """With pure epsilon no guess can gain more than tanh(epsilon / 2) of what there is to gain; the best of
    this server gains less than ``gain``. Seeded, so that nothing here fails by chance."""
    world = Oracle(groups__choice_epsilon=str(epsilon))
    world.run()
    assert {len({group for _, group in said}) for said in world.named().values()} == {1}
    assert choices_epsilon(world.scenario) == epsilon
    assert np.mean(world.errors(epsilon)) > blind(world) - min(gain, np.tanh(epsilon / 2))


def test_what_is_answered_is_drawn_from_the_partys_own_entropy() -> None:
    world = Oracle(groups__choice_epsilon="1.0", rounds="1")
    world.run()
    for name, ((_, group),) in world.named().items():
        own = world.entropy_of(name).child("group", 0).child("response")
        assert group == randomised_response(world._choose(name, 0) or 0, GROUPS, 1.0, own)


@pytest.mark.parametrize("server", ["curious", "active"])
def test_but_for_the_answer_nothing_that_leaves_depends_on_the_choice(server: str) -> None:
    """One party prefers another model, and its draw makes the same answer of it: all frames are the same."""
    sets = {"server": server, "size": "4", "threshold": "4", "min_survivors": "4", "groups__count": "3"}
    config = scenario(12, rounds="3", groups__choice_epsilon="1.0", weighting__mode="ignore", **sets)

    def frames(preferred: int) -> list[bytes]:
        with patch_seen(choices, "randomised_response", lambda *_: 1):
            return World(config, 3, choose=lambda name, _: preferred if name == "p05" else 0).run().frames

    one, other = frames(0), frames(2)
    assert len(one) > 100
    assert one == other


class TestRestart:
    """A party that is started again answers no question twice."""

    def first_round(self) -> tuple[Oracle, PartyId, int]:
        world, name = Oracle(groups__choice_epsilon="1.0", rounds="2"), PartyId("p03")
        world.run()
        notes = [step for _, step in world.nodes[name].journal if step.startswith(CHOSE)]
        ((_, first), (_, second)) = world.named()[name]
        assert notes == [f"{CHOSE}1 {first}"]
        assert first == second
        return world, name, first

    def test_names_the_kept_group_without_choosing(self) -> None:
        world, name, group = self.first_round()
        other = (group + 1) % GROUPS
        again = Oracle(groups__choice_epsilon="1.0", rounds="2")
        kept = LastChoice(1, other)
        context = PartyContext(again.plan, name, 10, again.entropy_of(name), choice=kept)
        again.nodes[name].machine = PartyMachine(context)
        again.run()
        assert [said for _, said in again.named()[name]] == [other, other]
        assert not [step for _, step in again.nodes[name].journal if step.startswith(CHOSE)]
        assert len(world.parties) == PARTIES

    def test_the_answer_is_entered_before_it_is_said(self) -> None:
        world, name = Oracle(groups__choice_epsilon="1.0", rounds="1"), PartyId("p03")
        order: list[str] = []

        def note(node: Any, _was: Any, _event: Any, _is: Any, effects: tuple[RunEffect, ...]) -> None:
            for effect in effects if node.name == name else ():
                if isinstance(effect, Enter) and isinstance(effect.entry, ChoiceGiven):
                    assert (effect.entry.epsilon, effect.entry.made) == (1.0, 1)
                    order.append("account")
                if isinstance(effect, Send) and isinstance(effect.message, Hello):
                    order.append("hello")

        world.observers.append(note)
        world.run()
        assert order == ["account", "hello"]


@pytest.mark.parametrize(
    ("groups", "due"),
    [
        (Groups(count=4, warmup=3, choice_epsilon=1.0), [0, 0, 0, 1, 1, 2, 2, 3, 3, 3]),
        (Groups(count=4, warmup=3, choice_epsilon=1.0, choices=2), [0, 0, 0, 1, 1, 2, 2, 3, 4, 4]),
        (Groups(count=2, warmup=1, choice_epsilon=1.0), [0, 1, 1, 1]),
        (Groups(count=3, choice_epsilon=1.0, choices=3), [1, 2, 3, 3, 3]),
    ],
)
def test_choices_are_due_when_a_model_has_begun(groups: Groups, due: list[int]) -> None:
    assert [choices_due(groups, round_) for round_ in range(len(due))] == due


VICTIM, COLLUDERS = PartyId("p00"), (PartyId("p01"), PartyId("p02"))
MATES = tuple(PartyId(f"p{number:02}") for number in (3, 4, 5, 6, 7))


def coalition(**sets: str) -> World:
    """All q colluders name the victim's group, and the server loses the hellos of its other members."""

    def choose(party: PartyId, _round: int) -> int:
        return 0 if party in {VICTIM, *COLLUDERS, *MATES} else 1

    def learn(party: PartyId, _round: int, params: F32) -> F32:
        return params + np.float32(2.0 ** int(party[1:]) / 1024)

    world = World(
        scenario(16, **({"groups__count": "2", "weighting__mode": "ignore", "rounds": "1"} | sets)),
        length=3,
        train=learn,
        choose=choose,
    )

    server = world.server.machine

    class Deaf:
        def start(self, now: float) -> Any:
            return server.start(now)

        def step(self, phase: Any, event: Any) -> Any:
            if getattr(event, "sender", None) in MATES and isinstance(event.message, Hello):
                return phase, ()
            return server.step(phase, event)

    world.server.machine = Deaf()
    world.run()
    return world


def alone(world: World) -> bool:
    """Whether some opened sum holds the victim and nobody but colluders."""
    return any(
        VICTIM in one.opened.survivors and set(one.opened.survivors) <= {VICTIM, *COLLUDERS}
        for one in world.reports(SumOpened)
    )


def test_a_coalition_in_the_victims_group_opens_its_update_where_nothing_forbids_it() -> None:
    assert alone(coalition(size="3", leakage__mode="report"))


@pytest.mark.parametrize("server", ["curious", "active"])
def test_a_coalition_in_the_victims_group_opens_nothing(server: str) -> None:
    world = coalition(
        size="4",
        threshold="4",
        min_survivors="4",
        server=server,
        secure_sum__colluders="2",
        secure_sum__colluders_per_cluster="2",
        groups__choice_epsilon="20",
    )
    assert world.reports(RoundDone)
    assert not alone(world)
    assert all(len(one.opened.survivors) >= 4 for one in world.reports(SumOpened))


@pytest.mark.parametrize(
    ("sets", "field"),
    [
        ({"server": "active"}, "groups.choice_epsilon"),
        (
            {
                "server": "active",
                "groups__choice_epsilon": "1.0",
                "secure_sum__colluders": "2",
                "secure_sum__colluders_per_cluster": "1",
            },
            "secure_sum.colluders_per_cluster",
        ),
        ({"groups__choices": "2"}, "groups.choices"),
    ],
)
def test_what_would_tell_too_much_is_refused(sets: dict[str, str], field: str) -> None:
    base = {
        "groups__count": "2",
        "size": "4",
        "threshold": "4",
        "min_survivors": "4",
        "weighting__mode": "ignore",
    }
    with pytest.raises(ConfigError) as refused:
        check(scenario(16, **(base | sets)))
    assert refused.value.path == field
