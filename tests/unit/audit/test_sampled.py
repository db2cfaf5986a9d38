"""Audits of honest and of lying servers, on both sides of the number of sampled coordinates."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from securefl.base.ids import SERVER
from securefl.lab.audit.finding import Severity
from securefl.lab.audit.load import load, load_truth
from securefl.lab.audit.recorded import Recorded
from securefl.lab.audit.run import audit
from securefl.lab.audit.sampled import common_places, places_of, values_at
from securefl.lab.audit.truth import GroundTruth
from securefl.runtime.transcript.chain import Entry
from securefl.runtime.transcript.samples import SAMPLES, sample_positions, vector_record
from securefl.scenario.scenario import Scenario
from tests.recorded.masks import judge_masks
from tests.seen import patch_seen
from tests.simulation.world import RUN, Op, scenario
from tests.unit.audit.runs import record

LENGTHS = (10, SAMPLES - 2, SAMPLES - 1, SAMPLES, SAMPLES + 1, 5000)
METRIC = {
    "model__type": '"weights"',
    "evaluation__samples": "20",
    "evaluation__repeats": '"accept"',
    "evaluation__metrics": '[{name="loss", kind="mean", upper=8, better="lower"}]',
}
TWO_WORDS = 2


def small(*, metric: bool, **more: str) -> Scenario:
    return scenario(
        4, size="4", rounds="2", threshold="3", min_survivors="3", **(METRIC if metric else {}), **more
    )


def claims(recorded: Recorded, truth: GroundTruth | None = None) -> Iterator[tuple[Severity, str]]:
    for one in (*audit(recorded, truth).findings, *judge_masks(recorded, truth)):
        yield one.severity, one.claim


def check_honest(recorded: Recorded, truth: GroundTruth | None = None) -> None:
    found = list(claims(recorded, truth))
    assert [claim for severity, claim in found if severity is Severity.BREACH] == []
    assert any("The models of 2 rounds follow from the opened sums" in claim for _, claim in found)


@pytest.mark.parametrize("metric", [False, True])
@pytest.mark.parametrize("length", LENGTHS)
def test_an_honest_server_is_not_accused(length: int, metric: bool, tmp_path: Path) -> None:
    """Parameters and metric words together on both sides of the number of samples."""
    record(tmp_path / "run", small(metric=metric), length=length)
    check_honest(load(tmp_path / "run"))


@pytest.mark.parametrize("length", LENGTHS)
def test_nor_is_one_whose_vectors_are_kept(length: int, tmp_path: Path) -> None:
    """With ground truth, and two clusterings of which only the first has metric words."""
    made = small(metric=True, reclusterings="2", leakage__mode='"report"')
    record(tmp_path / "run", made, length=length, lab=True)
    recorded = load(tmp_path / "run")
    check_honest(recorded)
    check_honest(recorded, load_truth(tmp_path / "run", recorded))


@pytest.mark.parametrize("length", [SAMPLES - 1, 5000])
@pytest.mark.parametrize("message", ["Reveals", "KeyList", "BoxList"])
def test_nor_is_one_that_was_started_again(message: str, length: int, tmp_path: Path) -> None:
    """Killed in a round, which the next server skips."""
    directory = record(
        tmp_path / "run", small(metric=True), length=length, ops=[Op("restart", SERVER, message, 1)]
    )
    # Two servers have written rows here, as one process that knew of no other.
    directory.metrics_file.unlink()
    recorded = load(tmp_path / "run")
    assert len(list(recorded.of(SERVER, "round_skipped"))) == 1
    check_honest(recorded)


def test_nor_is_one_of_a_large_model(tmp_path: Path) -> None:
    record(tmp_path / "run", small(metric=True), length=1_200_000)
    recorded = load(tmp_path / "run")
    check_honest(recorded)
    assert any(f"on {SAMPLES:,} sampled coordinates" in claim for _, claim in claims(recorded))


@pytest.mark.parametrize("missing", ["model_final", "sum_opened"])
def test_vectors_of_which_some_are_gone_are_compared_on_samples(missing: str, tmp_path: Path) -> None:
    record(tmp_path / "run", small(metric=True), length=5000, lab=True)
    recorded = load(tmp_path / "run")
    (entry, _), *_ = recorded.of(SERVER, missing)
    fields: Any = entry.fields
    gone = fields["params"] if missing == "model_final" else fields["opened"]["ring"]
    truth = load_truth(tmp_path / "run", recorded)
    (truth.folder / f"{gone['digest']}.npy").unlink()
    check_honest(recorded, truth)


@pytest.mark.parametrize("length", [SAMPLES - 1, 5000])
def test_a_lie_about_the_model_is_still_found(length: int, tmp_path: Path) -> None:
    record(tmp_path / "run", small(metric=True), length=length)
    recorded = load(tmp_path / "run")

    def lie(entry: Entry) -> Entry:
        if entry.kind != "model_final":
            return entry
        params: Any = dict(cast("Any", entry.fields["params"]))
        params["samples"] = [
            float(np.nextafter(np.float32(params["samples"][0]), np.float32(9))),
            *params["samples"][1:],
        ]
        return replace(entry, fields={**entry.fields, "params": params})

    found = list(claims(retold(recorded, lie)))
    (breach,) = [claim for severity, claim in found if severity is Severity.BREACH]
    assert "The model after round 1 does not follow from its sums" in breach


def retold(recorded: Recorded, change: Any) -> Recorded:
    (server,) = recorded.transcripts[SERVER]
    server = replace(server, entries=tuple(map(change, server.entries)))
    return replace(recorded, transcripts={**recorded.transcripts, SERVER: (server,)})


def sampled_as_formerly(recorded: Recorded, truth: GroundTruth) -> Recorded:
    """The run as former versions recorded it: all samples of a vector at places of its whole length."""

    def older(value: Any) -> Any:
        if isinstance(value, dict) and "head" in value:
            whole = truth.vector(value["digest"])
            assert whole is not None
            return vector_record(whole, recorded.run)
        if isinstance(value, dict):
            return {name: older(one) for name, one in value.items()}
        return value

    def change(entry: Entry) -> Entry:
        return replace(entry, fields=older(dict(entry.fields)))

    transcripts = {
        vantage: tuple(replace(one, entries=tuple(map(change, one.entries))) for one in some)
        for vantage, some in recorded.transcripts.items()
    }
    return replace(recorded, transcripts=transcripts)


@pytest.mark.parametrize("length", [SAMPLES - 1, 5000])
def test_runs_of_former_versions_are_compared_where_samples_meet(length: int, tmp_path: Path) -> None:
    record(tmp_path / "run", small(metric=True), length=length, lab=True)
    recorded = load(tmp_path / "run")
    former = sampled_as_formerly(recorded, load_truth(tmp_path / "run", recorded))
    check_honest(former)
    places = len(np.intersect1d(sample_positions(RUN, length), sample_positions(RUN, length + TWO_WORDS)))
    assert any(f"on {places:,} sampled coordinates" in claim for _, claim in claims(former))


def test_samples_that_do_not_meet_tell_nothing(tmp_path: Path) -> None:
    """A note, and neither a breach nor a claim that models follow."""
    record(tmp_path / "run", small(metric=True), length=5000)
    nowhere = np.empty(0, dtype=np.int64)
    with ExitStack() as patched:
        audits = ("securefl.lab.audit.replay_rounds", "securefl.lab.audit.estimates")
        for module in map(importlib.import_module, (*audits, "tests.recorded.masks")):
            patched.enter_context(patch_seen(module, "common_places", lambda *_: nowhere))
        told_of = list(claims(load(tmp_path / "run")))
    assert Severity.BREACH not in {severity for severity, _ in told_of}
    told = " ".join(claim for _, claim in told_of)
    assert "Models were not recomputed: models and sums have no sampled coordinate in common" in told
    assert "Masked inputs are sampled at no common coordinate" in told
    assert "follow from the opened sums" not in told


@pytest.mark.parametrize("head", [None, 10, SAMPLES, SAMPLES + 1, 6000])
def test_values_are_those_at_their_places(head: int | None) -> None:
    vector = np.arange(6002, dtype=np.uint32)
    entry: Any = vector_record(vector, RUN, head=head)
    assert values_at(entry, RUN, places_of(entry, RUN)).tolist() == places_of(entry, RUN).tolist()
    assert len(entry["samples"]) == len(places_of(entry, RUN))
    if head is not None:
        model: Any = vector_record(vector[:head], RUN)
        common = common_places([entry, model], RUN, head)
        assert common.tolist() == sample_positions(RUN, head).tolist()
