"""The best that an active server can do, against drawn clusters and against the machines themselves."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from securefl.base.arrays import F32
from securefl.base.ids import PartyId
from securefl.methods.clustering import odds
from securefl.methods.clustering.adaptive_server import Best, Game
from securefl.methods.clustering.assignment import draw_assignment
from securefl.methods.clustering.sizes import MAX_DRAWS, quorum_of
from securefl.methods.encoding.ring import from_ring
from securefl.protocol.round.shared.reports import ClustersDrawn, SumOpened
from tests.simulation.world import Op, World, scenario
from tests.unit.scenario.samples import checked, headed

SETTINGS = [
    # parties, colluders, m, t, f, min_survivors, rounds, in the run
    (60, 6, 5, 4, 1, 4, 20, 0.624),
    (60, 12, 5, 4, 1, 4, 20, 0.99985),
    (60, 6, 10, 7, 2, 7, 20, 0.00206),
    (100, 10, 10, 7, 3, 7, 50, 0.0468),
    (20, 4, 4, 3, 1, 3, 5, None),
    (31, 5, 5, 4, 1, 4, 10, None),
]
"""The first four are what the header had as 2.2 %, 40 %, 0 and 2.4e-7."""


def worth(party: PartyId) -> int:
    """What a party's update has at every coordinate."""
    return 1 + int(party[1:])


def server(parties: int, colluders: int, m: int, t: int, f: int, openings: int = 1) -> Game:
    return Game(
        parties=parties,
        participants=parties,
        colluders=colluders,
        size=m,
        largest=min(2 * m - 1, 2 * t - f - 1),
        openings=openings,
    )


@pytest.mark.parametrize(("parties", "q", "m", "t", "f", "least", "rounds", "known"), SETTINGS)
def test_the_header_says_it(
    parties: int, q: int, m: int, t: int, f: int, least: int, rounds: int, known: float | None
) -> None:
    limits = checked(
        f"parties={parties}",
        f"clustering.size={m}",
        f"secure_sum={{server='active', verify='off', threshold={t}, min_survivors={least},"
        f" colluders={q}, colluders_per_cluster={f}}}",
        f"stop.rounds={rounds}",
    )
    best = server(parties, q, m, t, f, rounds).alone(least)
    assert (limits.p_alone_per_opening, limits.p_alone_in_run) == (best.chance, best.in_run)
    assert best.in_run == pytest.approx(1 - (1 - best.chance) ** (MAX_DRAWS * rounds))
    if known is not None:
        assert limits.p_alone_in_run == pytest.approx(known, rel=5e-3)
    text = " | ".join(
        headed(
            f"parties={parties}",
            f"clustering.size={m}",
            f"secure_sum={{server='active', verify='off', threshold={t}, min_survivors={least},"
            f" colluders={q}, colluders_per_cluster={f}}}",
            f"stop.rounds={rounds}",
        )
    )
    assert f"a party with {least - 1} colluders as cluster mates is alone with them, once" in text
    assert f"in 3 draws each of {rounds} x 1 openings" in text


@pytest.mark.parametrize(("parties", "q", "m", "t", "f", "least", "_rounds", "_known"), SETTINGS)
def test_drawn_clusters_agree(
    parties: int, q: int, m: int, t: int, f: int, least: int, _rounds: int, _known: float | None
) -> None:
    """4,000 assignments at the presence that suits the server best, within an error of probability 1e-5.

    Every party that does not collude is looked at; in one draw they are far from independent, so that the
    error is that of the number of such parties by draw.
    """
    game = server(parties, q, m, t, f)
    best = game.alone(least)
    names = [PartyId(f"p{n:03d}") for n in range(best.present)]
    curious, drawn = set(names[:q]), game.drawn(best.present)
    hits = []
    for seed in range(4_000):
        (row,) = draw_assignment(seed.to_bytes(32, "big"), names, drawn, m, 1).clusters
        alone = 0
        for members in row:
            inside = len(curious.intersection(members))
            others = len(members) - inside
            # One honest party stays; the others are lost, and all who are left certify.
            if inside + 1 >= least and drawn - (others - 1) >= game.quorum:
                alone += others
        hits.append(alone / (best.present - q))
    error = 4.5 * float(np.std(hits)) / math.sqrt(len(hits)) + 1e-6
    assert abs(float(np.mean(hits)) - best.chance) <= max(error, 3e-4)


@pytest.mark.parametrize(
    ("numbers", "first", "best"),
    [((31, 27, 8, 4, 4), 0.376, 0.743), ((34, 30, 2, 6, 7), 0.079, 0.402), ((28, 26, 5, 5, 9), 0.472, 0.745)],
)
def test_a_worse_presence_is_not_where_the_search_ends(
    numbers: tuple[int, ...], first: float, best: float
) -> None:
    """Chances fall and rise again: with more parties there, more inputs can be lost."""
    parties, participants, colluders, size, largest = numbers
    game = Game(parties=parties, participants=participants, colluders=colluders, size=size, largest=largest)

    def least(size: int, drawn: int) -> int:
        return min(max(2, size - (drawn - game.quorum)) - 1, 2)

    chances = [
        game._chance(n, drawn, least)
        for n in range(max(game.quorum, size), parties + 1)
        if (drawn := game.drawn(n))
    ]
    falls = next(k for k in range(1, len(chances)) if 0 < chances[k] <= chances[k - 1])
    assert max(chances[:falls]) == pytest.approx(first, abs=1e-3)
    assert game.alone(2, 2).chance == max(chances) == pytest.approx(best, abs=1e-3)


@given(data=st.data())
def test_no_other_presence_is_better(data: st.DataObject) -> None:
    """The search stops early; a search of everything finds nothing better."""
    m = data.draw(st.integers(2, 7))
    parties = data.draw(st.integers(m, 90))
    q = data.draw(st.integers(1, parties - 1))
    f = data.draw(st.integers(0, min(q, m - 1)))
    t = data.draw(st.integers((m + f) // 2 + 1, max(m, (m + f) // 2 + 1)))
    game = Game(
        parties=parties,
        participants=data.draw(st.integers(m, parties)),
        colluders=q,
        size=m,
        largest=min(2 * m - 1, max(m, 2 * t - f - 1)),
        server=data.draw(st.sampled_from(["curious", "active"])),
    )
    least = data.draw(st.integers(2, m)) if m > 1 else 1
    for found, need in (
        (game.alone(least), lambda size, drawn: max(least, size - (drawn - game.quorum)) - 1),
        (game.exceeds(f), lambda _size, _drawn: f + 1),
    )[game.server == "curious" :]:
        every = [
            (game._chance(n, drawn, need), n)
            for n in range(max(game.quorum, m), parties + 1)
            if (drawn := game.drawn(n))
        ]
        assert found.chance == max((chance for chance, _ in every), default=0.0)
        assert found == Best(0.0, 0, 0.0) or (found.chance, found.present) in every


@pytest.mark.parametrize(
    ("parties", "q", "m", "t", "f", "least", "in_run"),
    [(60, 6, 5, 3, 0, 5, 0.527), (60, 6, 10, 6, 1, 9, 0.00154), (100, 10, 10, 6, 1, 10, 0.0190)],
)
def test_colluders_as_many_as_the_threshold_open_an_update_whoever_survives(
    parties: int, q: int, m: int, t: int, f: int, least: int, in_run: float
) -> None:
    """More survivors do not help against them: that had been 1.9 %, 0 and 5e-8."""
    limits = checked(
        f"parties={parties}",
        f"clustering.size={m}",
        f"secure_sum={{server='active', verify='off', threshold={t}, min_survivors={least},"
        f" colluders={q}, colluders_per_cluster={f}}}",
        "stop.rounds=20",
    )
    assert limits.p_alone_in_run == pytest.approx(in_run, rel=5e-2)
    game = server(parties, q, m, t, f, 20)
    assert limits.p_alone_in_run == game.exceeds(t - 1).in_run > 10 * game.alone(least).in_run
    text = " | ".join(
        headed(
            f"parties={parties}",
            f"clustering.size={m}",
            f"secure_sum={{server='active', verify='off', threshold={t}, min_survivors={least},"
            f" colluders={q}, colluders_per_cluster={f}}}",
            "stop.rounds=20",
        )
    )
    assert f"a party with {t} colluders as cluster mates is alone with them, who hold enough shares" in text


def test_nobody_colludes_and_nothing_is_gained() -> None:
    assert server(60, 0, 5, 4, 0, 1_000).alone(4) == Best(0.0, 0, 0.0)


def test_the_game_as_machines_play_it() -> None:
    """10 parties, clusters of 5: three colluding mates and a lost input leave one update in an opened sum."""
    numbers = {"size": "5", "threshold": "4", "min_survivors": "4", "server": "active"}
    config = scenario(10, **numbers, secure_sum__colluders="3", secure_sum__colluders_per_cluster="1")

    def learn(party: PartyId, _round: int, params: F32) -> F32:
        return params + np.float32(worth(party))

    # Clusters follow from nonces, which no lost input changes.
    (drawn,) = World(config, train=learn).run().reports(ClustersDrawn)
    victim, *curious, lost = drawn.clusters[0][0]
    world = World(config, train=learn, ops=[Op("drop", lost, "MaskedInput")]).run()
    (opened,) = (one.opened for one in world.reports(SumOpened) if victim in one.opened.survivors)
    assert set(opened.survivors) == {victim, *curious}
    update = from_ring(opened.ring) / 2**16 - sum(map(worth, curious))
    np.testing.assert_allclose(update, worth(victim))


def test_who_is_left_must_be_a_quorum() -> None:
    """10 parties in clusters of 5, 7 certify: with 7 to 9 announced a cluster of more than 6 would form."""
    game = server(10, 3, 5, 4, 1)
    assert game.quorum == 7
    assert [game.drawn(n) for n in (7, 8, 9, 10)] == [0, 0, 0, 10]
    # 20 in clusters of 5 with a quorum of 13: five lost inputs are fine, and of seven none is.
    wide = server(20, 4, 5, 4, 1)
    assert wide.alone(2).chance > wide.alone(4).chance
    # 18 of them collude: 20 must sign, and nobody can be lost.
    tight = replace(wide, colluders=18)
    assert tight.quorum == 20
    assert tight.alone(2).chance == pytest.approx(odds.alone_among(20, 18, 5))


@pytest.mark.parametrize("parties", [100_000])
def test_large_runs_are_reckoned_at_once(parties: int) -> None:
    found = server(parties, parties // 100, 10, 7, 3).alone(7)
    assert 0 < found.chance < 1e-8
    assert quorum_of(parties, parties // 100) <= found.present < quorum_of(parties, parties // 100) + 200


def test_fixed_clusters_are_one_draw_of_everybody() -> None:
    config = (
        "parties=20",
        "clustering={size=5, fixed=true}",
        "secure_sum={server='active', threshold=4, min_survivors=4, colluders=4, colluders_per_cluster=1}",
        "leakage.mode=report",
    )
    limits = checked(*config)
    game = server(20, 4, 5, 4, 1)
    expected = sum(
        math.comb(4, c) * math.comb(15, 4 - c) / math.comb(19, 4)
        for c in range(3, 5)
        if 20 - (4 - c) >= game.quorum
    )
    assert limits.p_alone_in_run == limits.p_alone_per_opening == pytest.approx(expected)


def test_mates_as_many_as_the_threshold_are_enough_for_a_curious_server_too() -> None:
    """Three of four mates hold shares enough to rebuild a party's masks; CrypTen's members hold none."""
    plan = "secure_sum={threshold=3, min_survivors=5, colluders=12, k_anonymity=4, colluders_per_cluster=1}"
    numbers = ("parties=60", "clustering.size=5", plan, "stop.rounds=20")
    shared = sum(math.comb(12, h) * math.comb(47, 4 - h) for h in (3, 4)) / math.comb(59, 4)
    limits = checked(*numbers)
    assert limits.p_alone_per_opening == pytest.approx(shared)
    assert limits.p_alone_in_run == pytest.approx(1 - (1 - shared) ** 20)
    opens = ("secure_sum.kind=crypten", "secure_sum.threshold=3", "secure_sum.min_survivors=3")
    crypten = checked(*numbers, *opens, "secure_sum.k_anonymity=2")
    assert crypten.p_alone_per_opening == pytest.approx(odds.alone_among(60, 12, 5))


@pytest.mark.parametrize("server_kind", ["curious", "active"])
def test_mates_as_many_as_the_threshold_are_enough_with_atoms_too(server_kind: str) -> None:
    """All of an atom's other members need not collude: any five of seven mates hold shares enough."""
    limits = checked(
        "parties=64",
        "clustering={size=8, atoms=4}",
        f"secure_sum={{server='{server_kind}', threshold=5, min_survivors=8, colluders=20, k_anonymity=2,"
        " colluders_per_cluster=1}",
        "stop.rounds=20",
    )
    once = sum(math.comb(20, h) * math.comb(43, 7 - h) for h in (5, 6, 7)) / math.comb(63, 7)
    assert limits.p_alone_in_run >= 1 - (1 - once) ** 20 - 1e-12
    assert limits.p_alone_per_opening >= once - 1e-12
