"""``securefl provision``: keys, certificates and configuration of all machines of a federation.

Each private key is made on the machine that uses it and stays there. Requests and answers are public files.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Annotated

import typer

from securefl.base.errors import ConfigError
from securefl.base.ids import PartyId
from securefl.base.text import count
from securefl.cli import console
from securefl.cli.program import Program
from securefl.runtime import agents, provision

app = Program(
    help="Make keys, certificates and configuration of all machines of a federation.", no_args_is_help=True
)

FolderArgument = Annotated[Path, typer.Argument(metavar="DIR", help="The operator's folder (begin --out).")]
MemberArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the machine in the project.")]


@app.command()
def begin(
    project: Annotated[
        Path, typer.Argument(metavar="PROJECT", help="Project file (TOML), the scenario beside it.")
    ],
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The operator's folder.")],
) -> None:
    """At the operator: make the authority, the operator's key and the history of the roster.

    Exit codes: 0 made; 2 refused; 3 the state folder cannot be written. After 2 and 3 nothing is written.
    """
    operator = provision.Authority.begin(project, out, provision.utc_now())
    console.say(f"{out}  private: authority.key and operator.key stay here; back the folder up")
    console.say(f"fingerprint of the operator {operator.fingerprint()}  (read it out to each site)")


@app.command()
def request(
    name: Annotated[str, typer.Option(help="Name in the project; server, broker, dealer or observer.")],
    *,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder of this machine's kit.")] = Path(),
    rotate: Annotated[
        bool, typer.Option("--rotate", help="Make new keys in place of those in the folder.")
    ] = False,
) -> None:
    """At a machine: make its keys, and the request that goes to the operator.

    Private keys and the account stay in FOLDER; only NAME.request leaves it. Run it as the service's user.

    Exit codes: 0 made; 2 refused; 3 a file cannot be written. After 2 and 3 nothing is written.
    """
    made = provision.make_request(out, name, rotate=rotate)
    console.say(f"{made.source}  public: send it to the operator")
    console.say(f"fingerprint of {name} {made.fingerprint}  (read it out to the operator)")
    if rotate:
        console.say(
            "the former keys and their account stay in the folder: epsilon spent with them still counts"
        )


@app.command()
def sign(
    folder: FolderArgument,
    requests: Annotated[
        list[Path] | None, typer.Argument(metavar="[REQUEST]...", help="Requests of machines.")
    ] = None,
    *,
    fingerprint: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FINGERPRINT",
            help="Fingerprint of a request, as its site reads it out; repeat. Without it, it is asked for.",
        ),
    ] = None,
) -> None:
    """At the operator: admit machines by their requests, and write the answers.

    Without requests, the answers are written anew, as after a change of project or scenario.

    Exit codes: 0 signed; 2 refused; 3 an answer cannot be written (repeat: provision sign DIR); 5 the folder
    is an older copy. After 2 and 5 nothing is written.
    """
    read = [provision.read_request(path) for path in requests or ()]
    with provision.Authority.open(folder) as authority:
        given = {one.strip().lower() for one in fingerprint or ()}
        new = [one for one in read if not authority.has(one)]
        for one in new:
            _compare(one, given if fingerprint else None)
        outcome = authority.sign(read, provision.utc_now())
        for one in read:
            how = "was signed before" if one not in new else "signed"
            console.say(f"{one.name}: {how}, fingerprint {one.fingerprint}")
        _report(outcome)


@app.command()
def renew(
    folder: FolderArgument,
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Names of machines.")],
) -> None:
    """At the operator: issue new certificates for the same keys.

    Exit codes: 0 issued; 2 refused; 3 an answer cannot be written (repeat: provision sign DIR); 5 the folder
    is an older copy. After 2 and 5 nothing is written.
    """
    with provision.Authority.open(folder) as authority:
        outcome = authority.renew(names, provision.utc_now())
        for name in names:
            member = authority.history.present[PartyId(name)]
            console.say(f"{name}: certificate until {member.certificate.ends:%Y-%m-%d}")
        _report(outcome)


@app.command()
def remove(folder: FolderArgument, name: MemberArgument) -> None:
    """At the operator: remove a machine from the roster, and revoke its certificates.

    Exit codes: 0 removed; 2 refused; 3 an answer cannot be written (repeat: provision sign DIR); 5 the folder
    is an older copy. After 2 and 5 nothing is written.
    """
    with provision.Authority.open(folder) as authority:
        outcome = authority.remove(name, provision.utc_now())
        console.say(f"{name}: removed; give the broker its new answer now")
        _report(outcome)


@app.command()
def revoke(
    folder: FolderArgument,
    name: MemberArgument,
    *,
    reason: Annotated[str, typer.Option(help="Cause, in one line, for the history.")],
) -> None:
    """At the operator: revoke the keys of a machine, which returns with new keys only (request --rotate).

    Exit codes: 0 revoked; 2 refused; 3 an answer cannot be written (repeat: provision sign DIR); 5 the folder
    is an older copy. After 2 and 5 nothing is written.
    """
    with provision.Authority.open(folder) as authority:
        outcome = authority.revoke(name, reason, provision.utc_now())
        console.say(f"{name}: revoked; give the broker its new answer now")
        _report(outcome)


@app.command()
def restore(
    folder: FolderArgument,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Newest history.jsonl of a site, or its kit.toml.")
    ],
) -> None:
    """At the operator: continue after a restored backup, with the newest history of a site.

    Of the histories of DIR and FILE the longer one counts, if it continues the other.

    Exit codes: 0 restored; 2 refused; 3 the state folder cannot be written; 5 the histories differ, or this
    machine has signed a longer one. After 2 and 5 nothing is written.
    """
    found = provision.Authority.restore(folder, file, _history_in(file))
    lines = len(found.history.lines)
    console.say(f"{folder}: {count(lines, 'entry', 'entries')} of history, head {found.history.head[:16]}")
    if not found.has_settings_of_history:
        console.say(
            "project, scenario or first weights are not the newest that were signed: compare them with a"
            " site's before the next command"
        )


@app.command()
def accept(
    answer: Annotated[Path, typer.Argument(metavar="ANSWER", help="Answer of the operator to this machine.")],
    *,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder of the request.")] = Path(),
    operator: Annotated[
        str | None,
        typer.Option(
            metavar="FINGERPRINT",
            help="Fingerprint that the operator reads out. Without it, the first accept asks for it.",
        ),
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(metavar="FILE", help="First weights, if they are too large for the answer.")
    ] = None,
) -> None:
    """At a machine: verify the operator's answer, and write the kit.

    Exit codes: 0 written; 2 refused, and nothing is written; 3 a file cannot be written: no process starts
    until this command has been repeated.
    """
    checked = provision.check_answer(
        provision.read_answer(answer),
        str(answer),
        out,
        provision.utc_now(),
        fingerprint=_ask_operator if operator is None else operator,
        weights=weights,
    )
    kit = checked.write()
    console.say(
        f"{kit.path}  {kit.name} of {kit.content.kit.project}, {kit.content.kit.entries} entries of history"
    )
    for name in sorted(checked.contents):
        if name.endswith((".service", ".yaml", ".conf")):
            console.say(f"{kit.folder / name}{_purpose_of_unit(name, checked.contents)}")
    if kit.role == "broker":
        console.say("EMQX files are checked by format only; those of mosquitto are tested")
        return
    try:
        agents.check_kit_code(kit)
    except ConfigError as error:
        console.say(f"no run starts yet: {error}")
    console.say(f"check this machine: securefl doctor --kit {kit.path}")


def _purpose_of_unit(name: str, files: Collection[str]) -> str:
    """Return the purpose of a unit, if the machine has one for each run and one for its agent."""
    stem, _, kind = name.rpartition(".")
    if kind != "service":
        return ""
    if stem.endswith("@"):
        return "  service of a single run"
    return "  service of the agent, for all runs (docs/agents.md)" if f"{stem}@.service" in files else ""


@app.command()
def history(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A kit.toml, or the operator's history.jsonl.")
    ],
) -> None:
    """Verify and print the history of a roster, one line an entry.

    Exit codes: 0 verified; 2 refused.
    """
    found = _history_in(file)
    for line in provision.history_lines(found):
        console.say(line)
    operator = found.operator
    fingerprint = operator.fingerprint() if operator is not None else ""
    console.say(
        f"verified: {len(found.lines)} entries signed by the operator {fingerprint}, head {found.head[:16]}"
    )


def _history_in(file: Path) -> provision.History:
    """Read and verify the history of a kit, or of a file by itself."""
    if not file.is_file():
        reason = "is a folder" if file.is_dir() else "does not exist"
        raise ConfigError(str(file), reason, "name a kit.toml, or the history.jsonl of an operator's folder")
    return provision.read_kit(file).history() if file.name == provision.KIT else provision.history_of(file)


def _compare(request: provision.KeyRequest, given: set[str] | None) -> None:
    """Compare a request's fingerprint with those that people gave, or ask for it.

    Raises:
        ConfigError: it is another one.
    """
    if given is None:
        asked = _ask(f"fingerprint of {request.name}, as its site reads it out", "--fingerprint")
        given = {asked.strip().lower()}
    if request.fingerprint not in given:
        raise ConfigError(
            request.source,
            "has another fingerprint than the given ones",
            f"{request.name} reads out the one that provision request printed there; do not sign before",
        )


def _ask_operator(project: str) -> str:
    return _ask(f"fingerprint that the operator of {project} reads out", "--operator")


def _ask(question: str, option: str) -> str:
    """Ask a person.

    Raises:
        ConfigError: there is no answer, as in a script.
    """
    try:
        return str(typer.prompt(question, err=True))
    except typer.Abort:
        # The cursor is behind the question.
        typer.echo(err=True)
        raise ConfigError(
            option, "is not given, and there was no answer", "compare it, and give it"
        ) from None


def _report(outcome: provision.SigningOutcome) -> None:
    for path in outcome.answers:
        console.say(f"{path}  public: send it to {path.stem}")
    if outcome.awaited:
        waited = ", ".join(f"{name} ({host})" if host else name for name, host in outcome.awaited.items())
        console.say(f"no answers to parties and server yet; requests are missing of {waited}")
    if outcome.problem:
        console.say(f"no answers to parties and server: the scenario does not fit: {outcome.problem}")
        console.say("change the scenario in this folder, then: securefl provision sign DIR")
