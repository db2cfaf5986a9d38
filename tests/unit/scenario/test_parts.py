"""Parts are found by name, one file each; one's own by ``module:name``."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from msgspec import inspect

from securefl.base.arrays import F64
from securefl.base.errors import ConfigError
from securefl.base.ids import PartyId
from securefl.base.stack import ClusterMeans
from securefl.lab.experiments.record import scenario_key
from securefl.methods.robust.catalogue import aggregate
from securefl.protocol.round.party.upload import UpdateId
from securefl.runtime.misbehaviour.assignment import party_behaviour
from securefl.scenario.aggregation import PreAggregation, Rule
from securefl.scenario.behaviours import Behaviour
from securefl.scenario.data import Partition
from securefl.scenario.load import load_scenario, parse_scenario
from securefl.scenario.model import Model
from securefl.scenario.parts import Part, default_of, expand_node, find, load_own, names, own_parts_from
from securefl.scenario.resolved import scenario_digest, to_toml
from tests.vectors.test_defaults import SMALL

KINDS: tuple[type[Part], ...] = (Rule, PreAggregation, Behaviour, Partition, Model)
OWN = """
from securefl.scenario.aggregation import Rule
from securefl.base.stack import AggregationResult, all_kept

class First(Rule, frozen=True, kw_only=True):
    row: int = 0
    def withstands(self, clusters):
        return 0
    def aggregate(self, stack):
        return AggregationResult(stack.means[self.row].copy(), all_kept(stack))

class Half(Rule, frozen=True, kw_only=True):
    def withstands(self, clusters):
        return 0

class Named(Rule, tag="other", frozen=True, kw_only=True):
    pass

count = 3
"""
ATTACKS = """
from securefl.scenario.behaviours import Behaviour, CoalitionAttack, DataAttack, UpdateAttack

class Zero(UpdateAttack, frozen=True, kw_only=True):
    def craft(self, update, before, entropy):
        return 0 * update

class Nothing(Behaviour, frozen=True, kw_only=True): ...
class Silent(UpdateAttack, frozen=True, kw_only=True): ...
class Mute(CoalitionAttack, frozen=True, kw_only=True): ...
class Still(DataAttack, frozen=True, kw_only=True): ...
"""


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Path]:
    """A folder with a scenario and a module of one's own, and nothing left of it afterwards."""
    before = sys.path.copy()
    (tmp_path / "own_for_test.py").write_text(OWN)
    (tmp_path / "broken_for_test.py").write_text("1 / 0")
    yield tmp_path
    sys.path[:] = before
    for module in ("own_for_test", "attack_for_test"):
        sys.modules.pop(module, None)


def scenario_in(folder: Path, kind: str, more: str = "") -> Path:
    path = folder / "own.toml"
    path.write_text(f"{SMALL}\n[aggregation]\nrule = {{ type = '{kind}'{more} }}")
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_every_file_holds_the_part_of_its_name(kind: type[Part]) -> None:
    for name in names(kind):
        assert find(kind, name).__struct_config__.tag == name
    assert kind.usual in names(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_lists_them_all(kind: type[Part]) -> None:
    found = [
        node.tag for node in expand_node(inspect.type_info(kind)) if isinstance(node, inspect.StructType)
    ]
    assert found == list(names(kind))


def test_only_the_named_file_is_imported() -> None:
    """And those of the defaults."""
    code = (
        "import sys; from securefl.scenario.load import parse_scenario;"
        f"parse_scenario({SMALL!r}, ('aggregation.rule.type=median',));"
        "print([m for m in sys.modules if m.startswith('securefl.methods.robust.rules.')],"
        " 'torch' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (
        shown.stdout.strip()
        == "['securefl.methods.robust.rules.mean', 'securefl.methods.robust.rules.median'] False"
    )


def test_ones_own_lies_beside_the_scenario(own: Path) -> None:
    scenario = load_scenario(scenario_in(own, "own_for_test:First", ", row = 1"))
    rule = scenario.aggregation.rule
    stack = ClusterMeans(np.arange(6.0).reshape(3, 2), np.ones(3), np.ones(3, dtype=np.int64))
    vector: F64 = aggregate(rule, stack).vector
    assert vector.tolist() == [2.0, 3.0]
    assert rule.name == "own_for_test:First"
    assert parse_scenario(to_toml(scenario)) == scenario
    assert scenario_digest(scenario) != scenario_digest(load_scenario(scenario_in(own, "own_for_test:First")))


def test_ones_own_made_in_python_is_named_as_well(own: Path) -> None:
    sys.path.append(str(own))
    module: ModuleType = __import__("own_for_test")
    rule = module.First(row=2)
    assert (rule.name, rule) == (
        "own_for_test:First",
        parse_scenario(
            SMALL, ("aggregation.rule.type=own_for_test:First", "aggregation.rule.row=2")
        ).aggregation.rule,
    )


@pytest.mark.parametrize(
    ("kind", "more", "message"),
    [
        (
            "own_for_test:First",
            ", rows = 1",
            "is not a field",
        ),
        ("own_for_test:First", ", row = 'a'", r'^aggregation\.rule\.row: expected int, found "a"'),
        (
            "own_for_test:Half",
            "",
            "own_for_test:Half lacks aggregate",
        ),
        ("own_for_test:Named", "", r"^aggregation\.rule\.type: own_for_test:Named has the type name other"),
        ("own_for_test:Rule", "", r"^aggregation\.rule\.type: own_for_test:Rule has the type name secure"),
        (
            "own_for_test:count",
            "",
            "own_for_test:count is not a Rule",
        ),
        ("own_for_test:Absent", "", r"^aggregation\.rule\.type: own_for_test:Absent has no Absent"),
        (
            "absent_for_test:X",
            "",
            r"absent_for_test:X cannot be imported: ModuleNotFoundError: .* \(put",
        ),
        (
            "broken_for_test:X",
            "",
            r"broken_for_test:X cannot be imported: ZeroDivisionError: division",
        ),
        ("not a module:X", "", '"not a module:X" is not a choice'),
    ],
)
def test_what_cannot_be_used_is_refused_at_loading(own: Path, kind: str, more: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_scenario(scenario_in(own, kind, more))


def test_ones_own_attack_says_what_it_sends(own: Path) -> None:
    (own / "attack_for_test.py").write_text(ATTACKS)
    sys.path.append(str(own))
    behaviours = parse_scenario(
        SMALL, ("behaviours=[{ kind = 'attack_for_test:Zero', count = 1 }]",)
    ).behaviours
    update, sent = np.ones(2), party_behaviour(behaviours, PartyId("p00")).seams.update
    assert sent(update, UpdateId(0, 0, np.zeros(2, dtype=np.float32), ())).tolist() == [0.0, 0.0]
    for kind, lacking in {
        "Nothing": "craft",
        "Silent": "craft",
        "Mute": "collude",
        "Still": "poison",
    }.items():
        with pytest.raises(ConfigError, match=rf"^behaviours\.0\.kind: .* lacks {lacking} "):
            parse_scenario(SMALL, (f"behaviours=[{{ kind = 'attack_for_test:{kind}', count = 1 }}]",))
    with pytest.raises(ConfigError, match="is an abstract base class"):
        parse_scenario(
            SMALL, ("behaviours=[{ kind = 'securefl.scenario.behaviours:UpdateAttack', count = 1 }]",)
        )


def folders(own: Path, monkeypatch: pytest.MonkeyPatch, **modules: dict[str, str]) -> tuple[Path, Path]:
    """Folders a and b with modules and a scenario each, and the current directory c."""
    for name in "abc":
        (own / name).mkdir()
        for file, code in modules.get(name, {}).items():
            (own / name / file).parent.mkdir(exist_ok=True)
            (own / name / file).write_text(code)
    monkeypatch.chdir(own / "c")
    return own / "a", own / "b"


FIRST, OTHER = OWN, OWN.replace("self.row", "0")
CALLER = "import help_for_test\n" + OWN
Modules = dict[str, dict[str, str]]


@pytest.mark.parametrize(
    ("modules", "wrong"),
    [
        ({"a": {"m_test.py": FIRST}, "b": {"m_test.py": OTHER}}, "m_test"),
        ({"c": {"m_test.py": FIRST}, "b": {"m_test.py": OTHER}}, "m_test"),
        ({"a": {"m_test.py": FIRST}, "c": {"m_test.py": OTHER}}, "m_test"),
        ({"a": {"m_test/__init__.py": FIRST}, "b": {"m_test.py": OTHER}}, "m_test"),
        (
            {
                "a": {"m_test.py": CALLER, "help_for_test.py": "A = 1"},
                "b": {"m_test.py": CALLER, "help_for_test.py": "A = 2"},
            },
            "help_for_test",
        ),
    ],
)
def test_code_of_another_scenario_is_refused(
    own: Path, monkeypatch: pytest.MonkeyPatch, modules: Modules, wrong: str
) -> None:
    """A process has one module of a name; the scenario would be run with another's."""
    a, b = folders(own, monkeypatch, **modules)
    first = scenario_in(a, "m_test:First")
    load_scenario(first)
    with pytest.raises(ConfigError) as refusal:
        load_scenario(scenario_in(b, "m_test:First"))
    assert str(refusal.value).startswith(
        f"aggregation.rule.type: m_test:First cannot be used: this process has the module {own}"
    )
    assert f"{wrong}.py in place of " in str(refusal.value) or f"/{wrong} in place of " in str(refusal.value)
    if "c" not in modules:
        load_scenario(first)


@pytest.mark.parametrize(
    "modules",
    [
        {"a": {"m_test.py": FIRST}, "b": {"m_test.py": FIRST}},
        {"a": {"m_test.py": FIRST}, "b": {"m_test/data.txt": "no module"}},
        {"c": {"m_test.py": FIRST}},
        {"a": {"m_test.py": FIRST}},
        {"a": {"m_test.py": FIRST}, "b": {"site.py": "1 / 0", "time.py": "1 / 0"}},
    ],
)
def test_code_that_scenarios_share_is_not(
    own: Path, monkeypatch: pytest.MonkeyPatch, modules: Modules
) -> None:
    for folder in folders(own, monkeypatch, **modules):
        load_scenario(scenario_in(folder, "m_test:First"))


def test_the_module_of_the_latest_scenario_is_imported(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = folders(own, monkeypatch, a={"m_test.py": FIRST}, b={"m_test.py": OTHER})
    for folder in (a, b):
        own_parts_from(folder)
    assert load_own("m_test:__file__") == str(b / "m_test.py")


def test_defaults_are_found_by_name() -> None:
    assert default_of(Rule, "mean") == parse_scenario(SMALL).aggregation.rule
    with pytest.raises(LookupError):
        find(Rule, "norm-clipping")


def test_an_edited_part_is_another_one(own: Path) -> None:
    """Results are kept under it: a comparison after an edit must not show the rule of before."""
    scenario = load_scenario(scenario_in(own, "own_for_test:First"))
    plain = parse_scenario(SMALL)
    before, beside = scenario_key(scenario), scenario_key(plain)
    (own / "own_for_test.py").write_text(OWN + "# edited")
    assert scenario_key(scenario) != before
    assert scenario_key(plain) == beside
