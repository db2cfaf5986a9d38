"""Chain of models: results of rounds and their confirmations (ADR 0044)."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from securefl.base.errors import PeerError
from securefl.base.ids import SERVER, PartyId
from securefl.lab.audit import finding
from securefl.lab.audit.certified import COLLUDES, DEVIATES, SPLIT, UNPROVED, SeenRound
from securefl.lab.audit.kept_messages import AUDIT, KeptMessages
from securefl.lab.audit.recorded import Recorded
from securefl.methods import clustering
from securefl.protocol import kernel, messages, wire
from securefl.protocol.round import (
    LOST,
    CertifiedRound,
    ChainLink,
    ClusterKey,
    RunPlan,
    check_announced,
    check_attests,
    check_claim,
    committee,
    link_of,
    may_attest,
    missing_attests,
    opening_attests,
)
from securefl.runtime import report

Given = Mapping[kernel.Place, frozenset[PartyId]]
"""Confirming parties by the place of a sum, or of a round for its step."""
_TWO_RESULTS: Final = "do not use the model: more parties collude with the server than the scenario tolerates"


class LinkVerdict(StrEnum):
    """Verdict on a round."""

    CONFIRMED = "confirmed"
    """Its result is valid and has enough confirmations."""
    VOID = "void"
    """It did not change the model."""
    WRONG = "wrong"
    """A check failed."""
    OPEN = "not checked"
    """The transcripts have too little of it."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """Result of a round as the server stated it."""

    link: ChainLink
    announced: tuple[messages.ChainedAnnounce, ...] = ()
    signed: bool = False
    """True if the server's signature was kept."""
    evidence: tuple[finding.Evidence, ...] = ()
    given: Given = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CheckedRound:
    """Round of the chain."""

    round: int
    seen: SeenRound | None
    before: ChainLink | None
    """Link that it starts from, if known."""
    claimed: Claimed | None
    verdict: LinkVerdict
    why: str = ""

    @property
    def link(self) -> ChainLink | None:
        """Its link in the chain; None if it is void."""
        return self.claimed.link if self.claimed is not None and self.verdict != LinkVerdict.VOID else None


@dataclass(frozen=True, slots=True)
class ModelChain:
    """First link and rounds of a chain."""

    first: ChainLink | None
    rounds: tuple[CheckedRound, ...]
    claims: Mapping[int, tuple[Claimed, ...]]
    """All stated results by round, also of void rounds."""
    wrong: tuple[finding.Finding, ...]

    @property
    def last(self) -> ChainLink | None:
        """Link of the run's model."""
        return next((one.link for one in reversed(self.rounds) if one.link is not None), self.first)


def follow_chain(
    recorded: Recorded, plan: RunPlan, kept: KeptMessages, seen: Sequence[SeenRound]
) -> ModelChain:
    """Check the chain link by link."""
    claims, wrong = _claims(plan, kept)
    end = plan.scenario.stop.rounds
    wrong += _beyond(end, claims, seen)
    refused = {
        int(str(entry.fields["round"])): str(entry.fields["reason"])
        for entry, _ in recorded.of(SERVER, "claim_refused")
    }
    by_round = {one.round: one for one in seen}
    # A late joiner knows no link before its first announcement's.
    begun = [link_of(plan.run, announced.message.claim) for one in seen[:1] for announced in one.announced]
    first, rounds = (begun[0] if begun else None), list[CheckedRound]()
    last = first
    found = (*by_round, *claims, *refused, len(recorded.records) - 1)
    for number in range(max((number for number in found if number < end), default=-1) + 1):
        claimed, more = _of_chain(plan, claims.get(number, ()), by_round.get(number), last)
        wrong += more
        if first is not None and number <= first.claim.round:
            one = CheckedRound(
                number, None, None, claimed, LinkVerdict.OPEN, "no transcript starts before it"
            )
        else:
            why = refused.get(number, "") or _passed_over(seen, number)
            why = why or _missing_claim_reason(recorded, by_round.get(number), claimed)
            one = _check_round(plan, number, by_round.get(number), last, claimed, why)
            last = one.link or last
        rounds.append(one)
    chain = ModelChain(first, tuple(rounds), claims, tuple(wrong))
    own = (
        *_announced_models(plan, seen),
        *_followers(recorded, plan, chain, seen),
        *_confirmation_findings(recorded, chain),
    )
    return ModelChain(first, chain.rounds, claims, (*wrong, *own))


def _beyond(
    end: int, claims: Mapping[int, tuple[Claimed, ...]], seen: Sequence[SeenRound]
) -> Iterator[finding.Finding]:
    """Yield breaches for messages signed for rounds beyond the last one."""
    signed = {
        round_: claimed.evidence
        for round_, some in claims.items()
        for claimed in some
        if claimed.signed and round_ >= end
    }
    signed |= {
        one.round: tuple(announced.evidence for announced in one.announced if announced.signed)
        for one in seen
        if one.round >= end
    }
    for round_, evidence in sorted(signed.items()):
        if evidence:
            has = report.count_of(end, "round")
            claim = f"The server signed a message of round {round_}, but the run has {has}."
            yield finding.breach(AUDIT, claim, evidence=evidence[:1], remedy=DEVIATES)


def _passed_over(seen: Sequence[SeenRound], number: int) -> str:
    """Return a reason if a later round starts from a link before this round, else ""."""
    later = (
        announced.message.claim.round for one in seen if one.round > number for announced in one.announced
    )
    return "a later round starts from the same model" if any(link < number for link in later) else ""


def _missing_claim_reason(recorded: Recorded, seen: SeenRound | None, claimed: Claimed | None) -> str:
    """Return why a round has no result if the server's transcript is here, else ""."""
    if claimed is not None or not recorded.has_server:
        return ""
    return "it was not announced" if seen is None else seen.lacking or "the server stated no result"


def attest_counts(
    plan: RunPlan, certified: CertifiedRound | None, claimed: Claimed | None
) -> tuple[str, str]:
    """Return confirmations of sums and of the step, as ``given/needed``.

    Surplus ones do not count, and lost sums need none.
    """
    if certified is None:
        return "?", "?"
    given = {} if claimed is None else claimed.given
    found = needed = 0
    for key in opened_sums(certified, claimed):
        enough = opening_attests(plan, len(certified.alive(key)))
        found += min(enough, len(given.get(kernel.Place(certified.round, *key), ())))
        needed += enough
    members = committee(plan, certified)
    enough = clustering.attests_needed(plan.scenario, len(members))
    return f"{found}/{needed}", f"{min(enough, len(given.get(kernel.Place(certified.round), ())))}/{enough}"


def opened_sums(certified: CertifiedRound, claimed: Claimed | None) -> tuple[ClusterKey, ...]:
    """Return the certified sums that the server does not state as lost."""
    stated = () if claimed is None else claimed.link.claim.sums
    lost = {number for number, digest in enumerate(stated) if digest == LOST}
    return tuple(key for number, key in enumerate(certified.commitments) if number not in lost)


def _claims(
    plan: RunPlan, kept: KeptMessages
) -> tuple[dict[int, tuple[Claimed, ...]], list[finding.Finding]]:
    announced: dict[ChainLink, dict[str, messages.ChainedAnnounce]] = defaultdict(dict)
    shown: dict[ChainLink, list[finding.Evidence]] = defaultdict(list)
    for one in kept.of(messages.ChainedAnnounce):
        link = link_of(plan.run, one.message.claim)
        announced[link][one.digest] = one.message
        shown[link].append(one.evidence)
    signed = set(announced)
    signed.update(
        link_of(plan.run, one.message.claim) for one in kept.of(messages.OpeningProof) if one.signed
    )
    signed.update(link_of(plan.run, one.message.claim) for one in kept.of(messages.StepProof) if one.signed)
    for claim, evidence in kept.claims:
        shown[link_of(plan.run, claim)].append(evidence)
    given, wrong = _attests(plan, kept)
    found: dict[int, list[Claimed]] = defaultdict(list)
    for link, where in shown.items():
        words = tuple(announced[link].values()) if link in announced else ()
        by = given.get(link.root, {})
        found[link.claim.round].append(Claimed(link, words, link in signed, tuple(where), by))
    wrong += [_two_claims(round_, some) for round_, some in sorted(found.items()) if len(some) > 1]
    return {round_: tuple(some) for round_, some in found.items()}, wrong


def _two_claims(round_: int, some: Sequence[Claimed]) -> finding.Finding:
    what = "first models" if round_ < 0 else f"results of round {round_}"
    evidence = tuple(one.evidence[0] for one in some)
    if sum(one.signed for one in some) > 1:
        return finding.breach(
            AUDIT, f"The server signed {len(some)} different {what}.", evidence=evidence, remedy=SPLIT
        )
    words = sorted({shown.source for one in some if not one.signed for shown in one.evidence})
    return finding.warning(
        AUDIT,
        f"The server stated {len(some)} different {what}, according to {report.list_of(words)}. Its signature"
        " is missing there.",
        evidence=evidence,
        remedy=UNPROVED,
    )


def _attests(plan: RunPlan, kept: KeptMessages) -> tuple[dict[bytes, Given], list[finding.Finding]]:
    """Return confirming parties by root, and breaches of parties that confirm two roots of a round."""
    given: dict[bytes, dict[kernel.Place, set[PartyId]]] = defaultdict(lambda: defaultdict(set))
    roots: dict[tuple[int, PartyId], set[bytes]] = defaultdict(set)

    def take(party: PartyId, place: kernel.Place, root: bytes) -> None:
        given[root][place].add(party)
        roots[place.round, party].add(root)

    for one in kept.of(messages.Attest, SERVER):
        if one.signed:
            take(one.sender, one.place, one.message.root)
    for frame in {frame for one in kept.of(messages.ChainedAnnounce) for frame in one.message.attests}:
        try:
            delivery = wire.open_relayed(frame, plan.roster, plan.run, SERVER, SERVER)
        except PeerError:
            continue  # the announcement is refused for it
        if isinstance(delivery.message, messages.Attest):
            take(delivery.sender, delivery.place, delivery.message.root)
    twice = sorted((round_, party) for (round_, party), some in roots.items() if len(some) > 1)
    wrong = [
        finding.breach(
            AUDIT,
            f"{party} signed confirmations of {len(roots[round_, party])} results of round {round_}.",
            remedy=COLLUDES,
            parties=(party,),
        )
        for round_, party in twice
    ]
    frozen = {root: {place: frozenset(by) for place, by in places.items()} for root, places in given.items()}
    return dict(frozen), wrong


def _of_chain(
    plan: RunPlan, some: Sequence[Claimed], seen: SeenRound | None, last: ChainLink | None
) -> tuple[Claimed | None, list[finding.Finding]]:
    """Return the result that counts: confirmed by enough parties, else announced, else any."""
    announced = [one for one in some if one.announced]
    certified = None if seen is None else seen.certified
    enough = [one for one in some if certified is not None and _enough(plan, certified, last, one)]
    if len(enough) > 1:
        claim = f"Verifiers confirmed two different results of round {enough[0].link.claim.round}."
        return enough[0], [finding.breach(AUDIT, claim, remedy=_TWO_RESULTS)]
    return next(iter((*enough, *announced, *some)), None), []


def _enough(plan: RunPlan, certified: CertifiedRound, last: ChainLink | None, one: Claimed) -> bool:
    return last is not None and one.link.claim.previous == last.root and not _missing(plan, certified, one)


def _missing(plan: RunPlan, certified: CertifiedRound, one: Claimed) -> str:
    claim = one.link.claim
    if len(claim.sums) != len(certified.commitments):
        return "it states another number of sums than was certified"
    by = {
        place: [party for party in given if may_attest(plan, certified, place, party)]
        for place, given in one.given.items()
    }
    return missing_attests(plan, certified, claim, by) or ""


def _check_round(
    plan: RunPlan,
    number: int,
    seen: SeenRound | None,
    last: ChainLink | None,
    claimed: Claimed | None,
    void: str,
) -> CheckedRound:
    def verdict(what: LinkVerdict, why: str = "") -> CheckedRound:
        return CheckedRound(number, seen, last, claimed, what, why)

    if void and (claimed is None or not claimed.announced):
        return verdict(LinkVerdict.VOID, void)
    if claimed is None:
        return verdict(LinkVerdict.OPEN, "these transcripts do not contain its result")
    if seen is None or seen.certified is None or last is None:
        why = "these parties did not receive its announcement" if seen is None else seen.lacking
        broken = seen is not None and any(one.severity is finding.Severity.BREACH for one in seen.wrong)
        what = LinkVerdict.WRONG if broken else LinkVerdict.OPEN
        return verdict(what, why or "the model that it started from is not known")
    try:
        check_claim(seen.certified, last, claimed.link.claim)
        for announce in claimed.announced:
            check_attests(plan, seen.certified, claimed.link, announce.attests)
    except PeerError as error:
        return verdict(LinkVerdict.WRONG, f"the server {error.reason}")
    missing = _missing(plan, seen.certified, claimed)
    if claimed.announced or not missing:
        return verdict(LinkVerdict.WRONG if seen.twice else LinkVerdict.CONFIRMED)
    return verdict(LinkVerdict.OPEN, f"in these transcripts, {missing}")


def _announced_models(plan: RunPlan, seen: Sequence[SeenRound]) -> Iterator[finding.Finding]:
    for one in seen:
        if one.model is None:
            continue
        for announced in one.announced:
            if announced.message.claim.model != one.model:
                yield finding.breach(
                    AUDIT,
                    f"The announcement of round {one.round} names another model than the parties signed.",
                    evidence=(announced.evidence,),
                    remedy=SPLIT,
                )
            try:
                check_announced(announced.message, announced.place, one.model, plan.roster, plan.run)
            except PeerError as error:
                yield finding.breach(
                    AUDIT,
                    f"The announcement of round {one.round} is invalid: in it, the server {error.reason}.",
                    evidence=(announced.evidence,),
                    remedy=DEVIATES,
                )


def _followers(
    recorded: Recorded, plan: RunPlan, chain: ModelChain, seen: Sequence[SeenRound]
) -> Iterator[finding.Finding]:
    """Yield breaches for parties that continued from a link outside the chain."""
    for one in seen:
        roots = {link_of(plan.run, announced.message.claim).root for announced in one.announced}
        other = sorted(party for party, root in one.followed.items() if root and root not in roots)
        if other:
            yield finding.breach(
                AUDIT,
                f"In round {one.round} {report.list_of(other)} signed another earlier result than the server"
                " announced.",
                remedy="do not use the model: the server sent these parties another chain, or they collude",
                parties=tuple(other),
            )
    links = {one.link.root.hex() for one in chain.rounds if one.link is not None}
    if chain.first is not None:
        links.add(chain.first.root.hex())
    for party in recorded.watched:
        for entry, evidence in recorded.of(party, "link_followed"):
            if entry.fields["root"] not in links:
                yield finding.breach(
                    AUDIT,
                    f"{party} continued from a result of round {entry.fields['round']} that is not in the"
                    " chain.",
                    evidence=(evidence,),
                    remedy=SPLIT,
                    parties=(party,),
                )


def _confirmation_findings(recorded: Recorded, chain: ModelChain) -> Iterator[finding.Finding]:
    """Yield breaches for results that the server recorded as confirmed without proof."""
    by_round = {one.round: one for one in chain.rounds}
    for entry, evidence in recorded.of(SERVER, "claim_confirmed"):
        round_ = int(str(entry.fields["round"]))
        if chain.first is not None and round_ <= chain.first.claim.round:
            # Before all announcements here: late parties, or deleted rounds.
            continue
        one = by_round.get(round_)
        link = None if one is None else one.link
        if link is None or one is None or entry.fields["root"] != link.root.hex():
            why = "no signed result matches"
        elif one.verdict is LinkVerdict.OPEN:
            why = one.why
        else:
            continue
        yield finding.breach(
            AUDIT,
            f"The server recorded that the result of round {round_} was confirmed, but this is not proved:"
            f" {why}.",
            evidence=(evidence,),
            remedy="do not use the model of this round or a later one",
        )
