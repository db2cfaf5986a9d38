"""Messages that processes of a verified run kept, with checked signatures, and evidence files (ADR 0044)."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from securefl.base import crypto
from securefl.base.errors import ConfigError, PeerError
from securefl.base.ids import SERVER, PartyId, RunId
from securefl.lab.audit import finding
from securefl.lab.audit.recorded import Recorded
from securefl.protocol import kernel, wire
from securefl.protocol.messages import AnyMessage, ChainedAnnounce, Hello, RoundClaim
from securefl.protocol.round import ChainLink, Charge, NoFaultError, RunPlan, check_announced, judge
from securefl.runtime import report
from securefl.runtime.transcript import Entry

AUDIT: Final = "chain"
MessageT = TypeVar("MessageT", bound=AnyMessage)


class NothingKeptError(ConfigError):
    """Undamaged files of a run with nothing to verify."""


@dataclass(frozen=True, slots=True)
class KeptMessage(Generic[MessageT]):
    """Message that a process kept."""

    sender: PartyId
    by: PartyId
    place: kernel.Place
    message: MessageT = field(repr=False)
    digest: str
    """SHA-256 in hex."""
    signed: bool
    """True if a valid signature was kept; False for messages in parts."""
    evidence: finding.Evidence


@dataclass(frozen=True, slots=True)
class KeptMessages:
    """All kept messages of a run."""

    roster: crypto.Roster
    messages: tuple[KeptMessage[AnyMessage], ...]
    claims: tuple[tuple[RoundClaim, finding.Evidence], ...]
    """Results in proofs, as their receivers recorded them."""
    forged: tuple[finding.Finding, ...]

    def of(self, kind: type[MessageT], by: PartyId | None = None) -> Iterator[KeptMessage[MessageT]]:
        """Yield the messages of class ``kind`` that all processes kept, or only the process ``by``."""
        for one in self.messages:
            if isinstance(one.message, kind) and by in {None, one.by}:
                yield one  # type: ignore[misc]


def read_kept(recorded: Recorded, roster: crypto.Roster | None = None) -> KeptMessages:
    """Read the kept messages of a verified run.

    ``roster`` has the signatures that count; None for that of the transcripts.

    Raises:
        NothingKeptError: the transcripts contain none.
        ConfigError: a file is missing or altered, or there are several rosters.
    """
    names = {
        str(transcript.header["roster"])
        for some in recorded.transcripts.values()
        for transcript in some
        if "roster" in transcript.header
    }
    if not names:
        raise NothingKeptError(
            "transcripts", "contain no signed messages", "repeat the run with this version, which keeps them"
        )
    if len(names) > 1 and roster is None:
        raise ConfigError(
            "transcripts", "are of parties with different rosters", "give the right one: --roster FILE"
        )
    own = roster or _roster(recorded, names.pop())
    messages: list[KeptMessage[AnyMessage]] = []
    claims: list[tuple[RoundClaim, finding.Evidence]] = []
    forged: list[finding.Finding] = []
    for vantage in recorded.transcripts:
        for entry, evidence in recorded.of(vantage, "received"):
            try:
                if "kept" in entry.fields:
                    content = _content(recorded, str(entry.fields["kept"]))
                    messages.append(_read_message(recorded, own, PartyId(vantage), entry, evidence, content))
                if "claim" in entry.fields:
                    content = _content(recorded, str(entry.fields["claim"]))
                    claims.append((wire.decode_struct(RoundClaim, content, vantage), evidence))
            except PeerError as error:
                forged.append(_forgery_finding(entry, evidence, error.reason))
    return KeptMessages(own, tuple(messages), tuple(claims), tuple(forged))


def _read_message(
    recorded: Recorded,
    roster: crypto.Roster,
    by: PartyId,
    entry: Entry,
    evidence: finding.Evidence,
    content: bytes,
) -> KeptMessage[AnyMessage]:
    fields: Any = entry.fields
    sender, place = PartyId(fields["from"]), kernel.Place(*fields["place"])
    signed = fields["kept"] != fields["sha256"]
    if signed:
        delivery = wire.open_relayed(content, roster, RunId(recorded.run), by, by)
    else:
        delivery = wire.Delivery(sender, place, wire.decode(content, sender), b"")
        if isinstance(delivery.message, ChainedAnnounce):
            _check_claim_signed(recorded, roster, by, place, delivery.message)
    message = delivery.message
    digest = hashlib.sha256(wire.encode(message)).hexdigest()
    stated = (sender, place, fields["message"], fields["sha256"])
    if stated != (delivery.sender, delivery.place, type(message).__name__, digest):
        raise PeerError(by, "the kept message does not match its transcript entry")
    return KeptMessage(sender, by, place, message, digest, signed, evidence)


def _check_claim_signed(
    recorded: Recorded, roster: crypto.Roster, by: PartyId, place: kernel.Place, message: ChainedAnnounce
) -> None:
    """Check the signature over the result of an announcement that came in parts.

    Raises:
        PeerError: no model makes the signature valid.
    """
    run, models = RunId(recorded.run), {message.claim.model}
    for frame in message.hellos[:1]:
        hello = wire.open_relayed(frame, roster, run, SERVER, by).message
        models |= {hello.model_digest} if isinstance(hello, Hello) else set()
    for model in sorted(models):
        try:
            check_announced(message, place, model, roster, run)
        except PeerError:
            continue
        return
    raise PeerError(by, "it carries a result that the server did not sign")


def _content(recorded: Recorded, name: str) -> bytes:
    if recorded.frames is None:
        raise ConfigError("transcripts", "are of a run in memory", "name the directory of a run")
    path = recorded.frames / name
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read: {error.strerror}", "restore the file") from error
    if hashlib.sha256(content).hexdigest() != name:
        raise ConfigError(str(path), "was altered: its hash differs from its name", "restore the file")
    return content


def _roster(recorded: Recorded, name: str) -> crypto.Roster:
    _content(recorded, name)
    if recorded.frames is None:
        raise ConfigError("transcripts", "are of a run in memory", "name the directory of a run")
    return crypto.read_roster(recorded.frames / name)


def _forgery_finding(entry: Entry, evidence: finding.Evidence, reason: str) -> finding.Finding:
    fields: Any = entry.fields
    what = f"{fields['message']} message from {fields['from']} in round {fields['place'][0]}"
    return finding.breach(
        AUDIT,
        f"The transcript of {evidence.source} is forged or damaged: its {what} is not authentic ({reason}).",
        evidence=(evidence,),
        remedy=f"do not rely on the transcript of {evidence.source}: get another copy from its owner",
    )


def charges_in(run: Path) -> dict[str, Charge]:
    """Return the evidence in a run directory, by file name.

    Raises:
        ConfigError: a file is unreadable or not an evidence file.
    """
    try:
        paths = sorted((run / report.EVIDENCE).glob("*.charge"))
    except OSError as error:
        raise ConfigError(
            str(run / report.EVIDENCE), f"cannot be read: {error.strerror}", "restore the file"
        ) from error
    return {f"{report.EVIDENCE}/{path.name}": report.load_evidence(path) for path in paths}


def convictions(
    plan: RunPlan, charges: Mapping[str, Charge], first: ChainLink | None
) -> Iterator[finding.Finding]:
    """Yield a finding for each evidence file: a breach for the server, a warning for a party.

    ``first`` is the chain's first link, if known.
    """
    for name, charge in charges.items():
        where = (finding.Evidence(name, None),)
        try:
            found = judge(charge, plan, first)
        except NoFaultError as error:
            claim = f"An evidence file proves no fault of a process: {error}."
            yield finding.note(
                AUDIT, claim, evidence=where, remedy="nothing to do: the file accuses no process"
            )
            continue
        culprit = "the server" if found.culprit == SERVER else found.culprit
        claim = f"Signed messages prove that {culprit} broke the protocol: it {found.what}."
        if found.culprit == SERVER:
            yield finding.breach(
                AUDIT, claim, evidence=where, remedy="do not use the model; show the evidence to all parties"
            )
        else:
            remedy = "remove the key of this party from the roster of later runs"
            party = PartyId(found.culprit)
            yield finding.warning(AUDIT, claim, evidence=where, remedy=remedy, parties=(party,))
