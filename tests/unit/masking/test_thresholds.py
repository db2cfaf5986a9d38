"""What a member and the server find in shares, keys and boxes that fit everything but one rule."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import PeerError
from securefl.base.ids import PartyId
from securefl.protocol.messages.masking import BoxList, KeyAdvert, KeyList
from securefl.protocol.secure_sum import collecting
from securefl.protocol.secure_sum.masking import client, server
from securefl.protocol.secure_sum.masking.kind import Masking
from tests.contracts.secure_sums import NAMES, Case, MaskingCluster, roster
from tests.contracts.test_secure_sum import vectors

CASE = Case(4, 2, 3)


class TestDealtShares:
    CLUSTER = MaskingCluster(replace(CASE, removable=True))

    def _dealt(self) -> client.DealtShares:
        setup = self.CLUSTER.setup
        secrets = [bytes([k]) * 32 for k in range(2 + setup.components)]
        return client.deal(setup, 0, secrets, InsecureSeededEntropy(1))

    def test_a_pair_with_more_or_fewer_shares_is_not_the_dealt_one(self) -> None:
        setup, dealt = self.CLUSTER.setup, self._dealt()
        digest = setup.share_digester()
        good = dealt.shares[1]
        assert good.noise_shares
        assert client.is_dealt(setup, 0, 1, good, dealt.root, digest)
        for noise in ((), (*good.noise_shares, good.seed_share)):
            bad = msgspec.structs.replace(good, noise_shares=noise)
            assert not client.is_dealt(setup, 0, 1, bad, dealt.root, digest)

    def test_shares_of_another_holder_are_not_the_dealt_ones(self) -> None:
        setup, dealt = self.CLUSTER.setup, self._dealt()
        assert not client.is_dealt(setup, 0, 2, dealt.shares[1], dealt.root, setup.share_digester())


def advertised() -> tuple[MaskingCluster, KeyList]:
    cluster = MaskingCluster(CASE)
    key_list = cluster.keys(CASE.names)
    assert key_list is not None
    return cluster, key_list


def copied(cluster: MaskingCluster, fields: dict[str, str]) -> KeyAdvert:
    """The advert of the second member, with keys of the third one's: its field by ours."""
    other = cluster.adverts[NAMES[2]]
    taken = {ours: getattr(other, its) for ours, its in fields.items()}
    changed: KeyAdvert = msgspec.structs.replace(cluster.adverts[NAMES[1]], **taken)
    return changed


@pytest.mark.parametrize(
    "fields", [{"mask_key": "mask_key"}, {"box_key": "box_key"}, {"mask_key": "box_key"}], ids=str
)
def test_a_member_refuses_a_list_with_a_key_of_two_members(fields: dict[str, str]) -> None:
    cluster, key_list = advertised()
    frames = list(key_list.adverts)
    frames[1] = cluster.signed(NAMES[1], copied(cluster, fields))
    phase = cluster.phases[NAMES[0]]
    assert isinstance(phase, client.Advertised)
    with pytest.raises(PeerError, match="reuses a key"):
        client.on_key_list(phase, KeyList(adverts=tuple(frames)), roster(), cluster.entropy)


@pytest.mark.parametrize("field", ["mask_key", "box_key"])
def test_a_key_of_low_order_is_refused_as_it_arrives(field: str) -> None:
    cluster, key_list = advertised()
    bad: KeyAdvert = msgspec.structs.replace(cluster.adverts[NAMES[1]], **{field: bytes(32)})
    with pytest.raises(PeerError, match="advertised a bad key") as caught:
        collecting.on_advert(collecting.CollectingKeys(cluster.setup), NAMES[1], bad, b"frame")
    assert caught.value.culprit == NAMES[1]
    frames = list(key_list.adverts)
    frames[1] = cluster.signed(NAMES[1], bad)
    phase = cluster.phases[NAMES[0]]
    assert isinstance(phase, client.Advertised)
    with pytest.raises(PeerError, match="advertised a bad key"):
        client.on_key_list(phase, KeyList(adverts=tuple(frames)), roster(), cluster.entropy)


def test_a_box_does_not_open_at_its_sealer() -> None:
    """The server hands a member its own boxes back, as if the others had sealed them."""
    cluster, key_list = advertised()
    cluster.shares(key_list, CASE.names)
    state = cluster.server
    assert isinstance(state, server.MaskedInputs)
    phase = cluster.phases[NAMES[0]]
    assert isinstance(phase, client.Boxed)
    again = MaskingCluster(CASE)
    again.keys(CASE.names)
    before = again.phases[NAMES[0]]
    assert isinstance(before, client.Advertised)
    _, own = client.on_key_list(before, key_list, roster(), again.of(NAMES[0]))
    with pytest.raises(client.BadBoxError, match="does not open"):
        client.on_box_list(phase, BoxList(boxes=own.boxes))


def test_a_dropout_that_shared_another_mask_key_is_named() -> None:
    cluster, key_list = advertised()
    cluster.unpack(cluster.shares(key_list, CASE.names))
    for name, vector in vectors(CASE, 1).items():
        if name != NAMES[3]:
            cluster.submit(name, vector)
    lied = msgspec.structs.replace(cluster.adverts[NAMES[3]], mask_key=cluster.adverts[NAMES[3]].box_key)
    tampered = replace(cluster.inputs, adverts={**cluster.inputs.adverts, 3: lied})
    survivors = frozenset[PartyId](CASE.names[:3])
    releases = {name: cluster.release(name, survivors) for name in CASE.names[:3]}
    with pytest.raises(PeerError, match="another mask key") as caught:
        Masking().server.open(tampered, survivors, releases, cluster.store)
    assert caught.value.culprit == NAMES[3]
