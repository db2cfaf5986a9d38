"""What ``[privacy]`` demands of the rest of a scenario, and what its header lines say."""

from __future__ import annotations

import pytest

from securefl.base.errors import ConfigError
from securefl.methods.privacy.limits import MAX_NOISE, check_delta, forgoes_privacy, noise_of
from securefl.methods.privacy.table import MAX_STD, noise_table
from securefl.scenario.load import parse_scenario
from securefl.scenario.resolved import scenario_digest, to_toml
from tests.looped import looped
from tests.unit.scenario.samples import checked, headed, refusal, small

RECORD = (
    "privacy.unit=record",
    "privacy.epsilon=2",
    "training.dp_sgd={}",
    "training.batch_size=16",
    "weighting.mode=ignore",
)
PARTY = ("privacy.unit=party", "privacy.multiplier=1", "encoding.clip=1")
CARRY = "training.dp_sgd={momentum=0.1, carry='own'}"
SHARED = "privacy.placement=threshold"

REFUSED = [
    ("training.dp_sgd", (*RECORD, "training.dp_sgd="), "is missing:"),
    ("weighting.mode", (*RECORD, "weighting.mode=passthrough"), "depend on the number of records"),
    ("weighting.mode", (*RECORD, "weighting.mode=truncate", "weighting.cap=9"), "number of records"),
    ("privacy.epsilon", (*RECORD, "privacy.multiplier=1"), "multiplier is given too"),
    ("privacy.epsilon", (*RECORD, "privacy.epsilon="), "neither it nor multiplier"),
    ("privacy.releases", (*RECORD, "privacy.releases=3"), "has no effect without privacy.budget"),
    (
        "privacy.releases",
        (*RECORD, "privacy.budget=3", "privacy.releases=0"),
        "is 0: parties could not take part",
    ),
    ("training.batch_size", (*RECORD, "privacy.records=15"), "is 16, more than "),
    (
        "training.epochs",
        (*RECORD, "training.epochs=2"),
        "DP-SGD takes one step per round, with the server's learning rate",
    ),
    (
        "training.learning_rate",
        (*RECORD, "training.learning_rate=1"),
        "DP-SGD takes one step per round, with the server's learning rate",
    ),
    (
        "training.momentum",
        (*RECORD, "training.momentum=0.5"),
        "DP-SGD takes one step per round, with the server's learning rate",
    ),
    (
        "training.weight_decay",
        (*RECORD, "training.weight_decay=0.5"),
        "DP-SGD takes one step per round, with the server's learning rate",
    ),
    ("training.dp_sgd.momentum", (*RECORD, "training.dp_sgd={momentum=0.1}"), "effect without carry"),
    ("training.dp_sgd.carry", (*RECORD, "training.dp_sgd={carry='global'}"), "momentum = 0"),
    ("training.dp_sgd.carry", (*RECORD, CARRY), "clusters hide uploads in sums"),
    ("training.dp_sgd.carry", (CARRY,), "clusters hide uploads in sums"),
    ("encoding.clip", (*PARTY, "encoding.clip=none"), "is none: the influence of a party on"),
    ("privacy.records", (*PARTY, "privacy.records=9"), "has no effect with privacy.unit = party"),
    ("privacy.delta", (*PARTY, "privacy.delta=0.0834"), "must be below 1 / 12 parties"),
    (
        "privacy.placement",
        (*PARTY, SHARED, "clustering.reclusterings=2"),
        "2 reclusterings would open the same update 2 times",
    ),
    (
        "secure_sum.colluders",
        (*PARTY, SHARED, "behaviours=[{kind='no-noise', count=1}]"),
        "is 0, fewer than the 1 of all parties that add no noise",
    ),
    (
        "behaviours.0.kind",
        ("behaviours=[{kind='no-noise', count=1}]",),
        "needs privacy noise, and the scenario adds none",
    ),
    (
        "behaviours.0.kind",
        ("behaviours=[{kind='sparse-energy', count=1}]",),
        "needs privacy noise, and the scenario adds none",
    ),
    ("encoding.range", (*PARTY, "encoding.scale_bits=40", "encoding.range=8192"), "outside 1 to 2^53"),
]


@looped("path, overrides, reason", REFUSED)
def test_refused(path: str, overrides: tuple[str, ...], reason: str) -> None:
    error = refusal(*overrides)
    assert error.path == path
    assert reason in error.reason
    assert error.remedy
    assert "\n" not in str(error)


def test_noise_shares_of_which_none_is_secret_are_refused_with_the_sum_itself() -> None:
    """may hold no secret noise at all leaves no honest member in an opened sum either."""
    for f, path in (("2", "secure_sum.min_survivors"), ("3", "clustering.size")):
        colluders = (f"secure_sum.colluders={f}", f"secure_sum.colluders_per_cluster={f}")
        error = refusal(*PARTY, SHARED, *colluders, "clustering.size=4", "secure_sum.threshold=4")
        assert error.path == path


@pytest.mark.parametrize(
    "overrides",
    [
        RECORD,
        PARTY,
        (*PARTY, SHARED),
        (*PARTY, SHARED, "clustering.reclusterings=2", "clustering.new_work=true"),
        (*PARTY, "clustering.reclusterings=3"),
        (*RECORD, "training.dp_sgd={momentum=0.1, carry='global'}"),
        (*RECORD, "expect=[{metric='epsilon', at_most=3}]"),
        (*RECORD, "privacy.unit=none"),
        (*PARTY, "behaviours=[{kind='no-noise', count=5}]"),
    ],
)
def test_accepted(overrides: tuple[str, ...]) -> None:
    assert headed(*overrides)


def test_an_epsilon_that_nobody_keeps_is_named() -> None:
    """``--set privacy.epsilon=8`` alone does nothing, and the run would look private."""
    (line,) = (note for note in headed("privacy.epsilon=8") if "EPSILON" in note)
    assert line.startswith("EPSILON 8 IS NOT ENFORCED")
    assert not any("NOT ENFORCED" in note for note in (*headed(), *headed(*RECORD)))


def test_a_party_may_carry_its_own_upload_where_everybody_sees_it() -> None:
    alone = (
        "clustering.size=1",
        "secure_sum.threshold=1",
        "secure_sum.min_survivors=1",
        "secure_sum.k_anonymity=1",
        "leakage.mode=report",
    )
    assert checked(*RECORD, CARRY, *alone).clusters == 12


def test_the_ring_has_room_for_the_noise() -> None:
    """5 members reach 2^31 with the noise, and do not without."""
    tight = ("encoding.scale_bits=12", f"encoding.range={(2**31 // 5 - 1000) / 2**12}")
    assert checked(*tight).ring_bits == 32
    assert checked(*PARTY, *tight).ring_bits == 64
    assert "with noise" in refusal(*PARTY, *tight, "encoding.ring_bits=32").reason
    assert any("+ 57408 of noise" in note for note in headed(*PARTY, *tight))
    assert noise_of(small()) == 0


@pytest.mark.parametrize("law", ["skellam", "discrete-gaussian"])
def test_no_draw_is_larger_than_the_ring_reckons_with(law: str) -> None:
    table = noise_table("skellam" if law == "skellam" else "discrete-gaussian", MAX_STD)
    assert table.largest <= MAX_NOISE


def test_delta() -> None:
    scenario = small(*RECORD)
    assert check_delta(scenario.privacy, 3000) == pytest.approx(3000**-1.1)
    with pytest.raises(ConfigError, match=r"must be below 1 / 1 records"):
        check_delta(scenario.privacy, 1)
    with pytest.raises(ConfigError, match=r"must be below 1 / 100 records.*random"):
        check_delta(small(*RECORD, "privacy.delta=0.01").privacy, 100)


def test_what_a_header_says() -> None:
    notes = "\n".join(headed(*RECORD, "clustering.reclusterings=2"))
    assert "privacy unit: one record of a party, add-remove" in notes
    assert "2 openings of it count as its publication" in notes
    assert "copies of each other's records" not in notes
    assert "EPSILON PER COPY: parties hold copies" in "\n".join(headed(*RECORD, "data.shares=4"))
    assert "DP-SGD WITHOUT NOISE: clipped gradients alone protect no record" in headed("training.dp_sgd={}")


def test_a_settled_scenario_is_loaded_again_and_signed_as_a_whole() -> None:
    settled = small(
        *RECORD,
        "privacy.epsilon=",
        "privacy.multiplier=1.25",
        "privacy.delta=0.001",
        "privacy.records=100",
        "privacy.budget=2",
        "privacy.releases=3",
    )
    assert settled.privacy.settled
    assert not small(*RECORD).privacy.settled
    assert parse_scenario(to_toml(settled)) == settled
    more = parse_scenario(to_toml(settled), ("privacy.multiplier=1.26",))
    assert scenario_digest(more) != scenario_digest(settled)


def test_who_gives_its_own_guarantee_away() -> None:
    kinds = ["no-noise", "no-clip", "sparse-energy", "scale", "label-flip", "drop", "replay"]
    shown = (
        "behaviours=["
        + ", ".join(
            f"{{kind='{kind}', count=1{', phase=' + repr('after-keys') if kind == 'drop' else ''}}}"
            for kind in kinds
        )
        + "]"
    )
    scenario = small(*PARTY, shown)
    assert [forgoes_privacy(b) for b in scenario.behaviours] == [True, True, True, True, False, False, False]
