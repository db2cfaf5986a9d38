"""Names of parties, and who of them misbehaves."""

from __future__ import annotations

from securefl.base.ids import SERVER, PartyId, is_name
from securefl.methods.attacks.assignment import behaviours_of, party_names
from tests.looped import looped
from tests.unit.scenario.samples import refusal, small

SCALE_TWO = "behaviours=[{kind='scale', factor=-10, count=2}, {kind='label-flip', parties=['p03']}]"


def test_names_are_padded_alike_and_sort_by_number() -> None:
    assert party_names(3) == ("p00", "p01", "p02")
    assert party_names(101)[-1] == "p100"
    assert party_names(101)[7] == "p007"
    for parties in (1, 10, 100, 101, 1_000):
        names = party_names(parties)
        assert len(set(names)) == parties
        assert sorted(names) == list(names)
        assert all(map(is_name, names))


def test_counts_are_drawn_from_those_without_a_behaviour_by_the_seed() -> None:
    scenario = small(SCALE_TWO)
    draws = set()
    for seed in range(40):
        cast = behaviours_of(scenario, seed)
        assert cast == behaviours_of(scenario, seed)
        assert [b.kind for b in cast[PartyId("p03")]] == ["label-flip"]
        scaling = sorted(party for party, shown in cast.items() if shown[0].kind == "scale")
        assert len(scaling) == 2
        assert set(scaling) < set(party_names(12)) - {"p03"}
        draws.add(tuple(scaling))
    assert len(draws) > 10


def test_two_counts_never_meet() -> None:
    scenario = small("behaviours=[{kind='scale', count=6}, {kind='replay', count=6}]")
    cast = behaviours_of(scenario, 1)
    assert set(cast) == set(party_names(12))
    assert all(len(shown) == 1 for shown in cast.values())


def test_the_server_is_cast_too() -> None:
    cast = behaviours_of(small("behaviours=[{kind='lying:SplitsModel'}]"), 0)
    assert list(cast) == [SERVER]


def test_one_party_may_show_several_kinds() -> None:
    scenario = small(
        "behaviours=[{kind='scale', parties=['p01']},"
        " {kind='drop', phase='after-keys', parties=['p01'], rounds=[1]},"
        " {kind='drop', phase='before-keys', parties=['p01'], rounds=[2]}]"
    )
    assert [b.kind for b in behaviours_of(scenario, 0)[PartyId("p01")]] == ["scale", "drop", "drop"]


@looped(
    "behaviours, path, reason",
    [
        ("{kind='scale', parties=['p12']}", "behaviours.0.parties", "p12 is not a party"),
        ("{kind='scale', parties=['server']}", "behaviours.0.parties", "server is not a party"),
        ("{kind='scale', parties=['p01', 'p01']}", "behaviours.0.parties", "names a party twice"),
        ("{kind='scale'}", "behaviours.0.parties", "scale is assigned to no party"),
        (
            "{kind='scale', parties=['p01'], count=1}",
            "behaviours.0.count",
            "parties and count are both given",
        ),
        ("{kind='drop', count=1}", "behaviours.0.phase", "missing"),
        ("{kind='kill', count=1}", "behaviours.0.phase", "missing"),
        ("{kind='scale', count=1, phase='after-keys'}", "behaviours.0.phase", "is not a field"),
        (
            "{kind='kill', phase='after-keys', count=1, announced=false}",
            "behaviours.0.announced",
            "is not a field",
        ),
        ("{kind='label-flip', count=1, factor=2}", "behaviours.0.factor", "is not a field"),
        (
            "{kind='no-clip', count=1}",
            "behaviours.0.kind",
            'no-clip has no effect with encoding.clip = "none"',
        ),
        (
            "{kind='scale', count=1, honest_until=0.5, rounds=[0]}",
            "behaviours.0.honest_until",
            "after its last round",
        ),
        ("{kind='false-count', count=1}", "behaviours.0.samples", "missing"),
        ("{kind='false-count', count=1, samples=0}", "behaviours.0.samples", ">= 1"),
        ("{kind='false-count', count=1, samples=9, rounds=[1]}", "behaviours.0.rounds", "whole run"),
        (
            "{kind='lying:SplitsModel', count=1}",
            "behaviours.0.count",
            "lying:SplitsModel is a fault of the server, not of parties",
        ),
        (
            "{kind='lying:SplitsModel', parties=['p01']}",
            "behaviours.0.parties",
            "lying:SplitsModel is a fault of the server, not of parties",
        ),
        ("{kind='scale', count=13}", "behaviours", "drawn parties misbehave: more than the 12 parties"),
        ("{kind='alie', count=30}", "behaviours", "drawn parties misbehave: more than the 12 parties"),
        ("{kind='scale', count=1, factor=1}", "behaviours.0.factor", "does not change the update"),
        (
            "{kind='scale', count=12}, {kind='replay', parties=['p01']}",
            "behaviours",
            "drawn parties misbehave: more than the 12 parties",
        ),
        (
            "{kind='scale', parties=['p01']}, {kind='scale', factor=3, parties=['p01', 'p02']}",
            "behaviours.1.kind",
            "p01 cannot have scale and scale in the same round",
        ),
        (
            "{kind='drop', phase='after-keys', parties=['p01'], rounds=[1, 2]},"
            " {kind='kill', phase='after-keys', parties=['p01'], rounds=[2]}",
            "behaviours.1.kind",
            "p01 cannot have drop and kill in the same round",
        ),
        (
            "{kind='lying:SplitsModel'}, {kind='lying:ReopensAttempt', rounds=[2]}",
            "behaviours.1.kind",
            "server cannot have lying:SplitsModel and lying:ReopensAttempt in the",
        ),
    ],
)
def test_refused(behaviours: str, path: str, reason: str) -> None:
    error = refusal(f"behaviours=[{behaviours}]")
    assert error.path == path
    assert reason in error.reason
    assert error.remedy


def test_an_adaptive_attack_acts_from_its_fraction_of_the_rounds_on() -> None:
    def rounds(fields: str) -> tuple[int, ...]:
        scenario = small(f"behaviours=[{{kind='scale', parties=['p01'], {fields}}}]", "stop.rounds=5")
        return behaviours_of(scenario, 0)[PartyId("p01")][0].rounds

    assert rounds("honest_until=0.5") == (3, 4)
    assert rounds("honest_until=0.2") == (1, 2, 3, 4)
    assert rounds("honest_until=0.5, rounds=[1, 4]") == (4,)
    assert rounds("factor=2") == ()
