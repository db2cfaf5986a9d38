"""Limits between fields: what is refused and why, and what follows from what is not."""

from __future__ import annotations

import ast
import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from securefl.base.errors import ConfigError, UsageError
from securefl.methods.clustering.sizes import cluster_sizes, participants_of, quorum_of
from securefl.methods.feasibility.limits import MAX_CLUSTER, MAX_STEPS
from securefl.methods.privacy.limits import noise_of
from securefl.scenario.load import load_scenario
from tests.looped import looped
from tests.unit.scenario.samples import attempt, checked, complaint, headed, header_of, refusal, small

FILES = sorted((Path(__file__).parents[3] / "scenarios").glob("*.toml"))
ACTIVE = ("clustering.size=5", "parties=15", "secure_sum.server=active", "secure_sum.verify=off")


@looped("path", FILES)
def test_every_bundled_scenario_is_feasible_and_expects_something(path: Path) -> None:
    scenario = load_scenario(path)
    assert header_of(scenario)
    assert scenario.expect
    assert path.read_text().startswith("# ")


def test_all_bundled_files_are_part_of_an_installed_package() -> None:
    root = Path(__file__).parents[3]
    (listed,) = re.findall(r'"securefl.bundled": (\[.*\]),', (root / "setup.py").read_text())
    patterns = ast.literal_eval(listed)
    folder = root / "scenarios"
    assert {file for one in patterns for file in folder.glob(one)} == set(folder.rglob("*.toml"))


def test_the_required_scenarios_are_bundled() -> None:
    names = {path.stem for path in FILES}
    assert names >= {"quickstart", "dropout", "byzantine", "curious", "fashion", "nuisances"}


@given(st.integers(1, 500), st.integers(1, 60))
def test_cluster_sizes(participants: int, size: int) -> None:
    if size > participants:
        with pytest.raises(UsageError):
            cluster_sizes(participants, size)
        return
    sizes = cluster_sizes(participants, size)
    assert sum(sizes) == participants
    assert len(sizes) == participants // size
    assert min(sizes) >= size
    assert max(sizes) - min(sizes) <= 1
    assert all(a >= b for a, b in pairwise(sizes))


@given(st.integers(1, 80), st.integers(1, 8), st.data())
def test_no_absence_makes_a_larger_cluster_than_the_stated_maximum(
    parties: int, size: int, data: st.DataObject
) -> None:
    assume(size <= parties)
    limit = checked(
        f"parties={parties}",
        f"clustering.size={size}",
        "secure_sum.threshold=1",
        "secure_sum.min_survivors=1",
        "secure_sum.k_anonymity=1",
        "leakage.mode=report",
    ).max_cluster_size
    present = data.draw(st.integers(size, parties))
    assert max(cluster_sizes(present, size)) <= limit


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ((), 12),
        (("participation.count=6",), 6),
        (("participation.fraction=0.5",), 6),
        (("parties=30", "participation.fraction=0.1"), 3),
    ],
)
def test_participants(overrides: tuple[str, ...], expected: int) -> None:
    assert participants_of(small(*overrides)) == expected


def test_quorums_of_equal_rosters_share_more_than_the_colluders() -> None:
    for parties in range(1, 30):
        for colluders in range(parties):
            quorum = quorum_of(parties, colluders)
            assert 2 * quorum - parties > colluders
            assert 2 * (quorum - 1) - parties <= colluders
            assert quorum <= parties


TRUNCATE = ("weighting.mode=truncate",)

REFUSED = [
    ("clustering.size", ("clustering.size=13",), "is 13, but only 12 parties take part"),
    ("clustering.size", ("participation.count=2",), "is 3, but only 2 parties take part"),
    (
        "clustering.size",
        ("parties=9000", "clustering.size=600"),
        "clusters of 600 grow to 1199 members if some parties are absent, more",
    ),
    ("clustering.size", ("clustering.size=1",), "no secure sum"),
    ("participation.count", ("participation.count=13",), "is 13, more than the 12 parties"),
    ("participation.fraction", ("participation.count=6", "participation.fraction=0.5"), "count is given too"),
    ("secure_sum.colluders", ("secure_sum.colluders=12",), "12 of 12 parties collude"),
    (
        "secure_sum.colluders_per_cluster",
        ("secure_sum.colluders_per_cluster=1", "secure_sum.colluders=0"),
        "only 0 in the whole run",
    ),
    ("secure_sum.k_anonymity", ("secure_sum.k_anonymity=1",), "single party"),
    (
        "secure_sum.threshold",
        ("clustering.size=4", "secure_sum.colluders=2", "secure_sum.colluders_per_cluster=2"),
        "open its sum by themselves",
    ),
    (
        "secure_sum.threshold",
        ("secure_sum.threshold=4", "secure_sum.min_survivors=4"),
        "smallest cluster has 3",
    ),
    ("secure_sum.threshold", (*ACTIVE, "secure_sum.min_survivors=4"), "2 x 2 - 5 = -1"),
    ("secure_sum.min_survivors", ("secure_sum.min_survivors=1",), "t = 2"),
    ("secure_sum.min_survivors", ("secure_sum.k_anonymity=3",), "k = 3 honest members"),
    ("secure_sum.min_survivors", ("secure_sum.min_survivors=4",), "smallest cluster has 3"),
    (
        "participation",
        (*ACTIVE, "secure_sum.threshold=3", "secure_sum.min_survivors=3", "participation.count=5"),
        "a certificate needs 8 signatures",
    ),
    ("encoding.range", ("encoding.range=1e-6",), "0 steps"),
    ("encoding.range", ("encoding.range=1e10", "encoding.scale_bits=40"), "outside 1 to 2^53 - 1"),
    ("encoding.ring_bits", ("encoding.ring_bits=32", "encoding.range=65536"), "32 bits are too few"),
    ("aggregation.rule", ("aggregation.rule={type='trimmed-mean', trim=2}",), "needs 5 clusters"),
    (
        "aggregation.rule.beta",
        ("aggregation.rule={type='trimmed-mean', trim='weight'}",),
        'trim = "weight" needs beta',
    ),
    (
        "aggregation.rule.beta",
        ("aggregation.rule={type='trimmed-mean', trim=1, beta=0.1}",),
        "trim = 1 is a number, so beta has no effect",
    ),
    ("aggregation.rule", ("aggregation.rule={type='krum', byzantine=2}",), "make 4"),
    ("aggregation.rule", ("aggregation.rule={type='bulyan', byzantine=1}",), "needs 7 clusters"),
    (
        "aggregation.rule",
        (
            "aggregation.rule={type='krum', byzantine=0}",
            "aggregation.pre_aggregation=[{type='bucketing', size=2}]",
        ),
        "krum with these parameters and pre_aggregation needs 5 clusters",
    ),
    ("data.server_fraction", ("aggregation.rule.type=zeno++",), "zeno++ needs a gradient of"),
    ("data.server_fraction", ("aggregation.rule.type=fltrust",), "fltrust needs a gradient"),
    (
        "data.server_fraction",
        ("aggregation.rule={type='inner-product', gamma=0.5}",),
        "inner-product needs a",
    ),
    (
        "aggregation.claim",
        (
            "aggregation={rule={type='inner-product', gamma=0.5}, byzantine=1, claim='worst-case'}",
            "data.server_per_class=2",
        ),
        "inner-product with these parameters withstands 0",
    ),
    (
        "aggregation.claim",
        (
            "aggregation.claim=worst-case",
            "aggregation.byzantine=1",
            "aggregation.rule.type=median",
            "aggregation.pre_aggregation=[{type='bucketing', size=2}]",
        ),
        "median with these parameters and pre_aggregation withstands 0",
    ),
    ("aggregation.byzantine", ("aggregation.byzantine=13",), "is 13, more than the 12 parties"),
    (
        "aggregation.claim",
        ("aggregation.claim=worst-case", "aggregation.byzantine=2", "aggregation.rule.type=median"),
        "2 x 2 >= 4",
    ),
    (
        "aggregation.claim",
        ("aggregation.claim=worst-case", "aggregation.byzantine=1"),
        "mean with these parameters",
    ),
    (
        "weighting.alpha",
        ("weighting.mode=truncate",),
        "is missing: truncate needs alpha, the share of dishonest parties, or",
    ),
    ("weighting.cap", ("weighting.cap=5",), "does not truncate, so this field has no effect"),
    (
        "weighting.alpha",
        ("weighting.mode=ignore", "weighting.alpha=0.1"),
        "does not truncate, so this field has no effect",
    ),
    ("weighting.use", ("weighting.use=truncated",), "does not truncate, so this field has no effect"),
    ("weighting.cap", (*TRUNCATE, "weighting.alpha=0.1", "weighting.cap=5"), "alpha is given too"),
    ("weighting.alpha", (*TRUNCATE, "weighting.alpha=0"), "is 0"),
    ("weighting.alpha", (*TRUNCATE, "weighting.alpha=0.5"), "no cap keeps 50 % of the parties to 50 %"),
    ("weighting.alpha", (*TRUNCATE, "weighting.alpha=0.7", "weighting.alpha_star=0.6"), "no cap keeps"),
    (
        "weighting.alpha_star",
        (*TRUNCATE, "weighting.alpha=0.1", "weighting.alpha_star=1.0"),
        "lies between 0 and 1",
    ),
    (
        "weighting.alpha",
        (*TRUNCATE, "weighting.alpha=0.35", "weighting.alpha_star=0.4"),
        "no cap keeps 5 of 12 parties",
    ),
    ("training.steps", ("training.dp_sgd={}", "training.steps=1"), "one step"),
    ("stop.target", ("stop.target=1.5",), "1.5 is not an accuracy"),
    ("training.batch_fraction", ("training.dp_sgd={}", "training.batch_fraction=0.1"), "one step"),
    ("expect.0.metric", ("expect=[{metric='epsilon', at_most=3}]",), "no differential privacy"),
    ("expect.0", ("expect=[{metric='rounds'}]",), "no bound"),
    ("expect.0.at_least", ("expect=[{metric='rounds', at_least=2, at_most=1}]",), "above at_most"),
    (
        "stop.target",
        ("stop.target=0.8", "expect=[{metric='accuracy', at_least=0.9}]"),
        "stops at 0.8",
    ),
]


@looped("path, overrides, reason", REFUSED)
def test_refused(path: str, overrides: tuple[str, ...], reason: str) -> None:
    error = refusal(*overrides)
    assert error.path == path
    assert reason in error.reason
    assert error.remedy
    assert "\n" not in str(error)


def test_the_line_that_a_person_reads() -> None:
    assert str(refusal(*ACTIVE, "secure_sum.min_survivors=4")) == (
        "secure_sum.threshold: against an active server two groups of 2 among 5 members must share more "
        "than f = 0 members, but 2 x 2 - 5 = -1: the server could open two sums of a cluster (at least 3)"
    )
    assert str(refusal("encoding.ring_bits=32", "encoding.range=65536")) == (
        "encoding.ring_bits: 32 bits are too few: range 65536 at scale_bits 16 is 4294967296 steps, and the"
        " sum of 5 members reaches 21474836480, above 2^31"
        " (set it to 64 or auto, or a smaller range or scale_bits)"
    )
    assert str(refusal("aggregation.byzantine=2", "aggregation.claim=worst-case")) == (
        "aggregation.claim: 2 Byzantine parties can spoil 2 of 4 clusters, and 2 x 2 >= 4 leaves no rule an"
        " honest majority in the worst case"
        ' (set claim = "average-case", fewer Byzantine parties, or more clusters)'
    )


def test_reclusterings_that_give_away_every_update_are_called_so() -> None:
    def warned(*overrides: str) -> bool:
        report = ("leakage.mode=report",)
        return any(note.startswith("SUMS EXPOSE UPDATES: ") for note in headed(*report, *overrides))

    # 12 parties in 4 clusters: ceil(11 / 3) = 4.
    assert [warned(f"clustering.reclusterings={again}") for again in (1, 3, 4, 10)] == [
        False,
        False,
        True,
        True,
    ]
    assert not warned("clustering.reclusterings=10", "clustering.new_work=true")


def test_rules_with_data_of_the_servers_own_need_no_honest_majority() -> None:
    aggregation = "aggregation={rule={type='fltrust'}, byzantine=4, claim='worst-case'}"
    assert checked("data.server_fraction=0.05", aggregation).breakdown == 4


@given(
    parties=st.integers(1, 40),
    size=st.integers(1, 8),
    t=st.integers(1, 9),
    survivors=st.integers(1, 9),
    f=st.integers(0, 4),
    q=st.integers(0, 12),
    k=st.integers(1, 5),
    server=st.sampled_from(["curious", "active"]),
    leakage=st.sampled_from(["veto", "report"]),
)
def test_accepted_exactly_if_the_conditions_of_the_protocol_hold(
    parties: int, size: int, t: int, survivors: int, f: int, q: int, k: int, server: str, leakage: str
) -> None:
    """The conditions of protocol.md, Parameters, written down a second time and in another shape."""
    feasible = size <= parties and q < parties and f <= q and not (k == 1 and leakage == "veto")
    if feasible:
        sizes = cluster_sizes(parties, size)
        feasible = f < t <= survivors <= min(sizes) and survivors - f >= k
        if server == "active":
            feasible = feasible and all(2 * t > members + f for members in sizes)
    overrides = (
        f"parties={parties}",
        f"clustering.size={size}",
        f"secure_sum={{threshold={t}, min_survivors={survivors}, colluders_per_cluster={f}, colluders={q},"
        f" k_anonymity={k}, server='{server}', verify='off'}}",
        f"leakage.mode={leakage}",
    )
    limits = attempt(*overrides)
    if isinstance(limits, ConfigError):
        assert not feasible, str(limits)
        assert limits.path.split(".")[0] in {"clustering", "secure_sum"}
        return
    assert feasible
    assert min(limits.tolerated_dropouts) == min(limits.cluster_sizes) - survivors >= 0
    assert max(limits.cluster_sizes) <= limits.max_cluster_size
    assert limits.max_cluster_size * 2**24 < 2**31
    assert (limits.quorum is None) == (server == "curious")


@given(st.integers(1, 300), st.floats(1e-3, 1e6), st.integers(0, 30))
def test_the_ring_has_headroom(size: int, bound: float, scale_bits: int) -> None:
    limits = attempt(
        "parties=600",
        f"clustering.size={size + 2}",
        f"encoding.range={bound!r}",
        f"encoding.scale_bits={scale_bits}",
    )
    if isinstance(limits, ConfigError):
        assert limits.path == "encoding.range"
        assert bound * 2**scale_bits < 1 or bound * 2**scale_bits >= 2**53 - 1
        return
    reach = limits.max_cluster_size * int(bound * 2**scale_bits)
    assert reach < 1 << (limits.ring_bits - 1)
    assert limits.ring_bits == 32 or reach >= 1 << 31


def test_noise_takes_headroom_too() -> None:
    """Five members at 2^31 / 5 steps each just fit into 32 bits; with anybody's noise they do not."""
    most = (2**31 - 1) // 5
    encoding = ("encoding.clip=1", f"encoding.range={most / 2**16!r}", "encoding.scale_bits=16")
    noise = "privacy={unit='party', multiplier=10.0, placement='local'}"
    assert checked(*encoding).ring_bits == 32
    assert noise_of(small(*encoding, noise)) > 0
    assert checked(*encoding, noise).ring_bits == 64
    error = refusal(*encoding, noise, "encoding.ring_bits=32")
    assert error.path == "encoding.ring_bits"
    assert "with noise" in error.reason
    assert "32 bits are too few" in error.reason


def test_the_widest_ring_always_suffices() -> None:
    """The largest cluster times the most steps stays below 2^63, so that no scenario is refused for it."""
    assert MAX_CLUSTER * MAX_STEPS < 2**63


def test_no_secure_sum_is_possible_for_experiments_only() -> None:
    bare = (
        "clustering.size=1",
        "secure_sum={threshold=1, min_survivors=1, k_anonymity=1}",
    )
    assert refusal(*bare).path == "secure_sum.k_anonymity"
    limits = checked(*bare, "leakage.mode=report")
    assert limits.clusters == 12
    assert any("LEAKAGE IS ONLY REPORTED" in note for note in headed(*bare, "leakage.mode=report"))


def test_the_numbers_of_the_fashion_scenario() -> None:
    limits = checked(
        "parties=60", "secure_sum.colluders=12", "stop.rounds=20", "aggregation.byzantine=12",
        "aggregation.claim=average-case", "aggregation.rule={type='trimmed-mean', trim=9}",
    )  # fmt: skip
    assert limits.cluster_sizes == (3,) * 20
    assert limits.p_alone_per_opening == pytest.approx(0.0386, abs=1e-4)
    assert limits.p_alone_in_run == pytest.approx(1 - (1 - 0.0386) ** 20, abs=2e-3)
    assert limits.p_clean == pytest.approx(0.505, abs=1e-3)
    assert limits.breakdown == 9
    assert 0.3 < limits.p_rule_holds < 0.4
    assert any(
        "3.86 % at once" in note
        for note in headed(
            "parties=60",
            "secure_sum.colluders=12",
            "stop.rounds=20",
            "aggregation.byzantine=12",
            "aggregation.claim=average-case",
            "aggregation.rule={type='trimmed-mean', trim=9}",
        )
    )
    assert any(
        "average-case claim" in note
        for note in headed(
            "parties=60",
            "secure_sum.colluders=12",
            "stop.rounds=20",
            "aggregation.byzantine=12",
            "aggregation.claim=average-case",
            "aggregation.rule={type='trimmed-mean', trim=9}",
        )
    )


def test_notes_say_what_a_reader_should_know() -> None:
    notes = " | ".join(
        headed(
            "parties=13",
            "clustering.reclusterings=2",
            "encoding.clip=500",
            "behaviours=[{kind='lying:SplitsModel', rounds=[7]}]",
        )
    )
    assert "4 clusters (1 of 4, 3 of 3), 2 reclusterings per round" in notes
    assert "1 or 2 dropouts per cluster" in notes
    assert "may cascade" in notes
    assert "below clip 500" in notes
    assert "AFTER THE LAST ROUND: 1 fault: lying:SplitsModel; the last round is 2" in notes
    assert "by the server: SplitsModel: the scenario assumes a curious server" in notes
    assert "BYZANTINE PARTIES: 2, EXPECTED: 1" in " | ".join(
        headed(
            "aggregation={rule={type='median'}, byzantine=1, claim='worst-case'}",
            "behaviours=[{kind='scale', count=2}]",
        )
    )


ZENO = (
    "aggregation.rule={type='zeno++', scale='sum', rho=1e-5, eps=0.2, batch=64}",
    "data.server_fraction=0.05",
)


TRUST = ("aggregation.rule={type='inner-product', gamma=0.6}", "data.server_per_class=2")


@looped(
    "overrides, words",
    [
        (ZENO, "server data: 5 % of the training samples; a gradient on 64 of them"),
        ((ZENO[1], "aggregation.rule.type=fltrust"), "the server trains on them as a party does"),
        ((ZENO[1],), "server data: 5 % of the training samples; this rule does not use them"),
        (TRUST, "server data: 2 training samples of each class; a gradient on all of them once a round"),
        (
            (*TRUST, "data.server_set=mnist"),
            "2 training samples of each class of mnist, and the parties keep",
        ),
        (
            (*TRUST, "aggregation.rule.half_life=20"),
            "trust with this half-life is as telling as a sum over 57.7 rounds",
        ),
        (
            (*TRUST, "aggregation.byzantine=3"),
            "GAMMA 0.6 IS LARGE: a cluster is clean with probability 38.2 %",
        ),
        (
            (*TRUST, "aggregation.byzantine=1"),
            "LENGTHS OF UPDATES ARE UNBOUNDED: set pre_aggregation to norm-clipping",
        ),
        (("data.server_per_class=1",), "server data: 1 training sample of each class; this rule does not"),
    ],
)
def test_notes_on_the_servers_data(overrides: tuple[str, ...], words: str) -> None:
    assert words in " | ".join((*headed(*overrides), ""))


def test_no_note_on_server_data_or_eps_where_there_is_none() -> None:
    assert "server data" not in " | ".join(headed())
    assert "GAMMA" not in " | ".join(headed(*TRUST))
    bounded = "aggregation.pre_aggregation=[{type='norm-clipping', radius=1}]"
    assert "LENGTHS" not in " | ".join(headed(*TRUST, "aggregation.byzantine=1", bounded))


@pytest.mark.parametrize("gamma", ["0", "-0.5", "1.1"])
def test_gamma_is_a_share(gamma: str) -> None:
    error = complaint(f"aggregation.rule={{type='inner-product', gamma={gamma}}}")
    assert error is not None
    assert error.path == "aggregation.rule.gamma"
    assert error.remedy or error.reason


def test_gamma_is_required() -> None:
    error = complaint("aggregation.rule={type='inner-product'}")
    assert error is not None
    assert "gamma" in str(error)


def test_the_largest_federation_is_checked_quickly() -> None:
    limits = checked("parties=100000", "secure_sum.colluders=20000", "aggregation.byzantine=20000")
    assert limits.clusters == 33_333
