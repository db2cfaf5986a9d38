from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from securefl.base.ids import SERVER
from securefl.lab.audit.finding import Finding, Severity
from securefl.lab.audit.load import load, load_truth
from securefl.lab.audit.recorded import Recorded
from securefl.lab.audit.replay import audit_replay
from securefl.lab.audit.truth import GroundTruth
from securefl.runtime.transcript.chain import Entry
from tests.recorded.restepping import restepped
from tests.simulation.world import scenario
from tests.unit.audit.runs import record


def findings(recorded: Recorded, truth: GroundTruth | None = None) -> dict[Severity, list[str]]:
    found: dict[Severity, list[str]] = {}
    for one in audit_replay(recorded, truth).findings:
        found.setdefault(one.severity, []).append(one.claim)
    return found


def changed(recorded: Recorded, kind: str, change: Callable[[Any], Any]) -> Recorded:
    """The run as if the server had written down something else, in the last entry of this kind."""
    (server,) = recorded.transcripts[SERVER]
    last = max(e.n for e in server.entries if e.kind == kind)
    entries = tuple(replace(e, fields=change(dict(e.fields))) if e.n == last else e for e in server.entries)
    return replace(
        recorded, transcripts={**recorded.transcripts, SERVER: (replace(server, entries=entries),)}
    )


def test_models_follow_from_sums_with_and_without_ground_truth(plain: Path) -> None:
    recorded = load(plain)
    without = findings(recorded)
    # All of 64 coordinates are sampled.
    claims = " ".join(without[Severity.HOLDS])
    assert "models of 2 rounds follow from the opened sums, bit for bit on all 64" in claims
    assert "clusters of 2 rounds follow" in claims
    assert set(without) == {Severity.HOLDS, Severity.NOTE}
    truth = findings(recorded, load_truth(plain, recorded))
    assert any("encoded updates of their survivors exactly: all 4 that" in c for c in truth[Severity.HOLDS])
    assert set(truth) == {Severity.HOLDS, Severity.NOTE}


def test_sums_with_words_of_parties_are_those_of_their_updates(tmp_path: Path) -> None:
    """The sums of quantile clipping have one word behind the update."""
    made = scenario(
        4,
        size="4",
        rounds="2",
        privacy__unit="party",
        privacy__multiplier="0.5",
        privacy__delta="0.05",
        privacy__clip="{initial = 2.0, rate = 1.0, noise = 2.0}",
        encoding__scale_bits="7",
        weighting__mode='"ignore"',
    )
    record(tmp_path / "run", made, lab=True)
    recorded = load(tmp_path / "run")
    found = findings(recorded, load_truth(tmp_path / "run", recorded))
    assert set(found) == {Severity.HOLDS, Severity.NOTE}
    assert any("Sums that equal the encoded updates of their survivors" in c for c in found[Severity.HOLDS])


def test_sampled_coordinates_are_enough_for_coordinate_wise_rules(tmp_path: Path) -> None:
    made = scenario(
        4,
        size="2",
        rounds="2",
        reclusterings="2",
        clustering__new_work="true",
        aggregation__rule='{type="median"}',
        server_optimiser__momentum="0.9",
        weighting__mode='"truncate"',
        weighting__cap="5",
    )
    record(tmp_path / "run", made, length=4100)
    found = findings(load(tmp_path / "run"))
    assert set(found) == {Severity.HOLDS, Severity.NOTE}
    claims = " ".join(found[Severity.HOLDS])
    assert "models of 2 rounds follow from the opened sums, bit for bit on 4,096 sampled" in claims


def test_weights_follow_from_the_counts_of_those_who_rest_as_well(tmp_path: Path) -> None:
    made = scenario(
        6,
        size="2",
        rounds="2",
        participation__count="4",
        weighting__mode='"truncate"',
        weighting__alpha="0.2",
    )
    record(tmp_path / "run", made, length=64)
    recorded = load(tmp_path / "run")
    found = findings(recorded)
    assert set(found) == {Severity.HOLDS, Severity.NOTE}
    assert "models of 2 rounds follow" in " ".join(found[Severity.HOLDS])
    drawn = [entry.fields for entry, _ in recorded.of(SERVER, "clusters_drawn")]
    assert [len(fields["counts"]) for fields in drawn] == [6, 6]  # type: ignore[arg-type]
    assert [len(fields["resting"]) for fields in drawn] == [2, 2]  # type: ignore[arg-type]


def test_a_rule_on_distances_needs_whole_vectors(tmp_path: Path) -> None:
    made = scenario(6, size="2", aggregation__rule='{type="geometric-median"}')
    record(tmp_path / "run", made, length=4100, lab=True)
    recorded = load(tmp_path / "run")
    assert "the rule needs whole vectors" in " ".join(findings(recorded)[Severity.NOTE])
    whole = findings(recorded, load_truth(tmp_path / "run", recorded))
    assert any("bit for bit on all 4,100" in claim for claim in whole[Severity.HOLDS])


def test_a_model_that_does_not_follow_is_a_breach(plain: Path) -> None:
    def forged(fields: Any) -> Any:
        samples = list(fields["params"]["samples"])
        samples[3] = float(np.nextafter(np.float32(samples[3]), np.float32(1)))
        return {**fields, "params": {**fields["params"], "samples": samples}}

    (claim,) = findings(changed(load(plain), "model_final", forged))[Severity.BREACH]
    assert "The model after round 1 does not follow from its sums" in claim


def test_sums_that_were_open_as_the_server_was_killed_are_in_no_model(plain: Path) -> None:
    """The next server ends the round without them; without its word for that the model is wrong."""
    recorded = load(plain)
    (server,) = recorded.transcripts[SERVER]
    begun = next(
        e
        for e in server.entries
        if e.fields.get("message") == "ModelAnnounce" and cast("Any", e.fields["place"])[0] == 1
    )
    (final,) = server.of_kind("model_final")
    killed = replace(server, entries=tuple(e for e in server.entries if e.n < final.n), complete=False)
    stepped: Any = {"round": 1, "kept": [], "rejected": [], "update_norm": None}
    entries = (
        Entry(1, "round_skipped", {"round": 1, "reason": "the server was started again in it"}),
        Entry(2, "model_stepped", stepped),
        replace(final, n=3, fields={**final.fields, "params": begun.fields["params"]}),
    )

    def audited(*kept: Entry) -> dict[Severity, list[str]]:
        again = replace(server, entries=kept)
        return findings(replace(recorded, transcripts={**recorded.transcripts, SERVER: (killed, again)}))

    found = audited(*entries)
    assert Severity.BREACH not in found
    assert any("models of 2 rounds follow" in claim for claim in found[Severity.HOLDS])
    assert any("does not follow" in claim for claim in audited(*entries[1:])[Severity.BREACH])


def test_clusters_that_the_seed_does_not_give_are_a_breach(plain: Path) -> None:
    def swapped(fields: Any) -> Any:
        (first, second) = fields["clusters"][0]
        return {**fields, "clusters": [[[*first[:-1], second[0]], [first[-1], *second[1:]]]]}

    breaches = findings(changed(load(plain), "clusters_drawn", swapped))[Severity.BREACH]
    assert "do not follow from the certified seed" in breaches[0]


def test_other_choices_of_the_rule_are_a_breach(plain: Path) -> None:
    recorded = changed(load(plain), "model_stepped", lambda fields: {**fields, "kept": fields["kept"][:1]})
    (claim,) = findings(recorded)[Severity.BREACH]
    assert "In round 1 the rule keeps other sums" in claim


def test_altered_ground_truth_is_named(plain: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(plain, tmp_path / "copy"))
    path = copy / "lab" / "uploads" / "p01-0-0.npy"
    np.save(path, np.load(path) + 1)
    recorded = load(copy)
    breaches: list[Finding] = [
        f
        for f in audit_replay(recorded, load_truth(copy, recorded)).findings
        if f.severity is Severity.BREACH
    ]
    assert "is not the sum of the updates of its survivors" in breaches[0].claim
    repeated = restepped(recorded, load_truth(copy, recorded))
    assert any("p01 did not do what its machine does" in one.claim for one in repeated)
