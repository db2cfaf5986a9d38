"""``securefl agent`` and ``securefl runs``: refusals before any connection, and the files of a register."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from securefl.base.errors import ConfigError
from securefl.cli import runs
from securefl.cli.agent import check_options
from securefl.runtime.agents.engine import PersonDecision
from securefl.runtime.agents.evaluation import SubmissionEvaluator, epsilon_of_run
from securefl.runtime.agents.machine import AgentMachine
from securefl.runtime.agents.operator_side import BoardState, Wish, prepare, submitted_before
from securefl.runtime.agents.policy import read_policy
from securefl.runtime.agents.register import KnownRun, Register, RunRecord
from securefl.runtime.provision.history import History
from securefl.runtime.provision.kit import read_kit
from securefl.scenario import load_scenario
from securefl.training import models
from tests.unit.cli.programs import call, refusal
from tests.unit.provision.machines import Machines, contents, done

PRIVATE = """\
name = "private"
parties = 6
[data]
classes = 10
shape = [64]
[model]
type = "softmax"
[training]
device = "cpu"
batch_size = 20
[training.dp_sgd]
[privacy]
unit = "record"
epsilon = 2.0
[weighting]
mode = "ignore"
[clustering]
size = 3
[secure_sum]
threshold = 2
min_survivors = 2
[stop]
rounds = 5
"""


def kit_of(kits: Machines, name: str = "p00") -> Path:
    return kits.at(name) / "kit.toml"


def accepting(kits: Machines, name: str = "p00") -> Path:
    """A machine's policy that accepts all runs on its samples."""
    path = kits.at(name) / "policy.toml"
    path.write_text('decision = "accept"\ndata = ["samples.npz"]\n')
    return path


def known_run(kits: Machines, name: str = "p00", run: str = "one", **wish: Any) -> KnownRun:
    order, _ = prepare(kits.operator, Wish(run=run, **wish))
    kit = read_kit(kit_of(kits, name))
    return Register(kit.folder, kit.history()).add(order)


def evaluate(kits: Machines, known: KnownRun, name: str = "p00") -> tuple[str, str]:
    kit = read_kit(kit_of(kits, name))
    policy = kits.at(name) / "policy.toml"
    given = read_policy(policy) if policy.exists() else None
    found = SubmissionEvaluator(kit, kit.history()).evaluate(known, given)
    return found.missing, found.against


def test_a_scenario_is_shown_as_it_is_read(kits: Machines) -> None:
    """A person decides by the shown text: no separator but TOML's begins a line, and none is cut."""
    first = "evaluation = {" + " " * 2_500 + 'repeats = "accept"}\n# x\u2028[privacy]\x85unit = 1\n'
    file = kits.folder / "shown.toml"
    file.write_text(first + (kits.operator / "federation.toml").read_text())
    known_run(kits, scenario=file)
    told = [line.strip() for line in call("runs", "show", kit_of(kits), "one").stdout.splitlines()]
    assert "# x?[privacy]?unit = 1" in told
    assert not any(line.startswith("[privacy]") for line in told)
    assert any(line.startswith("... ") and line.endswith('repeats = "accept"}') for line in told)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("one", "--without", "p09"), "--without: 'p09' is not a site"),
        (("one", "--hours", "0"), "--hours: 0 is not above 0 and at most 8760 (give hours"),
        (("../one",), "RUN: '../one' is not an id"),
        (("server",), "RUN: 'server' is not an id"),
        (("one", "--scenario", "absent.toml"), "absent.toml: cannot be read"),
        (("one", "--weights", "project.toml"), "--weights: is given, and the scenario has no first weights"),
        (("one", "--without", "p00", "--without", "p01"), ""),
        (("one", "--site", "train.py"), "--site: 'train.py' is not a name of code (write module:name"),
        (
            ("one", "--site", "train:Site"),
            '--site: is given, and model.type = "mlp" has built-in training',
        ),
        (("one", "--data", "../x.npz"), "--data: '../x.npz' is not the name of a file"),
    ],
)
def test_a_submission_is_refused_before_it_is_sent(
    words: tuple[str, ...], named: str, kits: Machines
) -> None:
    before = contents(kits.operator)
    reason = refusal(call("runs", "submit", kits.operator, *words))
    assert named in reason
    assert contents(kits.operator) == before


def test_a_bad_scenario_is_named_with_its_file(kits: Machines, tmp_path: Path) -> None:
    bad = tmp_path / "bad.toml"
    for text, named in (
        ("parties = 3\n", "name: is missing"),
        ('name = "x"\nparties = 3\n[stop]\nrounds = 0\n', "stop.rounds: "),
    ):
        bad.write_text(text)
        reason = refusal(call("runs", "submit", kits.operator, "one", "--scenario", bad))
        assert f"{bad}: {named}" in reason


@pytest.fixture
def by_sites(kits: Machines) -> Machines:
    """The project's sites train by own code now."""
    project = kits.operator / "project.toml"
    text = project.read_text().replace('data = "samples.npz"', 'site = "hospital:Hospital"')
    project.write_text(text.replace('[server]\ndata = "test.npz"\n', ""))
    (kits.operator / "federation.toml").write_text(
        'name = "sites"\nparties = 3\n[model]\ntype = "weights"\n[clustering]\nsize = 2\n'
        "[secure_sum]\nthreshold = 2\nmin_survivors = 2\n[stop]\nrounds = 1\n"
    )
    models.write_tensors(kits.operator / "initial.safetensors", {"w": np.zeros((1, 4)), "b": np.zeros(1)})
    return kits


@pytest.mark.parametrize(
    ("arrays", "named"),
    [
        (None, "is not a safetensors file of numbers"),
        ({}, "holds no arrays"),
        ({"w": np.zeros((1, 4), np.float64)}, "w has dtype float64, expected float32"),
        ({"w": np.full((1, 4), np.nan, np.float32)}, "w is empty, or holds numbers that are not finite"),
        (
            {"w": np.zeros((1, 5), np.float32), "b": np.zeros(1, np.float32)},
            "is of another model: w has shape (1, 5), and in initial.safetensors shape (1, 4)",
        ),
        ({"w": np.zeros((1, 4), np.float32)}, "b has no such array, and in initial.safetensors shape (1,)"),
    ],
)
def test_wrong_first_weights_are_refused_before_a_submission_is_signed(
    arrays: Any, named: str, by_sites: Machines, tmp_path: Path
) -> None:
    file = tmp_path / "second.safetensors"
    file.write_bytes(b"not weights at all" if arrays is None else save(arrays))
    before = contents(by_sites.operator)
    reason = refusal(call("runs", "submit", by_sites.operator, "one", "--weights", file))
    assert f"--weights: {file}" in reason
    assert named in reason
    assert contents(by_sites.operator) == before
    # The id is free, and the project's own file is checked like it.
    own = by_sites.operator / "initial.safetensors"
    other = Wish(run="one", scenario=by_sites.operator / "federation.toml", weights=own)
    if arrays is None:
        own.write_bytes(file.read_bytes())
        with pytest.raises(ConfigError, match=r"--weights: .*initial.safetensors is not a safetensors file"):
            prepare(by_sites.operator, other)
        assert "model.file" in refusal(call("runs", "submit", by_sites.operator, "one"))
    else:
        assert prepare(by_sites.operator, other)[0].content.weights_bytes == own.stat().st_size


def test_samples_for_a_project_with_own_code_are_refused(by_sites: Machines) -> None:
    reason = refusal(call("runs", "submit", by_sites.operator, "one", "--data", "x.npz"))
    assert '--data: is given, and model.type = "weights" is trained by the sites\' code' in reason


def test_both_places_are_named(kits: Machines, tmp_path: Path) -> None:
    for place in (kits.operator / "project.toml", tmp_path / "nofolder"):
        for command in (("list",), ("show",), ("stop",)):
            reason = refusal(call("runs", *command, place, *(("one",) if command != ("list",) else ())))
            assert "name a machine's kit.toml" in reason
            assert "its folder (provision begin --out)" in reason


def test_an_id_is_submitted_once(kits: Machines) -> None:
    prepare(kits.operator, Wish(run="one", note="first"))
    assert submitted_before(kits.operator)["one"].content.note == "first"
    reason = refusal(call("runs", "submit", kits.operator, "one", "--note", "again"))
    assert "'one' was submitted before" in reason
    # Without options it is sent again, here to a broker that is not there.
    assert "cannot reach the broker" in refusal(call("runs", "submit", kits.operator, "one"), 3)


def test_only_sites_and_servers_have_agents(kits: Machines) -> None:
    assert "is the kit of a broker" in refusal(call("agent", kit_of(kits, "broker")))
    assert "policy.toml: cannot be read" in refusal(call("agent", kit_of(kits)))
    (kits.at("p00") / "policy.toml").write_text("decision = 1\n")
    assert "decision" in refusal(call("agent", kit_of(kits)))


def test_machines_that_left_are_shown_as_such(kits: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their notices are no longer valid; the others have not answered."""
    prepare(kits.operator, Wish(run="one"))
    done("remove", kits.operator, "p01")
    done("revoke", kits.operator, "p02", "--reason", "stolen")

    async def board(_folder: Path) -> tuple[BoardState, History]:
        return BoardState(), kits.history()

    monkeypatch.setattr(runs, "_read_board", board)
    (row,) = call("runs", "list", kits.operator).stdout.splitlines()[1:]
    assert re.split(r"\s{2,}", row)[:3] == ["one", "no answer", "1 no answer, 1 removed, 1 revoked"]
    told = call("runs", "show", kits.operator, "one").stdout.splitlines()
    assert [re.split(r"\s{2,}", line.strip())[:2] for line in told[-4:]] == [
        ["server", "no answer"],
        ["p00", "no answer"],
        ["p01", "removed"],
        ["p02", "revoked"],
    ]
    assert [line.count("is its agent running?") for line in told[-4:]] == [1, 1, 0, 0]


def test_a_policy_is_written_once(kits: Machines) -> None:
    assert call("agent", kit_of(kits), "--write-policy").exit_code == 0
    found = read_policy(kits.at("p00") / "policy.toml")
    assert (found.decision, found.data) == ("ask", ("samples.npz",))
    assert "exists already" in refusal(call("agent", kit_of(kits), "--write-policy"))


@pytest.mark.parametrize(
    "words", [("show",), ("approve",), ("refuse",), ("stop",), ("logs",)], ids=lambda words: words[0]
)
def test_commands_name_an_unknown_run(words: tuple[str, ...], kits: Machines) -> None:
    known_run(kits)
    reason = refusal(call("runs", *words, kit_of(kits), "two"))
    assert "RUN: 'two' is not known here (runs: one)" in reason


def test_a_person_decides_about_runs_that_have_not_ended(kits: Machines) -> None:
    known = known_run(kits)
    assert call("runs", "approve", kit_of(kits), "one").exit_code == 0
    assert known.decision() == PersonDecision("approve")
    assert call("runs", "refuse", kit_of(kits), "one", "--reason", "not now").exit_code == 0
    assert known.decision() == PersonDecision("refuse", "not now")
    known.save(RunRecord(submission=known.order.digest, state="running"))
    assert "'one' has begun" in refusal(call("runs", "refuse", kit_of(kits), "one"))
    assert call("runs", "stop", kit_of(kits), "one").exit_code == 0
    known.save(RunRecord(submission=known.order.digest, state="done"))
    assert "'one' is done here" in refusal(call("runs", "approve", kit_of(kits), "one"))


def test_a_decision_about_another_submission_does_not_count(kits: Machines) -> None:
    known = known_run(kits)
    known.decide(PersonDecision("approve"))
    path = known.folder / "decision.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"submission": "0" * 64}))
    assert known.decision() is None
    path.write_text("{}")
    with pytest.raises(ConfigError, match=r"decision.json: is damaged"):
        known.decision()


def test_a_register_is_read_back(kits: Machines) -> None:
    known = known_run(kits)
    known.save(RunRecord(submission=known.order.digest, state="asked", reason="waits", number=3))
    kit = read_kit(kit_of(kits))
    again = Register(kit.folder, kit.history()).find("one")
    assert (again.record, again.order) == (known.record, known.order)
    told = call("runs", "list", kit_of(kits)).stdout
    assert "one  asked  waits" in told
    told = call("runs", "show", kit_of(kits), "one").stdout
    assert "state: asked: waits" in told
    assert 'name = "small"' in told
    assert "does not exist: the run has not begun here" in refusal(call("runs", "logs", kit_of(kits), "one"))


@pytest.mark.parametrize("name", ["submission.json", "record.json"])
def test_a_damaged_register_is_named(name: str, kits: Machines) -> None:
    known = known_run(kits)
    known.save(RunRecord(submission=known.order.digest, state="accepted", number=1))
    path = known.folder / name
    path.write_text(path.read_text()[:-20])
    assert str(path) in refusal(call("runs", "list", kit_of(kits)))
    path.unlink()
    assert "has no submission or no record" in refusal(call("runs", "list", kit_of(kits)))


def test_a_submission_fits_the_roster(kits: Machines) -> None:
    accepting(kits)
    known = known_run(kits)
    assert evaluate(kits, known) == ("", "")
    # The operator's roster changes: this site has not accepted it yet.
    assert call("provision", "remove", kits.operator, "p02").exit_code == 0
    later = known_run(kits, run="two")
    missing, against = evaluate(kits, later)
    assert "newer answer" in missing
    assert not against
    kits.accept("p00")
    assert evaluate(kits, later) == ("", "")
    assert "for an earlier roster" in evaluate(kits, known)[1]


def test_a_policy_is_checked_with_the_scenario(kits: Machines) -> None:
    path = accepting(kits)
    known = known_run(kits)
    path.write_text(path.read_text() + "[deadlines]\nrounds = 1\n")
    assert evaluate(kits, known) == ("", "")
    path.write_text(path.read_text().replace("samples.npz", "others.npz"))
    assert evaluate(kits, known)[1] == "data: samples.npz is not allowed"
    # A server without a policy accepts what is well formed, and its policy has no rules of a site.
    of_server = known_run(kits, "server", "three")
    assert evaluate(kits, of_server, "server") == ("", "")
    (kits.at("server") / "policy.toml").write_text(path.read_text().replace("rounds = 1", "join = 1"))
    assert evaluate(kits, of_server, "server") == ("", "")


def machine_of(kits: Machines, name: str, told: list[str]) -> AgentMachine:
    return AgentMachine(kit_of(kits, name), None, told.append, check_options)


def test_the_policy_of_a_server_may_come_and_go(kits: Machines) -> None:
    told: list[str] = []
    machine = machine_of(kits, "server", told)
    path = kits.at("server") / "policy.toml"
    path.write_text('decision = "ask"\n[hours]\nbegin = "00:00"\nend = "00:01"\n')
    assert machine.read_policy() is None
    assert machine.policy is not None
    # Hours are for sites.
    assert machine.reason_to_rest() == ""
    path.write_text("decision = 1\n")
    assert machine.read_policy() is not None
    assert "the policy cannot be used" in machine.reason_to_rest()
    path.unlink()
    assert machine.read_policy() is None
    assert getattr(machine, "policy") is None  # noqa: B009 - mypy knows of the earlier value
    assert (machine.policy_text, machine.reason_to_rest()) == (b"", "")
    assert [line.split(";")[0].split(":")[0] for line in told] == [
        "the policy has changed", "the policy cannot be used", "the policy was removed",
    ]  # fmt: skip
    # A site cannot work without.
    site = accepting(kits)
    machine = machine_of(kits, "p00", told)
    site.unlink()
    assert machine.read_policy() is not None
    assert "policy.toml" in machine.reason_to_rest()


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("--frobnicate", "--frobnicate is not an option of securefl party"),
        ("--site-pyton=/opt/python", "--site-pyton is not an option of securefl party (did you mean"),
        ("--metrics-port=70000", "--metrics-port '70000' is above 65535"),
        ("--metrics-port=x", "--metrics-port 'x' is not a whole number"),
        ("--metrics-port", "--metrics-port requires an argument"),
        ("--site-memory=-1", "--site-memory"),
        ("--help", "'--help' is set by the agent, or is not an option"),
    ],
)
def test_options_are_checked_by_their_command(option: str, reason: str, kits: Machines) -> None:
    path = accepting(kits)
    path.write_text(f'options = ["--site-memory=500", "{option}"]\n' + path.read_text())
    with pytest.raises(ConfigError) as refused:
        check_options("party", path, read_policy(path))
    assert refused.value.path == f"{path}: options.1"
    assert reason in str(refused.value)
    # The agent does so before it connects.
    with pytest.raises(ConfigError) as refused:
        machine_of(kits, "p00", [])
    assert reason in str(refused.value)


def test_good_options_are_accepted(kits: Machines) -> None:
    path = accepting(kits)
    given = '["--metrics-port=9464", "--metrics-host=0.0.0.0", "--site-python=/opt/python", "--device=cpu"]'
    path.write_text(f"options = {given}\n" + path.read_text())
    assert len(read_policy(path).options) == 4
    check_options("party", path, read_policy(path))
    with pytest.raises(ConfigError, match=r"options.2: --site-python is not an option of securefl server"):
        check_options("server", path, read_policy(path))


def test_a_site_leads_no_runs(kits: Machines) -> None:
    accepting(kits)
    assert "--parallel: is for the server, and" in refusal(call("agent", kit_of(kits), "--parallel", "4"))


@pytest.mark.parametrize("own", [False, True])
def test_a_new_policy_names_what_it_refuses(own: bool, kits: Machines) -> None:
    """The decision stays with the site, before a submission has used up its id."""
    file = kits.operator / "federation.toml"
    rule = '[aggregation]\nrule = { type = "ownrule:Own" }\n' if own else ""
    file.write_text(file.read_text() + '[evaluation]\nrepeats = "accept"\n' + rule)
    if own:
        (kits.at("p00") / "ownrule.py").write_text("")
        table = read_kit(kit_of(kits)).file("scenario")
        table.write_text(file.read_text())
    else:
        done("sign", kits.operator)
        kits.accept("p00")
    told = call("agent", kit_of(kits), "--write-policy")
    assert told.exit_code == 0
    path = kits.at("p00") / "policy.toml"
    (line,) = [
        line for line in told.stdout.splitlines() if "refuses the scenario" in line and "repeats" in line
    ]
    assert "clusters.repeats: the run's metrics may reveal counts of this site" in line
    assert read_policy(path).clusters.repeats == "refuse"
    assert "The kit's scenario accepts this" in path.read_text()


def test_the_words_of_a_process(kits: Machines) -> None:
    path = accepting(kits)
    path.write_text(path.read_text().replace("data =", 'options = ["--site-memory=500"]\ndata ='))
    known = known_run(kits, without=("p02",))
    kit = read_kit(kit_of(kits))
    words = SubmissionEvaluator(kit, kit.history()).words(known, read_policy(path))
    assert words[0] == "party"
    assert words[1] == str(kit.folder / "agent" / "one" / "scenario.toml")
    assert f"--roster={kit.folder / 'agent' / 'one' / 'roster.toml'}" in words
    assert f"--out={kit.folder / 'runs' / 'one'}" in words
    assert f"--data={kit.folder / 'samples.npz'}" in words
    assert "parties=2" in words
    assert words[-1] == "--site-memory=500"
    server = read_kit(kit_of(kits, "server"))
    words = SubmissionEvaluator(server, server.history()).words(known, None)
    assert words[0] == "server"
    assert f"--data={server.folder / 'test.npz'}" in words


def test_the_epsilon_of_a_run_is_that_of_its_settling(tmp_path: Path) -> None:
    path = tmp_path / "private.toml"
    path.write_text(PRIVATE)
    settled = tmp_path / "settled.toml"
    told = call("dp", "settle", path, "--records", "400", "--out", settled)
    assert told.exit_code == 0, told.stderr
    found = epsilon_of_run(load_scenario(settled))
    assert 0.95 * 2.0 < found <= 2.0
