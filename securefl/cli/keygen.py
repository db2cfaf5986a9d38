"""``securefl keygen``: key pairs and the public roster."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from securefl.base import crypto, entropy
from securefl.base.errors import ConfigError
from securefl.base.ids import DEALER, RESERVED, SERVER, PartyId, is_name
from securefl.cli import console
from securefl.methods import attacks
from securefl.protocol import messages
from securefl.runtime import account


def keygen(
    party: Annotated[
        str | None, typer.Option(help='Make the key pair of this party (or of "server").')
    ] = None,
    roster: Annotated[
        list[Path] | None,
        typer.Option(help="Make the public roster from these .pub files (repeat; the server's included)."),
    ] = None,
    all_in_one: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="LOCAL DEMOS ONLY: make the keys of a server and N parties, and the roster, in one place.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Directory to write to.")] = Path(),
) -> None:
    """Make keys. A private key (.key) stays with its party; .pub files and the roster are public.

    The account of a party (.account) has a state elsewhere on its machine: in $SECUREFL_STATE, else in
    ~/.local/state/securefl. Set SECUREFL_STATE for a service account without a home.

    Exit codes: 0 made; 2 refused; 3 a file cannot be written.
    """
    if sum(choice is not None for choice in (party, roster or None, all_in_one)) != 1:
        raise ConfigError("keygen", "needs one of --party, --roster and --all-in-one")
    if party is not None:
        _one(party, out)
    elif roster:
        _roster(roster, out)
    elif all_in_one is not None:
        _everybody(all_in_one, out)


def _one(name: str, out: Path) -> None:
    if not is_name(name) and name != SERVER:
        if name in RESERVED:
            raise ConfigError("--party", f"{name!r} is a reserved name", "choose another one")
        console.name_of("--party", name)
    _expect_free(out, (name,))
    identity = crypto.Identity.generate(PartyId(name), entropy.OsEntropy())
    console.make_folder(out)
    crypto.write_identity(out / f"{name}.key", identity)
    crypto.write_public(out / f"{name}.pub", identity.public)
    console.say(f"{out / f'{name}.key'}  private: keep it on {name}'s machine")
    if name not in {SERVER, DEALER}:
        account.begin_account(account.account_beside(out / f"{name}.key"), identity.public)
        console.say(f"{out / f'{name}.account'}  what {name} gives away: keep it with the key, one copy")
        _note_state()
    console.say(f"{out / f'{name}.pub'}  public: give it to whoever makes the roster")
    console.say(f"fingerprint {identity.public.fingerprint()}  (compare it over another channel)")


def _note_state() -> None:
    """Print a line if a party cannot run as this user; the key may be for another one."""
    try:
        account.check_state_folder()
    except ConfigError as error:
        console.say(f"note: a party cannot run as this user: {error}")


def _expect_free(out: Path, names: Iterable[str], *also: str) -> None:
    wanted = [out / f"{name}{suffix}" for name in names for suffix in (".key", ".pub", ".account")]
    for path in (*wanted, *(out / name for name in also)):
        if path.exists():
            raise ConfigError(str(path), "exists already", "choose another --out or move the file away")


def _roster(files: list[Path], out: Path) -> None:
    publics = [crypto.read_public(path) for path in files]
    servers = [p for p in publics if p.name == SERVER]
    if len(servers) != 1:
        raise ConfigError(
            "--roster", f"{len(servers)} of these files are keys of a server", "give exactly one server.pub"
        )
    dealers = [p for p in publics if p.name == DEALER]
    parties = {p.name: p for p in publics if p.name not in {SERVER, DEALER}}
    if len(parties) + len(dealers) != len(publics) - 1 or len(dealers) > 1:
        raise ConfigError(
            "--roster", "two of these files belong to the same party", "give one .pub file for each party"
        )
    made = crypto.Roster(servers[0], parties, dealers[0] if dealers else None)
    console.make_folder(out)
    crypto.write_roster(out / "roster.toml", made)
    console.say(f"{out / 'roster.toml'}  {len(parties)} parties, digest {made.digest().hex()[:16]}")


def _everybody(count: int, out: Path) -> None:
    if not 1 <= count <= messages.MAX_PARTIES:
        raise ConfigError(
            "--all-in-one", f"cannot make keys for {count} parties", f"choose 1 to {messages.MAX_PARTIES}"
        )
    names = (*attacks.party_names(count), SERVER)
    _expect_free(out, names, "roster.toml")
    made = {name: crypto.Identity.generate(name, entropy.OsEntropy()) for name in names}
    console.make_folder(out)
    for name, identity in made.items():
        crypto.write_identity(out / f"{name}.key", identity)
        crypto.write_public(out / f"{name}.pub", identity.public)
        if name != SERVER:
            account.begin_account(account.account_beside(out / f"{name}.key"), identity.public)
    roster = crypto.Roster(made[SERVER].public, {n: i.public for n, i in made.items() if n != SERVER})
    crypto.write_roster(out / "roster.toml", roster)
    console.say(f"LOCAL DEMO: the private keys of all {len(names)} processes are in {out}")
