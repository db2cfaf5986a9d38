"""Features of the round that the nets hold, and the federations in which each of them is run.

Updates and gradients are eighths, so that no sum of them rounds, whatever the processor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from securefl.base.arrays import F32, F64
from securefl.base.ids import SERVER, PartyId
from securefl.methods.leakage.unresolved import Given
from securefl.protocol.kernel.events import Offline, Online, PauseAsked
from securefl.protocol.messages.control import Software
from securefl.protocol.messages.masking import VectorReceipt
from securefl.protocol.messages.verification import Attest
from securefl.protocol.round.party.upload import Seams
from securefl.protocol.round.shared.plan import RunPlan
from securefl.protocol.round.shared.statement import model_digest
from tests.nets.traced import Rounded, Traced
from tests.simulation.test_blame import another_secret, says_twice
from tests.simulation.test_verified_rounds import LIES
from tests.simulation.world import Op, Revival, World

P = tuple(PartyId(f"p{n:02}") for n in range(12))
Overrides = Mapping[str, str]

PLACES: Mapping[str, tuple[int, Overrides]] = {
    "plain": (6, {}),
    "verified": (
        8,
        {
            "size": "4",
            "threshold": "3",
            "min_survivors": "3",
            "server": "active",
            "secure_sum__verify": '"committee"',
            "secure_sum__colluders": "1",
            "secure_sum__colluders_per_cluster": "1",
        },
    ),
    "hidden": (
        8,
        {
            "size": "4",
            "threshold": "4",
            "min_survivors": "4",
            "clustering__atoms": "4",
            "weighting__mode": "ignore",
            "groups__count": "2",
            "groups__mode": "hidden",
        },
    ),
}
"""Parties and settings of the federations that each feature is run in."""


def learn(party: PartyId, round_: int, params: F32) -> F32:
    """Return another model for each party and round."""
    steps = (np.arange(params.size) * 7 + int(party[1:]) * 5 + round_ * 3) % 11 - 5
    return params + (steps / 8).astype(np.float32)


def samples(party: PartyId) -> int:
    """Return another number of samples for each party."""
    return 3 + 7 * int(party[1:])


def gradients(round_: int, params: F32, asked: tuple[int, ...]) -> tuple[F64, ...] | None:
    """Return gradients of the server's own data; none in round 1."""
    if round_ == 1:
        return None
    return tuple(((np.arange(params.size) * 3 + round_ + r) % 5 - 3) / 4 for r in asked)


def measured(party: PartyId, round_: int, size: int) -> F64:
    """Return words of metrics that get better until round 2."""
    words = np.full(size, (8 - 2 * min(round_, 2) + int(party[1:]) % 2) / 4)
    words[:1] = 2.0
    return words


def parity(party: PartyId, _round: int) -> int:
    """Return the task group of a party."""
    return int(party[1:]) % 2


def silent(noise: Any, _occasion: object) -> Any:
    """Return no noise."""
    return np.zeros_like(noise)


def loud(values: Any, _occasion: object) -> Any:
    """Return an encoding beyond what an honest party can encode."""
    return values + (1 << 26)


def pairs_given(plan: RunPlan, _party: PartyId) -> Given:
    """Return sums of neighbouring pairs on the first model, as accounts of earlier runs have them."""
    return {model_digest(np.zeros(plan.total_parameters, np.float32)): tuple(pairwise(P[:6]))}


def nothing(_world: World) -> None:
    """Change nothing."""


@dataclass(frozen=True)
class Feature:
    """Settings of a feature, and what happens to processes in its run."""

    settings: Overrides = field(default_factory=dict)
    rounds: int = 2
    parties: Mapping[str, int] = field(default_factory=dict)
    """By place, where not that of the place."""
    more: Mapping[str, Overrides] = field(default_factory=dict)
    """Further settings by place."""
    length: int = 4
    kind: type[Traced] = Traced
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of the world."""
    prepare: Callable[[World], None] = nothing
    around: Callable[[], Any] | None = None
    """A context manager around the run."""
    places: tuple[str, ...] = ("plain", "verified", "hidden")


NOISE = {
    "privacy__unit": "party",
    "privacy__multiplier": "0.5",
    "privacy__delta": "0.05",
    "encoding__clip": "1.0",
    "encoding__scale_bits": "7",
}
CHECKED = NOISE | {"checks__kind": "corrected", "leakage__mode": "report"}
CLIPPED = {name: value for name, value in NOISE.items() if name != "encoding__clip"} | {
    "privacy__clip": "{initial = 1.0, rate = 1.0, noise = 0.5}"
}
BUDGET = NOISE | {"privacy__budget": "9", "privacy__releases": "2", "participation__count": "6"}
NINE = {"verified": 9}
FOUR: Mapping[str, Overrides] = {
    "verified": {"threshold": "4", "min_survivors": "4", "leakage__mode": "report"}
}
MORE = {"plain": 9, "verified": 12}
EIGHT: Mapping[str, Overrides] = {"verified": {"participation__count": "8"}}
METRICS = {
    "model__type": '"weights"',
    "evaluation__samples": "4",
    "evaluation__repeats": '"accept"',
    "evaluation__metrics": '[{name="loss", kind="mean", upper=8, better="lower"},'
    ' {name="table", kind="confusion"}, {name="hits", kind="sum", upper=8}]',
}
STOPPED = METRICS | {"stop__metric": '"loss"', "stop__min_gain": "0.25", "stop__patience": "2"}
OWN_DATA = {"data__server_fraction": "0.1"}
ALONE = {
    "size": "1",
    "threshold": "1",
    "min_survivors": "1",
    "secure_sum__k_anonymity": "1",
    "privacy__placement": "local",
}
OPEN = {"groups__count": "2", "groups__mode": "open", "size": "2", "weighting__mode": "ignore"}
QUIET = {P[0]: Seams(noise=silent)}
CRYPTEN = {"secure_sum__kind": "crypten"}


def later(seconds: float, event: Callable[[float], Any]) -> Callable[[World], None]:
    """Return a preparation after which the server gets an event at a time."""
    return lambda world: world._schedule(seconds, SERVER, event(seconds))


def outage(world: World) -> None:
    """Let the server lose the broker for ten seconds."""
    later(1.5, Offline)(world)
    later(11.5, lambda now: Online(now, 2, kept=False))(world)


def pause(world: World) -> None:
    """Ask the server to pause in a round, and start another one later."""
    later(1.5, lambda now: PauseAsked(now, "maintenance"))(world)
    world._schedule(20.0, SERVER, Revival())


def doubled(kind: type[Any], **changes: Any) -> Callable[[World], None]:
    """Return a preparation after which p02 sends each message of a kind twice, the second time changed."""

    def prepare(world: World) -> None:
        world.nodes[P[2]].seam = says_twice(kind, **changes)

    return prepare


def killed_at_consult(world: World) -> None:
    """Kill the server once, as it asks its own data."""

    def consult(round_: int, params: F32, asked: tuple[int, ...]) -> tuple[F64, ...] | None:
        if world.starts == 1 and round_ == 0:
            world.kill_server()
        return gradients(2 * round_, params, asked)

    world.consult = consult


def versions(name: PartyId) -> Software:
    """Return the versions of a process, of which one differs."""
    return Software(python="3.99.0" if name == P[2] else "3.98.1", numpy="1.99", securefl="0.2.0")


FEATURES: Mapping[str, Feature] = {
    "base": Feature(rounds=3),
    "checks on parties": Feature(
        CHECKED | {"aggregation__byzantine": "1"}, length=1024, kind=Rounded, options={"seams": QUIET}
    ),
    "checks on fixed clusters": Feature(
        CHECKED | {"clustering__fixed": "true"}, length=1024, kind=Rounded, options={"seams": QUIET}
    ),
    "checks on uploads": Feature(
        CHECKED | ALONE, length=1024, kind=Rounded, options={"seams": QUIET}, places=("plain",)
    ),
    "published checks": Feature(
        CHECKED | ALONE | {"checks__kind": "published", "encoding__scale_bits": "8"},
        length=1024,
        kind=Rounded,
        options={"seams": QUIET},
        places=("plain",),
    ),
    "void draw under checks": Feature(
        CHECKED | {"aggregation__byzantine": "1"},
        length=1024,
        kind=Rounded,
        options={"ops": [Op("drop", "p01", "Reveal")]},
        places=("plain",),
    ),
    "screen": Feature(
        {"groups__count": "2", "groups__screen": "1.5", "weighting__mode": "ignore"},
        options={"seams": {P[0]: Seams(encoded=loud)}, "choose": parity},
        places=("plain", "hidden"),
    ),
    "encoding too long": Feature({"encoding__clip": "4.0"}, options={"seams": {P[0]: Seams(encoded=loud)}}),
    "trust": Feature(
        OWN_DATA | {"aggregation__rule": '{type="inner-product", gamma=0.5, half_life=2.0, momentum=0.5}'},
        rounds=4,
        parties={"plain": 9},
        options={"consult": gradients},
    ),
    "trust of least member": Feature(
        OWN_DATA
        | {"aggregation__rule": '{type="inner-product", gamma=0.5, members="min", credit="all-scores"}'},
        rounds=3,
        options={"consult": gradients},
        places=("plain",),
    ),
    "zeno": Feature(
        OWN_DATA | {"aggregation__rule": '{type="zeno++"}', "reclusterings": "2"},
        rounds=3,
        options={"consult": gradients},
    ),
    "fltrust": Feature(
        OWN_DATA | {"aggregation__rule": '{type="fltrust"}'}, rounds=3, options={"consult": gradients}
    ),
    "killed as its data are asked": Feature(
        OWN_DATA | {"aggregation__rule": '{type="inner-product", gamma=0.5, half_life=2.0}'},
        rounds=3,
        prepare=killed_at_consult,
        places=("plain",),
    ),
    "noise": Feature(NOISE),
    "threshold noise": Feature(NOISE | {"privacy__placement": "threshold"}, places=("plain", "verified")),
    "removable noise": Feature(NOISE | {"privacy__placement": "dropout-exact"}, places=("plain", "verified")),
    "quantile clipping": Feature(CLIPPED, rounds=4, places=("plain", "verified")),
    "median clip": Feature(
        CLIPPED
        | {"privacy__placement": "threshold", "aggregation__rule": '{type="median"}'}
        | METRICS
        | {"privacy__clip": "{initial = 4.0, minimum = 3.5}"},
        rounds=3,
        places=("plain", "verified"),
    ),
    "release budget": Feature(BUDGET, rounds=5, parties=MORE, more=EIGHT),
    "spent budgets": Feature(NOISE | {"privacy__budget": "9", "privacy__releases": "1"}, rounds=3),
    "metrics": Feature(METRICS),
    "metric stops": Feature(STOPPED, rounds=6),
    "metric target": Feature(METRICS | {"stop__metric": '"hits"', "stop__target": "1.0"}, rounds=4),
    "metrics under noise": Feature(NOISE | STOPPED, rounds=3),
    "median of metrics": Feature(
        METRICS | {"aggregation__rule": '{type="median"}'}, places=("plain", "verified")
    ),
    "statistics": Feature(
        {
            "model__type": '"weights"',
            "statistics__features": '[{name="dose", lower=-4, upper=8}]',
            "statistics__labels": '{name="outcome", classes=2}',
            "evaluation__repeats": '"accept"',
        },
    ),
    "target accuracy": Feature(
        {"stop__target": "0.5"},
        rounds=4,
        options={"train": lambda _p, _r, params: params + np.float32(0.25)},
    ),
    "patience": Feature({"stop__patience": "1"}, rounds=4, options={"train": lambda _p, _r, params: params}),
    "everyone verifies": Feature({"secure_sum__verify": '"all"'}, places=("verified",)),
    "claim refused": Feature(
        options={"ops": [Op("drop", name, "Release", 0) for name in P[:6]]}, rounds=3, places=("verified",)
    ),
    "attest missing": Feature(
        options={"ops": [Op("drop", name, "Attest", 0) for name in P[:8]]}, rounds=3, places=("verified",)
    ),
    "attests never come": Feature(
        options={"ops": [Op("drop", name, "Attest", nth) for name in P[:8] for nth in range(6)]},
        rounds=6,
        places=("verified",),
    ),
    "account has sums": Feature(options={"given": pairs_given}, places=("plain", "verified")),
    "account has atoms": Feature(
        METRICS | {"clustering__atoms": "2", "size": "4", "evaluation__repeats": '"refuse"'},
        options={"kept": lambda name: (tuple(sorted({name, P[0], P[5]})),)},
        places=("plain", "verified"),
    ),
    "attests lost": Feature(
        options={"ops": [Op("drop", name, "Attest", 0) for name in P[:2]]}, rounds=3, places=("verified",)
    ),
    **{
        f"lying server: {lie}": Feature(around=LIES[lie], rounds=2, places=("verified",))
        for lie in ("another model", "another certificate", "other seeds", "a sum that is said to be lost")
    },
    "two attests": Feature(prepare=doubled(Attest, root=bytes(32)), places=("verified",)),
    "two receipts": Feature(prepare=doubled(VectorReceipt, input_digest=bytes(32)), places=("verified",)),
    "excluded party": Feature(rounds=3, parties=NINE, more=FOUR, around=lambda: another_secret(P[3], 0)),
    "excluded for its key": Feature(
        rounds=3,
        parties=NINE,
        more=FOUR,
        around=lambda: another_secret(P[3], 1),
        options={"ops": [Op("drop", "p03", "MaskedInput")]},
    ),
    "momentum": Feature({"server_optimiser": "{momentum=0.5, learning_rate=0.5}"}, rounds=3),
    "adam": Feature({"server_optimiser": '{type="adam"}'}, rounds=3),
    "adagrad": Feature({"server_optimiser": '{type="adagrad"}'}, places=("plain", "verified")),
    "yogi": Feature({"server_optimiser": '{type="yogi"}'}, places=("plain", "verified")),
    "scaffold": Feature({"training__method": '{type="scaffold"}'}),
    "carried momentum": Feature(
        {"training__dp_sgd": "{momentum=0.125, carry='global'}", "server_optimiser__learning_rate": "0.5"},
        rounds=3,
    ),
    "new work": Feature({"reclusterings": "2", "clustering__new_work": "true", "leakage__mode": "report"}),
    "partial participation": Feature({"participation__count": "4", "size": "2"}, rounds=3, places=("plain",)),
    "truncated weights": Feature(
        {"weighting__mode": "truncate", "weighting__cap": "10"}, places=("plain", "verified")
    ),
    "open groups": Feature(OPEN, options={"choose": parity}, places=("plain",)),
    "open groups that begin": Feature(
        OPEN | {"groups__warmup": "1", "groups__choice_epsilon": "2.0"},
        rounds=4,
        more={"verified": {"size": "4", "secure_sum__colluders": "1"}},
        options={"choose": parity},
        places=("plain", "verified"),
    ),
    "hidden groups that begin": Feature(
        {"groups__warmup": "1"}, rounds=4, options={"choose": parity}, places=("hidden",)
    ),
    "crypten": Feature(CRYPTEN),
    "validated": Feature(
        CRYPTEN
        | {"secure_sum__validate": "{norm = 4.0}", "encoding__clip": "3.6", "weighting__mode": "ignore"}
    ),
    "plain sums": Feature({"secure_sum__kind": "plain"}),
    "robust": Feature(
        {
            "aggregation__rule": '{type="krum", byzantine=1}',
            "aggregation__pre_aggregation": '[{type="bucketing", size=1}]',
        },
        parties={"plain": 15, "verified": 20},
        places=("plain", "verified"),
    ),
    "input lost": Feature(options={"ops": [Op("drop", "p01", "MaskedInput")]}),
    "retry": Feature(
        {"size": "6", "threshold": "4", "min_survivors": "4"},
        more={"verified": {"size": "8", "threshold": "5", "min_survivors": "5"}},
        options={"ops": [Op("spoil", "p03", "ShareBoxes")]},
        places=("plain", "verified"),
    ),
    "few are there": Feature(
        options={"ops": [Op("crash", name, "Hello", 1) for name in P[1:6]]}, rounds=3, places=("plain",)
    ),
    "nothing released": Feature(options={"ops": [Op("drop", name, "Release", 0) for name in P[:8]]}),
    "outage": Feature(prepare=outage),
    "pause": Feature(prepare=pause, rounds=3),
    "versions": Feature(options={"software": versions}, places=("plain",)),
    "active without proofs": Feature({"secure_sum__verify": '"off"'}, places=("verified",)),
}
KILLS: tuple[tuple[str, str, str, int], ...] = (
    ("hello", "p02", "Hello", 1),
    ("draw", SERVER, "Reveals", 1),
    ("keys", SERVER, "KeyList", 1),
    ("training", "p00", "MaskedInput", 1),
    ("freeze", SERVER, "Freeze", 1),
    ("release", "p05", "Release", 1),
    ("next round", SERVER, "ModelAnnounce", 2),
    ("end", SERVER, "Goodbye", 0),
)
"""When a server is killed: before the n-th message of a kind that a process sends."""
KILLS_IN: Mapping[str, tuple[tuple[str, str, str, int], ...]] = {
    "plain": (),
    "verified": (
        ("endorsement", "p03", "Endorse", 1),
        ("certificate", SERVER, "Certificate", 1),
        ("proof of a sum", SERVER, "OpeningProof", 1),
        ("proof of the step", SERVER, "StepProof", 1),
        ("attest", "p01", "Attest", 1),
    ),
    "hidden": (("slots", SERVER, "SlotCounts", 1), ("release of slots", "p05", "Release", 2)),
}
"""The same for what only some federations have."""
