"""Re-stepping of a run's machines: which of them can be, and the results."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np

from securefl.base import crypto, entropy
from securefl.base.ids import SERVER, PartyId, RunId
from securefl.lab.audit import finding
from securefl.lab.audit.recorded import Recorded
from securefl.lab.audit.truth import GroundTruth
from securefl.methods import attacks, clustering
from securefl.protocol import kernel, messages, secure_sum
from securefl.protocol.round import (
    PartyContext,
    PartyMachine,
    RunPlan,
    ServerContext,
    ServerMachine,
    first_link,
    party_entropy,
    server_entropy,
)
from securefl.protocol.wire.topics import status_party
from securefl.runtime import process, report
from tests.recorded import restep, wiretap

_AUDIT: Final = "replay"
_MESSAGES: Final = 20_000
"""Entries that are stepped again in all: some milliseconds each."""


@dataclass(frozen=True, slots=True)
class _Stage:
    """Common starting point of all machines of a seeded run."""

    plan: RunPlan
    root: entropy.InsecureSeededEntropy
    tap: wiretap.Wiretap
    first: Any
    """Parameters before the first round, f32 ``(d,)``."""
    identities: Any


def restepped(recorded: Recorded, truth: GroundTruth | None) -> Iterator[finding.Finding]:
    """Findings on machines that were stepped again, or why none was."""
    why = _why_not(recorded, truth)
    stage = None if why or truth is None else _stage(recorded, truth)
    if truth is None or stage is None:
        why = why or "the first model is not kept as a whole"
        yield _note(f"No machine was stepped again: {why}.")
        return
    dishonest = attacks.behaviours_of(recorded.scenario, recorded.seed or 0)
    done: list[restep.Restepped] = []
    left = _MESSAGES
    skipped = []
    unrecorded = _unrecorded(recorded)
    for vantage in (SERVER, *recorded.watched):
        some = recorded.transcripts.get(vantage, ())
        if vantage != SERVER and unrecorded:
            continue
        if vantage in dishonest or len(some) != 1 or len(some[0].entries) > left:
            skipped.append(vantage)
            continue
        left -= len(some[0].entries)
        machine = _machine(recorded, truth, stage, vantage)
        hints = tuple(_hints(recorded)) if vantage == SERVER else ()
        groups = _told(recorded, vantage)
        done.append(restep.Restepper(vantage, machine, stage.plan, stage.tap, hints, groups).run(some[0]))
    yield from _judged(done)
    if unrecorded:
        yield _note(f"No party was stepped again: {unrecorded}.")
    if skipped:
        yield _note(
            f"Not stepped again: {report.list_of(sorted(skipped))}, which misbehave, were"
            " restarted, or are beyond"
            f" {_MESSAGES:,} entries in all."
        )


def _unrecorded(recorded: Recorded) -> str:
    """Return which input of parties no file has; empty if all can be stepped again."""
    if clustering.hides_groups(recorded.scenario.groups):
        return "which model it chose is hidden, and not recorded anywhere"
    if recorded.scenario.evaluation.words:
        return "the metrics that it measured are not recorded anywhere"
    return ""


def _judged(done: list[restep.Restepped]) -> Iterator[finding.Finding]:
    for one in done:
        if one.differing is not None:
            yield finding.breach(
                _AUDIT,
                f"{one.vantage} did not do what its machine does: it differs after {one.agreed} entries.",
                evidence=(one.differing,),
                remedy="it runs another program, or its transcript is not its own: do not count on it",
                parties=() if one.vantage == SERVER else (one.vantage,),
            )
    whole = [one for one in done if one.differing is None and not one.stopped]
    if whole:
        total = sum(one.agreed for one in whole)
        yield finding.holds(
            _AUDIT,
            f"{report.count_of(len(whole), 'machine')} ({report.list_of(one.vantage for one in whole)})"
            " stepped again"
            f" from the seed: all {total:,} messages and reports come out with the same bits.",
            evidence=(finding.Evidence("lab/broker.frames", None, "the messages"),),
        )
    for one in (one for one in done if one.stopped):
        yield _note(
            f"{one.vantage} could be followed for {one.agreed} messages and reports, which agree;"
            f" {one.stopped}."
        )


def _why_not(recorded: Recorded, truth: GroundTruth | None) -> str | None:
    if recorded.simulated:
        return "a simulation has none"
    if not recorded.seeded or recorded.seed is None:
        return "their secrets are not known, which takes a run with --insecure-seeded-entropy"
    if truth is None:
        return "that takes --lab"
    if not wiretap.frames_of(truth.folder):
        return "transcripts have digests of messages only, and the run had no observer (--observe)"
    return None


def _stage(recorded: Recorded, truth: GroundTruth) -> _Stage | None:
    root = entropy.InsecureSeededEntropy(recorded.seed or 0)
    identities, roster = crypto.make_identities(recorded.parties, root)
    run = RunId(recorded.run)
    tap = wiretap.Wiretap(wiretap.frames_of(truth.folder), run, roster, recorded.limits.ring_bits)
    entry = next((entry for entry, _ in recorded.messages(SERVER, "sent", "ModelAnnounce")), None)
    record: Any = {} if entry is None else entry.fields.get("params", {})
    params = truth.vector(str(record.get("digest")))
    if params is None:
        return None
    length = params.size // recorded.scenario.groups.count
    plan = RunPlan(
        run, recorded.scenario, recorded.limits, roster, length, recorded.frozen or b"", recorded.state
    )
    return _Stage(plan, root, tap, np.array(params, dtype=np.float32), identities)


def _told(recorded: Recorded, party: PartyId) -> dict[int, int | None]:
    """By round with clusters, the group that a party told; None where it was not there."""
    return {
        int(str(entry.fields["round"])): dict(cast("Any", entry.fields.get("groups", ()))).get(party)
        for vantage in (SERVER, party)
        for entry, _ in recorded.of(vantage, "clusters_drawn")
    }


def _machine(
    recorded: Recorded, truth: GroundTruth, stage: _Stage, vantage: PartyId
) -> PartyMachine | ServerMachine:
    if vantage == SERVER:
        software = _servers_software(recorded)
        keys, own = stage.identities[SERVER], server_entropy(stage.root)
        return ServerMachine(
            ServerContext(stage.plan, keys, secure_sum.MemoryStore(), stage.first, own, software=software)
        )
    own, seams = party_entropy(stage.root, vantage), restep.truth_seams(truth, vantage)
    samples, sums = _samples(recorded, vantage), stage.plan.sums.prepare()
    identity, first = stage.identities[vantage], first_link(stage.plan, stage.first)
    software = stage.tap.software_of(vantage)
    return PartyMachine(
        PartyContext(
            stage.plan,
            vantage,
            samples,
            own,
            seams,
            identity=identity,
            first=first,
            prepared=sums,
            software=software,
        )
    )


def _servers_software(recorded: Recorded) -> messages.Software | None:
    """Return the server's versions, which it reports if they differ from those of a party; else None."""
    for entry, _ in recorded.of(SERVER, "versions_differ"):
        own: Any = entry.fields["own"]
        return messages.Software(**dict(zip(messages.Software.__struct_fields__, map(str, own), strict=True)))
    return None


def _hints(recorded: Recorded) -> Iterator[kernel.PresenceHint]:
    """The broker's hints on parties' connections, as the observer heard them."""
    gone = hashlib.sha256(process.GONE).hexdigest()
    for entry, _ in recorded.of("broker", "frame"):
        party = status_party(str(entry.fields["topic"]))
        if party is not None and entry.fields["sha256"] == gone:
            yield kernel.PresenceHint(entry.time or 0.0, party)


def _samples(recorded: Recorded, party: PartyId) -> int:
    """The party's declared count, from any draw that it is in."""
    for vantage in (party, SERVER):
        for entry, _ in recorded.of(vantage, "clusters_drawn"):
            counts: Any = entry.fields.get("counts", ())
            for name, count in counts:
                if name == party:
                    return int(count)
    return 1


def _note(claim: str) -> finding.Finding:
    return finding.note(_AUDIT, claim)
