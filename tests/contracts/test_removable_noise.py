"""Noise that dropouts do not change: what stays in the sum, and what the released shares give away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefl.base.arrays import Ring
from securefl.base.crypto.shamir import combine
from securefl.base.errors import PeerError, UsageError
from securefl.base.ids import Instance, PartyId
from securefl.protocol.secure_sum import collecting
from securefl.protocol.secure_sum.crypten import member
from securefl.protocol.secure_sum.masking import client, opening
from securefl.protocol.secure_sum.masking.kind import Masking
from securefl.protocol.secure_sum.removal import Removable, components_from, secret_chain
from tests.contracts.secure_sums import NAMES, RUN, STEPS, Case, CryptenCluster, MaskingCluster, Step
from tests.tiers import examples


@st.composite
def cases(draw: st.DrawFn) -> Case:
    members = draw(st.integers(2, 6))
    threshold = draw(st.integers(1, members))
    silent: Mapping[PartyId, Step] = draw(
        st.dictionaries(st.sampled_from(NAMES[:members]), st.sampled_from(STEPS), max_size=3)
    )
    bits, length = draw(st.sampled_from((32, 64))), draw(st.integers(1, 4))
    return Case(
        members, threshold, draw(st.integers(threshold, members)), bits, length, silent, removable=True
    )


def updates(case: Case) -> dict[PartyId, Ring]:
    def words(value: int) -> Ring:
        values = [value] * case.length
        return (
            np.array(values, dtype=np.uint32) if case.ring_bits == 32 else np.array(values, dtype=np.uint64)
        )

    return {name: words(1 << i) for i, name in enumerate(case.names)}


def submitted(case: Case, seed: int = 1) -> MaskingCluster | None:
    """The cluster before the freeze; None if it got lost on the way."""
    cluster = MaskingCluster(case, seed)
    key_list = cluster.keys(case.alive("keys"))
    if key_list is None:
        return None
    cluster.unpack(cluster.shares(key_list, case.alive("shares")))
    if isinstance(cluster.server, collecting.Lost):
        return None
    for name in case.alive("input"):
        cluster.submit(name, updates(case)[name], receipt=name in case.alive("receipt"))
    return cluster


def noise(cluster: MaskingCluster, name: PartyId, seed: int = 1) -> list[Ring]:
    """All components that a member has added, by an independent path: drawn anew from its entropy."""
    case, setup = cluster.case, cluster.setup
    again, _ = client.advertise(setup, name, MaskingCluster(case, seed).of(name))
    assert setup.removable is not None
    return list(components_from(setup.removable, setup.instance, setup.index(name), again.noise, 0))


@settings(max_examples=examples(60), deadline=None)
@given(case=cases(), seed=st.integers(0, 2**32 - 1))
def test_the_sum_keeps_exactly_the_components_that_dropouts_need(case: Case, seed: int) -> None:
    cluster = submitted(case, seed)
    if cluster is None or len(cluster.inputs.submitted) < case.min_survivors:
        return
    survivors = cluster.inputs.submitted
    releases = {n: cluster.release(n, survivors) for n in case.alive("release") if n in survivors}
    if len(releases) < case.threshold:
        return
    expected = sum(updates(case)[name] for name in survivors)
    for name in survivors:
        for component in noise(cluster, name, seed)[: case.members - len(survivors)]:
            expected = expected + component
    np.testing.assert_array_equal(cluster.open(survivors, releases), expected)


@settings(max_examples=examples(10), deadline=None)
@given(case=cases(), seed=st.integers(0, 2**32 - 1))
def test_a_crypten_sum_has_them_from_the_start(case: Case, seed: int) -> None:
    """Members add what a sum of those on the list needs, in the attempt that opens."""
    case = replace(case, min_survivors=max(2, case.min_survivors))
    cluster = CryptenCluster(case, seed)
    if not cluster.keys(case.alive("keys")):
        return
    cluster.submit(updates(case), case.alive("input"), case.alive("receipt"))
    if len(cluster.inputs.submitted) < len(cluster.inputs.sharers):
        if not cluster.start_over():
            return
        assert cluster.keys(case.alive("receipt"))
        cluster.submit(updates(case), case.alive("receipt"), case.alive("receipt"))
    survivors, setup = cluster.inputs.submitted, cluster.setup
    assert setup.removable is not None
    expected = sum(updates(case)[name] for name in survivors)
    for name in survivors:
        again, _ = member.advertise(setup, name, cluster.of(name))
        drawn = list(components_from(setup.removable, setup.instance, setup.index(name), again.noise, 0))
        for component in drawn[: case.members - len(survivors)]:
            expected = expected + component
    np.testing.assert_array_equal(cluster.open(survivors), expected)


@pytest.mark.parametrize("dropped", [0, 1, 2])
def test_released_shares_give_superfluous_noise_only(dropped: int) -> None:
    case = Case(5, 2, 3, silent=dict.fromkeys(NAMES[:dropped], "input"), removable=True)
    cluster = submitted(case)
    assert cluster is not None
    survivors = cluster.inputs.submitted
    releases = {name: cluster.release(name, survivors) for name in survivors}
    setup = cluster.setup
    assert setup.removable is not None
    for name in survivors:
        index = setup.index(name)
        held = {
            setup.index(holder) + 1: share
            for holder, release in releases.items()
            for owner, share in release.noise_shares
            if owner == index
        }
        mine = noise(cluster, name)
        if dropped == case.members - case.min_survivors:
            assert not held
            continue
        secret = combine(held, case.threshold)
        known = list(components_from(setup.removable, setup.instance, index, secret, dropped))
        assert [k.tolist() for k in known] == [k.tolist() for k in mine[dropped:]]
        first = client.advertise(setup, name, MaskingCluster(case).of(name))[0].noise
        assert secret == secret_chain(first, 2)[dropped]
        # What is needed follows from earlier secrets, and a later one does not give them.
        assert not {first, *secret_chain(first, dropped)} & {*secret_chain(secret, 9)} or dropped == 0


def test_wrong_and_surplus_noise_shares_name_their_sender() -> None:
    case = Case(4, 2, 3, removable=True)
    cluster = submitted(case)
    assert cluster is not None
    survivors = cluster.inputs.submitted
    good = cluster.release(NAMES[1], survivors)
    assert [owner for owner, _ in good.noise_shares] == [0, 1, 2, 3]
    (owner, share), *others = good.noise_shares
    wrong = (share[:-1] + bytes([share[-1] ^ 1]),)
    for bad, reason in (
        (((owner, wrong[0]), *others), "wrong noise 0 share"),
        (tuple(others), "noise shares of other members"),
        ((), "noise shares of other members"),
        (tuple(good.noise_shares[::-1]), "noise shares of other members"),
    ):
        release = msgspec.structs.replace(good, noise_shares=bad)
        with pytest.raises(PeerError, match=reason) as caught:
            opening.check_release(cluster.inputs, survivors, NAMES[1], release)
        assert caught.value.culprit == NAMES[1]
    needed = Case(4, 2, 3, silent={NAMES[0]: "input"}, removable=True)
    later = submitted(needed)
    assert later is not None
    alive = later.inputs.submitted
    surplus = msgspec.structs.replace(later.release(NAMES[1], alive), noise_shares=good.noise_shares[1:])
    with pytest.raises(PeerError, match="noise shares of other members"):
        opening.check_release(later.inputs, alive, NAMES[1], surplus)


def test_another_secret_than_the_advertised_one_is_found() -> None:
    case = Case(3, 2, 2, removable=True)
    cluster = submitted(case)
    assert cluster is not None
    survivors = cluster.inputs.submitted
    releases = {name: cluster.release(name, survivors) for name in survivors}
    advert = cluster.inputs.adverts[0]
    forged = msgspec.structs.replace(advert, noise_digests=(bytes(32),))
    tampered = replace(cluster.inputs, adverts={**cluster.inputs.adverts, 0: forged})
    with pytest.raises(PeerError, match="another noise secret") as caught:
        Masking().server.open(tampered, survivors, releases, cluster.store)
    assert caught.value.culprit == NAMES[0]


def test_an_advert_with_another_number_of_secrets_is_refused() -> None:
    cluster = MaskingCluster(Case(3, 2, 2, removable=True))
    plain = MaskingCluster(Case(3, 2, 2))
    _, without = client.advertise(plain.setup, NAMES[0], plain.of(NAMES[0]))
    assert isinstance(cluster.server, collecting.CollectingKeys)
    with pytest.raises(PeerError, match="advertised 0 noise secrets, not 1"):
        collecting.on_advert(cluster.server, NAMES[0], without, cluster.signed(NAMES[0], without))
    _, with_one = client.advertise(cluster.setup, NAMES[0], cluster.of(NAMES[0]))
    assert isinstance(plain.server, collecting.CollectingKeys)
    with pytest.raises(PeerError, match="advertised 1 noise secrets, not 0"):
        collecting.on_advert(plain.server, NAMES[0], with_one, plain.signed(NAMES[0], with_one))


def test_noise_of_another_attempt_or_member_is_another() -> None:
    def expand(_number: int, key: bytes) -> Ring:
        return np.frombuffer(key, dtype="<u4").copy()

    removable = Removable(3, 2, expand)
    drawn = [
        tuple(int(word) for word in component)
        for attempt in (0, 1)
        for owner in (0, 1)
        for component in components_from(removable, Instance(RUN, 0, 0, 0, attempt), owner, bytes(32), 0)
    ]
    assert len(set(drawn)) == len(drawn) == 8


def test_counts_that_only_a_bug_can_bring() -> None:
    for planned, components in ((2, 2), (2, -1), (200, 65)):
        with pytest.raises(UsageError):
            Removable(planned, components, lambda _number, _key: np.zeros(1, np.uint32))
    four = Removable(4, 1, lambda _number, _key: np.zeros(1, np.uint32))
    assert [four.dropouts(survivors) for survivors in (3, 4, 5)] == [1, 0, 0]
    with pytest.raises(UsageError, match="survivors must be at least"):
        four.dropouts(2)
