"""Policies: each rule on both sides of its limit, each bad field, hours, and the digest of code."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from securefl.base.errors import ConfigError
from securefl.runtime.agents.code_digest import digest_of_code
from securefl.runtime.agents.policy import (
    Hours,
    RunFacts,
    SitePolicy,
    code_policy,
    code_violations,
    first_policy,
    read_policy,
    violations,
)
from securefl.scenario import Scenario, load_scenario

CODE = "c" * 64
SCENARIO = """\
name = "small"
parties = 6
[model]
type = "weights"
[clustering]
size = 3
[secure_sum]
threshold = 2
min_survivors = 2
[deadlines]
training = 100
join = 50
[stop]
rounds = 7
"""


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    path = tmp_path_factory.mktemp("policy") / "small.toml"
    path.write_text(SCENARIO)
    return load_scenario(path)


def policy(tmp_path: Path, text: str) -> SitePolicy:
    path = tmp_path / "policy.toml"
    if "[code]" not in text:
        text += f'\n[code]\n"hospital:Hospital" = "{CODE}"\n'
    path.write_text('decision = "accept"\n' + text)
    return read_policy(path)


def with_privacy(scenario: Scenario, unit: str) -> Scenario:
    return with_fields(scenario, "privacy", unit=unit, delta=1e-4)


def with_fields(scenario: Scenario, table: str, **fields: Any) -> Scenario:
    changed = msgspec.structs.replace(getattr(scenario, table), **fields)
    return msgspec.structs.replace(scenario, **{table: changed})


def broken(given: SitePolicy, scenario: Scenario, **fields: Any) -> list[str]:
    facts: dict[str, Any] = {"data": "", "scenario": scenario, "epsilon": None, "spent": 0.0}
    return [line.split(":")[0] for line in violations(given, RunFacts(**facts | fields))]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ('rules = ["mean"]', []),
        ('rules = ["median"]', ["rules"]),
        ("[clusters]\nsmallest = 3", []),
        ("[clusters]\nsmallest = 4", ["clusters.smallest"]),
        ("[clusters]\nsurvivors = 2", []),
        ("[clusters]\nsurvivors = 3", ["clusters.survivors"]),
        ('[clusters]\nserver = "active"', ["clusters.server"]),
        ("[deadlines]\ntraining = 100", []),
        ("[deadlines]\ntraining = 99.5", ["deadlines.training"]),
        ("[deadlines]\njoin = 49", ["deadlines.join"]),
        ("[deadlines]\nrounds = 7", []),
        ("[deadlines]\nrounds = 6", ["deadlines.rounds"]),
        ('[privacy]\nunit = "record"', ["privacy.unit"]),
        ('[privacy]\nunit = "party"', ["privacy.unit"]),
        ("[privacy]\nrun = 4.0", ["privacy.run"]),
        ("[privacy]\nbudget = 4.0", ["privacy.budget"]),
        ("[clusters]\nsmallest = 4\n[deadlines]\nrounds = 6", ["clusters.smallest", "deadlines.rounds"]),
    ],
)
def test_each_rule(text: str, names: list[str], tmp_path: Path, scenario: Scenario) -> None:
    assert broken(policy(tmp_path, text), scenario) == names


@pytest.mark.parametrize(
    ("wanted", "unit", "fits"),
    [
        ("any", "none", True), ("record", "none", False), ("record", "record", True),
        ("record", "party", True), ("party", "record", False), ("party", "party", True),
    ],
)  # fmt: skip
def test_a_run_hides_at_least_the_unit(
    wanted: str, unit: str, fits: bool, tmp_path: Path, scenario: Scenario
) -> None:
    given = policy(tmp_path, f'[privacy]\nunit = "{wanted}"')
    assert broken(given, with_privacy(scenario, unit), epsilon=1.0) == ([] if fits else ["privacy.unit"])


@pytest.mark.parametrize(
    ("epsilon", "spent", "names"),
    [
        (3.0, 0.0, []),
        (3.0, 6.0, []),
        (3.0, 6.1, ["privacy.budget"]),
        (4.0, 0.0, []),
        (4.1, 0.0, ["privacy.run"]),
        (1.0, math.inf, ["privacy.budget"]),
        (math.inf, 0.0, ["privacy.run", "privacy.budget"]),
    ],
)
def test_epsilon_of_a_run_and_of_all(
    epsilon: float, spent: float, names: list[str], tmp_path: Path, scenario: Scenario
) -> None:
    given = policy(tmp_path, "[privacy]\nrun = 4.0\nbudget = 10.0\nleft = 1.0")
    found = broken(given, with_privacy(scenario, "record"), epsilon=epsilon, spent=spent)
    assert found == names


@pytest.mark.parametrize(
    ("table", "fields", "text", "names"),
    [
        ("leakage", {"mode": "report"}, "", ["clusters.leakage"]),
        ("leakage", {"mode": "report"}, '[clusters]\nleakage = "report"', []),
        ("evaluation", {"repeats": "accept"}, "", ["clusters.repeats"]),
        ("evaluation", {"repeats": "accept"}, '[clusters]\nrepeats = "accept"', []),
        ("secure_sum", {"colluders_per_cluster": 1}, "[clusters]\ncolluders = 2", ["clusters.colluders"]),
        ("secure_sum", {"colluders_per_cluster": 2}, "[clusters]\ncolluders = 2", []),
        ("privacy", {"unit": "party", "delta": 0.3}, "", []),
        ("privacy", {"unit": "party", "delta": 0.3}, '[privacy]\nunit = "record"', ["privacy.delta"]),
        ("privacy", {"unit": "party", "delta": 0.3}, "[privacy]\nrun = 4.0", ["privacy.delta"]),
        ("privacy", {"unit": "party", "delta": 0.3}, "[privacy]\nrun = 4.0\ndelta = 0.3", []),
        ("privacy", {"unit": "party", "delta": "auto"}, "[privacy]\nrun = 4.0", ["privacy.delta"]),
    ],
)
def test_what_would_weaken_the_limits(
    table: str, fields: dict[str, Any], text: str, names: list[str], tmp_path: Path, scenario: Scenario
) -> None:
    assert broken(policy(tmp_path, text), with_fields(scenario, table, **fields), epsilon=1.0) == names


def test_only_allowed_work(tmp_path: Path, scenario: Scenario) -> None:
    given = policy(tmp_path, 'data = ["samples.npz"]')
    assert list(code_violations(given, {"hospital:Hospital": CODE})) == []
    assert list(code_violations(given, {"hospital:Hospital": "d" * 64, "other:Site": ""})) == [
        f"code: hospital:Hospital has the digest {'d' * 16}, and {CODE[:16]} is allowed",
        "code: other:Site is not allowed",
    ]
    assert list(code_violations(None, {"hospital:Hospital": CODE})) == [
        "code: hospital:Hospital is not allowed"
    ]
    assert broken(given, scenario, data="samples.npz") == []
    assert broken(given, scenario, data="others.npz") == ["data"]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("unknown = 1", "unknown"),
        ('rules = "mean"', "rules"),
        ('options = ["--key=other.key"]', "options.0"),
        ('options = ["--site-memory=100", "--insecure-seeded-entropy"]', "options.1"),
        ('options = ["kit.toml"]', "options.0"),
        ("[privacy]\nunit = 1", "privacy.unit"),
        ("[privacy]\nleft = 1.0", "privacy.left"),
        ("[privacy]\nbudget = 1.0\nleft = 1.0", "privacy.left"),
        ("[privacy]\nrun = 0.0", "privacy.run"),
        ("[clusters]\nsmallest = -1", "clusters.smallest"),
        ("[deadlines]\nrounds = 0", "deadlines.rounds"),
        ('[hours]\nbegin = "20:00"', "hours"),
        ('[hours]\nbegin = "24:00"\nend = "06:00"', "hours.begin"),
        ('[hours]\nbegin = "20:00"\nend = "20:00"', "hours.end"),
        ('[hours]\nbegin = "20:00"\nend = "06:00"\ndays = ["monday"]', "hours.days"),
        ('[code]\n"hospital:Hospital" = "abc"', "code.hospital:Hospital"),
        ('rules = ["mean", "trimed-mean"]', "rules.1"),
    ],
)
def test_each_bad_field_is_named(text: str, named: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        policy(tmp_path, text)
    assert f"policy.toml: {named}" in refused.value.path


def test_bad_values_are_explained(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'trimed-mean' is not a rule \(did you mean trimmed-mean\?\)"):
        policy(tmp_path, 'rules = ["trimed-mean"]')
    assert policy(tmp_path, 'rules = ["own:Rule", "trimmed-mean"]').rules == ("own:Rule", "trimmed-mean")
    with pytest.raises(ConfigError, match=r"'abc' is not a SHA-256 of 64 digits .*--write-policy"):
        policy(tmp_path, '[code]\n"hospital:Hospital" = "abc"')


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_policy_that_other_users_can_change_is_refused(mode: int, tmp_path: Path) -> None:
    policy(tmp_path, "")
    path = tmp_path / "policy.toml"
    path.chmod(mode)
    with pytest.raises(ConfigError, match=r"can be changed by other users \(chmod go-w "):
        read_policy(path)
    path.chmod(0o644)
    assert read_policy(path).decision == "accept"


def test_a_decision_must_be_stated(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text("rules = []\n")
    with pytest.raises(ConfigError, match="decision"):
        read_policy(tmp_path / "policy.toml")


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("Mon 08:00", True), ("Mon 07:59", False), ("Mon 17:59", True), ("Mon 18:00", False),
        ("Sat 12:00", False),
    ],
)  # fmt: skip
def test_hours_of_a_day(text: str, inside: bool) -> None:
    hours = Hours(begin="08:00", end="18:00", days=("mon", "tue", "wed", "thu", "fri"))
    assert hours.includes(local(text)) is inside


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("Fri 20:00", True), ("Fri 19:59", False), ("Sat 05:59", True), ("Sat 06:00", False),
        ("Sat 20:00", False), ("Mon 05:59", False), ("Tue 00:00", True),
    ],
)  # fmt: skip
def test_hours_over_midnight(text: str, inside: bool) -> None:
    hours = Hours(begin="20:00", end="06:00", days=("mon", "tue", "wed", "thu", "fri"))
    assert hours.includes(local(text)) is inside


def local(text: str) -> datetime:
    day = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat").index(text[:3])
    # 2026-05-04 is a Monday.
    return datetime(2026, 5, 4 + day, int(text[4:6]), int(text[7:]), tzinfo=UTC)


@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize(("site", "data"), [("hospital:Hospital", ""), ("", "samples.npz")])
def test_the_first_policy_asks_a_person(
    site: str, data: str, repeats: bool, tmp_path: Path, scenario: Scenario
) -> None:
    text = first_policy({site: CODE} if site else {}, data, repeats=repeats)
    assert ("The kit's scenario accepts this" in text) is repeats
    (tmp_path / "policy.toml").write_text(text)
    found = read_policy(tmp_path / "policy.toml")
    assert found.decision == "ask"
    assert broken(found, scenario, data=data) == []
    assert list(code_violations(found, {site: CODE} if site else {})) == []
    # All lines that are comments are valid ones, too.
    text = "\n".join(line.removeprefix("# ") if " = " in line or "[h" in line else line
                     for line in text.splitlines())  # fmt: skip
    (tmp_path / "policy.toml").write_text(text)
    assert read_policy(tmp_path / "policy.toml").hours is not None


def test_the_policy_of_a_server_limits_code_only(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(code_policy({"ownrule:Own": CODE}))
    found = read_policy(tmp_path / "policy.toml")
    assert found.decision == "accept"
    assert found.code == {"ownrule:Own": CODE}


@pytest.mark.parametrize("file", ["native.so", "compiled.pyc", "linked/deep.py"])
def test_the_digest_covers_all_that_a_package_imports(file: str, tmp_path: Path) -> None:
    package, other = tmp_path / "clinic", tmp_path / "other"
    for folder in (package, other, package / "__pycache__"):
        folder.mkdir()
    (package / "__init__.py").write_text("")
    (package / "linked").symlink_to(other)
    (other / "round").symlink_to(package)
    (package / file).write_text("1")
    whole = digest_of_code("clinic:Site", tmp_path)
    (package / "__pycache__" / "__init__.cpython-312.pyc").write_text("made")
    (package / "notes.txt").write_text("no code")
    assert digest_of_code("clinic:Site", tmp_path) == whole
    (package / file).write_text("2")
    assert digest_of_code("clinic:Site", tmp_path) != whole


def test_the_digest_of_a_module_and_of_a_package(tmp_path: Path) -> None:
    (tmp_path / "hospital.py").write_text("x = 1\n")
    first = digest_of_code("hospital:Hospital", tmp_path)
    assert first == digest_of_code("hospital:Other", tmp_path)
    (tmp_path / "hospital.py").write_text("x = 2\n")
    assert digest_of_code("hospital:Hospital", tmp_path) != first
    package = tmp_path / "clinic"
    (package / "inner").mkdir(parents=True)
    for name in ("__init__.py", "inner/__init__.py", "inner/deep.py"):
        (package / name).write_text("")
    whole = digest_of_code("clinic.inner:Site", tmp_path)
    (package / "inner" / "deep.py").rename(package / "inner" / "deeper.py")
    assert digest_of_code("clinic.inner:Site", tmp_path) != whole
    (package / "inner" / "deeper.py").write_text("raise SystemExit\n")
    assert digest_of_code("clinic.inner:Site", tmp_path) != whole
    with pytest.raises(ConfigError, match="has no source code absent"):
        digest_of_code("absent:Site", tmp_path)
    with pytest.raises(ConfigError, match="has no source code sys"):
        digest_of_code("sys:Site", tmp_path)
