"""The chain of models of a verified run, from transcripts: what holds, what does not, and who is named."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import numpy as np
import pytest
from msgspec import structs

from securefl.base.arrays import F32
from securefl.base.crypto.keyfiles import write_identity
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import ConfigError
from securefl.base.ids import SERVER, PartyId
from securefl.lab.audit import chain
from securefl.lab.audit.chain import Known, VerifiedRun, audit_chain, check_verifiable, verify_run
from securefl.lab.audit.finding import Severity
from securefl.lab.audit.inputs import known_of
from securefl.lab.audit.kept_messages import read_kept
from securefl.lab.audit.links import LinkVerdict
from securefl.lab.audit.load import load
from securefl.lab.audit.run import audit
from securefl.lab.audit.verified import verification_json, verification_page
from securefl.protocol.messages.masking import Retry
from securefl.protocol.messages.rounds import BindingFreeze, Certificate, Reveals
from securefl.protocol.messages.verification import Attest, ChainedAnnounce, OpeningProof, RoundClaim
from securefl.protocol.wire.codec import decode, decode_struct, encode
from securefl.protocol.wire.envelope import peek
from securefl.protocol.wire.outbox import Outbox
from securefl.runtime.report.rundir import RunDirectory
from tests.simulation.lying import attesting, distinct, other_outcome, other_sums, verified
from tests.simulation.rosters import seeded_identities
from tests.simulation.test_verified_rounds import clusters, next_float, one_more, past_rounding
from tests.simulation.world import RUN, Op, World
from tests.unit.audit.runs import record
from tests.unit.audit.tampering import IDENTITIES, NAMES, invented, keep, received, retold

FIRST = np.zeros(16, dtype=np.float32)
MODES: dict[str, dict[str, str]] = {
    "two reclusterings": {"reclusterings": "2", "leakage__mode": '"report"'},
    "everybody": {"secure_sum__verify": '"all"'},
    "CrypTen": {"secure_sum__kind": '"crypten"', "rounds": "2"},
    "momentum and median": {
        "server_optimiser__momentum": "0.9",
        "aggregation__rule": '{type = "median"}',
    },
    "truncated weights": {"weighting__mode": '"truncate"', "weighting__cap": "5"},
    "open groups": {
        "size": "3",
        "secure_sum__colluders": "1",
        "groups__count": "2",
        "groups__mode": "open",
        "groups__warmup": "1",
        "groups__choice_epsilon": "8.0",
        "weighting__mode": "ignore",
    },
    "atoms": {"size": "6", "clustering__atoms": "3", "threshold": "4", "min_survivors": "4"},
}


def ran(
    out: Path,
    *,
    corrupt: Collection[PartyId] = (),
    lie: AbstractContextManager[None] | None = None,
    lab: bool = True,
    ops: Collection[Op] = (),
    settings: Mapping[str, str] = MappingProxyType({}),
) -> RunDirectory:
    """A verified run of twelve parties; ``corrupt`` ones attest whatever is claimed."""

    def prepare(world: World) -> None:
        for name in corrupt:
            world.nodes[name].seam = attesting

    with lie or nullcontext():
        return record(
            out,
            verified(**settings),
            length=16,
            train=distinct,
            lab=lab,
            ops=ops,
            prepare=prepare,
            choose=lambda party, _round: int(party[1:]) % 2,
        )


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """An honest run with its proofs. Not to be changed."""
    return ran(tmp_path_factory.mktemp("chain") / "run")


@pytest.fixture
def copied(recorded: RunDirectory, tmp_path: Path) -> RunDirectory:
    shutil.copytree(recorded.path, tmp_path / "run")
    return RunDirectory.open(tmp_path / "run")


def look(directory: RunDirectory, **known: Any) -> VerifiedRun:
    return verify_run(load(directory.path), Known(**{"first": FIRST, **known}))


def breaches(run: VerifiedRun) -> str:
    return "\n".join(one.claim for one in run.findings if one.severity is Severity.BREACH)


def only(directory: RunDirectory, *vantages: str) -> None:
    for path in directory.transcript_folder.glob("*.jsonl"):
        if path.stem not in vantages:
            path.unlink()


def final_of(directory: RunDirectory) -> F32:
    """What the run ended with."""
    (entry,) = load(directory.path).transcripts["server"][0].of_kind("model_final")
    record: Any = entry.fields["params"]
    return np.array(record["samples"], dtype=np.float32)


class TestWhatHolds:
    @pytest.mark.parametrize("mode", MODES)
    def test_each_round_is_confirmed_and_repeated(self, mode: str, tmp_path: Path) -> None:
        directory = ran(tmp_path / "run", settings=MODES[mode])
        final = final_of(directory)
        run = look(directory, first=np.zeros_like(final), final=final)
        assert [line.verdict for line in run.lines] == [LinkVerdict.CONFIRMED] * len(run.lines)
        assert {line.repeated for line in run.lines} == {"yes"}
        assert (run.proved, run.exit_code, run.findings) == (True, 0, ())
        assert "follows from the first model and the certified sums of rounds 0 to" in run.sentence

    def test_lines_say_how_many_signed_and_attest(self, recorded: RunDirectory) -> None:
        line = look(recorded).lines[1]
        assert (line.signatures, line.sums, line.step) == ("12/8", "6/6", "3/3")

    def test_without_proofs_all_rests_on_attests(self, tmp_path: Path) -> None:
        run = look(ran(tmp_path / "run", lab=False))
        assert run.proved
        assert {line.repeated for line in run.lines} == {"no"}
        assert "In rounds 0, 1, 2 some sums or steps were not recomputed here" in run.findings[0].claim

    def test_only_what_its_key_opens_is_repeated(
        self, recorded: RunDirectory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(chain, "_seeded_identities", lambda *_: {})
        run = look(recorded)
        assert {line.repeated for line in run.lines} == {"no"}
        assert any("could not be decrypted or recomputed here" in one.claim for one in run.findings)
        one = look(recorded, identities={NAMES[0]: IDENTITIES[NAMES[0]]})
        assert one.lines[0].repeated == "1 of 3 sums, the step"
        assert run.proved, "all rests on attests"

    def test_messages_that_come_in_parts_are_kept_without_the_frame_s_signature(self, tmp_path: Path) -> None:
        """The claim in an announcement has a signature of its own."""

        def small(world: World) -> None:
            world.server.outbox = Outbox(RUN, IDENTITIES[SERVER], InsecureSeededEntropy(3), 4096)

        directory = record(tmp_path / "run", verified(), length=16, train=distinct, lab=True, prepare=small)
        kept = read_kept(load(directory.path)).of(ChainedAnnounce)
        assert not any(one.signed for one in kept if one.place.round == 2)
        assert look(directory).proved
        received(directory, "p03", "ChainedAnnounce", 2, other_model, whole=False)
        assert "in round 2 is not authentic (it carries a result that the server" in breaches(look(directory))

    def test_anybody_s_transcript_has_the_quorums_of_all_rounds_but_the_last(
        self, copied: RunDirectory
    ) -> None:
        only(copied, "p03")
        run = look(copied)
        assert [line.verdict for line in run.lines] == ["confirmed", "confirmed", "not checked"]
        assert [line.signatures for line in run.lines] == ["12/8"] * 3
        assert (run.proved, breaches(run)) == (False, "")
        assert "is not proved to follow from" in run.sentence

    def test_no_transcript_alone_accuses_anybody_or_proves_the_end(
        self, recorded: RunDirectory, tmp_path: Path
    ) -> None:
        for name in NAMES:
            shutil.copytree(recorded.path, tmp_path / name)
            alone = RunDirectory.open(tmp_path / name)
            only(alone, name)
            run = look(alone, final=final_of(recorded))
            assert (breaches(run), run.proved, len(run.lines)) == ("", False, 3), name
            assert run.lines[2].verdict is LinkVerdict.OPEN, name

    def test_the_server_s_transcript_alone_proves_nothing(self, copied: RunDirectory) -> None:
        only(copied, "server")
        with pytest.raises(ConfigError, match="contain no announcement"):
            look(copied)
        assert "was not verified" in audit_chain(load(copied.path), Known(first=FIRST)).findings[0].claim

    def test_the_server_s_transcript_has_the_attests_of_the_last(self, copied: RunDirectory) -> None:
        only(copied, "p03", "server")
        assert look(copied).proved

    def test_void_rounds_are_named_with_the_reason(self, tmp_path: Path) -> None:
        lost = [Op("drop", name, "Attest", nth) for name in NAMES for nth in range(2)]
        momentum = {"rounds": "4", "server_optimiser__momentum": "0.5"}
        directory = ran(tmp_path / "run", ops=lost, settings=momentum)
        run = look(directory, final=final_of(directory))
        assert run.lines[0].verdict is LinkVerdict.VOID
        assert "0 members confirm the sum" in run.lines[0].why
        assert run.proved
        (replay,) = [one for one in audit(load(directory.path)).chapters if one.audit == "replay"]
        assert not [one for one in replay.findings if one.severity is Severity.BREACH]
        only(directory, *NAMES)
        assert look(directory).lines[0].verdict is LinkVerdict.VOID, "later rounds begin where it began"

    def test_parties_that_are_lost_change_nothing(self, tmp_path: Path) -> None:
        run = look(ran(tmp_path / "run", ops=[Op("crash", "p03", "MaskedInput")]))
        assert run.proved
        assert run.lines[0].signatures == "11/8"

    def test_a_sum_that_was_begun_again_is_repeated(self, tmp_path: Path) -> None:
        spoilt = [Op("spoil", "p03", "ShareBoxes")]
        six = {"size": "6", "threshold": "4", "min_survivors": "4"}
        directory = ran(tmp_path / "run", ops=spoilt, settings=six)
        assert any(one.place.attempt == 1 for one in read_kept(load(directory.path)).of(Retry))
        assert {line.repeated for line in look(directory).lines} == {"yes"}

    def test_it_is_a_chapter_of_the_audit(self, recorded: RunDirectory) -> None:
        chapter = audit_chain(load(recorded.path), Known(first=FIRST))
        assert chapter.findings[0].severity is Severity.HOLDS
        audits = [one.audit for one in audit(load(recorded.path)).chapters]
        assert audits.count("chain") == 1

    def test_the_page_has_a_line_for_each_round(self, recorded: RunDirectory) -> None:
        run = look(recorded)
        page = verification_page(run)
        assert page.count("| confirmed |") == 3
        assert run.sentence in page
        told = verification_json(run)
        assert (told["exit_code"], told["sentence"]) == (0, run.sentence)


class TestEnds:
    def test_one_bit_of_the_model_file(self, recorded: RunDirectory) -> None:
        run = look(recorded, final=next_float(final_of(recorded)))
        assert "is not the last one of the chain" in breaches(run)
        assert "does not follow from" in run.sentence
        assert run.exit_code == 1

    def test_another_first_model(self, recorded: RunDirectory) -> None:
        run = look(recorded, first=np.ones(16, dtype=np.float32))
        assert "does not start with the model that scenario and seed give" in breaches(run)

    def test_a_first_model_that_is_not_known_is_said(self, recorded: RunDirectory) -> None:
        run = look(recorded, first=None, unknown="the data are not here")
        assert "The first model was not checked: the data are not here." in [f.claim for f in run.findings]
        assert (run.proved, breaches(run)) == (False, "")


class TestForgedTranscripts:
    """Their hash chains hold: whoever writes a transcript can write anything, but sign for nobody."""

    def test_a_claim(self, copied: RunDirectory) -> None:
        received(copied, "p03", "ChainedAnnounce", 2, other_model, signed=False)
        run = look(copied)
        assert "its ChainedAnnounce message from server in round 2 is not authentic" in breaches(run)
        assert run.exit_code == 1

    def test_an_attest(self, copied: RunDirectory) -> None:
        received(copied, "server", "Attest", 2, lambda _said: Attest(root=bytes(32)), signed=False)
        assert "The transcript of server is forged or damaged: its Attest message from" in breaches(
            look(copied)
        )

    def test_an_entry_that_says_something_else_than_its_frame(self, copied: RunDirectory) -> None:
        def later(kind: str, fields: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
            if fields.get("message") == "Certificate":
                fields["place"] = [fields["place"][0] + 1, *fields["place"][1:]]
            return [(kind, fields)]

        retold(copied, "p03", later)
        assert "does not match its transcript entry" in breaches(look(copied))

    def test_attests_that_are_left_out(self, copied: RunDirectory) -> None:
        def without(kind: str, fields: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
            return [] if fields.get("message") == "Attest" else [(kind, fields)]

        retold(copied, "server", without)
        run = look(copied)
        assert "The server recorded that the result of round 2 was confirmed" in breaches(run)
        assert run.lines[2].verdict is LinkVerdict.OPEN

    def test_an_announcement_that_nobody_signed(self, copied: RunDirectory) -> None:
        invented(copied, "p03", "ChainedAnnounce", 2, other_model)
        run = look(copied)
        found = (
            "The transcript of p03 is forged or damaged: its ChainedAnnounce message from server in round 2"
        )
        assert (
            breaches(run) == f"{found} is not authentic (it carries a result that the server did not sign)."
        )
        assert [line.verdict for line in run.lines] == ["confirmed"] * 3

    @pytest.mark.parametrize("kind", ["ChainedAnnounce", "Reveals", "BindingFreeze", "Certificate"])
    def test_what_nobody_signed_accuses_nobody(self, kind: str, copied: RunDirectory) -> None:
        """Hellos of an announcement, and all of the others, are not covered by the signature inside."""
        changed: dict[str, Any] = {
            "ChainedAnnounce": fewer_hellos,
            "Reveals": lambda said: Reveals(reveals=(said.reveals[1], *said.reveals[1:])),
            "BindingFreeze": other_sums_fixed,
            "Certificate": fewer,
        }
        invented(copied, "p00", kind, 1, changed[kind])
        run = look(copied)
        assert breaches(run) == ""
        assert run.proved

    @pytest.mark.parametrize("kind", ["Reveals", "BindingFreeze", "Certificate"])
    def test_nor_does_it_where_nobody_else_has_left_a_transcript(
        self, kind: str, copied: RunDirectory
    ) -> None:
        changed: dict[str, Any] = {
            "Reveals": lambda said: Reveals(reveals=(said.reveals[1], *said.reveals[1:])),
            "BindingFreeze": other_sums_fixed,
            "Certificate": fewer,
        }
        only(copied, "p00")
        invented(copied, "p00", kind, 0, changed[kind], added=False)
        run = look(copied)
        assert breaches(run) == ""
        assert run.lines[0].verdict is LinkVerdict.OPEN
        assert run.exit_code == 2

    @pytest.mark.parametrize("field", ["sealed", "vectors", "receipts"])
    def test_proofs_that_nobody_signed(self, field: str, copied: RunDirectory) -> None:
        def other(said: OpeningProof) -> OpeningProof:
            value = getattr(said, field)
            return structs.replace(said, **{field: bytes(len(value)) if field != "receipts" else value[1:]})

        name = verifiers_of(copied, 1)[0]
        invented(copied, name, "OpeningProof", 1, other)
        run = look(copied)
        assert run.proved
        (told,) = [one for one in run.findings if one.severity is Severity.WARNING]
        assert f"The transcript of {name} has a wrong proof" in told.claim
        assert "without the server's signature, of the sum" in told.claim

    def test_rounds_that_the_run_does_not_have(self, copied: RunDirectory) -> None:
        """Who goes up to them round by round never ends."""
        received(copied, "p03", "ChainedAnnounce", 2, far_off, added=True)
        run = look(copied)
        assert f"The server signed a message of round {2**62}, but the run has 3 rounds." in breaches(run)
        assert [line.verdict for line in run.lines] == ["confirmed"] * 3

    def test_a_key_that_is_not_on_the_roster_is_refused(self, copied: RunDirectory) -> None:
        """Nothing opens with it, as if the server had sealed something else."""
        name = verifiers_of(copied, 1)[0]
        other = seeded_identities(NAMES, 2)[0][name]
        with pytest.raises(ConfigError, match=f"is not the key that the roster has for {name}"):
            look(copied, identities={name: other})

    def test_a_frame_that_is_gone_or_altered_is_refused(self, copied: RunDirectory) -> None:
        frame = next(copied.frame_folder.iterdir())
        content = frame.read_bytes()
        frame.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        with pytest.raises(ConfigError, match="was altered"):
            look(copied)
        frame.unlink()
        with pytest.raises(ConfigError, match="restore the file"):
            look(copied)


def far_off(said: ChainedAnnounce) -> ChainedAnnounce:
    return structs.replace(said, claim=structs.replace(said.claim, round=2**62))


def other_sums_fixed(said: BindingFreeze) -> BindingFreeze:
    return structs.replace(said, commitments=(bytes(32), *said.commitments[1:]))


def verifiers_of(directory: RunDirectory, round_: int) -> list[PartyId]:
    """Who was sent an opening in a round."""
    recorded = load(directory.path)
    return [
        PartyId(path.stem)
        for path in sorted(directory.transcript_folder.glob("p*.jsonl"))
        for entry, _ in recorded.messages(path.stem, "received", "OpeningProof")
        if cast("Any", entry.fields["place"])[0] == round_
    ]


def other_model(said: ChainedAnnounce) -> ChainedAnnounce:
    return structs.replace(said, claim=structs.replace(said.claim, model=bytes(32)))


class TestServersThatLie:
    @pytest.mark.parametrize("kept", [0, -1])
    def test_too_few_attests(self, kept: int, copied: RunDirectory) -> None:
        for name in NAMES:
            received(
                copied, name, "ChainedAnnounce", 2, lambda s: structs.replace(s, attests=s.attests[:kept])
            )
        run = look(copied)
        assert run.lines[1].verdict is LinkVerdict.WRONG
        assert (
            "The result of round 1 is invalid: the server claims a result without enough confirmations"
            in breaches(run)
        )

    def test_attests_of_who_has_none_to_give(self, copied: RunDirectory) -> None:
        for name in NAMES:
            received(
                copied,
                name,
                "ChainedAnnounce",
                2,
                lambda s: structs.replace(s, attests=(*s.attests[:-1], s.attests[0])),
            )
        assert "which is not a verifier" in breaches(look(copied))

    def test_a_claim_without_the_signature_over_it(self, copied: RunDirectory) -> None:
        received(
            copied,
            "p03",
            "ChainedAnnounce",
            2,
            lambda s: structs.replace(s, signature=bytes(64)),
            inner=False,
        )
        assert (
            "The announcement of round 2 is invalid: in it, the server sends a result without a"
            in breaches(look(copied))
        )

    def test_too_few_signatures(self, copied: RunDirectory) -> None:
        for name in NAMES:
            received(copied, name, "Certificate", 1, fewer)
        run = look(copied)
        assert "The certificate of round 1 is invalid: it has only 7 of 8 needed endorsements." in breaches(
            run
        )
        assert run.lines[1].verdict is LinkVerdict.WRONG

    def test_a_model_that_is_not_what_the_sums_make(self, tmp_path: Path) -> None:
        """Everybody attests it: signatures are whole, and only who repeats the step sees it."""
        lie = other_outcome(params=past_rounding)
        directory = ran(tmp_path / "run", corrupt=NAMES, lie=lie)
        run = look(directory, final=final_of(directory))
        assert [line.verdict for line in run.lines] == [LinkVerdict.WRONG] * 3
        assert [(line.sums, line.step) for line in run.lines] == [("6/6", "3/3")] * 3
        assert "claims another model than the sums of round 0 give" in breaches(run)
        assert "does not follow from" in run.sentence

    def test_another_rounding_is_a_warning(self, tmp_path: Path) -> None:
        """Every verifier of the run rounded as the server did; only the machine of the audit does not."""
        directory = ran(tmp_path / "run", corrupt=NAMES, lie=other_outcome(params=next_float))
        run = look(directory, final=final_of(directory))
        assert [line.verdict for line in run.lines] == [LinkVerdict.CONFIRMED] * 3
        assert breaches(run) == ""
        warned = [one.claim for one in run.findings if one.severity is Severity.WARNING]
        assert sum("has different last bits here" in one for one in warned) == 3

    def test_a_sum_that_its_cluster_attests(self, tmp_path: Path) -> None:
        corrupt = clusters(verified())[0][:2]
        run = look(ran(tmp_path / "run", corrupt=corrupt, lie=other_sums(one_more)))
        assert run.lines[0].verdict is LinkVerdict.WRONG
        assert run.lines[0].repeated == "2 of 3 sums, the step"
        assert "The sum of cluster 0.0 of round 0" in breaches(run)

    def test_a_lie_that_nobody_attests_is_named_and_void(self, tmp_path: Path) -> None:
        run = look(ran(tmp_path / "run", lie=other_outcome(params=past_rounding)))
        assert {line.verdict for line in run.lines} == {LinkVerdict.VOID}
        assert "claims another model than the sums of round 0 give" in breaches(run)
        assert "is the first model" in run.sentence
        assert run.exit_code == 1


def fewer(said: Certificate) -> Certificate:
    return Certificate(endorsements=said.endorsements[:7])


class TestEquivocation:
    def test_two_announcements_and_two_outcomes(self, copied: RunDirectory) -> None:
        received(copied, "p03", "ChainedAnnounce", 2, other_model)
        found = breaches(look(copied))
        assert "The server sent 2 different announcements of round 2." in found
        assert "The server signed 2 different results of round 1." in found
        assert "names another model than the parties signed" in found

    def test_a_claim_that_one_party_tells_of_without_a_signature(self, copied: RunDirectory) -> None:
        """It may have made it up: nobody is accused, and the chain stands by its signatures."""

        def invented(kind: str, fields: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
            if fields.get("message") == "OpeningProof" and fields["place"][0] == 1:
                claim = decode_struct(RoundClaim, (copied.frame_folder / fields["claim"]).read_bytes(), "p03")
                del fields["kept"]
                fields["claim"] = keep(copied, encode(structs.replace(claim, model=bytes(32))))
            return [(kind, fields)]

        verifiers = {
            path.stem
            for path in copied.transcript_folder.glob("p*.jsonl")
            for entry, _ in load(copied.path).messages(path.stem, "received", "OpeningProof")
            if cast("Any", entry.fields["place"])[0] == 1
        }
        retold(copied, min(verifiers), invented)
        run = look(copied)
        (told,) = [one for one in run.findings if one.severity is Severity.WARNING]
        assert f"2 different results of round 1, according to {min(verifiers)}. Its signature" in told.claim
        assert run.proved

    def test_the_version_that_a_quorum_signed_counts(self, copied: RunDirectory) -> None:
        received(copied, "p00", "ChainedAnnounce", 2, fewer_hellos)
        run = look(copied)
        assert "The server sent 2 different announcements of round 2." in breaches(run)
        assert [line.verdict for line in run.lines] == ["confirmed"] * 3
        assert "follows from" in run.sentence
        assert run.exit_code == 1

    def test_two_roots_of_one_signer(self, copied: RunDirectory) -> None:
        received(copied, "server", "Attest", 1, lambda _said: Attest(root=bytes(32)), added=True)
        found = breaches(look(copied))
        assert "signed confirmations of 2 results of round 1." in found
        assert found.startswith("p")

    def test_two_statements_of_one_signer(self, copied: RunDirectory, tmp_path: Path) -> None:
        other = load(ran(tmp_path / "other", ops=[Op("crash", "p03", "MaskedInput")]).path)
        frames: dict[int, bytes] = {}
        for entry, _ in other.messages("p00", "received", "Certificate"):
            place: Any = entry.fields["place"]
            assert other.frames is not None
            frames[place[0]] = (other.frames / str(entry.fields["kept"])).read_bytes()
        second = certificate(frames[0])
        received(copied, "p03", "Certificate", 0, lambda _said: second, added=True)
        found = breaches(look(copied))
        assert "Round 0 has 2 different certificates" in found
        assert "signed two conflicting statements" in found

    def test_a_party_that_follows_another_chain(self, copied: RunDirectory) -> None:
        def elsewhere(kind: str, fields: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
            return [(kind, {**fields, "root": "00" * 32} if kind == "link_followed" else fields)]

        retold(copied, "p03", elsewhere)
        assert "p03 continued from a result of round 0 that is not in the chain." in breaches(look(copied))


def fewer_hellos(said: ChainedAnnounce) -> ChainedAnnounce:
    return structs.replace(said, hellos=said.hellos[1:])


def certificate(frame: bytes) -> Certificate:
    message = decode(bytes(peek(frame, "test").body), "test")
    assert isinstance(message, Certificate)
    return message


def without_frames(kind: str, fields: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(kind, {name: value for name, value in fields.items() if name not in {"kept", "claim"}})]


def test_a_scenario_that_nobody_signed_is_refused(copied: RunDirectory) -> None:
    """It accuses nobody: the directory may be incomplete, and the server has signed nothing of the kind."""
    text = copied.scenario_file.read_text()
    assert "learning_rate = 1.0" in text
    copied.scenario_file.write_text(text.replace("learning_rate = 1.0", "learning_rate = 2.0"))
    with pytest.raises(ConfigError, match="is not the configuration that all parties of the run signed"):
        look(copied)
    with pytest.raises(ConfigError, match="scenario, roster, frozen parameters or own rules"):
        audit(load(copied.path), None, Known(first=FIRST))


def test_a_model_of_one_s_own_that_cannot_be_made_is_refused(
    recorded: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parties signed what of it is not trained, and that is not known here."""
    run = load(recorded.path)
    monkeypatch.setattr(type(run.scenario.model), "is_own", property(lambda _: True))
    with pytest.raises(ConfigError, match="cannot be made here: no such module"):
        verify_run(run, Known(unknown="no such module"))
    assert verify_run(run, Known(first=FIRST)).proved


def test_keys_are_read_and_what_is_not_known_is_said(recorded: RunDirectory, tmp_path: Path) -> None:
    write_identity(tmp_path / "p00.key", IDENTITIES[NAMES[0]])
    run = load(recorded.path)
    known = known_of(run, recorded.path, keys=[tmp_path / "p00.key"])
    assert known.identities == {NAMES[0]: IDENTITIES[NAMES[0]]}
    assert (known.unknown, known.final) == ("", None)
    data = structs.replace(run.scenario.data, set="npz:/nowhere.npz")
    elsewhere = structs.replace(run.scenario, data=data)
    assert "nowhere" in known_of(replace(run, scenario=elsewhere), recorded.path).unknown


class TestRefused:
    def test_rounds_that_were_not_verified(self, tmp_path: Path) -> None:
        directory = record(tmp_path / "run", verified(secure_sum__verify='"off"'), length=16)
        with pytest.raises(ConfigError, match="parties did not verify the server's results"):
            check_verifiable(load(directory.path))
        assert not directory.frame_folder.exists(), "nothing is kept where nothing is verified"

    def test_transcripts_without_frames(self, copied: RunDirectory) -> None:
        only(copied, "p03")
        retold(copied, "p03", without_frames, without=["roster"])
        with pytest.raises(ConfigError, match="contain no signed messages"):
            look(copied)
        told = audit_chain(load(copied.path), Known(first=FIRST)).findings
        assert "was not verified" in told[0].claim

    def test_another_roster_counts_where_it_is_given(self, recorded: RunDirectory) -> None:
        _, other = seeded_identities(NAMES, 2)
        with pytest.raises(
            ConfigError, match=r"no announcement of a round with the server's signature: .* authentic"
        ):
            look(recorded, roster=other)
