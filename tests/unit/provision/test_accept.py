"""Answers at a machine: only the own one, of the right operator, and never an older one."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import msgspec
import numpy as np
import pytest
from safetensors.numpy import save
from typer.testing import CliRunner

from securefl.base import files
from securefl.base.crypto.keyfiles import read_identity, read_roster
from securefl.base.errors import ConfigError
from securefl.cli.app import app
from securefl.runtime.provision import inputs
from securefl.runtime.provision.accept import Acceptance, check_answer
from securefl.runtime.provision.answer import SMALL, read_answer
from securefl.runtime.provision.certificates import utc_now
from securefl.runtime.provision.kit import read_kit
from securefl.runtime.provision.signed import message_of
from tests.looped import looped
from tests.unit.cli.programs import call, refusal
from tests.unit.provision.machines import (
    MACHINES,
    PROJECT,
    SCENARIO,
    WEIGHTS_FILE,
    Machines,
    begun,
    changed_file,
    contents,
    done,
    signed,
)

WEIGHTS = (
    SCENARIO.partition("[data]")[0]
    + '[model]\ntype = "weights"\n[clustering]\nsize = 3\n[stop]\nrounds = 1\n'
)
BY_SITES = PROJECT.replace('data = "samples.npz"', 'site = "hospital:Hospital"').replace(
    'data = "test.npz"', ""
)


def test_every_machine_gets_its_kit(kits: Machines) -> None:
    for name in MACHINES:
        kit = read_kit(kits.at(name) / "kit.toml")
        kit.check(utc_now())
        assert (kit.name, kit.content.kit.head) == (name, kits.history().head)
        assert kit.content.kit.operator == kits.operator_fingerprint()
    assert read_roster(kits.at("p00") / "roster.toml") == kits.history().roster()
    assert read_kit(kits.at("server") / "kit.toml").content.run.data == "test.npz"
    assert read_kit(kits.at("broker") / "kit.toml").role == "broker"
    assert not (kits.at("broker") / "roster.toml").exists()


def test_accepting_again_changes_nothing(kits: Machines) -> None:
    kits.accept("p00")  # the copy is in another folder, which units name
    before = contents(kits.at("p00"))
    done("accept", kits.answer("p00"), "--out", kits.at("p00"))
    assert contents(kits.at("p00")) == before


def test_the_fingerprint_of_the_operator_is_compared(machines: Machines) -> None:
    assert "is signed by an operator with another fingerprint" in machines.refused(
        "p00", operator="0000-0000-0000-0000-0000"
    )
    runner = CliRunner()
    words = ["provision", "accept", str(machines.answer("p00")), "--out", str(machines.at("p00"))]
    assert runner.invoke(app, words, input="no\n").exit_code == 2
    assert runner.invoke(app, words, input="").exit_code != 0
    assert not (machines.at("p00") / "kit.toml").exists()
    result = runner.invoke(app, words, input=f"{machines.operator_fingerprint().upper()} \n")
    assert result.exit_code == 0, result.stderr
    assert machines.operator_fingerprint() not in result.stderr.partition("reads out")[0]


def test_a_stated_fingerprint_is_always_compared(kits: Machines) -> None:
    assert "is signed by an operator with another fingerprint" in kits.refused(
        "p00", operator="0000-0000-0000-0000-0000"
    )


def test_a_refusal_does_not_show_the_fingerprint(machines: Machines) -> None:
    """It would be copied, and not compared."""
    for given in ("1234", "0000-0000-0000-0000-0000", ""):
        assert machines.operator_fingerprint() not in machines.refused("p00", operator=given or "none")


def test_answers_of_others_are_refused(machines: Machines) -> None:
    assert "is for p01 with other keys than those in" in machines.refused("p00", machines.answer("p01"))
    assert "is for broker with other keys" in machines.refused("p00", machines.answer("broker"))
    (machines.folder / "empty").mkdir()
    assert "has no keys" in machines.refused("empty", machines.answer("p00"))


def test_another_operator_is_refused(kits: Machines, tmp_path_factory: pytest.TempPathFactory) -> None:
    """With the same requests, so that all keys fit."""
    folder = tmp_path_factory.mktemp("other")
    for name in MACHINES:
        shutil.copytree(kits.at(name), folder / name)
    other = begun(folder)
    other.sign(*MACHINES)
    assert "is signed by another operator" in kits.refused("p00", other.answer("p00"), operator="")
    # Without a kit, the fingerprint decides.
    (kits.at("p00") / "kit.toml").unlink()
    assert "is signed by an operator with another fingerprint" in kits.refused("p00", other.answer("p00"))


def test_an_older_history_is_refused(kits: Machines) -> None:
    old = kits.folder / "old.answer"
    shutil.copy(kits.answer("p00"), old)
    done("remove", kits.operator, "p02")
    kits.accept("p00")
    reason = kits.refused("p00", old)
    assert "has an older history: 7 entries, and this kit has 8" in reason


def test_another_history_of_the_same_operator_is_refused(
    kits: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operator restored an old copy of its folder elsewhere, and took another decision."""
    shutil.copytree(kits.operator, kits.folder / "copy")
    done("remove", kits.operator, "p02")
    kits.accept("p00")
    shutil.rmtree(kits.operator)
    (kits.folder / "copy").rename(kits.operator)
    monkeypatch.setenv("SECUREFL_STATE", str(kits.folder / "elsewhere"))
    done("restore", kits.operator, kits.operator / "history.jsonl")
    done("remove", kits.operator, "p01")
    assert "has another history: entry 7 is not the one of this kit" in kits.refused("p00")


def test_a_removed_machine_is_refused(kits: Machines) -> None:
    old = json.loads(kits.answer("p02").read_text())
    done("remove", kits.operator, "p02")
    body = json.loads(json.loads(kits.answer("p00").read_text())["body"])
    text = json.dumps(body | {"name": "p02"})
    operator = read_identity(kits.operator / "operator.key")
    signature = operator.sign(message_of("securefl answer", text)).hex()
    path = kits.folder / "x.answer"
    path.write_text(json.dumps(old | {"body": text, "signature": signature}))
    assert "is for p02, which was removed by the history" in kits.refused("p02", path)


CHANGES = [
    ({"name": "p01"}, "is not signed by the key of operator"),
    ({"crl": "x"}, "is not signed by the key of operator"),
    ({"weights": "AAAA"}, "is not signed by the key of operator"),
    ({"settings": {}}, "has a damaged body"),
    ({"history": []}, "has no history"),
    ({"history": ["{}"]}, "entry 0: is damaged"),
    ({"history": 1}, "has a damaged body"),
    ({"more": 1}, "has a damaged body"),
]


@looped("fields, reason", CHANGES)
def test_a_changed_answer_is_refused(fields: dict[str, object], reason: str, machines: Machines) -> None:
    path = changed_file(machines.answer("p00"), machines.folder / "changed", **fields)
    assert reason in machines.refused("p00", path)


RESIGNED = [
    ({"settings": {"broker_host": "evil.example.org"}}, "has settings that its history does not have"),
    ({"settings": {"scenario": "x"}}, "has settings that its history does not have"),
    ({"weights": "AAAA"}, "has first weights that its settings do not have"),
]


@looped("fields, reason", RESIGNED)
def test_settings_are_those_of_the_history(
    fields: dict[str, object], reason: str, machines: Machines
) -> None:
    """Signed by the operator, such as by an older version of its program: the history binds them too."""
    outer = json.loads(machines.answer("p00").read_text())
    body = json.loads(outer["body"])
    settings = fields.get("settings", {})
    assert isinstance(settings, dict)
    text = json.dumps(body | fields | {"settings": body["settings"] | settings})
    operator = read_identity(machines.operator / "operator.key")
    signature = operator.sign(message_of("securefl answer", text)).hex()
    path = machines.folder / "resigned"
    path.write_text(json.dumps(outer | {"body": text, "signature": signature}))
    assert reason in machines.refused("p00", path)


@pytest.mark.parametrize("crl", ["", "x", "former"])
def test_the_list_of_revoked_certificates_fits_the_history(crl: str, machines: Machines) -> None:
    former = json.loads(json.loads(machines.answer("broker").read_text())["body"])["crl"]
    done("remove", machines.operator, "p02")
    outer = json.loads(machines.answer("broker").read_text())
    text = json.dumps(json.loads(outer["body"]) | {"crl": former if crl == "former" else crl})
    operator = read_identity(machines.operator / "operator.key")
    signature = operator.sign(message_of("securefl answer", text)).hex()
    path = machines.folder / "resigned"
    path.write_text(json.dumps(outer | {"body": text, "signature": signature}))
    assert "field crl" in machines.refused("broker", path)


def test_an_expired_certificate_is_refused(machines: Machines, kits: Machines) -> None:
    answer, folder = read_answer(machines.answer("p00")), machines.at("p00")
    late, early = utc_now() + timedelta(days=366), utc_now() - timedelta(days=1)
    for now, reason in ((late, "has expired on"), (early, "is valid from")):
        with pytest.raises(ConfigError, match=reason):
            check_answer(answer, "x", folder, now, fingerprint=lambda _: machines.operator_fingerprint())
        with pytest.raises(ConfigError, match=reason):
            read_kit(kits.at("p00") / "kit.toml").check(now)


def test_a_rotation_changes_the_keys_of_the_kit(kits: Machines) -> None:
    kits.request("p00", "--rotate")
    # Until the answer is there, the former keys work.
    read_kit(kits.at("p00") / "kit.toml").check(utc_now())
    done("accept", kits.answer("p00"), "--out", kits.at("p00"))
    assert read_kit(kits.at("p00") / "kit.toml").content.files.key == "keys-1/p00.key"
    kits.sign("p00")
    kits.accept(*MACHINES)
    kit = read_kit(kits.at("p00") / "kit.toml")
    kit.check(utc_now())
    assert kit.content.files.key == "keys-2/p00.key"
    assert read_roster(kits.at("p01") / "roster.toml").parties["p00"] == read_identity(kit.file("key")).public  # type: ignore[index]


def test_first_weights_travel_if_they_are_small(tmp_path: Path) -> None:
    made = signed(tmp_path, scenario=WEIGHTS, project=BY_SITES, initial_safetensors=WEIGHTS_FILE)
    made.accept("p00", "server")
    for name in ("p00", "server"):
        assert (made.at(name) / "initial.safetensors").read_bytes() == WEIGHTS_FILE
    assert read_kit(made.at("p00") / "kit.toml").content.run.site == "hospital:Hospital"
    assert read_kit(made.at("server") / "kit.toml").content.run.site == ""


def test_large_weights_come_as_a_file(tmp_path: Path) -> None:
    large = save({"w": np.zeros(SMALL // 4, np.float32)})
    made = signed(tmp_path, scenario=WEIGHTS, project=BY_SITES, initial_safetensors=large)
    assert made.answer("p00").stat().st_size < 100_000
    assert "has no first weights: they are too large" in made.refused("p00")
    wrong, right = tmp_path / "wrong", tmp_path / "right"
    wrong.write_bytes(large[1:])
    right.write_bytes(large)
    assert "is not the file of the operator" in made.refused("p00", weights=str(wrong))
    assert "cannot be read" in made.refused("p00", weights=str(tmp_path / "none"))
    words = ("--operator", made.operator_fingerprint(), "--weights", right)
    done("accept", made.answer("p00"), "--out", made.at("p00"), *words)
    assert (made.at("p00") / "initial.safetensors").read_bytes() == large


def test_weights_without_need_are_refused(machines: Machines) -> None:
    (machines.folder / "w").write_bytes(b"")
    reason = machines.refused("p00", weights=str(machines.folder / "w"))
    assert "--weights: is given, and this scenario has no first weights" in reason


def test_a_folder_that_no_unit_can_name_is_refused(machines: Machines) -> None:
    machines.at("p00").rename(machines.folder / "p 00")
    assert "has characters that units and mosquitto.conf cannot name" in machines.refused(
        "p 00", machines.answer("p00")
    )


def test_a_broker_in_a_folder_that_no_unit_can_name(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The way to a machine's folder may lead through one whose name has a line feed."""
    (machines.folder / "a\nplugin x").mkdir()
    monkeypatch.chdir(machines.folder / "a\nplugin x")
    operator = machines.operator_fingerprint()
    done("accept", machines.answer("broker"), "--out", "../broker", "--operator", operator)
    text = (machines.at("broker") / "mosquitto.conf").read_text()
    assert "plugin" not in text
    assert f"cafile {machines.at('broker')}/ca.pem\n" in text


def test_a_disk_that_is_full_leaves_the_former_kit(kits: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kit of which only some files are new starts nothing, until the answer is accepted again."""
    done("remove", kits.operator, "p02")
    write, written = files.write_whole, list[Path]()

    def fail_late(path: Path, content: bytes, **how: bool) -> None:
        if len(written) == 3:
            raise OSError(28, "No space left on device")
        written.append(path)
        write(path, content, **how)

    monkeypatch.setattr(files, "write_whole", fail_late)
    reason = refusal(call("provision", "accept", kits.answer("p00"), "--out", kits.at("p00")), code=3)
    assert "cannot be written: No space left on device (accept the answer again" in reason
    monkeypatch.undo()
    with pytest.raises(ConfigError, match=re.escape("is not the file that kit.toml names")):
        read_kit(kits.at("p00") / "kit.toml").check(utc_now())
    kits.accept("p00")
    read_kit(kits.at("p00") / "kit.toml").check(utc_now())


@pytest.mark.parametrize(
    "name", ["numpy.py", "policy.toml", "securefl-trial-p00.service", "w.so", "sub/w.safetensors"]
)
def test_an_operator_names_no_code_and_no_file_of_the_site(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python imports from the folder of a kit, systemd links its units, and the policy is the site's."""
    with monkeypatch.context() as patch:
        patch.setattr(inputs, "WEIGHTS_NAME", re.compile(".*"))
        scenario = WEIGHTS.replace('type = "weights"\n', f'type = "weights"\nfile = "{name}"\n')
        made = begun(tmp_path, project=BY_SITES, scenario=WEIGHTS, initial_safetensors=WEIGHTS_FILE)
        (made.operator / name).parent.mkdir(exist_ok=True)
        (made.operator / name).write_bytes(WEIGHTS_FILE)
        (made.operator / "federation.toml").write_text(scenario)
        for one in MACHINES:
            made.request(one)
        made.sign(*MACHINES)
    assert f"weights_name: '{name}' is not valid in a kit" in made.refused("p00")
    assert not (made.at("p00") / name).exists()


@pytest.mark.parametrize("field", ["scenario_name", "weights_name"])
@pytest.mark.parametrize("first", [True, False])
def test_an_answer_replaces_no_file_of_the_site(field: str, first: bool, tmp_path: Path) -> None:
    """An agent's policy may have any name, and a site's code reads files of its own."""
    made = signed(tmp_path, scenario=WEIGHTS, project=BY_SITES, initial_safetensors=WEIGHTS_FILE)
    if not first:
        made.accept("p00")
    name = {"scenario_name": "strict.toml", "weights_name": "strict.safetensors"}[field]
    own = made.at("p00") / name
    own.write_bytes(b"decision = 'ask'")
    answer = read_answer(made.answer("p00"))
    settings = msgspec.structs.replace(answer.body.settings, **{field: name})
    forged = replace(answer, body=msgspec.structs.replace(answer.body, settings=settings))

    def check() -> Acceptance:
        stated = made.operator_fingerprint()
        return check_answer(forged, "x.answer", made.at("p00"), utc_now(), fingerprint=stated)

    with pytest.raises(ConfigError, match=f"{name}: exists already, and is not of a kit"):
        check()
    own.unlink()
    checked = check()
    # As after an interrupted acceptance.
    own.write_bytes(checked.contents[name])
    assert check().contents == checked.contents


FORGED = [
    ("project", "x\nplugin /tmp/x.so"),
    ("broker_host", "h\nsite = 'x'"),
    ("broker_host", ""),
    ("broker_port", 0),
    ("broker_port", 70_000),
    ("project", "x\x1b]52;c;aWQ="),
    ("scenario_name", "policy.toml"),
    ("scenario_name", "Policy.TOML"),
    ("scenario_name", "Policy.toml"),
    ("scenario_name", f"{'a' * 250}.toml"),
    ("weights_name", f"{'a' * 240}.safetensors"),
    ("scenario_name", "../federation.toml"),
    ("site", "train.py --all"),
    ("site", "../train:Site"),
    ("data", "/etc/passwd"),
    ("data", "../p00.npz"),
    ("data", "os:listdir"),
    ("server_data", "a/b.npz"),
    ("prefix", "/srv\nExecStartPre=/bin/sh -c id"),
    ("prefix", "srv"),
    ("prefix", "/srv/../tmp"),
    ("hosts", {"p00": "h\n    privileged: true"}),
]


@looped("field, value", FORGED)
def test_an_operator_without_this_program_writes_no_line_of_a_unit(
    field: str, value: object, machines: Machines
) -> None:
    """The operator signs any settings, and names them in its history; root starts the units of a kit."""
    answer = read_answer(machines.answer("p00"))
    settings = msgspec.structs.replace(answer.body.settings, **{field: value})
    forged = replace(answer, body=msgspec.structs.replace(answer.body, settings=settings))
    before = contents(machines.at("p00"))
    with pytest.raises(ConfigError) as refused:
        check_answer(forged, "x.answer", machines.at("p00"), utc_now(), fingerprint=pytest.fail)
    assert refused.value.path.startswith(f"x.answer: {field}")
    assert str(refused.value).isprintable()
    assert contents(machines.at("p00")) == before


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


def test_first_weights_are_checked_before_they_are_signed(tmp_path: Path) -> None:
    """All machines would refuse them later; what was signed before stays as it is."""
    made = signed(
        _folder(tmp_path / "good"), scenario=WEIGHTS, project=BY_SITES, initial_safetensors=WEIGHTS_FILE
    )
    (made.operator / "initial.safetensors").write_bytes(WEIGHTS_FILE[:-1])
    before = contents(made.operator)
    words = ("provision", "sign", made.operator)
    assert "initial.safetensors is not a safetensors file of numbers" in refusal(call(*words))
    assert contents(made.operator) == before
    (made.operator / "initial.safetensors").write_bytes(WEIGHTS_FILE)
    done("sign", made.operator)
    begins = ("provision", "begin", tmp_path / "good" / "project.toml", "--out", tmp_path / "new")
    (tmp_path / "good" / "initial.safetensors").write_bytes(b"weights")
    assert "model.file: " in refusal(call(*begins))
    assert not (tmp_path / "new").exists()
