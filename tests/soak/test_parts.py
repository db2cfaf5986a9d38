"""Parts of soaks that need no federation: slopes and what they decide, rows, claims, the page."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.soak.federation import Rows
from tests.soak.fitting import FAILS, HOLDS, UNDECIDED, Slope, block_medians, slope_of
from tests.soak.page import STANDING, claims, lost_otherwise, page
from tests.soak.records import SERVER, Sample, Soak, Soaked, read_soaked, write_soaked

ROUNDS = 1000
MEGABYTES = 2
OF_SERVER = "own memory of the server"
OF_PARTY = "own memory of each party"
TIME = "a round takes as long"
KILLS = "only rounds that were open"


@dataclass
class Made:
    """A soak as it would be if processes were as simple as this."""

    server: Callable[[int], float] = lambda _round: 0.0
    """Bytes by which its memory has grown by that round."""
    party: Callable[[int], float] = lambda _round: 0.0
    """The same, of p01."""
    shared: Callable[[int], float] = lambda _round: 0.0
    """The same, of all, in pages that they share."""
    slower: float = 0.0
    """Part of its time that the last round takes longer than the first."""
    noise: float = 0.0
    """Part of its time by which a round takes longer or shorter by chance."""
    transcripts: int = MEGABYTES * 2**20
    journal: int = 1000
    kill_every: int = 0
    void: tuple[int, ...] = ()
    lacks: int = 0
    """Rounds that are missing at the end."""
    code: int = 0

    def soaked(self) -> Soaked:
        rng, rounds = random.Random(1), ROUNDS - self.lacks
        killed = tuple(range(self.kill_every, ROUNDS, self.kill_every)) if self.kill_every else ()
        seconds = tuple(
            0.1 * (1 + self.slower * n / ROUNDS) * (1 + self.noise * rng.uniform(-1, 1))
            for n in range(rounds)
        )
        samples = tuple(
            self._sample(name, done, killed, seconds)
            for done in range(2, rounds + 1, 2)
            for name in (SERVER, "p00", "p01")
        )
        return Soaked(
            Soak(ROUNDS, self.kill_every, 2, 3, MEGABYTES),
            samples,
            seconds,
            tuple(range(rounds)),
            self.void,
            killed,
            {SERVER: (*(-9 for _ in killed), self.code), "p00": (0,), "p01": (0,)},
            0.1,
            tuple(1.0 for _ in range(rounds // 2)),
            "a machine",
        )

    def _sample(self, name: str, done: int, killed: tuple[int, ...], seconds: tuple[float, ...]) -> Sample:
        grown = self.server(done) if name == SERVER else self.party(done) if name == "p01" else 0.0
        # As a heap grows: by pages, and with some that come and go.
        own = 180_000_000 + int(grown) // 4096 * 4096 + 4096 * (done * 7 % 3)
        starts = [0, *(at for at in killed if at < done)] if name == SERVER else [0]
        return Sample(
            name=name,
            start=len(starts) - 1,
            round=done,
            since=done - starts[-1],
            rss=own + 100_000_000 + int(self.shared(done)),
            own=own,
            cpu=round(sum(seconds[starts[-1] : done]) / 2, 2),
            handles=12,
            threads=3,
            files={"transcripts": self.transcripts, "journal": self.journal, "metrics": 1300 * done},
        )

    def verdict(self, what: str) -> str:
        (found,) = (claim.verdict for claim in claims(self.soaked()) if claim.what.startswith(what))
        return found

    def broken(self) -> set[str]:
        return {claim.what for claim in claims(self.soaked()) if claim.verdict != HOLDS}


class TestClaims:
    def test_of_a_soak_in_which_nothing_grows_all_hold(self) -> None:
        assert Made().broken() == set()
        assert Made(kill_every=50, void=(50, 100, 950)).broken() == set()

    @pytest.mark.parametrize("kill_every", [0, 50])
    def test_two_kilobytes_a_round_are_noticed_at_the_server_and_at_one_of_the_parties(
        self, kill_every: int
    ) -> None:
        def grows(done: int) -> float:
            return 2_000.0 * done

        assert Made(server=grows, kill_every=kill_every).verdict(OF_SERVER) == FAILS
        assert Made(party=grows, kill_every=kill_every).verdict(OF_PARTY) == FAILS
        assert Made(server=grows, kill_every=kill_every).verdict(OF_PARTY) == HOLDS

    def test_half_a_kilobyte_a_round_is_within_the_bound(self) -> None:
        assert Made(server=lambda done: 500.0 * done).broken() == set()

    def test_what_all_processes_of_a_machine_share_does_not_count(self) -> None:
        assert Made(shared=lambda done: 2_000.0 * done).broken() == set()

    def test_what_a_process_grows_by_as_it_warms_up_does_not_count(self) -> None:
        assert Made(server=lambda done: 50_000.0 * min(done, 200)).verdict(OF_SERVER) == HOLDS

    def test_a_leap_at_the_end_leaves_it_undecided(self) -> None:
        """The median of all slopes does not see it."""
        made = Made(server=lambda done: 2e6 * (done > 950))
        assert made.verdict(OF_SERVER) == UNDECIDED

    def test_a_few_samples_decide_nothing(self) -> None:
        assert Made(lacks=ROUNDS - 20).verdict(OF_SERVER) == UNDECIDED
        assert Made(lacks=ROUNDS - 20).verdict(TIME) == UNDECIDED

    @pytest.mark.parametrize("kill_every", [0, 50])
    def test_a_drift_is_noticed_in_time_and_computation(self, kill_every: int) -> None:
        made = Made(slower=0.3, noise=0.2, kill_every=kill_every)
        assert made.verdict(TIME) == FAILS
        assert made.verdict("so does its computation at the server") == FAILS
        assert made.verdict("and at a party") == FAILS

    def test_rounds_that_take_longer_and_shorter_by_chance_do_not_drift(self) -> None:
        assert Made(noise=0.1).verdict(TIME) == HOLDS

    def test_where_chance_is_as_large_as_a_drift_it_is_not_decided(self) -> None:
        assert Made(noise=3.0).verdict(TIME) == UNDECIDED

    @pytest.mark.parametrize("size", [0, MEGABYTES * 2**20 + 1])
    def test_transcripts_that_are_too_long_or_not_there_are_noticed(self, size: int) -> None:
        assert Made(transcripts=size).verdict("transcripts") == FAILS

    @pytest.mark.parametrize("size", [0, STANDING + 1])
    def test_so_is_a_journal(self, size: int) -> None:
        assert Made(journal=size).verdict("journal") == FAILS

    @pytest.mark.parametrize("made", [Made(lacks=1), Made(code=5)])
    def test_so_are_a_round_that_is_missing_and_an_end_that_is_none(self, made: Made) -> None:
        assert made.verdict("all rounds are done") == FAILS

    @pytest.mark.parametrize("void", [(100, 101), (7,)])
    def test_so_is_a_second_round_that_a_kill_costs_and_one_without_a_kill(
        self, void: tuple[int, ...]
    ) -> None:
        """However many kills have cost none."""
        assert Made(kill_every=50, void=void).verdict(KILLS) == FAILS

    def test_so_is_a_kill_that_did_not_happen(self) -> None:
        made = Made(kill_every=50).soaked()
        less = Soaked(**{name: getattr(made, name) for name in made.__struct_fields__} | {"killed": (50,)})
        assert FAILS in {claim.verdict for claim in claims(less) if claim.what.startswith(KILLS)}


def test_rounds_that_no_kill_explains() -> None:
    assert lost_otherwise((), (50, 100)) == []
    assert lost_otherwise((50, 100), (50, 100)) == []
    assert lost_otherwise((50, 51, 7), (50, 100)) == [7, 51]


def test_a_slope_is_that_of_most_points() -> None:
    points = [(float(at), 3.0 * at + (1e6 if at == 7 else 0.0)) for at in range(20)]
    slope = slope_of(points)
    assert slope is not None
    assert slope.value == pytest.approx(3.0)
    assert slope.whole == pytest.approx(3.0)
    assert slope.low <= 3.0 <= slope.high
    assert slope.times(2.0) == Slope(slope.value * 2, slope.low * 2, slope.high * 2, slope.whole * 2)
    assert slope_of(points[:2]) is None


@pytest.mark.parametrize(
    ("slope", "verdict"),
    [
        (Slope(1.0, 0.5, 1.5, 1.0), HOLDS),
        (Slope(1.0, 0.5, 2.0, 1.0), UNDECIDED),
        (Slope(1.0, 0.5, 1.5, 2.0), UNDECIDED),
        (Slope(3.0, 1.9, 4.0, 3.0), UNDECIDED),
        (Slope(3.0, 2.0, 4.0, 3.0), FAILS),
    ],
)
def test_a_bound_holds_where_interval_and_ends_are_below_it(slope: Slope, verdict: str) -> None:
    assert slope.verdict(2.0) == verdict


def test_blocks_leave_out_the_first_rounds_and_end_with_the_last() -> None:
    blocks = block_medians(((float(at), float(at)) for at in range(101)), 100)
    assert len(blocks) == 16
    assert blocks[0] == (22.0, 22.0)
    assert blocks[-1] == (97.5, 97.5), "100 rounds have ended in the last block, and begin none"


class TestRows:
    def test_rows_are_counted_as_they_come(self, tmp_path: Path) -> None:
        path = tmp_path / "metrics.jsonl"
        rows = Rows(path)
        assert rows.look() == 0
        path.write_bytes(b'{"round": 0}\n{"rou')
        assert (rows.look(), rows.look()) == (1, 1)
        with path.open("ab") as file:
            file.write(b'nd": 1}\n')
        assert rows.look() == 2

    @pytest.mark.parametrize("more", [1, 2, 100])
    def test_a_row_that_a_kill_cut_off_is_written_anew(self, tmp_path: Path, more: int) -> None:
        """And the new one may be shorter than what was left of the former."""
        path = tmp_path / "metrics.jsonl"
        rows = Rows(path)
        before = "".join(f'{{"round": {number}}}\n' for number in range(20))
        path.write_text(before + '{"round": 20, "seconds": 0.1234567')
        assert rows.look() == 20
        with path.open("r+") as file:
            file.truncate(len(before))
        with path.open("a") as file:
            file.write("".join(f'{{"round": {number}}}\n' for number in range(20, 20 + more)))
        assert rows.look() == 20 + more

    def test_a_file_in_its_place_is_counted_from_its_beginning(self, tmp_path: Path) -> None:
        path, other = tmp_path / "metrics.jsonl", tmp_path / "other"
        rows = Rows(path)
        path.write_text("one\ntwo\nthree\n")
        assert rows.look() == 3
        other.write_text("a row that is longer than all of those\n")
        other.replace(path)
        assert rows.look() == 1


def test_a_soak_is_read_as_it_was_written(tmp_path: Path) -> None:
    path, made = tmp_path / "soak.json", Made(kill_every=50, void=(50,)).soaked()
    assert read_soaked(path) is None
    write_soaked(path, made)
    assert read_soaked(path) == made


def test_the_page_says_what_does_not_hold_and_by_how_much() -> None:
    text = page([Made().soaked(), Made(server=lambda done: 2_000.0 * done).soaked()], "make soak")
    first, second = text.split("## 1,000 rounds")[1:]
    assert FAILS not in first
    assert second.count(f"| {FAILS} |") == 1
    assert re.search(r"own memory of the server grows by less than 1 kB a round \| (199|200)\d \(", second)
    assert "| `metrics.jsonl` | 1,300 bytes a round |" in first
    assert "| `server.journal`, `NAME.journal` | 1,000 bytes at most |" in first
