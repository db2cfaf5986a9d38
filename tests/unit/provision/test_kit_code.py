"""Kits import no code of the operator's choice, unless the machine's policy allows it with its digest."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from securefl.cli import kit_options
from securefl.runtime.agents.code_digest import digest_of_code
from securefl.runtime.agents.policy import read_policy
from securefl.runtime.provision.signed import sha256
from securefl.scenario import load_scenario
from tests.unit.cli.programs import call, refusal
from tests.unit.provision.machines import WEIGHTS_FILE, Machines, signed
from tests.unit.provision.test_accept import BY_SITES, WEIGHTS

RULE = """\
from pathlib import Path

import securefl

Path({mark!r}).touch()


class Own(securefl.Rule, frozen=True, kw_only=True):
    def withstands(self, clusters):
        return 0

    def aggregate(self, stack, context):
        raise NotImplementedError
"""
NAMED = [
    ("server", '[aggregation.rule]\ntype = "chosen:Own"\n'),
    ("p00", '[aggregation.rule]\ntype = "chosen:Own"\n'),
    ("p00", '[model]\ntype = "chosen:Own"\n'),
    ("p00", '[model]\ntype = "custom"\nfactory = "chosen:Own"\n'),
    ("p00", '[data]\nset = "chosen:Own"\n'),
    ("p00", '[server_optimiser]\ntype = "chosen:Own"\n'),
    ("p00", '[local_method]\ntype = "chosen:Own"\n'),
    ("p00", '[anything]\nwhich = [["chosen:Own"]]\n'),
]


@pytest.fixture(autouse=True)
def _unchanged_process() -> Iterator[None]:
    """A kit's folder becomes the working directory, and its code is imported once it is allowed."""
    here, path = Path.cwd(), list(sys.path)
    yield
    os.chdir(here)
    sys.path[:] = path
    for name in ("chosen", "hospital"):
        sys.modules.pop(name, None)


def with_code(kits: Machines, name: str, table: str, place: Path | None = None) -> Path:
    """A machine that has the code which its kit names, here or installed; return the mark of its import."""
    folder = kits.at(name)
    scenario, kit = folder / "federation.toml", folder / "kit.toml"
    before = sha256(scenario.read_bytes())
    text = scenario.read_text()
    if "[data]" in table:
        text = text.replace("[data]\n", "")
    scenario.write_text(text.replace("[training]", f"{table}[training]"))
    kit.write_text(kit.read_text().replace(before, sha256(scenario.read_bytes())))
    mark = kits.folder / "imported"
    ((place or folder) / "chosen.py").write_text(RULE.format(mark=str(mark)))
    return mark


def start(kits: Machines, name: str, *more: str) -> str:
    """The refusal of a start."""
    role = "server" if name == "server" else "party"
    return refusal(call(role, kits.at(name) / "kit.toml", "--run", "one", *more))


def allow(kits: Machines, name: str) -> str:
    result = call("agent", kits.at(name) / "kit.toml", "--write-policy")
    assert result.exit_code == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize(("name", "table"), NAMED)
def test_code_of_the_operator_is_not_imported(name: str, table: str, kits: Machines) -> None:
    mark = with_code(kits, name, table)
    reason = start(kits, name)
    assert (
        "policy.toml: is missing, and this kit of the operator imports chosen:Own (read this code" in reason
    )
    told = call("doctor", "--kit", kits.at(name) / "kit.toml", width=400)
    assert told.exit_code == 3
    assert "is missing, and this kit of the operator imports chosen:Own" in told.stdout
    assert not mark.exists()
    assert "chosen" not in sys.modules


def test_installed_code_is_not_imported_either(
    kits: Machines, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path_factory.mktemp("installed")
    monkeypatch.syspath_prepend(installed)
    mark = with_code(kits, "server", NAMED[0][1], installed)
    assert "imports chosen:Own" in start(kits, "server")
    (kits.at("server") / "policy.toml").write_text(
        f'decision = "accept"\n[code]\n"other:Own" = "{"a" * 64}"\n'
    )
    assert "policy.toml: code: chosen:Own is not allowed" in start(kits, "server")
    assert not mark.exists()


@pytest.mark.parametrize("name", ["server", "p00"])
def test_allowed_code_is_imported_until_it_changes(name: str, kits: Machines) -> None:
    mark = with_code(kits, name, NAMED[0][1])
    folder = kits.at(name)
    told = allow(kits, name)
    digest = digest_of_code("chosen:Own", folder)
    assert f"allows chosen:Own, SHA-256 {digest[:16]}" in told
    assert read_policy(folder / "policy.toml").code == {"chosen:Own": digest}
    assert not mark.exists()
    role = "server" if name == "server" else "party"
    words = kit_options.expand([str(folder / "kit.toml"), "--run", "one"], role)
    assert not mark.exists()
    assert load_scenario(Path(words[0])).aggregation.rule.name == "chosen:Own"
    assert mark.exists()
    told = call("doctor", "--kit", folder / "kit.toml", width=400).stdout
    assert "chosen:Own as policy.toml allows" in told

    del sys.modules["chosen"]
    mark.unlink()
    code = folder / "chosen.py"
    code.write_text(code.read_text() + "# another version\n")
    reason = start(kits, name)
    assert f"and {digest[:16]} is allowed (read this code, then copy its line from: securefl agent" in reason
    assert not mark.exists()
    assert (
        call("agent", folder / "kit.toml", "--policy", folder / "new.toml", "--write-policy").exit_code == 0
    )
    (folder / "new.toml").replace(folder / "policy.toml")
    kit_options.expand([str(folder / "kit.toml"), "--run", "one"], role)


def test_code_that_two_places_have_is_not_imported(
    kits: Machines, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which of both a process imports depends on its search path, not on the digest that was compared."""
    mark = with_code(kits, "p00", NAMED[0][1])
    allow(kits, "p00")
    installed = tmp_path_factory.mktemp("installed")
    (installed / "chosen.py").write_text(f"open({str(mark)!r}, 'w')\n")
    monkeypatch.syspath_prepend(installed)
    assert f"and, with other code, in {installed}" in start(kits, "p00")
    assert not mark.exists()
    (installed / "chosen.py").write_text((kits.at("p00") / "chosen.py").read_text())
    kit_options.expand([str(kits.at("p00") / "kit.toml"), "--run", "one"], "party")


def test_a_policy_that_cannot_be_read_allows_nothing(kits: Machines) -> None:
    mark = with_code(kits, "p00", NAMED[0][1])
    (kits.at("p00") / "policy.toml").write_text('decision = "accept"\n[code]\n"chosen:Own" = "any"\n')
    assert "policy.toml: code" in start(kits, "p00")
    (kits.at("p00") / "policy.toml").unlink()
    (kits.at("p00") / "policy.toml").mkdir()
    assert "policy.toml: cannot be read" in start(kits, "p00")
    assert not mark.exists()


def test_a_machine_without_code_needs_no_policy(kits: Machines) -> None:
    kit = kits.at("server") / "kit.toml"
    assert "is the kit of a server, and names no code" in refusal(call("agent", kit, "--write-policy"))
    assert "is the kit of a broker" in refusal(
        call("agent", kits.at("broker") / "kit.toml", "--write-policy")
    )
    told = call("doctor", "--kit", kit, width=400).stdout
    assert "no code of the operator's choice" in told


@pytest.fixture
def by_sites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    """Answers of an operator who has chosen the sites' training."""
    monkeypatch.setenv("SECUREFL_STATE", str(tmp_path / "state"))
    return signed(tmp_path, scenario=WEIGHTS, project=BY_SITES, initial_safetensors=WEIGHTS_FILE)


def test_the_operator_chooses_no_training_alone(by_sites: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kit's ``run.site`` is of the operator's project; an option ``--site`` is the site's own."""
    monkeypatch.delitem(sys.modules, "hospital", raising=False)
    # Starts of other tests have put their folders there, with other code of that name.
    monkeypatch.setattr(sys, "path", [one for one in sys.path if not one.startswith(tempfile.gettempdir())])
    folder = by_sites.at("p00")
    told = call(
        "provision", "accept", by_sites.answer("p00"), "--out", folder,
        "--operator", by_sites.operator_fingerprint(),
    )  # fmt: skip
    assert "no run starts yet: " in told.stdout
    assert "policy.toml: is missing, and this kit of the operator imports hospital:Hospital" in told.stdout
    mark = by_sites.folder / "imported"
    (folder / "hospital.py").write_text(f"open({str(mark)!r}, 'w')\n")
    assert "imports hospital:Hospital" in start(by_sites, "p00")
    words = [str(folder / "kit.toml"), "--run", "one"]
    for own in (["--site", "ours:Ward"], ["--site=ours:Ward"]):
        assert kit_options.expand([*words, *own], "party")[-len(own) :] == own
    allow(by_sites, "p00")
    assert "--site=hospital:Hospital" in kit_options.expand(words, "party")
    told = call("provision", "accept", by_sites.answer("p00"), "--out", folder)
    assert "no run starts yet" not in told.stdout
    by_sites.accept("server")
    assert not re.search(
        "--site", " ".join(kit_options.expand([f"{by_sites.at('server')}/kit.toml"], "server"))
    )
    assert not mark.exists()
    assert "hospital" not in sys.modules


def test_a_scenario_of_many_levels_is_refused(kits: Machines) -> None:
    """TOML has no limit for the levels of a dotted key."""
    mark = with_code(kits, "server", f"a{'.a' * 1_500} = 1\n" + NAMED[0][1])
    assert "federation.toml: has too many levels" in start(kits, "server")
    told = call("doctor", "--kit", kits.at("server") / "kit.toml", width=400)
    assert told.exit_code == 3
    assert "has too many levels" in told.stdout
    assert not mark.exists()
