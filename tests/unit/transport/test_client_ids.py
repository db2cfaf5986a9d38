"""Client ids that only the holder of the credentials can compute."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from securefl.base.errors import ConfigError
from securefl.runtime.transport.addresses import bound_client_id
from securefl.runtime.transport.base import BrokerUrl

PLAIN = BrokerUrl("mqtt", "localhost", 1883)


def with_key(folder: Path, key: bytes, name: str = "p1.key") -> BrokerUrl:
    (folder / name).write_bytes(key)
    return replace(PLAIN, scheme="mqtts", key_file=folder / name)


def test_an_id_is_the_same_after_a_restart_and_another_for_each_key_run_and_party(tmp_path: Path) -> None:
    one, two = with_key(tmp_path, b"key one"), with_key(tmp_path, b"key two", "p2.key")
    ids = {bound_client_id(name, url) for url in (one, two) for name in ("r-p1", "r-p2", "s-p1")}
    assert len(ids) == 6
    assert bound_client_id("r-p1", one) == bound_client_id("r-p1", replace(one, host="spare"))
    assert all(len(made) == len("r-p1-") + 32 for made in ids)


def test_a_known_answer(tmp_path: Path) -> None:
    """Ids must not change between versions: a broker would not find the session."""
    assert bound_client_id("r-p1", with_key(tmp_path, b"key one")) == "r-p1-53661a4e8222ba0f856b15b6a04c915c"
    assert (
        bound_client_id("r-p1", replace(PLAIN, username="p1", password="secret"))
        == "r-p1-36f54316c0efa3afb18c888abd9de78f"
    )


def test_passwords_of_two_users_give_two_ids() -> None:
    ids = {
        bound_client_id("r-p1", replace(PLAIN, username=user, password=password))
        for user in ("p1", "p2")
        for password in ("a", "b")
    }
    assert len(ids) == 4


def test_without_credentials_there_is_nothing_to_bind() -> None:
    assert bound_client_id("r-p1", PLAIN) == "r-p1"
    assert bound_client_id("r-p1", replace(PLAIN, username="p1")) == "r-p1"


def test_a_key_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"p1\.key cannot be read"):
        bound_client_id("r-p1", replace(PLAIN, key_file=tmp_path / "p1.key"))
