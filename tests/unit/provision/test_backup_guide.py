"""docs/backup.md, its commands done as written, with tar and GnuPG: only the newest copy goes on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from securefl.base.crypto.keyfiles import read_identity
from securefl.runtime.account import AccountFile, AccountHead, key_digest
from securefl.runtime.account.entries import Run, Update
from securefl.runtime.provision.certificates import utc_now
from securefl.runtime.provision.kit import read_kit
from tests.unit.cli.programs import call, refusal
from tests.unit.provision.machines import Machines, done

PAGE = (Path(__file__).parents[3] / "docs" / "backup.md").read_text()
JOINED = Run(run="r", scenario="s", server="aa", parties=("bb", "cc"), data="dd", samples=3)
pytestmark = pytest.mark.skipif(shutil.which("gpg") is None, reason="GnuPG is not installed")


def block(start: str) -> str:
    """The one block of the shell with this text."""
    found = re.findall(r"^```bash\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    (text,) = (one for one in found if start in one)
    return str(text)


def spelled(start: str) -> list[str]:
    (line,) = re.findall(rf"^    securefl ({re.escape(start)}.*)$", PAGE, re.MULTILINE)
    return str(line).split()


@pytest.fixture(scope="session")
def keyring() -> Iterator[Path]:
    """GnuPG's folder with the key of the hospital; its socket needs a short path."""
    folder = Path(tempfile.mkdtemp(prefix="gpg-"))
    environment = os.environ | {"GNUPGHOME": str(folder)}
    make = ["gpg", "--batch", "--passphrase", "", "--quick-gen-key", "backup@hospital-a.example.org"]
    subprocess.run(make, env=environment, check=True, capture_output=True)
    yield folder
    subprocess.run(["gpgconf", "--kill", "all"], env=environment, check=True, capture_output=True)
    shutil.rmtree(folder, ignore_errors=True)


class Site:
    """The machine of p00, with the shell of its administrator."""

    def __init__(self, kits: Machines, keyring: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder = kits.at("p00")
        self.backups = kits.folder / "backups"
        self.backups.mkdir()
        self.path = self.folder / "keys-1" / "p00.account"
        self.state = Path(os.environ["SECUREFL_STATE"])
        self._kits, self._keyring, self._patch = kits, keyring, patch

    def shell(self, text: str, folder: Path | None = None, name: str = "p00") -> str:
        text = text.replace("/srv/trial-1", str(self._kits.folder))
        text = text.replace("/var/lib/securefl-hospitals-p00", str(self.state))
        environment = os.environ | {"GNUPGHOME": str(self._keyring), "NAME": name}
        done = subprocess.run(
            ["bash", "-euc", text],
            cwd=folder or self.backups,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout

    def back_up(self, name: str = "p00") -> Path:
        """Section 1; return the encrypted file."""
        self.shell(block("--encrypt"), name=name)
        return self.backups / f"{name}.tar.gpg"

    def restore(self, name: str = "p00") -> None:
        self.shell(block("--decrypt"), name=name)

    def spend(self, *rounds: int) -> None:
        owner = read_identity(self.path.with_suffix(".key")).public
        with AccountFile(self.path, owner, AccountHead.of(key_digest(owner))) as file:
            file.append(JOINED)
            for number in rounds:
                file.append(Update(round=number, count=1))

    def account(self, *more: str) -> list[str]:
        """Words of the page's command, in the folder of the site."""
        self._patch.chdir(self.folder)
        (plain, adopting) = (
            line.split() for line in re.findall(r"^    securefl (account .*)$", PAGE, re.MULTILINE)
        )
        assert adopting == [*plain, "--adopt"]
        return [*plain, *more]

    def refused(self) -> str:
        return refusal(call(*self.account()), code=5)

    def works(self, *more: str) -> None:
        result = call(*self.account(*more))
        assert result.exit_code == 0, result.stderr


@pytest.fixture
def site(kits: Machines, keyring: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    made = Site(kits, keyring, monkeypatch)
    made.spend(0, 1)
    return made


def test_the_newest_copy_goes_on(site: Site) -> None:
    made = site.back_up()
    assert made.stat().st_mode & 0o777 == 0o600
    key = (site.folder / "keys-1" / "p00.key").read_bytes()
    assert key not in made.read_bytes()
    shutil.rmtree(site.folder)
    site.restore()
    assert (site.folder / "keys-1" / "p00.key").read_bytes() == key
    read_kit(site.folder / "kit.toml").check(utc_now())
    site.works()
    site.spend(2)


def test_a_state_folder_inside_is_not_in_a_backup(site: Site) -> None:
    (site.folder / "state").mkdir()
    (site.folder / "state" / "x.tip").write_text("")
    site.back_up()
    shutil.rmtree(site.folder)
    site.restore()
    assert not (site.folder / "state").exists()
    site.works()


def test_an_older_copy_is_refused_and_a_newer_one_goes_on(site: Site) -> None:
    old = site.back_up().rename(site.backups / "old")
    site.spend(2)
    site.back_up().rename(site.backups / "new")
    old.rename(site.backups / "p00.tar.gpg")
    site.restore()
    reason = site.refused()
    assert "was replaced by an older copy" in reason
    assert "restore the newest copy" in reason
    assert '"replaced by an older copy"' in PAGE
    (site.backups / "new").replace(site.backups / "p00.tar.gpg")
    site.restore()
    site.works()


def test_a_lost_state_needs_a_person(site: Site) -> None:
    site.back_up()
    shutil.rmtree(site.state)
    site.restore()
    assert "p00.account: was moved (" in site.refused()
    assert '"was moved"' in PAGE
    run, last = site.shell(block("tail -n 1 keys-1"), site.folder).splitlines()
    assert '"run":"r"' in run
    assert '"round":1' in last
    site.works("--adopt")
    site.works()


def test_a_whole_machine_restored_needs_a_person_once_its_heads_are_deleted(site: Site) -> None:
    """With its heads an older machine passes, which is why the page has them deleted."""
    snapshot = site.backups / "snapshot"
    shutil.copytree(site.folder, snapshot / "p00")
    shutil.copytree(site.state, snapshot / "state")
    site.spend(2)
    for there, copy in ((site.folder, "p00"), (site.state, "state")):
        shutil.rmtree(there)
        shutil.copytree(snapshot / copy, there)
    site.works()
    (delete,) = re.findall(r"`(rm -f /var/lib/\S+)`", PAGE)
    site.shell(delete)
    assert "was moved (" in site.refused()


def test_a_second_machine_is_refused_unless_a_person_adopts(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Adopted there, both go on: the limit that the page states."""
    site.back_up()
    first = site.folder.rename(site.backups / "first")
    site.restore()
    second = {"SECUREFL_STATE": str(site.backups / "state"), "SECUREFL_MACHINE": "second"}
    with monkeypatch.context() as there:
        for name, value in second.items():
            there.setenv(name, value)
        assert "was moved (" in site.refused()
        site.works("--adopt")
        site.spend(2)
    shutil.rmtree(site.folder)
    first.rename(site.folder)
    site.works()
    assert "Nothing detects two copies" in PAGE


def test_permissions_that_were_lost_are_refused(site: Site) -> None:
    site.path.chmod(0o644)
    assert "can be used by other users (chmod 600" in refusal(call(*site.account()))
    assert '"can be used by other users"' in PAGE


def test_server_and_operator_are_restored_the_same_way(
    site: Site, kits: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.back_up("server")
    shutil.rmtree(kits.at("server"))
    site.restore("server")
    read_kit(kits.at("server") / "kit.toml").check(utc_now())

    shutil.copytree(kits.operator, site.backups / "operator")
    done("remove", kits.operator, "p02")
    kits.accept("p00")
    monkeypatch.chdir(site.backups)
    assert "is an older copy" in refusal(call("provision", "sign", "operator"), code=5)
    shutil.copy(kits.at("p00") / "history.jsonl", site.backups)
    assert "entries of history" in done(*spelled("provision restore")[1:])
    done("sign", "operator")
