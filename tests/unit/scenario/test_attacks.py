"""Attacks that make no sense are refused; what follows from the scenario is written out in them."""

from __future__ import annotations

import re

import pytest

from securefl.base.errors import ConfigError
from securefl.base.ids import PartyId
from securefl.methods.attacks.assignment import behaviours_of, silence
from securefl.methods.attacks.needs import backdoor_of, check_on_data, check_runnable
from securefl.methods.attacks.parts.alie import ALIE, alie_z
from securefl.methods.attacks.parts.backdoor import Backdoor
from securefl.methods.attacks.parts.label_shift import LabelShift
from securefl.methods.attacks.parts.scale import Scale
from tests.looped import looped
from tests.unit.scenario.samples import checked, headed, refusal, small


@looped(
    "behaviours, path, reason",
    [
        (
            "{kind='alie', count=1, z=1}",
            "behaviours.0.count",
            "2 colluding parties or more, the scenario has 1",
        ),
        ("{kind='mimic', parties=['p01']}", "behaviours.0.count", "the scenario has 1"),
        (
            "{kind='local-model-poisoning', against='krum', count=2}",
            "behaviours.0.count",
            "3 colluding parties or more",
        ),
        ("{kind='alie', count=2}", "behaviours.0.z", "too few: 5 of the 10 honest ones"),
        ("{kind='alie', count=7}", "behaviours.0.z", "of 12 parties are a majority, so z cannot be computed"),
        (
            "{kind='alie', count=12}",
            "behaviours.0.z",
            "of 12 parties are a majority, so z cannot be computed",
        ),
        ("{kind='scale', count=3, actors=4}", "behaviours.0.actors", "4 are more than the 3 attackers"),
        ("{kind='scale', count=3, placement='concentrate'}", "behaviours.0.placement", "all attackers act"),
        ("{kind='label-shift', count=1, shift=0}", "behaviours.0.shift", "0 changes no label"),
        (
            "{kind='backdoor', count=1}, {kind='backdoor', count=1, target=2}",
            "behaviours.1.target",
            "first backdoor",
        ),
        (
            "{kind='scale', parties=['p01']}, {kind='gaussian', parties=['p01']}",
            "behaviours.1.kind",
            "p01 cannot have scale and gaussian in the same round",
        ),
        (
            "{kind='label-flip', parties=['p01'], rounds=[0]},"
            " {kind='backdoor', parties=['p01'], rounds=[1]}",
            "behaviours.1.kind",
            "p01 cannot have label-flip and backdoor in the same round",
        ),
        (
            "{kind='scale', count=2, knowledge='omniscient'}",
            "behaviours.0.knowledge",
            "is not a field",
        ),
    ],
)
def test_refused(behaviours: str, path: str, reason: str) -> None:
    error = refusal(f"behaviours=[{behaviours}]")
    assert error.path == path
    assert reason in error.reason
    assert error.remedy


@pytest.mark.parametrize(
    "behaviours",
    [
        "{kind='inner-product-manipulation', count=1}",
        "{kind='fall-of-empires', count=1}",
        "{kind='alie', count=1, z=1, knowledge='omniscient'}",
        "{kind='alie', count=5}",
        "{kind='label-flip', parties=['p01'], rounds=[0]}, {kind='label-flip', parties=['p01'], rounds=[1]}",
        "{kind='scale', parties=['p01'], rounds=[0]},"
        " {kind='mimic', parties=['p01', 'p02'], honest_until=0.5}",
        "{kind='backdoor', count=1}, {kind='scale', count=1, factor=20}",
    ],
)
def test_taken(behaviours: str) -> None:
    small(f"behaviours=[{behaviours}]")


def test_a_coalition_is_written_out_with_its_z() -> None:
    cast = behaviours_of(small("behaviours=[{kind='alie', count=5}, {kind='scale', parties=['p03']}]"), 4)
    coalition = tuple(sorted(party for party, shown in cast.items() if isinstance(shown[0], ALIE)))
    assert len(coalition) == 5
    shown = {cast[party] for party in coalition}
    assert shown == {(ALIE(parties=coalition, z=alie_z(12, 5)),)}
    assert cast[PartyId("p03")] == (Scale(parties=("p03",)),)


def test_when_somebody_falls_silent() -> None:
    shown = behaviours_of(
        small(
            "behaviours=[{kind='scale', parties=['p01']},"
            " {kind='drop', phase='after-keys', parties=['p01'], rounds=[1]}]"
        ),
        0,
    )[PartyId("p01")]
    assert [silence(shown, round_) for round_ in range(3)] == [None, "after-keys", None]


IMAGES = (1, 8, 8)


@pytest.mark.parametrize(
    ("behaviour", "classes", "shape", "path", "reason"),
    [
        (Backdoor(count=1, target=10), 10, IMAGES, "behaviours.1.target", "10 is not a class"),
        (Backdoor(count=1, size=9), 10, IMAGES, "behaviours.1.size", "images of 8 x 8"),
        (Backdoor(count=1), 80, (40,), "behaviours.1.kind", r"samples have shape \(40,\)"),
        (LabelShift(count=1, shift=20), 10, IMAGES, "behaviours.1.shift", "20 changes none of the 10 labels"),
    ],
)
def test_refused_when_the_data_are_known(
    behaviour: Backdoor | LabelShift, classes: int, shape: tuple[int, ...], path: str, reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        check_on_data((Scale(count=1), behaviour), classes, shape)
    assert caught.value.path == path
    assert caught.value.remedy


def test_the_largest_patch_and_the_last_class_are_taken() -> None:
    check_on_data((Backdoor(count=1, target=9, size=8), LabelShift(count=1, shift=-3)), 10, IMAGES)


def test_omniscience_is_for_simulations() -> None:
    behaviours = (Scale(count=1), ALIE(count=4, knowledge="omniscient"))
    check_runnable(behaviours[:1])
    with pytest.raises(ConfigError, match="only in simulate") as caught:
        check_runnable(behaviours)
    assert caught.value.path == "behaviours.1.knowledge"


def test_the_backdoor_that_is_measured() -> None:
    assert backdoor_of((Scale(count=1), Backdoor(count=2, target=3))) == Backdoor(count=2, target=3)
    assert backdoor_of((Scale(count=1),)) is None


def test_success_of_a_backdoor_can_only_be_expected_of_a_backdoor() -> None:
    claim = "expect=[{metric='backdoor_success', at_most=0.1}]"
    error = refusal(claim)
    assert error.path == "expect.0.metric"
    assert "no behaviour is a backdoor" in error.reason
    checked(claim, "behaviours=[{kind='backdoor', count=1}]")


def test_the_header_says_what_attacks_there_are() -> None:
    notes = headed(
        "behaviours=[{kind='alie', count=5, honest_until=0.5, knowledge='omniscient', actors=2},"
        " {kind='label-flip', parties=['p01']}, {kind='drop', phase='after-keys', count=1}]"
    )
    details = "z = 0.566, 2 at a time, over the most clusters, honest before round 2"
    assert [note for note in notes if re.search(r"alie|label-flip|drop by", note)] == [
        "OMNISCIENT ATTACK alie: it knows all honest updates, as no real attacker does",
        "alie by 5 parties",
        "label-flip, drop by 1 party each",
        f"alie by 5: {details}",
    ]
