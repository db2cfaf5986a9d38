"""Every message of the secure sum that a member or the server must refuse, with its culprit."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from securefl.base.errors import PeerError, UsageError
from securefl.base.ids import SERVER, Instance, PartyId
from securefl.methods.encoding.ring import to_wire
from securefl.protocol.kernel.events import Place
from securefl.protocol.messages.masking import BoxList, KeyList, MaskedInput, Receipt
from securefl.protocol.secure_sum import collecting
from securefl.protocol.secure_sum.adverts import read_key_list
from securefl.protocol.secure_sum.masking import client, server
from securefl.protocol.secure_sum.setup import Setup, key_list_digest, share_leaf
from tests.contracts.secure_sums import NAMES, RUN, Case, MaskingCluster, roster
from tests.contracts.test_secure_sum import vectors

CASE = Case(4, 2, 3)


def boxed() -> tuple[MaskingCluster, dict[PartyId, BoxList]]:
    cluster = MaskingCluster(CASE)
    key_list = cluster.keys(CASE.names)
    assert key_list is not None
    return cluster, cluster.shares(key_list, CASE.names)


class TestSetup:
    GOOD = Setup(Instance(RUN, 1, 2, 3, 4), NAMES[:4], 2, 3, b"b", 4, 32)

    @pytest.mark.parametrize(
        "change",
        [
            {"members": (NAMES[1], NAMES[0], NAMES[2])},
            {"members": (NAMES[0], NAMES[0], NAMES[1])},
            {"threshold": 0},
            {"threshold": 4},
            {"min_survivors": 5},
        ],
        ids=str,
    )
    def test_impossible_setups_are_our_own_bug(self, change: dict[str, object]) -> None:
        with pytest.raises(UsageError):
            replace(self.GOOD, **change)  # type: ignore[arg-type]

    def test_place_and_numbers(self) -> None:
        assert self.GOOD.place == Place(1, 2, 3, 4)
        assert [self.GOOD.index(name) for name in NAMES[:4]] == [0, 1, 2, 3]
        with pytest.raises(PeerError, match="not a member") as caught:
            self.GOOD.index(NAMES[5])
        assert caught.value.culprit == NAMES[5]

    def test_contexts_depend_on_all_that_they_stand_for(self) -> None:
        at = self.GOOD.instance
        moved = (
            at._replace(round=9),
            at._replace(reclustering=9),
            at._replace(cluster=9),
            at._replace(attempt=9),
        )
        others = [replace(self.GOOD, instance=instance) for instance in moved]
        others += [replace(self.GOOD, binding=b"x")]
        contexts = {setup.keys_context(b"list") for setup in [self.GOOD, *others]}
        assert len(contexts | {self.GOOD.keys_context(b"other")}) == 7
        lists = self.GOOD.lists_digest
        one, two = frozenset({0, 1}), frozenset({0, 2})
        assert len({lists(b"l", one), lists(b"l", two), lists(b"m", one)}) == 3
        digester = self.GOOD.share_digester()
        shares = {
            digester(0, 1, "seed", b"s" * 33),
            digester(1, 0, "seed", b"s" * 33),
            digester(0, 1, "key", b"s" * 33),
            digester(0, 1, "seed", b"t" * 33),
            others[0].share_digester()(0, 1, "seed", b"s" * 33),
        }
        assert len(shares) == 5
        assert self.GOOD.seed_digest(0, bytes(32)) != self.GOOD.seed_digest(1, bytes(32))
        assert key_list_digest({0: b"a", 1: b"b"}) != key_list_digest({0: b"b", 1: b"a"})
        assert share_leaf(b"a" * 32, b"b" * 32) != share_leaf(b"b" * 32, b"a" * 32)


class TestKeyLists:
    @pytest.mark.parametrize(
        ("how", "reason"),
        [
            ("twice", "sends two keys"),
            ("few", "fewer than min_survivors"),
            ("forged", "not authentic"),
            ("another message", "something else than a key"),
            ("another attempt", "something else than a key"),
            ("a stranger", "not a member"),
            ("without me", "without this member's own key"),
            ("another of mine", "without this member's own key"),
        ],
    )
    def test_refused_by_a_member(self, how: str, reason: str) -> None:
        cluster = MaskingCluster(CASE)
        key_list = cluster.keys(CASE.names)
        assert key_list is not None
        frames = list(key_list.adverts)
        match how:
            case "twice":
                frames.append(frames[1])
            case "few":
                frames = frames[:2]
            case "forged":
                frames[1] = frames[1][:-1] + bytes([frames[1][-1] ^ 1])
            case "another message":
                frames[1] = cluster.signed(NAMES[1], Receipt(lists_digest=bytes(32)))
            case "another attempt":
                other = MaskingCluster(CASE, attempt=1)
                frames[1] = other.signed(NAMES[1], cluster.adverts[NAMES[1]])
            case "a stranger":
                _, advert = client.advertise(
                    replace(cluster.setup, members=(*CASE.names, NAMES[9])), NAMES[9], cluster.entropy
                )
                frames.append(cluster.signed(NAMES[9], advert))
            case "without me":
                frames = frames[1:]
            case _:
                _, advert = client.advertise(cluster.setup, NAMES[0], cluster.entropy.child("second"))
                frames[0] = cluster.signed(NAMES[0], advert)
        phase = cluster.phases[NAMES[0]]
        assert isinstance(phase, client.Advertised)
        with pytest.raises(PeerError, match=reason):
            client.on_key_list(phase, KeyList(adverts=tuple(frames)), roster(), cluster.entropy)

    def test_the_order_of_the_frames_does_not_matter(self) -> None:
        cluster = MaskingCluster(CASE)
        key_list = cluster.keys(CASE.names)
        assert key_list is not None
        _, straight = read_key_list(cluster.setup, key_list.adverts, roster())
        _, turned = read_key_list(cluster.setup, key_list.adverts[::-1], roster())
        assert straight == turned


class TestBoxLists:
    @pytest.mark.parametrize(
        ("how", "reason", "culprit"),
        [
            ("few", "fewer than min_survivors", SERVER),
            ("twice", "with a member twice or unknown", SERVER),
            ("stranger", "with a member twice or unknown", SERVER),
            ("mine", "with a member twice or unknown", SERVER),
            ("moved", "does not open", NAMES[1]),
        ],
    )
    def test_refused_by_a_member(self, how: str, reason: str, culprit: str) -> None:
        cluster, lists = boxed()
        boxes = lists[NAMES[0]].boxes
        match how:
            case "few":
                boxes = boxes[:1]
            case "twice":
                boxes = (*boxes, boxes[0])
            case "stranger":
                boxes = (*boxes, (7, boxes[0][1]))
            case "mine":
                boxes = (*boxes, (0, boxes[0][1]))
            case _:
                boxes = ((1, lists[NAMES[2]].boxes[1][1]), *boxes[1:])
        phase = cluster.phases[NAMES[0]]
        assert isinstance(phase, client.Boxed)
        with pytest.raises(PeerError, match=reason) as caught:
            client.on_box_list(phase, BoxList(boxes=boxes))
        assert caught.value.culprit == culprit
        assert isinstance(caught.value, client.BadBoxError) == (culprit != SERVER)


class TestServer:
    def test_adverts(self) -> None:
        cluster = MaskingCluster(CASE)
        cluster.keys(CASE.names)
        advert = cluster.adverts[NAMES[0]]
        fresh = collecting.CollectingKeys(cluster.setup)
        state = collecting.on_advert(fresh, NAMES[0], advert, b"frame")
        for sender, frame, reason in (
            (NAMES[0], b"frame", "twice"),
            (NAMES[7], b"frame", "not a member"),
            (NAMES[1], b"frame", "reuses a key"),
        ):
            with pytest.raises(PeerError, match=reason) as caught:
                collecting.on_advert(state, sender, advert, frame)
            assert caught.value.culprit == sender
        with pytest.raises(PeerError, match="several messages"):
            collecting.on_advert(fresh, NAMES[0], advert, b"")

    def test_boxes(self) -> None:
        cluster = MaskingCluster(CASE)
        key_list = cluster.keys(CASE.names[:3])
        assert key_list is not None
        phase, state = cluster.phases[NAMES[0]], cluster.server
        assert isinstance(phase, client.Advertised)
        assert isinstance(state, server.CollectingBoxes)
        _, good = client.on_key_list(phase, key_list, roster(), cluster.entropy)
        change = msgspec.structs.replace
        for bad, reason in (
            (change(good, boxes=good.boxes[1:]), "has not encrypted one share for each member"),
            (
                change(good, boxes=(*good.boxes, (3, good.boxes[0][1]))),
                "has not encrypted one share for each member",
            ),
            (change(good, boxes=(good.boxes[0],) * 2), "has not encrypted one share for each member"),
            (
                change(good, share_digests=good.share_digests[:3]),
                "sends other share digests than with its key",
            ),
            (
                change(good, share_digests=good.share_digests[::-1]),
                "sends other share digests than with its key",
            ),
        ):
            with pytest.raises(PeerError, match=reason) as caught:
                server.on_boxes(state, NAMES[0], bad)
            assert caught.value.culprit == NAMES[0]
        with pytest.raises(PeerError, match="at the wrong time"):
            server.on_boxes(state, NAMES[3], good)
        with pytest.raises(PeerError, match="at the wrong time"):
            server.on_boxes(server.on_boxes(state, NAMES[0], good), NAMES[0], good)

    def test_inputs_and_receipts(self) -> None:
        cluster, lists = boxed()
        cluster.unpack(lists)
        masked, receipt = cluster.submit(NAMES[0], vectors(CASE, 1)[NAMES[0]])
        state = cluster.inputs
        with pytest.raises(PeerError, match="at the wrong time"):
            collecting.on_input(state, NAMES[0], masked, cluster.store)
        with pytest.raises(PeerError, match="at the wrong time"):
            collecting.on_receipt(state, NAMES[0], receipt, b"frame")
        with pytest.raises(PeerError, match="expected 16"):
            collecting.on_input(state, NAMES[1], MaskedInput(vector=bytes(15)), cluster.store)
        with pytest.raises(PeerError, match="other lists"):
            collecting.on_receipt(state, NAMES[1], Receipt(lists_digest=bytes(32)), b"frame")
        with pytest.raises(PeerError, match="at the wrong time"):
            collecting.on_receipt(state, NAMES[1], receipt, b"")
        assert state.submitted == {NAMES[0]}

    def test_an_input_of_another_type_is_our_own_bug(self) -> None:
        cluster, lists = boxed()
        cluster.unpack(lists)
        phase = cluster.phases[NAMES[0]]
        assert isinstance(phase, client.Ready)
        wide = vectors(replace(CASE, ring_bits=64), 1)[NAMES[0]]
        with pytest.raises(UsageError):
            client.mask(phase, wide)
        assert len(to_wire(wide)) == 32
