"""Fields of ``[secure_sum]`` that are left out agree with the others; one refusal names all that does not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import securefl
from securefl.base.errors import ConfigError
from securefl.methods.feasibility.derived import DerivedLimits
from securefl.methods.feasibility.limits import check
from securefl.scenario.load import parse_scenario
from securefl.scenario.resolved import scenario_digest, to_toml
from securefl.scenario.scenario import Scenario
from securefl.scenario.sum_defaults import DERIVED, stated_sums

LEGACY = {"threshold": 2, "min_survivors": 2, "colluders_per_cluster": 0, "colluders": 0}
"""Values of version 0.1 for fields that are left out, whatever the others are."""
BOUND = re.compile(r"(?:(?P<field>\S+) )?(?:(?:at least|at most) (?P<number>[\d.]+)|= (?P<word>\w+))")


def loaded(size: int, parties: int, server: str, *overrides: str, **sums: int) -> Scenario:
    """A scenario that states these fields of ``[secure_sum]`` and no others."""
    stated = (f"secure_sum.{field}={value}" for field, value in sums.items())
    text = (
        f'name = "n"\nparties = {parties}\n[clustering]\nsize = {size}\n[secure_sum]\nserver = "{server}"\n'
    )
    return parse_scenario(text, (*stated, *overrides))


def outcome(scenario: Scenario) -> DerivedLimits | ConfigError:
    try:
        return check(scenario)
    except ConfigError as error:
        return error


def alternatives(error: ConfigError) -> Iterable[tuple[str, ...]]:
    """The overrides of each alternative that a refusal offers."""
    for way in error.remedy.split(", or "):
        if way == "let more parties take part":
            continue
        if found := re.fullmatch(r"at least (\d+) participants", way):
            yield (f"parties={found[1]}", f"clustering.size={found[1]}")
            continue
        changes = []
        for clause in way.split(" and "):
            found = BOUND.fullmatch(clause)
            assert found, f"{clause!r} of {error}"
            changes.append(f"{found['field'] or error.path}={found['number'] or found['word']}")
        yield tuple(changes)


def check_resolved(size: int, parties: int, server: str, sums: Mapping[str, int], *more: str) -> bool:
    """Every alternative of the refusal, if there is one, makes a scenario that runs.

    Returns:
        True if the scenario was accepted as it is.
    """
    found = outcome(loaded(size, parties, server, *more, **sums))
    if not isinstance(found, ConfigError):
        return True
    assert "\n" not in str(found)
    ways = list(alternatives(found))
    assert ways, str(found)
    for way in ways:
        after = outcome(loaded(size, parties, server, *more, *way, **sums))
        assert not isinstance(after, ConfigError), f"{found}\nthen, with {way}: {after}"
    return False


def table() -> list[tuple[int, int, int | None, str]]:
    sizes, colluders, servers = range(3, 13), (None, 0, 1, 2, 3), ("curious", "active")
    return [
        (size, parties, f, server)
        for size, f, server in product(sizes, colluders, servers)
        for parties in (size, size + 1, 2 * size, 2 * size + 1, 5 * size - 1)
    ]


def test_what_the_defaults_make_is_accepted_or_one_refusal_names_all_changes() -> None:
    refused = set()
    for size, parties, f, server in table():
        sums = {} if f is None else {"colluders_per_cluster": f}
        if not check_resolved(size, parties, server, sums):
            refused.add((size, f, server))
    few = {(3, f, server) for f in (2, 3) for server in ("curious", "active")}
    few |= {(4, 3, server) for server in ("curious", "active")}
    unverifiable = {(size, 0, "active") for size in range(3, 13)}
    assert refused == few | unverifiable


@pytest.mark.parametrize(("size", "parties"), [(3, 3), (3, 6), (4, 8), (5, 23), (12, 12)])
def test_an_active_server_is_all_that_a_minimal_scenario_states(size: int, parties: int) -> None:
    scenario = loaded(size, parties, "active")
    sums = scenario.secure_sum
    limits = check(scenario)
    assert (sums.colluders_per_cluster, sums.colluders, sums.verification) == (1, 1, "committee")
    largest = max(limits.cluster_sizes)
    assert 2 * sums.threshold - largest > 1 >= 2 * (sums.threshold - 1) - largest
    assert sums.min_survivors == max(sums.threshold, 3)


def test_the_route_of_the_guide_is_refused_nowhere() -> None:
    """A minimal file, then the server, then what one fears."""
    steps: list[str] = []
    for step in ("secure_sum.server=active", "secure_sum.colluders_per_cluster=2", "secure_sum.colluders=4"):
        steps.append(step)
        check(parse_scenario('name = "n"\nparties = 12\n[clustering]\nsize = 6\n', tuple(steps)))


@pytest.mark.parametrize(
    ("size", "parties", "server", "sums", "line"),
    [
        (
            3, 6, "active", {"threshold": 2, "min_survivors": 2},
            "secure_sum.threshold: against an active server two groups of 2 among 3 members must share "
            "more than f = 1 members, but 2 x 2 - 3 = 1: the server could open two sums of a cluster (at "
            "least 3 and secure_sum.min_survivors at least 3)",
        ),
        (
            3, 6, "active", {"colluders_per_cluster": 0},
            "secure_sum.colluders_per_cluster: is 0, but members verify the sum of their cluster: of two "
            "survivors each would learn the other's update (at least 1 and secure_sum.colluders at least 1 "
            "and secure_sum.threshold at least 3 and secure_sum.min_survivors at least 3, or "
            "secure_sum.verify = off)",
        ),
        (
            3, 12, "curious", {"colluders_per_cluster": 3},
            "clustering.size: besides f = 3 colluders k = 2 honest members must remain in each sum, but "
            "the smallest cluster has 3 members (at least 5, or secure_sum.colluders_per_cluster at most 1 "
            "and secure_sum.threshold at most 3 and secure_sum.min_survivors at most 3)",
        ),
        (
            2, 2, "active", {},
            "secure_sum.colluders_per_cluster: besides f = 1 colluders k = 2 honest members must remain in "
            "each sum, but the smallest cluster has 2 members (at most 0 and secure_sum.min_survivors at "
            "most 2 and secure_sum.verify = off)",
        ),
    ],
)  # fmt: skip
def test_the_line_that_a_person_reads(
    size: int, parties: int, server: str, sums: dict[str, int], line: str
) -> None:
    assert str(outcome(loaded(size, parties, server, **sums))) == line


STATED: st.SearchStrategy[dict[str, int]] = st.fixed_dictionaries(
    {},
    optional={
        "threshold": st.integers(1, 8),
        "min_survivors": st.integers(1, 8),
        "colluders_per_cluster": st.integers(0, 4),
        "colluders": st.integers(0, 4),
        "k_anonymity": st.integers(2, 4),
    },
)
PLANS = st.tuples(st.integers(1, 9), st.integers(1, 24))
SERVERS = st.sampled_from(["curious", "active"])
MORE = st.sampled_from(
    [(), ("secure_sum.verify=off",), ("participation.fraction=0.5",), ("clustering.reclusterings=2",)]
)


@given(PLANS, SERVERS, STATED, MORE)
def test_a_stated_value_that_contradicts_gets_a_value_that_works(
    plan: tuple[int, int], server: str, sums: dict[str, int], more: tuple[str, ...]
) -> None:
    size, parties = plan
    found = outcome(loaded(size, parties, server, *more, **sums))
    own = isinstance(found, ConfigError) and found.path.partition(".")[0] in {"secure_sum", "participation"}
    beyond = isinstance(found, ConfigError) and (
        "parties collude" in found.reason or "leakage." in found.remedy
    )
    if own and not beyond and more != ("clustering.reclusterings=2",):
        check_resolved(size, parties, server, sums, *more)


@given(PLANS, SERVERS, STATED, MORE)
def test_no_scenario_that_ran_before_has_another_digest(
    plan: tuple[int, int], server: str, sums: dict[str, int], more: tuple[str, ...]
) -> None:
    size, parties = plan
    before = loaded(size, parties, server, *more, **{**LEGACY, **sums})
    if not isinstance(outcome(before), ConfigError):
        now = loaded(size, parties, server, *more, **sums)
        assert scenario_digest(now) == scenario_digest(before)


@given(PLANS, SERVERS, STATED, MORE)
def test_what_counts_as_stated_makes_the_scenario_again(
    plan: tuple[int, int], server: str, sums: dict[str, int], more: tuple[str, ...]
) -> None:
    scenario = loaded(*plan, server, *more, **sums)
    kept = stated_sums(scenario)
    assert len(kept) <= len(set(DERIVED) & set(sums))
    chosen: dict[str, Any] = {field: getattr(scenario.secure_sum, field) for field in kept}
    k = scenario.secure_sum.k_anonymity
    assert loaded(*plan, server, *more, k_anonymity=k, **chosen) == scenario
    assert parse_scenario(to_toml(scenario)) == scenario


def test_overrides_in_python_derive_anew_as_those_of_the_command_line_do(tmp_path: Path) -> None:
    file = tmp_path / "minimal.toml"
    file.write_text('name = "n"\nparties = 8\n[clustering]\nsize = 4\n')
    server = {"secure_sum.server": "active"}
    once = securefl.load(file, server)
    assert once == securefl.load(file, ["secure_sum.server=active"])
    assert once == parse_scenario(file.read_text(), ("secure_sum.server=active",))
    assert securefl.with_overrides(once, {"secure_sum.server": "curious"}) == securefl.load(file)
    stated = securefl.load(file, {"secure_sum.min_survivors": 4})
    assert securefl.with_overrides(stated, server).secure_sum.min_survivors == 4


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (("secure_sum.kind=crypten",), (2, 2, 0, 0)),
        (("secure_sum.kind=crypten", "secure_sum.colluders_per_cluster=2"), (4, 4, 2, 2)),
        (("secure_sum.kind=crypten", "secure_sum.min_survivors=3"), (3, 3, 0, 0)),
        (("secure_sum.colluders=3",), (2, 2, 0, 3)),
        (("secure_sum.colluders=2", "clustering.reclusterings=2"), (2, 4, 0, 2)),
        (("secure_sum.colluders=2", "groups.count=2"), (3, 4, 0, 2)),
        (
            ("secure_sum.colluders=2", "groups={count=2, choice_epsilon=2.0}", "secure_sum.server=active"),
            (4, 4, 2, 2),
        ),
        (("groups={count=2, mode='hidden'}", "clustering.atoms=4", "weighting.mode=ignore"), (4, 4, 0, 0)),
        (("clustering.size=1", "secure_sum.k_anonymity=1", "leakage.mode=report"), (1, 1, 0, 0)),
    ],
)
def test_other_fields_count_too(overrides: tuple[str, ...], expected: tuple[int, int, int, int]) -> None:
    scenario = loaded(4, 16, "curious", *overrides)
    sums = scenario.secure_sum
    assert (sums.threshold, sums.min_survivors, sums.colluders_per_cluster, sums.colluders) == expected
    check(scenario)


@pytest.mark.parametrize("size", [2, 3, 6])
@pytest.mark.parametrize("server", ["curious", "active"])
def test_participants_who_fill_no_atom_are_refused_in_one_line(size: int, server: str) -> None:
    scenario = loaded(size, 2, server, "clustering.atoms=2", "participation.fraction=0.5")
    with pytest.raises(ConfigError, match=f"is {size}, but only 1 party takes part"):
        check(scenario)
