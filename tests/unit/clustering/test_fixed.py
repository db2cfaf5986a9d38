"""Fixed clusters: the same mates whoever is absent, and nothing of the nonces in them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from securefl.base.ids import PartyId, RunId
from securefl.methods.clustering.assignment import fixed_assignment, fixed_seed

SEED = fixed_seed(RunId("r"), bytes(32))


def parties(number: int) -> list[PartyId]:
    return [PartyId(f"p{i:02d}") for i in range(number)]


@given(data=st.data())
def test_the_absent_are_missing_and_nobodys_mates_change(data: st.DataObject) -> None:
    number = data.draw(st.integers(1, 20))
    size = data.draw(st.integers(1, number))
    fewest = data.draw(st.integers(1, size))
    everybody = parties(number)
    present = data.draw(st.sets(st.sampled_from(everybody)))
    (whole,) = fixed_assignment(SEED, everybody, everybody, size, fewest).clusters
    assert sorted(party for members in whole for party in members) == everybody
    assert min(map(len, whole)) >= size
    drawn = fixed_assignment(SEED, everybody, present, size, fewest)
    (row,) = drawn.clusters
    left = [tuple(p for p in members if p in present) for members in whole]
    assert list(row) == [members for members in left if len(members) >= fewest]
    assert drawn.participants == tuple(sorted(p for members in row for p in members))
    assert [party for party in drawn.participants if not drawn.of(party)] == []


def test_they_follow_from_run_and_configuration_only() -> None:
    everybody = parties(30)

    def row(seed: bytes) -> object:
        return fixed_assignment(seed, everybody, everybody, 3, 2).clusters

    assert row(SEED) == row(fixed_seed(RunId("r"), bytes(32)))
    assert row(SEED) == fixed_assignment(SEED, reversed(everybody), everybody, 3, 2).clusters
    assert row(SEED) != row(fixed_seed(RunId("s"), bytes(32)))
    assert row(SEED) != row(fixed_seed(RunId("r"), bytes(31) + b"\1"))
