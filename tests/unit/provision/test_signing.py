"""Decisions of the operator: who is admitted, renewed, removed and revoked, and which answers follow."""

from __future__ import annotations

import fcntl
import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from typer.testing import CliRunner

from securefl.base.errors import ConfigError
from securefl.cli.app import app
from securefl.runtime.provision.answer import read_answer
from securefl.runtime.provision.authority import Authority
from securefl.runtime.provision.request import read_request
from tests.unit.cli.programs import call, refusal
from tests.unit.provision.machines import (
    MACHINES,
    PROJECT,
    SCENARIO,
    Machines,
    begun,
    contents,
    copied,
    done,
    signed,
)


def refused(made: Machines, *words: str | Path) -> str:
    """The reason of a refusal at the operator, whose folder stays as it was."""
    before = contents(made.operator)
    reason = refusal(call("provision", *words))
    assert contents(made.operator) == before
    return reason


def events(made: Machines) -> list[str]:
    told = done("history", made.operator / "history.jsonl").splitlines()
    assert told[-1].startswith(f"verified: {len(told) - 1} entries signed by the operator")
    return [" ".join(line.split()[2:4]) for line in told[:-1]]


def test_answers_wait_for_all_machines(tmp_path: Path) -> None:
    made = begun(tmp_path)
    for name in MACHINES:
        made.request(name)
    told = made.sign("p01")
    assert "requests are missing of server, p00 (a.example.org), p02, broker (localhost)" in told
    assert not made.answer("p01").exists()
    told = made.sign("broker")
    assert made.answer("broker").exists()
    assert not made.answer("p01").exists()
    made.sign("p00", "p02", "server")
    assert all(made.answer(name).exists() for name in MACHINES)


def test_certificates_fit_their_machines(machines: Machines) -> None:
    history = machines.history()
    for name, member in history.present.items():
        found = x509.load_pem_x509_certificate(member.certificate.text.encode())
        usage = found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        server = name == "broker"
        assert list(usage) == [ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH]
        assert member.certificate.names_host("localhost") == server
        constraints = found.extensions.get_extension_for_class(x509.BasicConstraints).value
        assert not constraints.ca
        assert 364 <= (member.certificate.ends - datetime.now(UTC)).days <= 365
        assert name in found.subject.rfc4514_string()


def test_an_address_is_in_the_brokers_certificate(tmp_path: Path) -> None:
    for host in ("192.0.2.7", "2001:db8::1", "broker.example.org"):
        folder = tmp_path / host.replace(":", "-")
        folder.mkdir()
        made = signed(folder, project=PROJECT.replace('"localhost"', f'"{host}"'))
        broker = made.history().present["broker"]  # type: ignore[index]
        assert broker.certificate.names_host(host)
        assert not broker.certificate.names_host("localhost")


def test_a_folder_of_answers_that_cannot_be_made_changes_nothing(machines: Machines) -> None:
    shutil.rmtree(machines.operator / "answers")
    (machines.operator / "answers").write_text("")
    assert "answers: cannot be made: File exists" in refused(machines, "renew", machines.operator, "p00")


def test_fingerprints_are_compared(tmp_path: Path) -> None:
    made = begun(tmp_path)
    made.request("p00")
    path = made.at("p00") / "p00.request"
    reason = refused(made, "sign", made.operator, path, "--fingerprint", "0000-0000-0000-0000-0000")
    assert "has another fingerprint than the given ones (p00 reads out the one" in reason
    assert made.fingerprint("p00") not in reason
    runner = CliRunner()
    words = ["provision", "sign", str(made.operator), str(path)]
    assert runner.invoke(app, words, input="0000-0000-0000-0000-0000\n").exit_code == 2
    alone = runner.invoke(app, words, input="")
    assert alone.exit_code == 2
    assert any(line.startswith("refused --fingerprint: is not given") for line in alone.stderr.splitlines())
    assert made.fingerprint("p00") not in alone.output
    assert events(made) == ["begun trial"]
    result = runner.invoke(app, words, input=f" {made.fingerprint('p00').upper()}\n")
    assert result.exit_code == 0, result.stderr
    # The question does not show the answer.
    question = result.stderr.partition("reads it out")[0]
    assert made.fingerprint("p00") not in question
    assert events(made)[1] == "added p00"


def test_a_request_twice_changes_nothing(machines: Machines) -> None:
    before = machines.history().head
    told = done("sign", machines.operator, machines.at("p00") / "p00.request")
    assert "p00: was signed before" in told
    assert machines.history().head == before


def test_requests_are_admitted_all_or_none(tmp_path: Path) -> None:
    made = begun(tmp_path)
    made.request("p00")
    done("request", "--name", "p09", "--out", made.at("p09"))
    requests = [made.at(name) / f"{name}.request" for name in ("p00", "p09")]
    stated = [word for name in ("p00", "p09") for word in ("--fingerprint", made.fingerprint(name))]
    assert "is of p09, which the project does not have" in refused(
        made, "sign", made.operator, *requests, *stated
    )
    assert "is one of several requests of p00" in refused(
        made, "sign", made.operator, requests[0], requests[0], *stated
    )
    assert "p00" not in made.history().members


def test_other_keys_need_a_rotation(machines: Machines, tmp_path: Path) -> None:
    done("request", "--name", "p00", "--out", tmp_path / "new")
    path = tmp_path / "new" / "p00.request"
    stated = ("--fingerprint", read_request(path).fingerprint)
    reason = refused(machines, "sign", machines.operator, path, *stated)
    assert "has other keys already" in reason
    assert "--rotate" in reason


def test_keys_of_another_machine_are_refused(machines: Machines) -> None:
    p00 = read_request(machines.at("p00") / "p00.request")
    with pytest.raises(ConfigError, match="has a key of p00"):
        machines.history().check_keys("p01", p00.keys, "x")


def test_a_rotation_revokes_the_former_certificate(machines: Machines) -> None:
    former = machines.history().members["p00"]  # type: ignore[index]
    machines.request("p00", "--rotate")
    machines.sign("p00")
    history = machines.history()
    assert [one.serial for one in history.revoked] == [former.certificate.serial]
    assert history.roster().parties["p00"] != former.public  # type: ignore[index]
    crl = x509.load_pem_x509_crl(read_answer(machines.answer("broker")).body.crl.encode())
    assert [one.serial_number for one in crl] == [former.certificate.serial]
    assert crl.next_update_utc is not None
    assert crl.next_update_utc > datetime.now(UTC) + timedelta(days=3000)


def test_replaced_keys_never_return(machines: Machines) -> None:
    first = read_request(machines.at("p00") / "p00.request")
    machines.request("p00", "--rotate")
    machines.sign("p00")
    # The former request, signed again.
    path = machines.at("p00") / "keys-1" / "p00.request"
    reason = refused(machines, "sign", machines.operator, path, "--fingerprint", first.fingerprint)
    assert "has a key of p00 that was replaced or revoked" in reason


def test_renewal_keeps_the_keys(machines: Machines) -> None:
    former = machines.history().members["p00"]  # type: ignore[index]
    done("renew", machines.operator, "p00", "server")
    renewed = machines.history().members["p00"]  # type: ignore[index]
    assert renewed.certificate.serial != former.certificate.serial
    assert renewed.public == former.public
    assert machines.history().revoked == []
    assert events(machines)[-2:] == ["renewed p00", "renewed server"]
    # A later removal revokes both certificates.
    done("remove", machines.operator, "p00")
    serials = {one.serial for one in machines.history().revoked}
    assert serials == {former.certificate.serial, renewed.certificate.serial}


def test_a_name_is_renewed_once(machines: Machines) -> None:
    reason = refused(machines, "renew", machines.operator, "p01", "p00", "p01")
    assert reason == "NAME: 'p01' is given twice (name each machine once)"


def test_removal_and_return(machines: Machines) -> None:
    told = done("remove", machines.operator, "p02")
    assert "give the broker its new answer" in told
    assert not machines.answer("p02").exists()
    assert set(machines.history().roster().parties) == {"p00", "p01"}
    assert len(machines.history().revoked) == 1
    assert "'p02' was removed before" in refused(machines, "remove", machines.operator, "p02")
    # The same keys may return, with a new certificate.
    machines.sign("p02")
    assert machines.answer("p02").exists()
    assert set(machines.history().roster().parties) == {"p00", "p01", "p02"}
    assert len(machines.history().revoked) == 1


def test_revoked_keys_return_by_rotation_only(machines: Machines) -> None:
    done("revoke", machines.operator, "p01", "--reason", "laptop stolen")
    assert events(machines)[-1] == "revoked p01:"
    assert not machines.answer("p01").exists()
    stated = ("--fingerprint", machines.fingerprint("p01"))
    request = machines.at("p01") / "p01.request"
    assert "was replaced or revoked" in refused(machines, "sign", machines.operator, request, *stated)
    machines.request("p01", "--rotate")
    machines.sign("p01")
    assert machines.answer("p01").exists()
    assert [one.compromised for one in machines.history().revoked] == [True]


@pytest.mark.parametrize("reason", ["", "two\nlines", "x" * 201])
def test_a_reason_is_one_line(reason: str, machines: Machines) -> None:
    found = refused(machines, "revoke", machines.operator, "p01", "--reason", reason)
    assert "--reason: is not a line of 1 to 200 characters" in found


@pytest.mark.parametrize("command", ["remove", "renew", "revoke"])
def test_strangers_are_refused(command: str, machines: Machines) -> None:
    more = ("--reason", "x") if command == "revoke" else ()
    found = refused(machines, command, machines.operator, "p09", *more)
    assert "NAME: 'p09' is not a member (members: broker, p00, p01, p02, server)" in found


def test_a_scenario_that_no_longer_fits_keeps_answers_back(machines: Machines) -> None:
    done("remove", machines.operator, "p02")
    told = done("remove", machines.operator, "p01")
    assert "the scenario does not fit" in told
    assert not machines.answer("p00").exists()
    assert machines.answer("broker").exists()


def test_a_changed_scenario_is_a_new_entry(machines: Machines) -> None:
    (machines.operator / "federation.toml").write_text(SCENARIO.replace("rounds = 1", "rounds = 2"))
    done("sign", machines.operator)
    assert events(machines)[-1].startswith("settings ")
    assert "rounds = 2" in read_answer(machines.answer("p00")).body.settings.scenario
    head = machines.history().head
    done("sign", machines.operator)
    assert machines.history().head == head


def test_a_site_is_added(machines: Machines) -> None:
    path = machines.operator / "project.toml"
    path.write_text(path.read_text() + '[[sites]]\nname = "p03"\n')
    machines.request("p03")
    machines.sign("p03")
    assert len(read_answer(machines.answer("p00")).history.roster().parties) == 4


def test_a_new_address_of_the_broker_needs_no_request(machines: Machines) -> None:
    path = machines.operator / "project.toml"
    path.write_text(path.read_text().replace('"localhost"', '"new.example.org"'))
    done("sign", machines.operator)
    assert "renewed broker" in events(machines)
    broker = machines.history().present["broker"]  # type: ignore[index]
    assert broker.certificate.names_host("new.example.org")


def test_the_name_of_a_project_stays(machines: Machines) -> None:
    path = machines.operator / "project.toml"
    path.write_text(path.read_text().replace('"trial"', '"other"'))
    assert "name: is 'other', and the project began as 'trial'" in refused(
        machines, "sign", machines.operator
    )


@pytest.mark.parametrize("name", ["operator.key", "authority.key"])
def test_keys_of_the_operator_are_its_own(name: str, machines: Machines, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    content = (begun(tmp_path / "other").operator / name).read_bytes()
    (machines.operator / name).chmod(0o644)
    assert "by other users" in refused(machines, "sign", machines.operator)
    (machines.operator / name).chmod(0o600)
    (machines.operator / name).write_bytes(content)
    reason = refused(machines, "sign", machines.operator)
    assert "another operator's key" in reason or "is not the key of the history's authority" in reason
    (machines.operator / name).write_text("nonsense")
    assert str(machines.operator / name) in refused(machines, "sign", machines.operator)
    (machines.operator / name).unlink()
    assert str(machines.operator / name) in refused(machines, "sign", machines.operator)


def test_a_folder_without_an_authority_is_refused(tmp_path: Path) -> None:
    assert "is not the folder of an operator" in refusal(call("provision", "sign", tmp_path))


def test_two_commands_at_once_are_refused(machines: Machines) -> None:
    handle = os.open(machines.operator, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        assert "is in use by another command" in refused(machines, "sign", machines.operator)
    finally:
        os.close(handle)
    done("sign", machines.operator)


def test_an_expired_authority_issues_nothing(machines: Machines) -> None:
    with Authority.open(machines.operator) as authority:
        late = datetime.now(UTC) + timedelta(days=3_660)
        with pytest.raises(ConfigError, match="authority: has expired"):
            authority.renew(["p00"], late)
    assert machines.history().members["p00"].certificates[1:] == ()  # type: ignore[index]


def test_certificates_end_with_the_authority(machines: Machines) -> None:
    with Authority.open(machines.operator) as authority:
        assert authority.history.authority is not None
        ends = authority.history.authority.ends
        authority.renew(["p00"], ends - timedelta(days=10))
    assert machines.history().members["p00"].certificate.ends == ends  # type: ignore[index]


def test_answers_are_written_again_after_a_crash(machines: Machines, tmp_path: Path) -> None:
    made = copied(machines, tmp_path / "again")
    for name in MACHINES:
        made.answer(name).unlink()
    done("sign", made.operator)
    assert all(made.answer(name).exists() for name in MACHINES)


@pytest.mark.parametrize("words", [("history",), ("restore", "operator")])
def test_a_mistyped_history_names_what_it_may_be(words: tuple[str, ...], tmp_path: Path) -> None:
    made = begun(tmp_path)
    at = [made.operator if word == "operator" else word for word in words]
    for file, reason in ((tmp_path / "none", "does not exist"), (tmp_path, "is a folder")):
        line = refused(made, *at, file)
        assert f"{file}: {reason} (name a kit.toml, or the history.jsonl of an operator's folder)" in line
