"""Checks of what a chaos run has left: what no fault may break, looked at from outside.

Transcripts are judged by the product's audit. Beside it stand checks that do not believe transcripts: frames
as relays saw them, journals and accounts as they lie on disk, sums against ground truth, files against keys.
"""

from __future__ import annotations

import base64
import json
import signal
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from securefl.base.crypto.keyfiles import read_identity
from securefl.base.errors import ConfigError
from securefl.base.ids import SERVER, PartyId
from securefl.lab.audit.budget import releases_of
from securefl.lab.audit.finding import Severity
from securefl.lab.audit.inputs import known_of
from securefl.lab.audit.load import load, load_truth
from securefl.lab.audit.openings import Exposed, exposed_in, prime_of
from securefl.lab.audit.recorded import Recorded
from securefl.lab.audit.run import audit
from securefl.lab.audit.truth import GroundTruth
from securefl.methods.clustering import leakage_colluders, work_of, works_of
from securefl.methods.encoding import to_ring
from securefl.methods.leakage import LeakageLedger, UpdateVersion, least_support
from securefl.runtime.account.entries import Entry, Update, read_lines
from securefl.runtime.account.summary import spent_epsilon
from tests.chaos.collecting import collect
from tests.chaos.conductor import Witnessed
from tests.chaos.faults import ClockJump, DoubleStart, Kill, Terminate
from tests.chaos.federation import RUN, Started
from tests.chaos.packets import Seen
from tests.recorded.masks import judge_masks

_SUBMITTED: Final = "MaskedInput"
_RELEASED: Final = "Release"
_NOTED: Final = {_SUBMITTED: "submitted", _RELEASED: "released"}
"""What a party notes before it sends its first message of a kind."""
_WORDS_OF_AN_END: Final = ("refused ", "aborted ")
_MASKS_LEVEL = 1e-6
"""Probability of a false alarm on the masks of a run: there are hundreds of runs."""
_FIRST_SECONDS: Final = 2.0
"""Seconds in which a process may die of a signal, as its program has not begun."""
_JUDGED_ENDS: Final = frozenset({0, 1})
"""Exit codes of a server that has led the run to its end."""
_RIVALS: Final = frozenset({0, 1, 2, 3, 4, 5})
"""Exit codes of one of two servers with the same state: which one parties follow is up to the network."""


@dataclass(frozen=True)
class Broken:
    """One thing that is not as it has to be."""

    check: str
    """``ends``, ``finished``, ``sums``, ``exposed``, ``twice``, ``budget``, ``keys``, ``audit``."""
    what: str


@dataclass(frozen=True)
class Verdict:
    """What the checks say, and what a table shows of the run."""

    broken: tuple[Broken, ...]
    rounds: int = 0
    """That the server closed."""
    void: int = 0
    """Of these: without a new model."""
    sums: int = 0
    """Opened, and compared with ground truth."""
    counted: int = 0
    """Survivors, over all rounds."""
    releases: int = 0
    """Seen by relays, of all parties and rounds."""


def judge(witnessed: Witnessed) -> Verdict:
    """Check everything; damage that cannot be read is a broken check, too."""
    broken = [*ends(witnessed), *keys_left(witnessed), *sent_twice(witnessed.frames), *noted_twice(witnessed)]
    folder = collect(witnessed)
    try:
        recorded = load(folder)
    except ConfigError as error:
        return Verdict((*broken, Broken("audit", f"refused: {error}")))
    # A run that ended before its first round has left none.
    truth = load_truth(folder, recorded) if (folder / "lab").is_dir() else None
    rounds = Counter(_round(e.fields) for e, _ in recorded.of(SERVER, "round_done"))
    modelless = without_model(recorded)
    checked, wrong = (0, []) if truth is None else sums(recorded, truth)
    broken += [
        *finished(recorded),
        *judged(recorded, witnessed, modelless),
        *costs(witnessed, modelless),
        *wrong,
        *exposed(recorded),
        *budget(recorded, witnessed),
        *audited(recorded, truth, folder, witnessed),
    ]
    return Verdict(
        tuple(dict.fromkeys(broken)),
        rounds=len(rounds),
        void=len(modelless),
        sums=checked,
        counted=sum(len(_names(e.fields["survivors"])) for e, _ in recorded.of(SERVER, "round_done")),
        releases=len({(f.by, f.round) for f in witnessed.frames if f.kind == _RELEASED}),
    )


def without_model(recorded: Recorded) -> set[int]:
    """Rounds that were closed and made no model."""
    rounds = {_round(e.fields) for e, _ in recorded.of(SERVER, "round_done")}
    stepped = {_round(e.fields): e.fields["update_norm"] for e, _ in recorded.of(SERVER, "model_stepped")}
    refused = {_round(e.fields) for e, _ in recorded.of(SERVER, "claim_refused")}
    return {round_ for round_ in rounds if stepped.get(round_) is None or round_ in refused}


def ends(witnessed: Witnessed) -> Iterator[Broken]:
    """Exit codes, words on the way out, and whoever is still there."""
    for one in witnessed.hanging:
        yield Broken("ends", f"{one.name} did not end ({_history(one)}); last words: {_last(one)}")
    for orphan in witnessed.orphans:
        yield Broken("ends", f"left behind: {orphan}")
    for one in witnessed.started:
        if one in witnessed.hanging:
            continue
        code = one.exit_code
        may_end = _may_end(one)
        if code not in may_end and not _forgiven(one, witnessed):
            expected = " or ".join(map(str, sorted(may_end)))
            yield Broken(
                "ends", f"{one.name} ended with {code}, not {expected} ({_history(one)}): {_last(one)}"
            )
        if "Traceback" in one.words or "Exception ignored" in one.words:
            yield Broken("ends", f"{one.name} ended with a traceback: {one.words[-600:]}")
        reasons = [line for line in one.words.splitlines() if line.startswith(_WORDS_OF_AN_END)]
        if len(reasons) != (code in {2, 3, 5}):
            yield Broken("ends", f"{one.name} ended with {code} and {len(reasons)} lines of reasons")
    twins = [one for one in witnessed.started if "twin" in one.why]
    for first, second in zip(twins[::2], twins[1::2], strict=True):
        if (first.exit_code == 2) == (second.exit_code == 2) and not _one_after_the_other(first, second):
            codes = f"{first.exit_code} and {second.exit_code}"
            yield Broken("ends", f"of two starts of {first.name} at once one is refused, and not: {codes}")


def judged(recorded: Recorded, witnessed: Witnessed, modelless: set[int]) -> Iterator[Broken]:
    """The server's exit code says whether its last rounds made a model."""
    codes = {one.exit_code for one in witnessed.started if one.name == SERVER} & _JUDGED_ENDS
    last = max((_round(e.fields) for e, _ in recorded.of(SERVER, "round_done")), default=None)
    expected = {1 if last in modelless else 0}
    if last is not None and codes and codes != expected:
        yield Broken("ends", f"the server ended with {codes}, its last round asks for {expected}")


def costs(witnessed: Witnessed, modelless: set[int]) -> Iterator[Broken]:
    """Where nothing but the server was ended, each time costs one round at most."""
    struck = [witnessed.faults[place] for place in witnessed.struck]
    ended = [one for one in struck if isinstance(one, Kill | Terminate) and one.who == SERVER]
    harmless = [one for one in struck if isinstance(one, ClockJump | DoubleStart) and one.who != SERVER]
    if len(ended) + len(harmless) == len(struck) and len(modelless) > len(ended):
        yield Broken(
            "finished", f"{len(modelless)} rounds are void, and the server was ended {len(ended)} times"
        )


def _may_end(one: Started) -> frozenset[int]:
    """Exit codes that are right for a process."""
    if "rival" in one.why:
        # A fault may have killed the one that had taken over.
        return _RIVALS | ({-signal.SIGKILL} if "kill" in one.why else set())
    heard_nothing = "terminate" in one.why and not one.words
    signalled = {-signal.SIGTERM} if heard_nothing else set()
    judged = _JUDGED_ENDS if one.name == SERVER and 0 in one.may_end else set()
    return frozenset(one.may_end | judged | signalled)


def _forgiven(one: Started, witnessed: Witnessed) -> bool:
    """A second start that came when the first had just ended is a first one."""
    if "double" not in one.why:
        return False
    return not any(
        other is not one and other.name == one.name and other.at < one.at and other.ended > one.at + 1.0
        for other in witnessed.started
    )


def _one_after_the_other(first: Started, second: Started) -> bool:
    return first.ended < second.at or second.ended < first.at


def _history(one: Started) -> str:
    return ", ".join(one.why) or "nothing was done to it"


def _last(one: Started) -> str:
    return " / ".join(one.words.splitlines()[-2:])[-400:]


def finished(recorded: Recorded) -> Iterator[Broken]:
    """Whether the run went to its end, with all rounds."""
    outcomes = [e.fields for e, _ in recorded.of(SERVER, "outcome")]
    ended = [outcome for outcome in outcomes if not outcome["aborted"]]
    if not ended:
        reason = outcomes[-1]["reason"] if outcomes else "the server left no word"
        yield Broken("finished", f"the run did not finish: {reason}")
        return
    done = {_round(e.fields) for e, _ in recorded.of(SERVER, "round_done")}
    planned = recorded.scenario.stop.rounds
    if done != set(range(planned)) and "budget" not in str(ended[-1]["reason"]):
        yield Broken("finished", f"rounds {sorted(done)} are done, of {planned}")


def sums(recorded: Recorded, truth: GroundTruth) -> tuple[int, list[Broken]]:
    """Every opened sum is, bit for bit, that of what its survivors encoded."""
    checked, broken = 0, []
    for entry, evidence in recorded.of(SERVER, "sum_opened"):
        opened: Any = entry.fields["opened"]
        where = f"{evidence}, round {entry.fields['round']}, cluster {opened['cluster']}"
        work = work_of(recorded.scenario.clustering, opened["reclustering"])
        ring = truth.vector(opened["ring"]["digest"])
        parts = [truth.upload(party, _round(entry.fields), work) for party in opened["survivors"]]
        known = [part for part in parts if part is not None]
        if ring is None or len(known) < len(parts):
            broken.append(Broken("sums", f"no ground truth of the sum of {where}"))
        elif not np.array_equal(ring, to_ring(np.sum(known, axis=0), recorded.limits.ring_bits)):
            broken.append(Broken("sums", f"a wrong sum: {where}"))
        checked += 1
    return checked, broken


def exposed(recorded: Recorded) -> Iterator[Broken]:
    """Nobody follows from the sums, of one version or of all on one model, nor from few colluders' help."""
    needed = leakage_colluders(recorded.scenario) + recorded.scenario.secure_sum.k_anonymity
    least = recorded.scenario.secure_sum.min_survivors
    versions = exposed_in(recorded)
    for one in versions:
        where = f"round {one.opened.version.round}, work {one.opened.version.work}"
        if one.alone.exposed:
            yield Broken("exposed", f"{sorted(one.alone.exposed)} in {where}")
        if one.support is not None and len(one.support.parties) < needed:
            yield Broken("exposed", f"a combination of sums is about {one.support.parties} alone, in {where}")
        for opening in one.opened.openings:
            if len(opening.survivors) < least:
                yield Broken("exposed", f"a sum of {opening.survivors} alone, in {where}")
    yield from _exposed_on_a_model(recorded, versions, needed)


def _exposed_on_a_model(recorded: Recorded, versions: Sequence[Exposed], needed: int) -> Iterator[Broken]:
    """Rounds with one model, as void ones leave it: their sums are of almost the same updates."""
    models: dict[str, set[int]] = defaultdict(set)
    for entry, _ in recorded.of(SERVER, "round_started"):
        models[str(entry.fields["model_digest"])].add(_round(entry.fields))
    for rounds in models.values():
        rows = {
            opening.survivors
            for one in versions
            if one.opened.version.round in rounds and one.opened.version.work == 0
            for opening in one.opened.openings
            if opening.opens(recorded)
        }
        if len(rounds) < 2 or not rows:
            continue
        ledger = LeakageLedger.begin(UpdateVersion(0), {p for row in rows for p in row}, prime_of(recorded))
        for row in sorted(rows):
            ledger = ledger.open(row)
        support = least_support(ledger)
        if support is not None and len(support.parties) < needed:
            yield Broken(
                "exposed", f"on the model of rounds {sorted(rounds)} sums are about {support.parties} alone"
            )


def sent_twice(frames: list[Seen]) -> Iterator[Broken]:
    """Nobody submits twice to one round, or releases twice, by the frames that it sent.

    A frame that is sent again has the same bytes. Another attempt of a sum is no second submission, as long
    as it is the same process that makes it; and whoever has released submits nothing any more. The same box
    goes to each server that goes on with the round (ADR 0056).
    """
    inputs: dict[tuple[str, int], list[Seen]] = defaultdict(list)
    releases: dict[tuple[str, int], set[bytes]] = defaultdict(set)
    known: set[bytes] = set()
    for seen in (seen for seen in frames if seen.part == 0 and seen.digest not in known):
        known.add(seen.digest)
        whose = seen.by, seen.round
        if seen.kind == _SUBMITTED:
            inputs[whose].append(seen)
            if whose in releases:
                yield Broken("twice", f"{seen.by} submitted to round {seen.round} after it had released")
        elif seen.kind == _RELEASED:
            releases[whose].add(seen.said)
    for (by, round_), sent in inputs.items():
        sessions = {seen.session for seen in sent}
        if len(sessions) > 1:
            yield Broken("twice", f"{by} submitted to round {round_} from {len(sessions)} processes")
        places = Counter((seen.reclustering, seen.cluster, seen.attempt) for seen in sent)
        for place in (place for place, times in places.items() if times > 1):
            yield Broken("twice", f"{by} submitted {places[place]} times to round {round_} at {place}")
    for (by, round_), boxes in releases.items():
        if len(boxes) > 1:
            yield Broken("twice", f"{by} released {len(boxes)} different boxes in round {round_}")


def noted_twice(witnessed: Witnessed) -> Iterator[Broken]:
    """Journals and accounts as they lie on disk: each step of a round once; whatever left is in them."""
    for party in witnessed.setup.field.parties:
        own = [seen for seen in witnessed.frames if seen.by == party]
        sent = {(f.round, step) for f in own for kind, step in _NOTED.items() if f.kind == kind}
        home = witnessed.folder / party
        steps = Counter(_journal(home / "out" / f"{party}.journal"))
        for round_, step in (one for one, times in steps.items() if times > 1 and one[1] in _NOTED.values()):
            yield Broken("twice", f"{party}'s journal says twice that round {round_} is {step}")
        for round_, step in sorted(sent - steps.keys()):
            yield Broken("twice", f"{party} has {step} in round {round_} without a word in its journal")
        entries = _account(home / f"{party}.account")
        updates = Counter(entry.round for entry in entries if isinstance(entry, Update))
        for round_ in (round_ for round_, times in updates.items() if times > 1):
            yield Broken("twice", f"{party}'s account has {updates[round_]} updates of round {round_}")
        for round_ in (f.round for f in own if f.kind == _SUBMITTED and f.round not in updates):
            yield Broken("twice", f"{party} submitted to round {round_} without a line in its account")


def budget(recorded: Recorded, witnessed: Witnessed) -> Iterator[Broken]:
    """Nobody released more often than its budget allows: by transcripts, by frames, and by its account."""
    privacy = recorded.scenario.privacy
    if privacy.unit == "none" or privacy.releases is None or privacy.budget is None:
        return
    works = works_of(recorded.scenario.clustering)
    sent: dict[str, set[int]] = defaultdict(set)
    for seen in witnessed.frames:
        if seen.kind == _SUBMITTED:
            sent[seen.by].add(seen.round)
    for party, made in releases_of(recorded).items():
        most = max(made, works * len(sent[party]))
        if most > privacy.releases:
            yield Broken("budget", f"{party} released {most} times, and {privacy.releases} are allowed")
        entries = _account(witnessed.folder / party / f"{party}.account")
        epsilon = spent_epsilon(entries, privacy.unit) if entries else 0.0
        if epsilon > privacy.budget:
            yield Broken("budget", f"{party} spent epsilon {epsilon:.3f}, and {privacy.budget} is its budget")


def keys_left(witnessed: Witnessed) -> Iterator[Broken]:
    """No private key on disk but in the key files that were given, whatever it is written as."""
    secrets: dict[bytes, str] = {}
    for name in witnessed.setup.field.processes:
        identity = read_identity(witnessed.folder / name / f"{name}.key")
        for kind, key in (("signing", identity.signing_key), ("sealing", identity.sealing_key)):
            for form in (key, key.hex().encode(), key.hex().upper().encode(), base64.b64encode(key)[:42]):
                secrets[form] = f"{kind} key of {name}"
    for path in witnessed.folder.rglob("*"):
        if path.is_symlink() or not path.is_file() or path.suffix == ".key":
            continue
        content = path.read_bytes()
        for form, whose in secrets.items():
            if form in content:
                yield Broken("keys", f"the {whose} is in {path.relative_to(witnessed.folder)}")


def audited(
    recorded: Recorded, truth: GroundTruth | None, folder: Path, witnessed: Witnessed
) -> Iterator[Broken]:
    """Yield breaches that the product's audit finds, and masked inputs that are not uniform."""
    known = None
    if recorded.scenario.secure_sum.verified:
        keys = [witnessed.folder / name / f"{name}.key" for name in witnessed.setup.field.parties]
        known = known_of(recorded, folder, keys=keys)
    for finding in (*audit(recorded, truth, known).findings, *judge_masks(recorded, truth, _MASKS_LEVEL)):
        if finding.severity is Severity.BREACH:
            shown = "; ".join(map(str, finding.evidence[:3]))
            yield Broken("audit", f"{finding.audit}: {finding.claim} [{shown}]")


def _journal(path: Path) -> Iterator[tuple[int, str]]:
    """Whole lines only: what a torn one announces was not performed."""
    if path.exists():
        for line in path.read_bytes().split(b"\n")[:-1]:
            entry: Mapping[str, Any] = json.loads(line)
            if entry["run"] == RUN:
                yield entry["round"], entry["step"]


def _account(path: Path) -> tuple[Entry, ...]:
    raw = path.read_bytes()
    whole = raw[: raw.rfind(b"\n") + 1]
    entries, _ = read_lines(str(path), whole.splitlines(keepends=True))
    return entries


def _round(fields: Mapping[str, Any]) -> int:
    return int(fields["round"])


def _names(listed: Any) -> tuple[PartyId, ...]:
    return tuple(map(PartyId, listed))
