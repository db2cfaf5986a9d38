"""The configuration that mosquitto gets: for this machine only, and with TLS for known names only."""

from __future__ import annotations

from pathlib import Path

import pytest

from securefl.runtime.transport.broker import _mosquitto_lines
from securefl.runtime.transport.local_tls import make_local_tls


def options(folder: Path, *, tls: bool, acl: bool) -> dict[str, str]:
    files = make_local_tls(folder / "tls", []) if tls else None
    lines = _mosquitto_lines(folder, 18830, files, acl)
    return dict(line.split(" ", 1) for line in lines if not line.startswith("log_type"))


@pytest.mark.parametrize("tls", [False, True])
def test_it_listens_to_this_machine_and_keeps_nothing(tmp_path: Path, tls: bool) -> None:
    found = options(tmp_path, tls=tls, acl=False)
    assert found["listener"] == "18830 127.0.0.1"
    assert found["persistence"] == "false"
    assert "acl_file" not in found


def test_with_tls_a_certificate_says_who_a_client_is(tmp_path: Path) -> None:
    found = options(tmp_path, tls=True, acl=True)
    assert found["require_certificate"] == "true"
    assert found["use_identity_as_username"] == "true"
    assert found["allow_anonymous"] == "false"
    assert found["tls_version"] == "tlsv1.2"
    assert found["acl_file"] == str(tmp_path / "mosquitto.acl")
