"""*views* and *unmasking*: honest runs are clean, and each deviation is named with its entries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from securefl.base.ids import EVERYONE, SERVER, PartyId
from securefl.lab.audit.finding import Severity
from securefl.lab.audit.load import load
from securefl.lab.audit.openings import opened_versions
from securefl.lab.audit.recorded import Recorded
from securefl.lab.audit.replay import audit_replay
from securefl.lab.audit.unmasking import audit_unmasking
from securefl.lab.audit.views import audit_views
from securefl.protocol.kernel.effects import Send
from securefl.protocol.kernel.machine import Event
from securefl.protocol.messages.rounds import Freeze, ModelAnnounce
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.round.shared.reports import RunEffect
from securefl.runtime.transcript.chain import Entry
from tests.recorded.masks import judge_masks
from tests.simulation.world import World, scenario
from tests.unit.audit.runs import record

Effects = tuple[RunEffect, ...]


def test_an_honest_run_has_one_view(plain: Path) -> None:
    chapter = audit_views(load(plain))
    assert [f.severity for f in chapter.findings] == [Severity.HOLDS, Severity.WARNING]
    assert "in round 1 p04 dropped out before submitting" in chapter.findings[1].claim
    assert "Transcripts of p04 have it as sent: it was lost, late or dropped" in chapter.findings[1].claim
    assert "by 6 party transcripts" in chapter.findings[0].claim
    assert "2 rounds" in chapter.findings[0].claim


def test_an_honest_run_releases_one_kind_once(plain: Path) -> None:
    chapter = audit_unmasking(load(plain))
    assert [f.severity for f in chapter.findings] == [Severity.HOLDS]
    assert "11 releases of shares, for 4 sums" in chapter.findings[0].claim


def test_colluders_with_the_threshold_of_shares_open_their_mates(plain: Path) -> None:
    """No release is needed, and no sum: two of two shares of p's seed and key, and its masked input."""
    recorded = load(plain)
    first = opened_versions(recorded)[0].openings[0].survivors
    for vantage in (recorded, replace(recorded, transcripts=without_server(recorded))):
        found = audit_unmasking(replace(vantage, colluders=frozenset(first[:2]))).findings
        assert [f.severity for f in found] == [Severity.HOLDS, Severity.WARNING]
        assert first[2] in found[1].parties
        assert "Up to 2 of them are in one sum, and 2 shares" in found[1].claim
        assert found[1].evidence
    assert len(audit_unmasking(replace(recorded, colluders=frozenset(first[:1]))).findings) == 1


def without_server(recorded: Recorded) -> dict[str, Any]:
    return {name: kept for name, kept in recorded.transcripts.items() if name != SERVER}


def test_missing_transcripts_are_said(plain: Path) -> None:
    whole = load(plain)
    kept = {k: v for k, v in whole.transcripts.items() if k not in {"p01", "p02", SERVER}}
    fewer = replace(whole, transcripts=kept)
    found = audit_views(fewer).findings
    assert found[0].severity is Severity.HOLDS
    assert "rounds, by 4 party transcripts." in found[0].claim
    assert found[-1].severity is Severity.WARNING
    assert "3 transcripts that summary.json lists (p01, p02, server)" in found[-1].claim
    found = audit_views(replace(fewer, summary={})).findings
    assert found[-1].severity is Severity.NOTE
    assert "2 transcripts missing (p01, p02)" in found[-1].claim


def test_what_is_said_twice_word_for_word_is_no_second_message(plain: Path) -> None:
    """Keys, masked inputs and releases, at both ends, after all else."""
    recorded = load(plain)
    again = {
        vantage: tuple(
            replace(
                one, entries=one.entries + tuple(e for e in one.entries if e.kind in {"sent", "received"})
            )
            for one in some
        )
        for vantage, some in recorded.transcripts.items()
    }
    twice = replace(recorded, transcripts=again)
    for found in (audit_unmasking(twice).findings, judge_masks(twice, None)):
        assert [f.severity for f in found] == [Severity.HOLDS]


def telling(
    victim: PartyId, change: Callable[[AnyMessage], AnyMessage], kind: type
) -> Callable[[World], None]:
    """The server sends ``change(message)`` to ``victim`` instead of a message of this kind."""

    def prepare(world: World) -> None:
        def seam(_event: Event[AnyMessage], effects: Effects) -> Effects:
            changed: list[RunEffect] = []
            for effect in effects:
                if not (isinstance(effect, Send) and isinstance(effect.message, kind)):
                    changed.append(effect)
                    continue
                for to in world.parties if effect.to == EVERYONE else [effect.to]:
                    message = change(effect.message) if to == victim else effect.message
                    changed.append(replace(effect, to=PartyId(to), message=message))
            return tuple(changed)

        world.server.seam = seam

    return prepare


def test_another_model_for_one_party_is_seen(tmp_path: Path) -> None:
    def other(message: AnyMessage) -> AnyMessage:
        assert isinstance(message, ModelAnnounce)
        return msgspec.structs.replace(message, params=bytes(len(message.params) - 4) + b"\0\0\x80\x3f")

    # The first model is announced before the server's first step, hence by no seam.
    made = scenario(6, rounds="2", deadlines__training="9")
    record(tmp_path / "run", made, prepare=telling(PartyId("p02"), other, ModelAnnounce))
    found = audit_views(load(tmp_path / "run")).findings
    worst = max(found, key=lambda f: f.severity)
    assert worst.severity is Severity.BREACH
    assert worst.parties == ("p02",)
    assert "2 versions of the model" in worst.claim
    assert "None of them released" in worst.claim
    assert {e.source for e in worst.evidence} >= {"p02"}
    # The model that most parties saw is what the server's arithmetic is replayed from.
    assert max(f.severity for f in audit_replay(load(tmp_path / "run"), None).findings) < Severity.BREACH


def test_two_survivor_sets_that_unmask_a_member(tmp_path: Path) -> None:
    """Half of a cluster of four gives seed shares of a member, half key shares: its update is open."""
    made = scenario(4, size="4", threshold="2", min_survivors="2")

    def prepare(world: World) -> None:
        def seam(_event: Event[AnyMessage], effects: Effects) -> Effects:
            return tuple(
                replace(
                    effect, message=msgspec.structs.replace(effect.message, survivors=("p01", "p02", "p03"))
                )
                if isinstance(effect, Send)
                and isinstance(effect.message, Freeze)
                and effect.to in {"p02", "p03"}
                else effect
                for effect in effects
            )

        world.server.seam = seam

    record(tmp_path / "run", made, prepare=prepare)
    recorded = load(tmp_path / "run")
    found = [f for f in audit_unmasking(recorded).findings if f.severity is Severity.BREACH]
    assert [f.parties for f in found] == [("p00",), ("p00",)]
    assert "2 of the seed, 2 of the key" in found[0].claim
    assert "The update is revealed" in found[0].claim
    assert "asked for both kinds" in found[1].claim
    split = next(f for f in audit_views(recorded).findings if f.severity is Severity.BREACH)
    assert "p02, p03 released shares." in split.claim


def altered(recorded: Recorded, vantage: str, more: Callable[[list[Entry]], list[Entry]]) -> Recorded:
    """The run as if this vantage point had seen other entries."""
    (transcript,) = recorded.transcripts[vantage]
    changed = replace(transcript, entries=tuple(more(list(transcript.entries))))
    return replace(recorded, transcripts={**recorded.transcripts, vantage: (changed,)})


def again(kind: str, message: str | None = None, **other: Any) -> Callable[[list[Entry]], list[Entry]]:
    """The first such entry once more, with other fields."""

    def more(entries: list[Entry]) -> list[Entry]:
        first = next(e for e in entries if e.kind == kind and message in {None, e.fields.get("message")})
        return [*entries, replace(first, n=9999, fields={**first.fields, **other})]

    return more


def breaches(recorded: Recorded) -> list[str]:
    return [f.claim for f in audit_unmasking(recorded).findings if f.severity is Severity.BREACH]


def test_a_server_that_was_started_again_may_open_the_same_sum_but_no_other(plain: Path) -> None:
    """It asks for the same shares, if it was killed before it had written down what they open."""
    recorded = load(plain)
    (first,) = recorded.transcripts[SERVER]
    entry = next(e for e in first.entries if e.kind == "sum_opened")
    opened: Any = entry.fields["opened"]

    def after(**other: Any) -> list[str]:
        fields = {**entry.fields, "opened": {**opened, **other}}
        path = first.path.with_stem("server.2")
        second = replace(first, path=path, entries=(replace(entry, fields=fields),))
        return breaches(replace(recorded, transcripts={**recorded.transcripts, SERVER: (first, second)}))

    assert after() == []
    (fewer,) = after(survivors=opened["survivors"][1:])
    assert "was opened 2 times" in fewer
    (other,) = after(ring={**opened["ring"], "digest": "00" * 32})
    assert "was opened 2 times" in other


def test_releasing_submitting_and_opening_again_are_seen(plain: Path) -> None:
    recorded = load(plain)
    assert breaches(altered(recorded, "p01", again("shares_released"))) == [
        "p01 released shares 2 times in round 0."
    ]
    (again_submitted,) = breaches(altered(recorded, "p01", again("sent", "MaskedInput", vector={})))
    assert "p01 sent another masked input in round 0 after it released shares." in again_submitted
    (opened,) = breaches(altered(recorded, SERVER, again("sum_opened")))
    assert "was opened 2 times" in opened
    (keys,) = breaches(altered(recorded, "p03", again("sent", "KeyAdvert", place=[1, 0, 0, 0])))
    assert "p03 advertised the same keys" in keys
    (received,) = breaches(altered(recorded, SERVER, again("received", "Release", sha256="")))
    assert "sent shares to the server 2 times in round 0" in received
