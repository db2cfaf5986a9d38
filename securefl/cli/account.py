"""``securefl account``: a party's releases with its key, and its remaining budget."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from securefl.base import crypto
from securefl.base.errors import ConfigError
from securefl.base.text import count
from securefl.cli import console
from securefl.methods import privacy
from securefl.runtime import report
from securefl.runtime.account import (
    AccountFile,
    AccountHead,
    Forgiven,
    RunAccount,
    account_beside,
    begin_account,
    by_run,
    check_state_folder,
    chosen_epsilon,
    key_digest,
    own_atom_keys,
    spent_epsilon,
)


def account(
    key: Annotated[Path, typer.Option(help="The party's private key file.")],
    *,
    file: Annotated[
        Path | None, typer.Option("--account", help="The party's account file; beside the key if left out.")
    ] = None,
    budget: Annotated[
        float | None, typer.Option(min=0, help="The party's own limit of epsilon; prints what is left of it.")
    ] = None,
    begin: Annotated[
        bool, typer.Option("--begin", help="Create an account, for a key that never released anything.")
    ] = False,
    forgive: Annotated[
        bool,
        typer.Option("--forgive", help="Ignore rounds that the server lacks, if you know the reason."),
    ] = False,
    adopt: Annotated[
        bool,
        typer.Option("--adopt", help="Use this file: it is complete, and no other copy is in use."),
    ] = False,
) -> None:
    """Show what a party has released with its key and data, in all its runs.

    Exit codes: 0 done; 2 refused; 3 a file cannot be written; 5 a person must decide: the account is missing,
    moved, damaged or an older copy.
    """
    if begin and (adopt or forgive):
        other = "--adopt" if adopt else "--forgive"
        raise ConfigError("account", f"--begin and {other} cannot be combined", "give one of them")
    if budget is not None and not math.isfinite(budget):
        raise ConfigError("--budget", f"must be a finite number, found {budget}", "leave it out for no limit")
    identity = crypto.read_identity(key)
    path = file or account_beside(key)
    if begin:
        check_state_folder()
        begin_account(path, identity.public)
        AccountHead.of(key_digest(identity.public)).forget()
        console.say(f"{path}  begun for {identity.name}: keep it with the key, and back it up with care")
        return
    head = AccountHead.of(key_digest(identity.public))
    with AccountFile(path, identity.public, head, adopt=adopt) as opened:
        if forgive:
            opened.append(Forgiven())
        runs = [one for one in by_run(opened.entries) if one.updates or one.choices]
        _show(path, identity, runs)
        for line in (
            *_besides(runs),
            *_of_metrics(opened, identity, runs),
            *_spent(opened, runs, budget),
        ):
            console.say(line)


def _show(path: Path, identity: crypto.Identity, runs: Sequence[RunAccount]) -> None:
    console.say(
        f"{path}  {identity.name} ({identity.public.fingerprint()}) gave updates to {count(len(runs), 'run')}"
    )
    if not runs:
        return
    table = Table(box=None, pad_edge=False, show_edge=False)
    for title in ("run", "scenario", "server's key", "data"):
        table.add_column(title)
    for title in ("rounds", "updates", "in sums", "models"):
        table.add_column(title, justify="right")
    table.add_column("noise")
    for one in runs:
        event = one.run.event
        noise = "none" if event is None else f"of a {event.unit}, multiplier {event.noise_multiplier:.3g}"
        numbers = (len(one.rounds), one.updates, one.opened, len(one.models))
        named = (one.run.run, one.run.scenario, one.run.server[:16], one.run.data[:8])
        table.add_row(*map(Text, (*named, *map(str, numbers), noise)))
    report.Terminal(soft_wrap=True).print(table)


def _besides(runs: Sequence[RunAccount]) -> Iterator[str]:
    """Yield lines on choices of task groups and on verdicts on updates, which also reveal data."""
    named = [choice.epsilon for one in runs for choice in one.choices]
    if named:
        yield (
            f"task groups: chosen {count(len(named), 'time')}, pure epsilon {math.fsum(named):.4g} of all "
            "its data; included below"
        )
    if bits := sum(one.bits for one in runs):
        yield f"validated sums: at most {count(bits, 'bit')} could leak to a deviating evaluator"


def _of_metrics(opened: AccountFile, identity: crypto.Identity, runs: Sequence[RunAccount]) -> Iterator[str]:
    if accepted := sum(one.run.repeats for one in runs):
        yield (
            f"metrics: {count(accepted, 'run')} summed metrics of the same samples in changing clusters,"
            ' which can reveal those of this party (evaluation.repeats = "accept")'
        )
    if mates := own_atom_keys(opened.entries, identity.public):
        shown = ", ".join(key[:16] for key in mates)
        yield f"metrics: without noise only in sums together with {shown} (keys)"


def _spent(opened: AccountFile, runs: Sequence[RunAccount], budget: float | None) -> Iterator[str]:
    if not any(one.updates for one in runs):
        spent = chosen_epsilon(opened.entries)
        left = "" if budget is None else f", {max(budget - spent, 0.0):.4g} left"
        yield f"epsilon: {spent:.4g} spent{left}"
        return
    runs = [one for one in runs if one.updates]
    units = sorted({one.run.event.unit for one in runs if one.run.event is not None})
    if not units:
        yield "epsilon: none, since updates were released without noise"
        return
    privacy.need_dp_accounting()
    delta = min(one.run.delta for one in runs if one.run.event is not None)
    for unit in units:
        spent = spent_epsilon(opened.entries, unit)
        if math.isinf(spent):
            yield f"epsilon, {unit}: none, since some updates were released without noise for a {unit}"
            continue
        left = "" if budget is None else f"; {max(budget - spent, 0.0):.4g} of {budget:g} left"
        yield f"epsilon, {unit}: {spent:.4g} spent at delta {delta:.3g}{left}"
