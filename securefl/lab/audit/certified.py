"""Rounds reconstructed from signed messages."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from securefl.base.errors import PeerError
from securefl.base.ids import SERVER, PartyId
from securefl.lab.audit import finding
from securefl.lab.audit.kept_messages import AUDIT, KeptMessage, KeptMessages
from securefl.methods import clustering
from securefl.protocol import kernel, messages, wire
from securefl.protocol.round import (
    CertifiedRound,
    Draw,
    RunPlan,
    announced_digest,
    atom_seed_of,
    draw_round,
    fixed_round,
    mask_binding,
)
from securefl.runtime import report

SPLIT: Final = "do not use the model: the server sent different messages to different parties"
DEVIATES: Final = "do not use the model: the server did not follow the protocol"
UNPROVED: Final = (
    "find out which is true: the server sent different messages, or these transcripts are forged"
)
COLLUDES: Final = "remove these parties' keys from the roster: they collude with the server, or were stolen"
SaidT = TypeVar("SaidT", messages.Hello, messages.Reveal, messages.Endorse)


@dataclass(frozen=True, slots=True)
class SeenRound:
    """Round reconstructed from signed messages: draw, certified round, and findings.

    Its fields state the evidence of all transcripts together, not the view of one process.
    """

    round: int
    announced: tuple[KeptMessage[messages.ChainedAnnounce], ...] = ()
    """Each version of its announcement, of the last draw."""
    hellos: Mapping[PartyId, messages.Hello] = field(default_factory=dict)
    followed: Mapping[PartyId, bytes] = field(default_factory=dict)
    """Last confirmed root, by party that signed one."""
    drawn: Draw | None = None
    binding: bytes = b""
    """Digest that masks are bound to."""
    certified: CertifiedRound | None = None
    signatures: int = 0
    freezes: tuple[KeptMessage[messages.BindingFreeze], ...] = ()
    lacking: str = ""
    twice: bool = False
    """True if quorums signed two statements: more than q parties collude."""
    wrong: tuple[finding.Finding, ...] = ()

    @property
    def model(self) -> bytes | None:
        """Digest of the model, as the parties signed it."""
        return next((hello.model_digest for hello in self.hellos.values()), None)


def seen_rounds(plan: RunPlan, kept: KeptMessages) -> tuple[SeenRound, ...]:
    """Return the announced rounds in order."""
    announced: dict[int, list[KeptMessage[messages.ChainedAnnounce]]] = defaultdict(list)
    for one in kept.of(messages.ChainedAnnounce):
        announced[one.place.round].append(one)
    seen, atom_seed = list[SeenRound](), b""
    for round_, some in sorted(announced.items()):
        found = _seen_round(plan, kept, round_, some, atom_seed)
        atom_seed = atom_seed or (found.drawn.atom_seed if found.drawn is not None else b"")
        seen.append(found)
    return tuple(seen)


def _seen_round(
    plan: RunPlan,
    kept: KeptMessages,
    round_: int,
    some: Sequence[KeptMessage[messages.ChainedAnnounce]],
    atom_seed: bytes,
) -> SeenRound:
    # Another draw follows a void one.
    last = max(one.place.attempt for one in some)
    versions = {one.digest: one for one in some if one.place.attempt == last}
    split: tuple[finding.Finding, ...] = ()
    if len(versions) > 1:
        text = f"The server sent {len(versions)} different announcements of round {round_}"
        split = (_split(text, some, versions),)
    # A version that a quorum signed counts.
    tried = [_version(plan, kept, one, last, atom_seed) for one in versions.values()]
    best = next((one for one in tried if one.certified is not None), tried[0])
    return replace(best, announced=tuple(versions.values()), wrong=(*split, *best.wrong))


def _split(
    text: str,
    some: Sequence[KeptMessage[messages.ChainedAnnounce]],
    versions: Mapping[str, KeptMessage[messages.ChainedAnnounce]],
) -> finding.Finding:
    """Return the finding on several versions: a breach if the server signed two."""
    signed = {one.digest for one in some if one.signed}
    if len(signed & versions.keys()) > 1:
        return _wrong(f"{text}.", tuple(versions.values()), SPLIT)
    words = sorted({one.by for one in some if one.digest in versions and one.digest not in signed})
    return finding.warning(
        AUDIT,
        f"{text}, according to {report.list_of(words)}. The server's signature is missing there.",
        evidence=tuple(one.evidence for one in versions.values()),
        remedy=UNPROVED,
    )


def _version(
    plan: RunPlan, kept: KeptMessages, one: KeptMessage[messages.ChainedAnnounce], draw: int, atom_seed: bytes
) -> SeenRound:
    seen = SeenRound(one.place.round, (one,))
    try:
        seen = _drawn(plan, kept, seen, draw, atom_seed)
    except PeerError as error:
        text = f"The cluster draw of round {seen.round} is invalid: {error.reason}."
        wrong = (_wrong(text, seen.announced, DEVIATES),)
        return replace(seen, lacking="its cluster draw is invalid", wrong=wrong)
    return _with_certificate(plan, kept, seen) if seen.drawn is not None else seen


def _drawn(plan: RunPlan, kept: KeptMessages, seen: SeenRound, draw: int, atom_seed: bytes) -> SeenRound:
    place = kernel.Place(seen.round, attempt=draw)
    hellos = dict(_relayed_messages(plan, place, seen.announced[0].message.hellos, messages.Hello))
    if any(hello.config_digest != plan.config_digest() for hello in hellos.values()):
        raise PeerError(SERVER, "parties signed another configuration than the run directory has")
    seen = replace(seen, hellos=hellos)
    lists = {one.digest: one for one in kept.of(messages.Reveals) if one.place == place}
    whole = [one for one in lists.values() if len(one.message.reveals) == len(hellos)]
    if not whole:
        return replace(seen, lacking="no transcript contains all nonces of its draw")
    announced = max(whole, key=lambda one: one.signed)
    try:
        reveals = _reveals_of(plan, place, hellos, announced.message)
    except PeerError:
        if announced.signed:
            raise
        return replace(seen, lacking="no transcript contains all nonces of its draw")
    roots = {party: one.root for party, one in reveals.items() if isinstance(one, messages.ChainedReveal)}
    model, config = next(iter(hellos.values())).model_digest, plan.config_digest()
    drawn = draw_round(
        plan,
        seen.round,
        draw,
        model,
        {party: reveal.nonce for party, reveal in reveals.items()},
        {party: hello.samples for party, hello in hellos.items()},
        atom_seed_of(plan, hellos, atom_seed),
        {party: hello.group for party, hello in hellos.items()},
    )
    binding = mask_binding(drawn.assignment, announced_digest(hellos), model, config)
    return replace(seen, followed=roots, drawn=drawn, binding=binding)


def _reveals_of(
    plan: RunPlan, place: kernel.Place, hellos: Mapping[PartyId, messages.Hello], message: messages.Reveals
) -> dict[PartyId, messages.Reveal]:
    """Return the reveal of each party, checked against its commitment."""
    reveals = dict(_relayed_messages(plan, place, message.reveals, messages.Reveal))
    for party, reveal in reveals.items():
        if party not in hellos:
            raise PeerError(SERVER, f"{party} revealed a nonce, but the announcement does not name it")
        if (
            clustering.commitment(reveal.nonce, plan.run, place.round, place.attempt, party)
            != hellos[party].commitment
        ):
            raise PeerError(party, f"{party} revealed another nonce than it committed to")
    return reveals


def _with_certificate(plan: RunPlan, kept: KeptMessages, seen: SeenRound) -> SeenRound:
    """Add the statement that a quorum signed, and the round that it certifies."""
    signed, wrong = _signatures(plan, kept, seen.round)
    freezes = tuple(one for one in kept.of(messages.BindingFreeze) if one.place == kernel.Place(seen.round))
    rounds: dict[bytes, CertifiedRound] = {}
    # Freezes of a round differ in receipts only.
    versions = {(one.message.survivors, one.message.commitments): one.message for one in freezes}
    for freeze in versions.values():
        if seen.drawn is None:
            continue
        survivors = frozenset(map(PartyId, freeze.survivors))
        fixed = fixed_round(
            plan, seen.round, seen.drawn, seen.model or b"", seen.hellos, survivors, freeze.commitments
        )
        if fixed is not None:
            rounds.setdefault(fixed.statement, fixed)
    quorum = plan.limits.quorum or 0
    whole = sorted(statement for statement, by in signed.items() if len(by) >= quorum)
    if len(whole) > 1:
        claim = f"Round {seen.round} has {len(whole)} different certificates; an honest run has one."
        wrong = (*wrong, _wrong(claim, (), SPLIT))
    certified = [rounds[statement] for statement in whole if statement in rounds]
    most = max(map(len, signed.values()), default=0)
    if certified:
        return replace(
            seen,
            certified=certified[0],
            signatures=most,
            freezes=freezes,
            twice=len(whole) > 1,
            wrong=(*seen.wrong, *wrong),
        )
    if not signed:
        lacking = "no transcript contains its certificate"
    elif not whole:
        lacking = f"only {most} of {quorum} needed endorsements"
        certificates = tuple(
            one for one in kept.of(messages.Certificate) if one.place == kernel.Place(seen.round)
        )
        claim = f"The certificate of round {seen.round} is invalid: it has {lacking}."
        wrong = (*wrong, _wrong(claim, certificates, DEVIATES))
    elif not freezes:
        lacking = "no transcript contains its survivor set"
    else:
        lacking = "its certificate does not match its survivor set"
        claim = f"In round {seen.round} the server sent other survivors or commitments than a quorum signed."
        wrong = (*wrong, _wrong(claim, freezes, DEVIATES))
    wrong = (*seen.wrong, *wrong)
    return replace(seen, signatures=most, freezes=freezes, lacking=lacking, wrong=wrong)


def _signatures(
    plan: RunPlan, kept: KeptMessages, round_: int
) -> tuple[dict[bytes, set[PartyId]], tuple[finding.Finding, ...]]:
    """Return the signers of each statement, and findings on bad certificates and double signers."""
    signed: dict[bytes, set[PartyId]] = defaultdict(set)
    wrong: list[finding.Finding] = []
    versions = {one.digest: one for one in kept.of(messages.Certificate) if one.place == kernel.Place(round_)}
    for one in versions.values():
        try:
            for party, message in _relayed_messages(
                plan, kernel.Place(round_), one.message.endorsements, messages.Endorse
            ):
                signed[message.statement].add(party)
        except PeerError as error:
            claim = f"A certificate of round {round_} is invalid: {error.reason}."
            wrong.append(_wrong(claim, (one,), DEVIATES))
    both = {party for by in signed.values() for party in by if sum(party in to for to in signed.values()) > 1}
    if both:
        wrong.append(
            finding.breach(
                AUDIT,
                f"In round {round_} {report.list_of(sorted(both))} signed two conflicting statements.",
                evidence=tuple(one.evidence for one in versions.values()),
                remedy=COLLUDES,
                parties=tuple(sorted(both)),
            )
        )
    return signed, tuple(wrong)


def _relayed_messages(
    plan: RunPlan, place: kernel.Place, frames: Sequence[bytes], kind: type[SaidT]
) -> Iterator[tuple[PartyId, SaidT]]:
    """Yield sender and message of relayed frames."""
    known = set[PartyId]()
    for frame in frames:
        one = wire.open_relayed(frame, plan.roster, plan.run, SERVER, SERVER)
        if one.place != place or not isinstance(one.message, kind) or one.sender in known:
            raise PeerError(SERVER, f"the list must have one {kind.__name__} of each party")
        if one.sender not in plan.roster.parties:
            raise PeerError(SERVER, f"the list has a {kind.__name__} of {one.sender}, which is not a party")
        known.add(one.sender)
        yield one.sender, one.message


def _wrong(
    claim: str,
    shown: Sequence[
        KeptMessage[messages.ChainedAnnounce]
        | KeptMessage[messages.BindingFreeze]
        | KeptMessage[messages.Certificate]
    ],
    remedy: str,
) -> finding.Finding:
    evidence: tuple[finding.Evidence, ...] = tuple(one.evidence for one in shown)
    if not shown or any(one.signed for one in shown):
        return finding.breach(AUDIT, claim, evidence=evidence, remedy=remedy)
    # Only signatures accuse: a transcript's writer may have invented the entry.
    claim = f"{claim} The server's signature is missing here, so that this may be forged."
    return finding.warning(AUDIT, claim, evidence=evidence, remedy=remedy)
