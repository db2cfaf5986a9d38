"""Statement, waiting, stacking, optimiser, upload: the parts of a round that are plain functions."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from securefl.base.arrays import F64, I64
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import UsageError
from securefl.base.ids import PartyId
from securefl.methods.clustering.assignment import Assignment
from securefl.methods.encoding.ring import from_ring, to_ring
from securefl.protocol.messages.rounds import Hello
from securefl.protocol.round.party.upload import Seams, UpdateId, make_upload
from securefl.protocol.round.server.stacking import ClusterSum, aggregate_round, stack_sums
from securefl.protocol.round.shared.statement import (
    announced_digest,
    lists_statement,
    mask_binding,
    model_digest,
    release_context,
    round_statement,
    slots_statement,
)
from tests.simulation.world import RUN, scenario
from tests.unit.round.samples import plan_of

A, B, C = (PartyId(name) for name in ("p00", "p01", "p02"))
PLAN = plan_of(scenario(3))
SEED = bytes(32)
HELLO = Hello(
    samples=10,
    model_digest=bytes(32),
    config_digest=bytes(32),
    commitment=bytes(32),
    limits=PLAN.published_limits,
)


class TestStatement:
    ASSIGNMENT = Assignment((A, B, C), (((A, B, C),),))
    OTHER = Assignment((A, B, C), (((A, B), (C,)),))

    def test_everything_in_a_statement_counts(self) -> None:
        base = (RUN, 0, b"m", b"c", b"h", self.ASSIGNMENT, (A, B))
        others = [
            ("other", 0, b"m", b"c", b"h", self.ASSIGNMENT, (A, B)),
            (RUN, 1, b"m", b"c", b"h", self.ASSIGNMENT, (A, B)),
            (RUN, 0, b"x", b"c", b"h", self.ASSIGNMENT, (A, B)),
            (RUN, 0, b"m", b"x", b"h", self.ASSIGNMENT, (A, B)),
            (RUN, 0, b"m", b"c", b"x", self.ASSIGNMENT, (A, B)),
            (RUN, 0, b"m", b"c", b"h", self.OTHER, (A, B)),
            (RUN, 0, b"m", b"c", b"h", self.ASSIGNMENT, (A,)),
            (RUN, 0, b"m", b"c", b"h", self.ASSIGNMENT, (A, C)),
        ]
        digests = {round_statement(*fields) for fields in [base, *others]}  # type: ignore[arg-type]
        assert len(digests) == len(others) + 1
        assert round_statement(*base) == round_statement(*base[:-1], (B, A))

    def test_everything_in_a_binding_counts(self) -> None:
        base = mask_binding(self.ASSIGNMENT, b"h", b"m", b"c")
        others = {
            mask_binding(self.OTHER, b"h", b"m", b"c"),
            mask_binding(self.ASSIGNMENT, b"x", b"m", b"c"),
            mask_binding(self.ASSIGNMENT, b"h", b"x", b"c"),
            mask_binding(self.ASSIGNMENT, b"h", b"m", b"x"),
        }
        assert len(others | {base}) == 5

    @pytest.mark.parametrize(
        "change", [{"samples": 11}, {"commitment": b"x" * 32}, {"limits": None}], ids=str
    )
    def test_every_field_of_a_hello_is_announced(self, change: dict[str, object]) -> None:
        if "limits" in change:
            change = {"limits": msgspec.structs.replace(HELLO.limits, k_anonymity=3)}
        other = msgspec.structs.replace(HELLO, **change)
        assert announced_digest({A: HELLO, B: HELLO}) != announced_digest({A: HELLO, B: other})
        assert announced_digest({A: HELLO, B: HELLO}) == announced_digest({B: HELLO, A: HELLO})
        assert announced_digest({A: HELLO}) != announced_digest({B: HELLO})

    def test_lists_and_releases(self) -> None:
        assert lists_statement([(0, 1, b"x"), (1, 0, b"y")]) == lists_statement([(1, 0, b"y"), (0, 1, b"x")])
        assert lists_statement([(0, 1, b"x")]) != lists_statement([(1, 0, b"x")])
        assert release_context(b"s", A) != release_context(b"s", B)
        assert release_context(b"s", A) != release_context(b"t", A)
        told = {slots_statement(b"s", (1, 2)), slots_statement(b"s", (1, 3)), slots_statement(b"t", (1, 2))}
        assert len(told) == 3

    def test_the_model_digest_is_of_the_bytes_sent(self) -> None:
        params = np.array([1, 2], dtype=np.float32)
        assert model_digest(params) == model_digest(params.astype(">f4"))
        assert model_digest(params) != model_digest(np.array([1, np.nextafter(np.float32(2), 3)], np.float32))


class TestStacking:
    @staticmethod
    def _sum(reclustering: int, cluster: int, names: tuple[PartyId, ...], values: list[float]) -> ClusterSum:
        words = to_ring(np.array([round(v * 2**16) for v in values], dtype=np.int64), 32)
        return ClusterSum(reclustering, cluster, (A, B, C), names, words)

    def test_means_weights_and_counts(self) -> None:
        sums = [self._sum(0, 0, (A, B), [3, -6]), self._sum(0, 1, (C,), [1, 1])]
        stack = stack_sums(PLAN, sums, {A: 1.0, B: 0.5, C: 0.25})
        np.testing.assert_array_equal(stack.means, [[2, -4], [4, 4]])
        assert stack.weights.tolist() == [1.5, 0.25]
        assert stack.survivors.tolist() == [2, 1]

    def test_a_reclustering_without_sums_does_not_count(self) -> None:
        plan = plan_of(scenario(6, reclusterings="2"))
        sums = [self._sum(1, 0, (A, B), [2, 4])]
        result = aggregate_round(plan, sums, {A: 1.0, B: 1.0}, SEED, None)
        assert result.update is not None
        np.testing.assert_array_equal(result.update, [1, 2])
        assert result.kept == ((1, 0),)

    def test_no_sums_no_update(self) -> None:
        result = aggregate_round(PLAN, [], {}, SEED, None)
        assert result.update is None
        assert result.kept == result.rejected == ()

    def test_a_rule_with_too_few_rows_gives_no_update(self) -> None:
        plan = plan_of(scenario(9, aggregation__rule='{ type = "trimmed-mean", trim = 1 }'))
        sums = [self._sum(0, 0, (A, B), [2, 4]), self._sum(0, 1, (A, B), [2, 4])]
        assert aggregate_round(plan, sums, {A: 1.0, B: 1.0}, SEED, None).update is None

    def test_pre_aggregation_is_drawn_from_the_seed_of_the_round(self) -> None:
        plan = plan_of(
            scenario(
                18,
                aggregation__rule='{ type = "median" }',
                aggregation__pre_aggregation='[{ type = "bucketing", size = 2 }]',
            )
        )
        sums = [self._sum(0, j, (A, B), [2.0 * 4**j]) for j in range(6)]
        weights = {A: 1.0, B: 1.0}
        results = [aggregate_round(plan, sums, weights, bytes([k] * 32), None).update for k in range(9)]
        again = aggregate_round(plan, sums, weights, bytes(32), None).update
        assert results[0] is not None
        assert results[0] == again
        assert len({float(result[0]) for result in results if result is not None}) > 1

    def test_rules_with_a_memory_start_from_the_past(self) -> None:
        plan = plan_of(scenario(3, aggregation__rule='{ type = "centred-clipping", radius = 1 }'))
        sums = [self._sum(0, 0, (A, B), [200])]
        weights = {A: 1.0, B: 1.0}
        for reference, expected in ((None, 1.0), (np.array([50.0]), 51.0), (np.array([99.5]), 100.0)):
            got = aggregate_round(plan, sums, weights, SEED, reference).update
            assert got is not None
            assert got.tolist() == [expected]


class TestUpload:
    OCCASION = UpdateId(0, 0, np.zeros(4, np.float32), ())
    UPDATE: F64 = np.array([1, -2, 0.5, 300])

    def upload(self, weight: float = 1.0, seams: Seams | None = None, seed: int = 1) -> list[int]:
        made = make_upload(
            PLAN, self.OCCASION, self.UPDATE, weight, InsecureSeededEntropy(seed), seams or Seams()
        )
        return [int(v) for v in from_ring(made.ring)]

    def test_grid_weight_and_saturation(self) -> None:
        assert self.upload() == [1 << 16, -2 << 16, 1 << 15, 256 << 16]
        assert self.upload(0.5) == [1 << 15, -1 << 16, 1 << 14, 150 << 16]
        made = make_upload(PLAN, self.OCCASION, self.UPDATE, 1.0, InsecureSeededEntropy(1))
        assert made.saturated == 1
        assert repr(made) == "Upload(4 words)"

    def test_the_seams_are_before_the_clip_and_after_the_encoding(self) -> None:
        def double(update: F64, occasion: UpdateId) -> F64:
            assert occasion is self.OCCASION
            return 2 * update

        def wrap(values: I64, _occasion: UpdateId) -> I64:
            return values + (1 << 32)

        assert self.upload(seams=Seams(update=double))[0] == 2 << 16
        assert self.upload(seams=Seams(encoded=wrap)) == self.upload()
        clipped = replace(PLAN, scenario=scenario(3, encoding__clip="1.0"))
        made = make_upload(
            clipped, self.OCCASION, self.UPDATE, 1.0, InsecureSeededEntropy(1), Seams(update=double)
        )
        assert np.linalg.norm(from_ring(made.ring) / 2**16) < 1.001

    def test_rounding_is_drawn_from_the_updates_own_entropy(self) -> None:
        third = self.UPDATE / 3
        entropy = InsecureSeededEntropy(4).child("update", 0)
        draws = [make_upload(PLAN, self.OCCASION, third, 1.0, entropy).ring.tolist() for _ in range(3)]
        assert draws[0] == draws[1] == draws[2]

    def test_another_length_is_our_own_bug(self) -> None:
        with pytest.raises(UsageError):
            make_upload(PLAN, self.OCCASION, np.zeros(5), 1.0, InsecureSeededEntropy(1))
