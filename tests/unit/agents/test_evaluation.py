"""Submissions of a malicious operator, judged at a machine: none imports code or ends the agent."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from securefl.runtime.agents.code_digest import digest_of_code
from securefl.runtime.agents.evaluation import SubmissionEvaluator, SubmissionVerdict
from securefl.runtime.agents.policy import SitePolicy
from securefl.runtime.agents.register import Register
from securefl.runtime.provision.kit import KitFile, KitFiles, KitTable, MachineKit
from securefl.scenario import parse_scenario, scenario_digest
from tests.unit.agents.samples import history, order

BASE = """\
name = "small"
parties = 2
[clustering]
size = 2
"""
EVIL = """\
from pathlib import Path
Path("{mark}").touch()
"""
RULE = """\
import securefl


class Own(securefl.Rule, frozen=True, kw_only=True):
    def withstands(self, clusters):
        return 0

    def aggregate(self, stack, context):
        raise NotImplementedError
"""


def evaluator(folder: Path, name: str = "p00") -> SubmissionEvaluator:
    table = KitTable(project="trial", name=name, operator="", entries=1, head="a" * 64)
    files = KitFiles(tls_key="k", certificate="c", authority="a", history="h")
    kit = MachineKit(folder / "kit.toml", KitFile(kit=table, files=files, digests={}))
    return SubmissionEvaluator(kit, history())


def judge(
    folder: Path, scenario: str, policy: SitePolicy | None, name: str = "p00", **fields: Any
) -> SubmissionVerdict:
    register = Register(folder, history())
    asked = {"site": "", "data": "samples.npz", "history": history().head, "scenario": scenario}
    known = register.add(order(**asked | fields))
    return evaluator(folder, name).evaluate(known, policy)


ALLOWED = SitePolicy(decision="accept", data=("samples.npz",))


def test_a_run_that_keeps_to_the_policy(tmp_path: Path) -> None:
    digest = scenario_digest(parse_scenario(BASE)).hex()
    found = judge(tmp_path, BASE, ALLOWED, scenario_digest=digest)
    assert found == SubmissionVerdict(needed=("p00", "p01"), fewest=2)  # type: ignore[arg-type]
    found = judge(tmp_path, BASE, ALLOWED, run="two", data="other.npz", scenario_digest=digest)
    assert found.against == "data: other.npz is not allowed"
    # A server has data of its own.
    found = judge(tmp_path, BASE, None, "server", run="three", data="other.npz", scenario_digest=digest)
    assert found.against == ""


@pytest.mark.parametrize("policy", [ALLOWED, None])
@pytest.mark.parametrize(
    "table",
    [
        '[aggregation.rule]\ntype = "{name}:Own"',
        '[model]\ntype = "{name}:Own"',
        '[model]\ntype = "custom"\nfactory = "{name}:Own"',
        '[data]\nset = "{name}:Own"',
        '[data]\nserver_set = "{name}:Own"',
        '[data.partition]\ntype = "{name}:Own"',
        '[server_optimiser]\ntype = "{name}:Own"',
        '[training.method]\ntype = "{name}:Own"',
        '[[behaviours]]\nkind = "{name}:Own"\nparties = ["p00"]',
    ],
)
def test_no_code_is_imported_that_the_policy_does_not_allow(
    table: str, policy: SitePolicy | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scenario names code that the site has installed for something else."""
    monkeypatch.syspath_prepend(tmp_path)
    mark = tmp_path / "imported"
    (tmp_path / "unasked.py").write_text(EVIL.format(mark=mark))
    found = judge(tmp_path, BASE + table.format(name="unasked"), policy)
    assert found.against == "code: unasked:Own is not allowed"
    assert not mark.exists()
    assert "unasked" not in sys.modules


def test_first_weights_are_no_module(tmp_path: Path) -> None:
    """The operator does not choose their name: a scenario could import them from the run's folder."""
    known = Register(tmp_path, history()).add(order(weights_bytes=1, weights_digest="a" * 64))
    assert known.weights == tmp_path / "agent" / "one" / "first.safetensors"


def test_own_parts_need_their_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "ownrule.py").write_text(RULE)
    scenario = BASE + '[aggregation.rule]\ntype = "ownrule:Own"'
    allowed = SitePolicy(decision="accept", data=("samples.npz",), code={"ownrule:Own": "d" * 64})
    assert "has the digest" in judge(tmp_path, scenario, allowed).against
    assert "ownrule" not in sys.modules
    digest = digest_of_code("ownrule:Own", tmp_path)
    allowed = SitePolicy(decision="accept", data=("samples.npz",), code={"ownrule:Own": digest})
    resolved = scenario_digest(parse_scenario(scenario)).hex()
    assert judge(tmp_path, scenario, allowed, run="two", scenario_digest=resolved).against == ""


@pytest.mark.parametrize(
    ("scenario", "reason"),
    [
        ("a = " + "[" * 11_000, "is not valid TOML"),
        ("a" + ".a" * 5_000 + " = 1", "cannot be judged: RecursionError"),
        ("a = 1" + "0" * 5_000, "is not valid TOML"),
        ("[[", "is not valid TOML"),
        (BASE + '[[behaviours]]\nkind = "no-noise"\nparties = ["p00"]', "behaviours"),
        (BASE + '[secure_sum]\nkind = "plain"', "secure_sum.kind"),
        (BASE + '[model]\ntype = "weights"\nfile = "/dev/zero"', "model.file"),
        (
            BASE + '[privacy]\nunit = "party"\nepsilon = 1.0\n[encoding]\nclip = 1.0',
            "not settled",
        ),
        (BASE, "resolves to another digest"),
    ],
)
def test_scenarios_that_are_refused(scenario: str, reason: str, tmp_path: Path) -> None:
    for name, policy in (("p00", ALLOWED), ("server", None)):
        found = judge(tmp_path / name, scenario, policy, name)
        assert reason in found.against
        assert len(found.against) <= 200
