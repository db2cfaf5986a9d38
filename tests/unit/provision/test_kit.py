"""Kits: every start checks them, and they stand for all options of a command."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from securefl.base.errors import ConfigError
from securefl.cli import kit_options
from securefl.runtime import account
from securefl.runtime.provision.certificates import utc_now
from securefl.runtime.provision.kit import read_kit
from securefl.runtime.provision.signed import sha256
from tests.looped import looped
from tests.unit.cli.programs import call, refusal
from tests.unit.provision.machines import MACHINES, PROJECT, Machines, begun, changed_line, done


@pytest.fixture(autouse=True)
def _same_folder() -> Iterator[None]:
    """A kit's folder becomes the working directory."""
    here = Path.cwd()
    yield
    os.chdir(here)


def test_a_kit_stands_for_all_options(kits: Machines) -> None:
    folder = kits.at("p00")
    words = kit_options.expand([str(folder / "kit.toml"), "--run", "one", "--lab"], "party")
    assert words == [
        str(folder / "federation.toml"),
        f"--roster={folder}/roster.toml",
        "--broker=mqtts://localhost:18883",
        f"--tls-ca={folder}/ca.pem",
        f"--tls-cert={folder}/p00.pem",
        f"--tls-key={folder}/keys-1/p00.tls.key",
        f"--key={folder}/keys-1/p00.key",
        f"--out={folder}/runs/one",
        "--name=p00",
        f"--data={folder}/samples.npz",
        "--set",
        "parties=3",
        "--run",
        "one",
        "--lab",
    ]
    assert Path.cwd() == folder


FAULT = '[[behaviours]]\nkind = "scale"\nparties = ["p00"]\n'


def change_scenario(folder: Path, text: str) -> Path:
    """The kit in a folder with another scenario, and the digest of that."""
    scenario, kit = folder / "federation.toml", folder / "kit.toml"
    before = sha256(scenario.read_bytes())
    scenario.write_text(text)
    kit.write_text(kit.read_text().replace(before, sha256(scenario.read_bytes())))
    return kit


def test_a_kit_with_attacks_and_faults_does_not_start(kits: Machines) -> None:
    """The digests of a kit are its owner's: the operator's answer is refused before, by the next test."""
    text = (kits.at("p00") / "federation.toml").read_text()
    kit = change_scenario(kits.at("p00"), text + FAULT)
    with pytest.raises(ConfigError, match=r"federation.toml: behaviours: are attacks and faults"):
        read_kit(kit).check(utc_now())


@pytest.mark.parametrize("name", ["/dev/zero", "../other.safetensors", "other.safetensors"])
def test_a_kit_reads_no_first_weights_but_its_own(name: str, kits: Machines) -> None:
    text = (kits.at("p00") / "federation.toml").read_text()
    kit = change_scenario(kits.at("p00"), f'model = {{ type = "weights", file = "{name}" }}\n{text}')
    with pytest.raises(ConfigError, match=r"federation.toml: model.file: is '.*', which is no file of this"):
        read_kit(kit).check(utc_now())


def test_the_operator_cannot_provision_attacks_and_faults(machines: Machines) -> None:
    scenario = machines.operator / "federation.toml"
    scenario.write_text(scenario.read_text() + FAULT)
    assert "behaviours: are attacks and faults" in refusal(call("provision", "sign", machines.operator))


def test_a_kit_is_known_by_its_name_or_its_table(kits: Machines, tmp_path: Path) -> None:
    renamed = kits.at("p00") / "mine.toml"
    (kits.at("p00") / "kit.toml").rename(renamed)
    assert len(kit_options.expand([str(renamed), "--run=one"], "party")) > 10
    scenario = str(kits.at("p00") / "federation.toml")
    for words in ([scenario, "--name", "p00"], ["--help"], [], ["--run", "one"]):
        assert kit_options.expand(words, "party") == words


@looped("role, name", [("party", "server"), ("server", "p00"), ("dealer", "p00"), ("party", "broker")])
def test_a_kit_of_another_role_is_refused(role: str, name: str, kits: Machines) -> None:
    reason = refusal(call(role, kits.at(name) / "kit.toml", "--run", "one"))
    assert f"is the kit of {name}, a " in reason


def test_a_kit_comes_first(kits: Machines) -> None:
    reason = refusal(call("party", "--run", "one", kits.at("p00") / "kit.toml"))
    assert "is a kit, and not the first argument" in reason


def test_the_run_is_still_needed(kits: Machines) -> None:
    assert "--run: is missing" in refusal(call("party", kits.at("p00") / "kit.toml"))
    assert "'../x' is not a valid run id" in refusal(
        call("party", kits.at("p00") / "kit.toml", "--run", "../x")
    )
    assert not (kits.folder / "x").exists()


def test_a_missing_kit_is_refused(tmp_path: Path) -> None:
    assert "kit.toml: cannot be read" in refusal(call("server", tmp_path / "kit.toml", "--run", "one"))


FIELDS = [
    ("format", 2, "kit.format", "is not a choice|expected"),
    ("entries", 0, "kit.entries", ">= 1"),
    ("head", "x", "kit.head", "expected"),
    ("head", "0" * 64, "", "is not the history that kit.toml names"),
    ("entries", 3, "", "is not the history that kit.toml names"),
    ("project", "other", "", "is not the history that kit.toml names"),
    ("operator", "0000", "kit.operator", "is not the operator of the history"),
    ("name", "p01", "", "p01.key|has other keys"),
    ("name", "p09", "", "p09: is not in the history"),
    ("tls_key", "/etc/x.key", "files", "is outside of the kit's folder"),
    ("history", "../history.jsonl", "files", "is outside of the kit's folder"),
    ("history", "\0", "files", "is outside of the kit's folder"),
    ("roster", "", "files.roster", "is empty"),
    ("key", "keys-9/p00.key", "", "keys-9/p00.key: cannot be read"),
    ("certificate", "ca.pem", "", "is not the newest of the history"),
    ("authority", "p00.pem", "", "is not the authority of the history"),
    ("parties", "3", "run.parties", "expected int"),
]


@looped("field, value, where, reason", FIELDS)
def test_a_wrong_field_is_refused(
    field: str, value: str | int, where: str, reason: str, kits: Machines
) -> None:
    path = kits.at("p00") / "wrong.toml"
    path.write_text(changed_line((kits.at("p00") / "kit.toml").read_text(), field, value))
    with pytest.raises(ConfigError, match=reason.replace("kit.toml", "wrong.toml")) as found:
        read_kit(path).check(utc_now())
    assert found.value.remedy or "is not a choice" in found.value.reason or where
    assert where in found.value.path


@looped("field", ["project", "name", "operator", "entries", "head", "tls_key", "certificate", "history"])
def test_a_missing_field_is_refused(field: str, kits: Machines) -> None:
    lines = (kits.at("p00") / "kit.toml").read_text().splitlines()
    path = kits.at("p00") / "less.toml"
    path.write_text("\n".join(line for line in lines if not line.startswith(f"{field} = ")))
    with pytest.raises(ConfigError, match=rf"{field}: is missing"):
        read_kit(path)


FILES = ["ca.pem", "p00.pem", "history.jsonl", "roster.toml", "federation.toml"]


@pytest.mark.parametrize("name", FILES)
def test_changed_files_start_nothing(name: str, kits: Machines) -> None:
    path = kits.at("p00") / name
    content = path.read_bytes()
    path.write_bytes(content + b"\n")
    reason = refusal(call("party", kits.at("p00") / "kit.toml", "--run", "one"))
    assert f"{path}: is not the file that kit.toml names" in reason
    path.unlink()
    assert "cannot be read" in refusal(call("party", kits.at("p00") / "kit.toml", "--run", "one"))
    assert not (kits.at("p00") / "runs").exists()


@pytest.mark.parametrize("name", ["p00.key", "p00.tls.key"])
def test_keys_that_others_can_read_start_nothing(name: str, kits: Machines) -> None:
    (kits.at("p00") / "keys-1" / name).chmod(0o640)
    reason = refusal(call("party", kits.at("p00") / "kit.toml", "--run", "one"))
    assert "other users" in reason


def test_a_folder_that_others_can_change_starts_nothing(kits: Machines) -> None:
    kits.at("p00").chmod(0o777)
    assert "can be changed by other users" in refusal(
        call("party", kits.at("p00") / "kit.toml", "--run", "one")
    )


def test_epsilon_of_former_keys_counts(kits: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rotation makes an empty account: what was spent with the former key is added to the new one."""
    path = kits.operator / "federation.toml"
    private = '\n[privacy]\nunit = "party"\nmultiplier = 5.0\ndelta = 1e-5\n'
    path.write_text(path.read_text().replace("[stop]", "[encoding]\nclip = 1.0\n[stop]") + private)
    done("sign", kits.operator)
    kits.request("p00", "--rotate")
    kits.sign("p00")
    kits.accept("p00", "p01")
    monkeypatch.setattr(account, "spent_epsilon", lambda _entries, unit: {"party": 1.5}[unit])
    words = {name: [str(kits.at(name) / "kit.toml"), "--run=one"] for name in ("p00", "p01")}
    assert "--spent=1.5" in kit_options.expand([*words["p00"], "--budget", "3"], "party")
    # Without a budget nothing is counted; a party that never rotated has its own account only.
    assert not any("--spent" in word for word in kit_options.expand(words["p00"], "party"))
    assert not any(
        "--spent" in word for word in kit_options.expand([*words["p01"], "--budget", "3"], "party")
    )
    # The account of the former key is needed then.
    (kits.at("p00") / "keys-1" / "p00.account").unlink()
    with pytest.raises(ConfigError, match="is missing: it records what the key of p00 has released"):
        kit_options.expand([*words["p00"], "--budget", "3"], "party")


def test_doctor_checks_a_kit(kits: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECUREFL_STATE", str(tmp_path / "state"))
    kit = kits.at("p00") / "kit.toml"
    told = call("doctor", "--kit", kit, width=200)
    # The samples are missing, and no broker runs there.
    assert told.exit_code == 3
    lines = {line.split(maxsplit=1)[1][:12].strip(): line.split()[0] for line in told.stdout.splitlines()[1:]}
    for subject in (
        "kit files",
        "kit keys",
        "history",
        "membership",
        "certificate",
        "roster",
        "kit scenario",
    ):
        assert lines[subject[:12]] == "ok", told.stdout
    assert "samples.npz is missing" in told.stdout
    assert "broker mqtts://localhost:18883" in told.stdout
    (kits.at("p00") / "roster.toml").write_text("x")
    told = call("doctor", "--kit", kit, width=200)
    assert "roster.toml: is not the file that kit.toml names" in told.stdout
    assert call("doctor", "--kit", kits.at("broker") / "kit.toml").exit_code == 0
    assert "cannot be read" in refusal(call("doctor", "--kit", tmp_path / "no.toml"))


def test_doctor_warns_of_the_end_of_a_certificate(kits: Machines) -> None:
    kit = read_kit(kits.at("p00") / "kit.toml")
    assert [state for _, _, state in kit.findings(utc_now())] == ["ok"] * 7
    soon = list(kit.findings(utc_now() + timedelta(days=350)))
    assert soon[-1][0] == "renewal"
    late = {subject: state for subject, _, state in kit.findings(utc_now() + timedelta(days=400))}
    assert late["certificate"] == "missing"
    assert all(len(list(read_kit(kits.at(name) / "kit.toml").findings(utc_now()))) >= 5 for name in MACHINES)


def test_a_project_with_a_dealer(tmp_path: Path) -> None:
    made = begun(tmp_path, project=PROJECT + "[dealer]\nhost = 'd.example.org'\n")
    names = (*MACHINES, "dealer")
    for name in names:
        made.request(name)
    assert "requests are missing of dealer (d.example.org)" in made.sign(*MACHINES)
    made.sign("dealer")
    made.accept("dealer", "p00")
    assert read_kit(made.at("p00") / "kit.toml").history().roster().dealer is not None
    words = kit_options.expand([str(made.at("dealer") / "kit.toml"), "--run", "one"], "dealer")
    assert not any(word.startswith(("--name", "--data", "--spent")) for word in words)
    assert not (made.at("dealer") / "keys-1" / "dealer.account").exists()
    assert "securefl dealer" in (made.at("dealer") / "securefl-trial-dealer@.service").read_text()


def test_an_observer_has_a_certificate_and_no_other_key(tmp_path: Path) -> None:
    made = begun(tmp_path, project=PROJECT.replace('data = "samples.npz"', 'data = "s.npz"\nobserver = true'))
    for name in (*MACHINES, "observer"):
        made.request(name)
    # It is not waited for.
    assert "missing" not in made.sign(*MACHINES)
    made.sign("observer")
    made.accept("observer", "p00")
    folder = made.at("observer")
    assert {path.name for path in (folder / "keys-1").iterdir()} == {"observer.tls.key", "observer.request"}
    kit = read_kit(folder / "kit.toml")
    kit.check(utc_now())
    assert "observer" not in kit.history().roster()
    assert kit_options.expand([str(folder / "kit.toml"), "--run", "one"], "observer") == [
        f"--roster={folder}/roster.toml",
        "--broker=mqtts://localhost:18883",
        f"--tls-ca={folder}/ca.pem",
        f"--tls-cert={folder}/observer.pem",
        f"--tls-key={folder}/keys-1/observer.tls.key",
        f"--out={folder}/runs/one",
        "--run",
        "one",
    ]


def test_an_observer_is_in_the_project_or_refused(tmp_path: Path) -> None:
    made = begun(tmp_path)
    made.request("observer")
    stated = ("--fingerprint", made.fingerprint("observer"))
    request = made.at("observer") / "observer.request"
    assert "is of observer, which the project does not have" in refusal(
        call("provision", "sign", made.operator, request, *stated)
    )
