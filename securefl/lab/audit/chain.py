"""*chain*: verification that each model follows from the certified sums of its round (ADR 0044).

Any transcript has the signatures of certificates and confirmations. Proofs are recomputed if the verifier's
key is known.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from securefl.base import crypto, entropy
from securefl.base.arrays import F32
from securefl.base.errors import EXIT_EXPECTED, EXIT_REFUSED, EXIT_UNEXPECTED, ConfigError, PeerError
from securefl.base.ids import SERVER, PartyId, RunId
from securefl.lab.audit import links, repeating
from securefl.lab.audit.certified import seen_rounds
from securefl.lab.audit.exhibits import Table
from securefl.lab.audit.finding import Chapter, Evidence, Finding, Severity, breach, holds, note
from securefl.lab.audit.kept_messages import AUDIT, KeptMessages, NothingKeptError, convictions, read_kept
from securefl.lab.audit.recorded import Recorded
from securefl.lab.audit.replay_rounds import values_of
from securefl.protocol import kernel, messages, secure_sum, wire
from securefl.protocol.round import NO_VALUES, Charge, RunPlan, first_link, link_of, model_digest
from securefl.runtime import report

COLUMNS: Final = (
    "round",
    "root of result",
    "signatures",
    "sums confirmed",
    "step confirmed",
    "recomputed here",
    "verdict",
)
_NOWHERE: Final = Evidence("model.safetensors", None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Inputs of a verification besides the transcripts."""

    first: F32 | None = field(default=None, repr=False)
    """By scenario and seed, f32 ``(k d,)``; None if it cannot be made."""
    final: F32 | None = field(default=None, repr=False)
    """Model file, f32 ``(k d,)``; None if missing or unreadable."""
    doubt: str = ""
    """Reason why ``first`` may be wrong, or empty."""
    frozen: bytes | None = None
    """Digest of frozen parameters; empty without any, None if unknown."""
    unknown: str = ""
    roster: crypto.Roster | None = None
    """None for that of the transcripts."""
    identities: Mapping[PartyId, crypto.Identity] = field(default_factory=dict, repr=False)
    """Private keys besides those of an insecure seed."""
    charges: Mapping[str, Charge] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class RoundLine:
    """Row of a round."""

    round: int
    root: str
    signatures: str
    """Signatures / required: ``12/8``."""
    sums: str
    """Confirmations / required, without surplus ones."""
    step: str
    repeated: str
    verdict: links.LinkVerdict
    why: str

    def cells(self) -> tuple[str | int, ...]:
        """Return the cells in the order of :data:`COLUMNS`."""
        return (
            self.round,
            self.root[:12] or "none",
            self.signatures,
            self.sums,
            self.step,
            self.repeated,
            str(self.verdict),
        )


@dataclass(frozen=True, slots=True)
class VerifiedRun:
    """Results that transcripts prove."""

    run: str
    transcripts: int
    lines: tuple[RoundLine, ...]
    findings: tuple[Finding, ...]
    digest: str
    sentence: str

    proved: bool
    """True if everything was checked and holds."""
    refuted: bool
    """True if a check failed. Evidence is missing if neither."""

    @property
    def exit_code(self) -> int:
        """0 if all holds, 1 if something does not, 2 if evidence is missing."""
        if self.refuted:
            return EXIT_UNEXPECTED
        return EXIT_EXPECTED if self.proved else EXIT_REFUSED


def verify_run(recorded: Recorded, known: Known) -> VerifiedRun:
    """Verify the chain of models of a run.

    Raises:
        NothingKeptError: rounds were not verified, the run was simulated, or transcripts lack too much.
        ConfigError: a kept file is damaged, or a key differs from the roster's.
    """
    check_verifiable(recorded)
    if known.first is None and known.frozen is None and known.unknown and recorded.scenario.model.is_own:
        # Parties signed the digest of frozen parameters.
        raise NothingKeptError(
            "model", f"cannot be made here: {known.unknown}", "provide its code and data (--data-dir)"
        )
    kept = read_kept(recorded, known.roster)
    plan = _plan(recorded, kept, known)
    _check_config(plan, kept)
    seen = seen_rounds(plan, kept)
    chain = links.follow_chain(recorded, plan, kept, seen)
    _check_keys(plan, known.identities)
    identities = {**_seeded_identities(recorded, plan), **known.identities}
    again = repeating.repeat_proofs(plan, kept, chain, identities)
    lines = tuple(_line(plan, again, one) for one in chain.rounds)
    if chain.first is None:
        forged = f": {kept.forged[0].claim.rstrip('.')}" if kept.forged else ""
        raise NothingKeptError(
            "transcripts",
            f"contain no announcement of a round with the server's signature{forged}",
            "add transcripts of parties that took part, or give the run's roster: --roster FILE",
        )
    open_ = any(line.verdict is links.LinkVerdict.OPEN for line in lines) or _is_doubtful(plan, chain, known)
    ends = tuple(_ends(recorded, plan, chain, known, open_=open_))
    wrong = (
        *kept.forged,
        *(finding for one in seen for finding in one.wrong),
        *chain.wrong,
        *_chain_breaks(chain),
        *ends,
        *again.wrong,
        *convictions(plan, known.charges, None if known.first is None else first_link(plan, known.first)),
    )
    sound = not any(finding.severity is Severity.BREACH for finding in ends) and not any(
        line.verdict is links.LinkVerdict.WRONG for line in lines
    )
    beyond = any(finding.severity is Severity.BREACH for finding in wrong)
    open_ = open_ or bool(known.unknown)
    sentence = _sentence(recorded, chain, known, sound=sound, open_=open_)
    return VerifiedRun(
        recorded.run,
        _count(recorded),
        lines,
        (*wrong, *_rest(chain, again, known, lines)),
        "" if known.final is None else model_digest(known.final).hex(),
        sentence,
        not beyond and not open_,
        beyond or not sound,
    )


def check_verifiable(recorded: Recorded) -> None:
    """Refuse a run that cannot be verified.

    Raises:
        NothingKeptError: rounds were not verified, or the run was simulated.
    """
    if not recorded.scenario.secure_sum.verified:
        raise NothingKeptError(
            "secure_sum.verify",
            "is off: parties did not verify the server's results",
            'run it with secure_sum.server = "active" and secure_sum.verify = "committee"',
        )
    if recorded.simulated:
        raise NothingKeptError(
            "transcripts", "are missing: a simulation signs nothing", "verify the directory of a securefl run"
        )


def audit_chain(recorded: Recorded, known: Known) -> Chapter:
    """Return the chapter on a run.

    Raises:
        ConfigError: as :func:`verify_run`.
    """
    try:
        run = verify_run(recorded, known)
        chain_finding = (holds if run.proved else note)(AUDIT, run.sentence)
        findings = (chain_finding, *run.findings)
        rows = tuple(line.cells() for line in run.lines)
    except NothingKeptError as error:
        claim = f"The chain of models was not verified: {error.path} {error.reason}."
        findings, rows = (note(AUDIT, claim, remedy=error.remedy),), ()
    return Chapter(
        audit=AUDIT,
        title="Chain: does the model follow from the certified sums?",
        method=(
            "Clusters are drawn again from the signed nonces. The survivors and sums of each round must be"
            " those that a quorum of parties signed. Enough entitled parties must have confirmed each result"
            " of the server. If verifiers' keys are known, their sums and steps are recomputed."
        ),
        findings=findings,
        exhibits=(Table(title="Rounds", columns=COLUMNS, rows=rows),) if rows else (),
    )


def _plan(recorded: Recorded, kept: KeptMessages, known: Known) -> RunPlan:
    length = 0 if known.first is None else known.first.size // recorded.scenario.groups.count
    lengths = set(_lengths(recorded))
    if len(lengths) > 1:
        raise ConfigError("transcripts", "have models of different lengths", "use the transcripts of one run")
    length = next(iter(lengths), length * recorded.scenario.groups.count) // recorded.scenario.groups.count
    if not length:
        raise ConfigError("transcripts", "do not state the length of the model", "add one of another party")
    secure_sum.sums_of(recorded.scenario, length)
    run = RunId(recorded.run)
    return RunPlan(
        run, recorded.scenario, recorded.limits, kept.roster, length, known.frozen or b"", recorded.state
    )


def _lengths(recorded: Recorded) -> Iterator[int]:
    for vantage in recorded.transcripts:
        for entry, _ in recorded.messages(vantage, "received", "ModelAnnounce"):
            if "length" in entry.fields:
                yield int(str(entry.fields["length"]))
        for entry, _ in recorded.messages(vantage, "sent", "ModelAnnounce"):
            params: Any = entry.fields.get("params")
            yield int(params["length"])


def _check_config(plan: RunPlan, kept: KeptMessages) -> None:
    """Refuse another configuration than the one that all parties signed.

    Every comparison would fail and seem to be the server's fault.

    Raises:
        ConfigError: scenario, roster, frozen parameters or rules differ.
    """
    signed = set[bytes]()
    for announced in kept.of(messages.ChainedAnnounce):
        for frame in announced.message.hellos:
            try:
                message = wire.open_relayed(frame, plan.roster, plan.run, SERVER, SERVER).message
            except PeerError:
                continue  # the draw is judged elsewhere
            if isinstance(message, messages.Hello):
                signed.add(message.config_digest)
            if plan.config_digest() in signed or len(signed) > 1:
                return
    if signed:
        raise ConfigError(
            "scenario.toml",
            "is not the configuration that all parties of the run signed: scenario, roster, frozen parameters"
            " or own rules differ here",
            "use the files of the run; --roster FILE for its roster",
        )


def _seeded_identities(recorded: Recorded, plan: RunPlan) -> dict[PartyId, crypto.Identity]:
    if not recorded.seeded or recorded.seed is None:
        return {}
    made, roster = crypto.make_identities(
        recorded.parties,
        entropy.InsecureSeededEntropy(recorded.seed),
        with_dealer=plan.sums.dealer is not None,
    )
    return dict(made) if roster.parties == plan.roster.parties else {}


def _check_keys(plan: RunPlan, identities: Mapping[PartyId, crypto.Identity]) -> None:
    """Refuse a wrong key: it decrypts no proof, which would seem to be the server's fault."""
    for name, identity in identities.items():
        if plan.roster.parties.get(name) != identity.public:
            raise ConfigError(
                "--key",
                f"is not the key that the roster has for {name}",
                f"give the private key file of {name}",
            )


def _line(plan: RunPlan, again: repeating.RepeatedHere, one: links.CheckedRound) -> RoundLine:
    seen, claimed = one.seen, one.claimed
    certified = None if seen is None else seen.certified
    sums, step = links.attest_counts(plan, certified, claimed)
    repeated, verdict, why = "no", one.verdict, one.why
    if certified is not None and claimed is not None:
        root = claimed.link.root
        opened = links.opened_sums(certified, claimed)
        number = sum(again.at(root, kernel.Place(one.round, *key)) for key in opened)
        which = [f"{number} of {len(opened)} sums"] if number else []
        which += ["the step"] if again.at(root, kernel.Place(one.round)) else []
        whole = number == len(opened) and len(which) > 1
        repeated = "yes" if whole else report.list_of(which) or "no"
        if verdict is links.LinkVerdict.CONFIRMED and again.differs(root):
            verdict, why = links.LinkVerdict.WRONG, again.differs(root)
    return RoundLine(
        one.round,
        "" if claimed is None else claimed.link.root.hex(),
        f"{0 if seen is None else seen.signatures}/{plan.limits.quorum or 0}",
        sums,
        step,
        repeated,
        verdict,
        why,
    )


def _chain_breaks(chain: links.ModelChain) -> Iterator[Finding]:
    for one in chain.rounds:
        if one.verdict is links.LinkVerdict.WRONG and one.why:
            yield breach(
                AUDIT,
                f"The result of round {one.round} is invalid: {one.why}.",
                evidence=() if one.claimed is None else one.claimed.evidence[:1],
                remedy="do not use the model of this round or a later one",
            )


def _begins_otherwise(plan: RunPlan, chain: links.ModelChain, known: Known) -> bool:
    """Return True if the chain begins with another model than was made here."""
    if known.first is None or chain.first is None or chain.first.claim.round >= 0:
        return False
    expected = first_link(plan, known.first)
    return expected is None or link_of(plan.run, chain.first.claim).root != expected.root


def _is_doubtful(plan: RunPlan, chain: links.ModelChain, known: Known) -> bool:
    """Return True if the chain begins otherwise, but the model made here may be wrong."""
    whole = known.first is None or known.first.size == plan.total_parameters
    return _begins_otherwise(plan, chain, known) and (bool(known.doubt) or not whole)


def _ends(
    recorded: Recorded, plan: RunPlan, chain: links.ModelChain, known: Known, *, open_: bool
) -> Iterator[Finding]:
    if _begins_otherwise(plan, chain, known):
        claim = "The chain does not start with the model that scenario and seed give"
        if _is_doubtful(plan, chain, known):
            why = known.doubt or "the model made here has another number of parameters"
            remedy = "verify with the files and the software of the run"
            yield note(AUDIT, f"{claim} here. This proves no fault: {why}.", remedy=remedy)
        else:
            yield breach(AUDIT, f"{claim}.", remedy="do not use the model: the run started from another one")
    if known.final is None or chain.last is None:
        return
    # The chain's digest covers the model and the announced values, which no file has.
    announced = values_of(recorded).values() or [NO_VALUES]
    if any(model_digest(known.final, values) == chain.last.claim.model for values in announced):
        return
    found, last = model_digest(known.final).hex(), chain.last.claim.model.hex()
    claim = (
        f"The model in the run directory (digest {found}) is not the last one of the chain (digest {last})"
    )
    if open_:
        claim = f"{claim}, but the chain could not be checked to its end."
        yield note(AUDIT, claim, evidence=(_NOWHERE,), remedy="add the missing transcripts, verify again")
        return
    yield breach(
        AUDIT,
        f"{claim}.",
        evidence=(_NOWHERE,),
        remedy="do not use it: it was changed after the run, or the server wrote another model",
    )


def _rest(
    chain: links.ModelChain, again: repeating.RepeatedHere, known: Known, lines: tuple[RoundLine, ...]
) -> Iterator[Finding]:
    """Yield notes on void rounds and unknown inputs."""
    parties_by_verdict: dict[tuple[links.LinkVerdict, str], list[str]] = {}
    for line in lines:
        parties_by_verdict.setdefault((line.verdict, line.why), []).append(str(line.round))
    for (verdict, why), of in parties_by_verdict.items():
        one = len(of) == 1
        which = f"Round {of[0]}" if one else f"Rounds {report.list_of(of)}"
        if verdict is links.LinkVerdict.VOID:
            claim = f"{which} {'is' if one else 'are'} void and did not change the model: {why}."
            yield note(AUDIT, claim, remedy="nothing to do: the next round starts from the same model")
        elif verdict is links.LinkVerdict.OPEN:
            yield note(
                AUDIT,
                f"{which} could not be checked: {why}.",
                remedy="add the transcripts of more parties; the last round needs the server's",
            )
    resting = [
        str(line.round)
        for line in lines
        if line.repeated != "yes" and line.verdict is links.LinkVerdict.CONFIRMED
    ]
    if resting:
        rounds = f"round {resting[0]}" if len(resting) == 1 else f"rounds {report.list_of(resting)}"
        yield note(
            AUDIT,
            f"In {rounds} some sums or steps were not recomputed here. They rest on signed confirmations of"
            " verifiers.",
            remedy="if verifiers may collude: repeat with run --lab, which keeps their proofs, and use --key",
        )
    if known.first is None or chain.first is None or chain.first.claim.round >= 0:
        why = known.unknown or "no transcript contains its announcement"
        yield note(AUDIT, f"The first model was not checked: {why}.")
    if known.final is None:
        yield note(AUDIT, f"The model file was not checked: {known.unknown or 'it is missing'}.")
    if again.unread:
        claim = (
            f"{report.count_of(again.unread, 'proof')} of results could not be decrypted or recomputed here."
        )
        yield note(AUDIT, claim, remedy="give the keys of the verifiers (--key FILE) to check more")


def _sentence(recorded: Recorded, chain: links.ModelChain, known: Known, *, sound: bool, open_: bool) -> str:
    linked = [one.round for one in chain.rounds if one.link is not None]
    model = "" if known.final is None else f" in the run directory ({model_digest(known.final).hex()})"
    if not linked:
        verb = "is not" if not sound else "is not proved to be" if open_ else "is"
        what = f"{verb} the first model, which no round changed"
    else:
        between = set(range(linked[0], linked[-1])).difference(linked)
        void = f" but {report.list_of(map(str, sorted(between)))}" if between else ""
        rounds = f"rounds {linked[0]} to {linked[-1]}{void}" if len(linked) > 1 else f"round {linked[0]}"
        begin = "the first model" if known.first is not None else "a first model that was not checked"
        verb = "does not follow" if not sound else "is not proved to follow" if open_ else "follows"
        what = f"{verb} from {begin} and the certified sums of {rounds}"
    return f"The model{model} {what}, according to {report.count_of(_count(recorded), 'transcript')}."


def _count(recorded: Recorded) -> int:
    return sum(map(len, recorded.transcripts.values()))
