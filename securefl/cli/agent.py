"""``securefl agent``: a machine's agent, which takes part in the runs that its policy allows."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer

from securefl.base import files
from securefl.base.errors import ConfigError
from securefl.cli import console, program
from securefl.runtime import agents, provision
from securefl.scenario import load_scenario, own_names, parse_table


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
    role = provision.read_kit(kit).role
    if parallel > 1 and role != "server":
        raise ConfigError(
            "--parallel", f"is for the server, and {kit} is the kit of a {role}", "leave it out"
        )
    settings = agents.AgentSettings(
        kit=kit.absolute(),
        policy=None if policy is None else policy.absolute(),
        parallel=parallel,
        check=check_options,
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
    table = _scenario_table(kit)
    evaluation = table.get("evaluation")
    repeats = isinstance(evaluation, dict) and evaluation.get("repeats") == "accept"
    first = agents.first_policy(code, kit.content.run.data, repeats=repeats)
    text = first if site else agents.code_policy(code)
    provision.write_file(path, text.encode(), private=True)
    given = agents.read_policy(path)
    for name, digest in code.items():
        console.say(f"{path}  allows {name}, SHA-256 {digest[:16]}: read this code before the next start")
    if site:
        console.say(
            f"{path}  asks a person about each submitted run; edit it, then: securefl agent {kit.path}"
        )
        # The other rules need the scenario's own code, which is not imported here.
        known = [agents.REPEATS] if repeats else []
        for reason in known if any(own_names(table)) else _broken_rules(kit, given):
            console.say(f"{path}  refuses the scenario of this kit unless you change it: {reason}")


def _scenario_table(kit: provision.MachineKit) -> dict[str, Any]:
    path = kit.file("scenario")
    with files.reading(path):
        return parse_table(path.read_text(encoding="utf-8-sig"), str(path))


def _broken_rules(kit: provision.MachineKit, given: agents.SitePolicy) -> list[str]:
    """Return which rules of a new policy the kit's scenario, without own code, breaks."""
    # Its first weights are in the folder of the kit, and count for nothing here.
    scenario = load_scenario(kit.file("scenario"), (f"parties={kit.content.run.parties}",))
    facts = agents.RunFacts(kit.content.run.data, scenario, None, 0.0)
    return list(agents.violations(given, facts))


def check_options(role: str, path: Path, policy: agents.SitePolicy) -> None:
    """Check the options of a policy by the command of its machine.

    Args:
        role: of the machine, which names the command.
        path: of the policy, for errors.
        policy: as read.

    Raises:
        ConfigError: the command has no such option, or refuses its value.
    """
    from securefl.cli.app import Deferred  # noqa: PLC0415 - imports this module by its name

    if not policy.options:
        return
    command = Deferred(role).load()
    for number, option in enumerate(policy.options):
        try:
            program.check_words(command, f"securefl {role}", [option])
        except ConfigError as error:
            raise ConfigError(
                f"{path}: options.{number}", f"{error.path} {error.reason}", error.remedy
            ) from None
