"""The cases of metrics over several runs and of repeated statistics: no counts of single sites follow."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from securefl.base.arrays import F64
from securefl.base.ids import PartyId, RunId
from securefl.methods.encoding.ring import from_ring
from securefl.methods.feasibility.limits import check
from securefl.protocol.kernel.effects import Enter
from securefl.protocol.round.party.upload import Seams
from securefl.protocol.round.shared.metric_atoms import metric_atoms
from securefl.protocol.round.shared.plan import RunPlan
from securefl.protocol.round.shared.reports import ClaimConfirmed, ClustersDrawn, RoundDone, SatOut, SumOpened
from securefl.runtime.account.file import AccountFile, begin_account
from securefl.runtime.account.head import AccountHead
from securefl.runtime.account.run_account import OpenAccount, OwnData
from securefl.training.data.shards import Shard
from tests.simulation import world as worlds
from tests.simulation.rosters import seeded_identities
from tests.simulation.world import Op, World, scenario

NAMES = tuple(PartyId(f"p{k:02}") for k in range(12))
SHARD = Shard(np.zeros((4, 2), np.float32), np.zeros(4, np.int64), 2, (2,))
SAMPLES = "evaluation.samples=1000"
TABLE = "evaluation.metrics=[{name='table',kind='confusion'}]"


def samples_of(name: PartyId) -> float:
    """Truth: another number of samples at each site."""
    return 20.0 + 5 * int(name[1:])


def says(name: PartyId) -> Seams:
    """A site's evaluation: its samples, all of one class, where it may give any."""

    def said(words: F64, _at: object) -> F64:
        counted = np.zeros_like(words)
        if words[0]:
            counted[:2] = samples_of(name)
        return counted

    return Seams(metrics=said)


class Run(World):
    """One run of parties whose accounts outlive it.

    Args:
        id_: of the run.
        accounts: folder of the parties' accounts.
        names: of its parties.
        ops: faults.
        metrics: TOML assignments of ``[evaluation]``.
        sets: of the scenario.
    """

    def __init__(
        self,
        id_: str,
        accounts: Path,
        names: tuple[PartyId, ...] = NAMES,
        ops: tuple[Op, ...] = (),
        metrics: tuple[str, ...] = (TABLE,),
        **sets: str,
    ) -> None:
        own = {"size": "4", "rounds": "3", "model__type": "'weights'", "clustering__atoms": "2"} | sets
        evaluation = dict(one.split("=", 1) for one in (SAMPLES, *metrics))
        config = scenario(len(names), **own, **{k.replace(".", "__"): v for k, v in evaluation.items()})
        self._stack = ExitStack()
        self._stack.enter_context(patch.object(worlds, "RUN", RunId(id_)))
        plan = RunPlan(RunId(id_), config, check(config), seeded_identities(names, 1)[1], 1)
        self.books = {name: self._book(plan, name, accounts) for name in names}
        super().__init__(
            config,
            length=1,
            train=lambda _n, _r, params: params,
            initial=np.full(1, len(id_) + sum(map(ord, id_)), np.float32),
            seams={name: says(name) for name in names},
            ops=ops,
            given=lambda _plan, name: self.books[name].given,
            kept=lambda name: self.books[name].kept,
            parties=names,
        )
        self.observers.append(self._enter)

    def _book(self, plan: RunPlan, name: PartyId, accounts: Path) -> OpenAccount:
        path, owner = accounts / f"{name}.account", plan.roster.parties[name]
        if not path.exists():
            begin_account(path, owner)
        file = self._stack.enter_context(AccountFile(path, owner, AccountHead(path.with_suffix(".tip"))))
        return OpenAccount(file, plan, OwnData.of(SHARD))

    def _enter(self, node: Any, _was: object, _event: object, _is: object, effects: Any) -> None:
        for effect in effects:
            if isinstance(effect, Enter) and node.name in self.books:
                self.books[node.name].enter(effect.entry)

    def close(self) -> None:
        """End all processes."""
        self._stack.close()


@contextmanager
def played(*args: Any, **sets: Any) -> Iterator[Run]:
    run = Run(*args, **sets)
    try:
        run.run()
        yield run
    finally:
        run.close()


def equations(run: Run) -> list[tuple[frozenset[PartyId], float]]:
    """What the server learns of the samples: who is counted in each opened sum, and how many samples.

    Who gives metrics is public: it follows from the atom seed. That it is true is checked against the sums.
    """
    atoms = {one.round: metric_atoms(run.plan, one.atom_seed) or () for one in run.reports(ClustersDrawn)}
    metrics = run.plan.metrics
    assert metrics is not None
    found = []
    for opened in run.reports(SumOpened):
        inside = {party for atom in atoms[opened.round] for party in atom}
        counted = frozenset(opened.opened.survivors) & inside
        samples = metrics.read(from_ring(opened.opened.ring[run.plan.length :]))[0]
        assert samples == sum(map(samples_of, counted))
        found.append((counted, float(samples)))
    return found


def determined(rows: list[tuple[frozenset[PartyId], float]]) -> Mapping[PartyId, float]:
    """Sites whose samples follow from the sums, and what follows."""
    some = [(counted, total) for counted, total in rows if counted]
    matrix = np.array([[float(name in counted) for name in NAMES] for counted, _ in some])
    inverse = np.linalg.pinv(matrix)
    known, guessed = inverse @ matrix, inverse @ np.array([total for _, total in some])
    return {name: guessed[k] for k, name in enumerate(NAMES) if abs(known[k, k] - 1) < 1e-9}


OTHER_METRICS = (
    (TABLE,),
    ("evaluation.metrics=[{name='renamed',kind='confusion'}]",),
    ("evaluation.metrics=[{name='scores',kind='histogram',bins=10}]",),
    ("evaluation.metrics=[{name='scores',kind='histogram',bins=12,upper=2}]",),
    ("evaluation.metrics=[{name='loss',kind='mean'}]",),
)


def test_no_counts_of_a_site_follow_from_several_runs(tmp_path: Path) -> None:
    """With renamed metrics, other edges and other metrics, and sites that drop out on the way."""
    rows = []
    for number, metrics in enumerate(OTHER_METRICS):
        away = tuple(Op("drop", NAMES[(5 * number + k) % 12], "MaskedInput", k) for k in range(2))
        with played(f"run-{number}", tmp_path, ops=away, metrics=metrics) as run:
            rows += equations(run)
            kept = {run.books[name].kept[0] for name in NAMES}
    assert len(rows) > 20
    assert sorted(party for atom in kept for party in atom) == list(NAMES)
    for counted, _ in rows:
        assert counted == frozenset().union(*(atom for atom in kept if counted.issuperset(atom)))
    assert determined(rows) == {}


def test_without_accounts_all_counts_follow(tmp_path: Path) -> None:
    """The attack works where parties forget their atoms: the test above can fail."""
    rows = []
    for number in range(5):
        folder = tmp_path / str(number)
        folder.mkdir()
        with played(f"run-{number}", folder) as run:
            rows += equations(run)
    found = determined(rows)
    assert len(found) == 12
    assert all(abs(found[name] - samples_of(name)) < 1e-6 for name in NAMES)


def test_six_rounds_of_statistics_open_all(tmp_path: Path) -> None:
    """Statistics always have the same model; over atoms a further round adds nothing, and is not refused."""
    for number in range(6):
        column = f"evaluation.metrics=[{{name='age',kind='column',bins={5 + number}}}]"
        model = {"model__type": "'statistics'", "rounds": "1"}
        with played(f"statistics-{number}", tmp_path, metrics=(column,), **model) as run:
            assert len(run.reports(SumOpened)) == 3
            assert not [one for name in NAMES for one in run.reports(SatOut, name)]
            rows = equations(run)
            assert sorted(party for counted, _ in rows for party in counted) == list(NAMES)


@pytest.mark.parametrize("atoms", [2, 4])
def test_statistics_before_training_share_its_atoms(tmp_path: Path, atoms: int) -> None:
    """After statistics with one atom a cluster, a training with smaller atoms goes on without metrics."""
    columns = ("evaluation.metrics=[{name='age',kind='column'}]",)
    model = {"model__type": "'statistics'", "rounds": "1", "clustering__atoms": str(atoms)}
    with played("statistics", tmp_path, metrics=columns, **model) as run:
        assert {party for counted, _ in equations(run) for party in counted} == set(NAMES)
        assert {len(run.books[name].kept[0]) for name in NAMES} == {atoms}
    with played("training", tmp_path) as run:
        counted = {party for counted, _ in equations(run) for party in counted}
        assert counted == (set(NAMES) if atoms == 2 else set())
        assert all(one.opened for one in run.reports(RoundDone))


def test_in_verified_rounds_with_a_colluder_in_each_atom(tmp_path: Path) -> None:
    """Hellos with kept atoms are in what verifiers sign; one statement is one too few to be believed."""
    names = (*NAMES, *(PartyId(f"p{k}") for k in range(12, 18)))
    sums = {"threshold": "4", "min_survivors": "4", "size": "6", "clustering__atoms": "3", "server": "active"}
    secure = {"secure_sum__colluders": "1", "secure_sum__colluders_per_cluster": "1"}
    kept = []
    for id_ in ("first", "second"):
        with played(id_, tmp_path, names, secure_sum__verify="'committee'", **sums, **secure) as run:
            assert len(run.reports(ClaimConfirmed)) == 3
            assert {party for counted, _ in equations(run) for party in counted} == set(names)
            kept.append([run.books[name].kept[0] for name in names])
    assert kept[0] == kept[1]
    assert {len(atom) for atom in kept[0]} == {3}


def test_a_newcomer_does_not_close_the_statistics_of_others(tmp_path: Path) -> None:
    """Its zeros are in a sum that the account knows without it; zeros tell nothing."""
    model = {"model__type": "'statistics'", "rounds": "1"}
    columns = ("evaluation.metrics=[{name='age',kind='column'}]",)
    for number, parties in enumerate((10, 11, 12, 11, 10)):
        with played(f"statistics-{number}", tmp_path, NAMES[:parties], metrics=columns, **model) as run:
            counted = {party for counted, _ in equations(run) for party in counted}
        assert counted == set(NAMES[:parties] if parties == 12 else NAMES[:10])


def test_an_absent_member_closes_its_atom_for_that_round(tmp_path: Path) -> None:
    with played("first", tmp_path) as run:
        atom = next(one for one in run.books[NAMES[3]].kept if NAMES[3] in one)
    for nth in range(2):
        ops = (Op("drop", NAMES[3], "Hello", nth),)
        with played(f"away-{nth}", tmp_path, ops=ops) as run:
            by_round: dict[int, set[PartyId]] = {}
            for one, (counted, _) in zip(run.reports(SumOpened), equations(run), strict=True):
                by_round.setdefault(one.round, set()).update(counted)
        assert by_round == {k: set(NAMES) - (set(atom) if k == nth else set()) for k in range(3)}


def test_newcomers_form_atoms_of_their_own_once_they_are_enough(tmp_path: Path) -> None:
    def counted_in(id_: str, names: tuple[PartyId, ...]) -> set[PartyId]:
        with played(id_, tmp_path, names, rounds="2") as run:
            return {party for counted, _ in equations(run) for party in counted}

    assert counted_in("ten", NAMES[:10]) == set(NAMES[:10])
    assert counted_in("eleven", NAMES[:11]) == set(NAMES[:10]), "a single newcomer waits"
    assert counted_in("twelve", NAMES) == set(NAMES)
    # Its mate is gone: the other one waits, and the rest goes on.
    with played("eleven-again", tmp_path, NAMES[:11], rounds="2") as run:
        assert {party for counted, _ in equations(run) for party in counted} == set(NAMES[:10])
        assert NAMES[11] not in run.books
        assert run.books[NAMES[10]].kept[0] != (NAMES[10],)


def test_a_party_whose_first_round_was_lost_is_in_the_same_atom_later(tmp_path: Path) -> None:
    """Its mates have entered the atom; it has not. It takes their word for it."""
    ops = (Op("crash", NAMES[7], "KeyAdvert", 0),)
    with played("first", tmp_path, ops=ops, rounds="1") as run:
        assert run.books[NAMES[7]].kept == ()
        atom = next(one for one in run.books[NAMES[0]].kept if NAMES[7] in one)
    with played("second", tmp_path) as run:
        assert {party for counted, _ in equations(run) for party in counted} == set(NAMES)
        assert run.books[NAMES[7]].kept[0] == atom


def test_a_party_that_keeps_another_atom_sits_out(tmp_path: Path) -> None:
    """It was in a run of others; in this one it comes after the atoms were formed, so that nobody knew."""
    other = (NAMES[0], *(PartyId(f"p{k}") for k in range(20, 27)))
    with played("other", tmp_path, other) as run:
        assert run.books[NAMES[0]].kept
    with played("late", tmp_path, ops=(Op("drop", NAMES[0], "Hello", 0),)) as run:
        rows = equations(run)
        assert all(NAMES[0] not in counted for counted, _ in rows)
        assert {one.reason.split(",")[0] for one in run.reports(SatOut, NAMES[0])} >= {
            "its key has given metrics in another atom"
        }


def test_the_script_of_the_case(tmp_path: Path) -> None:
    """Simulated parties of the same names are the same in each run."""
    script = Path(__file__).parent / "attacks" / "n4_metrics_runs.py"
    ran = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=True
    )
    lines = [line for line in ran.stdout.splitlines() if line.startswith("runs")]
    assert len(lines) == 3
    assert all(line.endswith("determined: 0 of 12") for line in lines)
    assert "rank 6" in lines[-1]


@pytest.mark.parametrize("parties", ["4", "5"])
def test_few_parties_make_one_cluster_of_two_atoms(tmp_path: Path, parties: str) -> None:
    with played("few", tmp_path, NAMES[: int(parties)], rounds="2") as run:
        assert {party for counted, _ in equations(run) for party in counted} == set(NAMES[: int(parties)])
