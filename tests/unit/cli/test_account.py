"""``securefl account``: what a party has given away, to whom, and what is left."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from securefl.base.crypto.keyfiles import read_identity
from securefl.methods.privacy.release import ReleaseEvent
from securefl.runtime.account.entries import CountedAtoms, Entry, GroupNamed, Run, Sums, Update
from securefl.runtime.account.file import AccountFile
from securefl.runtime.account.head import AccountHead
from securefl.runtime.account.summary import key_digest
from tests.unit.cli.programs import call

NOISE = ReleaseEvent(noise_multiplier=2.0, steps=5, unit="record", sampler="poisson", records=100, batch=10)


@pytest.fixture
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SECUREFL_STATE", str(tmp_path / "state"))
    assert call("keygen", "--party", "p00", "--out", tmp_path).exit_code == 0
    return tmp_path / "p00.key"


def write(key: Path, *entries: Entry) -> None:
    owner = read_identity(key).public
    with AccountFile(key.with_suffix(".account"), owner, AccountHead.of(key_digest(owner))) as file:
        for entry in entries:
            file.append(entry)


def joined(run: str, event: ReleaseEvent | None = None) -> Run:
    return Run(
        run=run,
        scenario="wards",
        server="5e" * 32,
        parties=("aa", "bb"),
        data="da7a" * 4,
        samples=9,
        event=event,
        delta=1e-5 if event else 0.0,
    )


def test_a_new_key_has_given_nothing(key: Path) -> None:
    shown = call("account", "--key", key, "--budget", "3")
    assert shown.exit_code == 0, shown.stderr
    assert "p00 (" in shown.stdout
    assert "gave updates to 0 runs" in shown.stdout
    assert "epsilon: 0 spent, 3 left" in shown.stdout


def test_it_shows_what_each_run_was_given(key: Path) -> None:
    sums = Sums(round=0, sums={"ab" * 32: ((0, 1), (0,)), "cd" * 32: ((0, 1),)})
    write(key, joined("spring", NOISE), Update(round=0, count=1), sums, Update(round=2, count=1))
    shown = call("account", "--key", key, "--budget", "30")
    assert shown.exit_code == 0, shown.stderr
    assert "gave updates to 1 run" in shown.stdout
    (row,) = [line.split() for line in shown.stdout.splitlines() if line.startswith("spring")]
    assert row[:8] == ["spring", "wards", "5e" * 8, "da7ada7a", "2", "2", "3", "2"]
    assert "of a record, multiplier 2" in shown.stdout
    assert "epsilon, record: " in shown.stdout
    assert "spent at delta 1e-05; " in shown.stdout
    assert " of 30 left" in shown.stdout


def test_it_counts_answers_and_bits_besides(key: Path) -> None:
    run = msgspec.structs.replace(joined("spring"), validated=2)
    named = GroupNamed(round=1, epsilon=1.5, made=1, group=0)
    write(key, run, named, Update(round=1, count=1), Update(round=2, count=1))
    shown = call("account", "--key", key)
    assert "task groups: chosen 1 time, pure epsilon 1.5 of all its data" in shown.stdout
    assert "validated sums: at most 4 bits could leak to a deviating evaluator" in shown.stdout


def test_it_says_what_metrics_without_noise_tell(key: Path) -> None:
    own = key_digest(read_identity(key).public)
    run = msgspec.structs.replace(joined("spring"), parties=("aa" * 32, own, "bb" * 32), repeats=True)
    write(key, run, Update(round=0, count=1))
    shown = call("account", "--key", key).stdout
    assert "metrics: 1 run summed metrics of the same samples in changing clusters" in shown
    assert 'which can reveal those of this party (evaluation.repeats = "accept")' in shown
    assert "only together" not in shown
    write(key, CountedAtoms(atoms=((1, 2),)))
    shown = call("account", "--key", key).stdout
    assert f"metrics: without noise only in sums together with {'bb' * 8} (keys)" in shown


def test_updates_without_noise_have_no_epsilon(key: Path) -> None:
    write(key, joined("spring"), Update(round=0, count=1))
    shown = call("account", "--key", key)
    assert "epsilon: none, since updates were released without noise" in shown.stdout
    write(key, joined("summer", NOISE), Update(round=0, count=1))
    shown = call("account", "--key", key)
    assert "epsilon, record: none, since some updates were released without noise" in shown.stdout


def test_a_run_that_took_nothing_is_not_shown(key: Path) -> None:
    write(key, joined("spring"))
    assert "gave updates to 0 runs" in call("account", "--key", key).stdout


def test_a_lost_account_is_begun_by_its_owners_word_only(key: Path) -> None:
    key.with_suffix(".account").unlink()
    refused = call("account", "--key", key)
    assert refused.exit_code == 5
    assert "p00.account: is missing: it records what the key of p00 has released" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert call("account", "--key", key, "--begin").exit_code == 0
    assert call("account", "--key", key).exit_code == 0
    assert call("account", "--key", key, "--begin").exit_code == 2


def test_a_moved_account_is_adopted_by_its_owners_word_only(
    key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(key, joined("spring"), Update(round=0, count=1))
    monkeypatch.setenv("SECUREFL_STATE", str(tmp_path / "another machine's"))
    refused = call("account", "--key", key)
    assert refused.exit_code == 5
    assert "two copies could spend one budget" in refused.stderr
    adopted = call("account", "--key", key, "--adopt")
    assert adopted.exit_code == 0
    assert "gave updates to 1 run" in adopted.stdout
    assert call("account", "--key", key).exit_code == 0


def test_begin_and_adopt_contradict_each_other(key: Path) -> None:
    refused = call("account", "--key", key, "--begin", "--adopt")
    assert refused.exit_code == 2
    assert "cannot be combined" in refused.stderr


def test_servers_and_dealers_have_no_account(tmp_path: Path) -> None:
    for name in ("server", "dealer"):
        assert call("keygen", "--party", name, "--out", tmp_path).exit_code == 0
        assert not (tmp_path / f"{name}.account").exists()
