"""``securefl agent``: a machine's agent, which takes part in the runs that its policy allows."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from securefl.base.errors import ConfigError
from securefl.cli import console
from securefl.runtime import agents, provision


def agent(
    kit: Annotated[Path, typer.Argument(metavar="KIT", help="The kit.toml of this machine.")],
    *,
    policy: Annotated[
        Path | None,
        typer.Option(
            help="Policy, to read or write. Default: policy.toml beside the kit; servers need none."
        ),
    ] = None,
    parallel: Annotated[
        int, typer.Option(min=1, max=64, help="At the server: number of runs that it leads at the same time.")
    ] = 1,
    write_policy: Annotated[
        bool,
        typer.Option(
            "--write-policy",
            help="Write a policy to edit, with the digests of the code that the kit names, and end.",
        ),
    ] = False,
) -> None:
    """Stay at this machine, and take part in the runs that the operator submits and the policy allows.

    No code is received: a run names code that this site has installed, and the policy names its digest.
    After SIGTERM the processes of all runs leave in good order. The next start continues these runs.

    Exit codes: 0 stopped, or the policy is written; 2 refused; 3 the disk failed.
    """
    if write_policy:
        _write_policy(provision.read_kit(kit), policy)
        return
    settings = agents.AgentSettings(
        kit=kit.absolute(), policy=None if policy is None else policy.absolute(), parallel=parallel
    )
    working = agents.Agent(settings, lambda text: console.say(f"agent: {text}"))
    asyncio.run(working.run())
    console.say("agent: stopped")


def _write_policy(kit: provision.MachineKit, file: Path | None) -> None:
    if kit.role not in {"party", "server", "dealer"}:
        raise ConfigError(str(kit.path), f"is the kit of a {kit.role}", "it runs no code of a scenario")
    path = file or kit.folder / agents.POLICY
    if path.exists():
        raise ConfigError(str(path), "exists already", "edit it, or move it away")
    code = {name: agents.digest_of_code(name, kit.folder) for name in agents.code_of_kit(kit)}
    site = kit.role == "party"
    if not site and not code:
        raise ConfigError(str(kit.path), f"is the kit of a {kit.role}, and names no code", "start it without")
    first = agents.first_policy if site else agents.code_policy
    provision.write_file(path, first(code, kit.content.run.data).encode(), private=True)
    agents.read_policy(path)
    for name, digest in code.items():
        console.say(f"{path}  allows {name}, SHA-256 {digest[:16]}: read this code before the next start")
    if site:
        console.say(
            f"{path}  asks a person about each submitted run; edit it, then: securefl agent {kit.path}"
        )
