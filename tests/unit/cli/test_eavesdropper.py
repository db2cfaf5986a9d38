"""What the observer concludes comes from the frames that it read, and from signed ones only."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from securefl.base.crypto.keyfiles import write_roster
from securefl.base.errors import PeerError
from securefl.base.ids import EVERYONE, SERVER, PartyId
from securefl.protocol.kernel.events import Place
from securefl.protocol.messages.control import Goodbye
from securefl.protocol.messages.masking import KeyAdvert, MaskedInput
from securefl.protocol.messages.rounds import Hello, Limits, ModelAnnounce, Release
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.wire import topics
from securefl.runtime.launch.observer import Eavesdropper, Observations, ObserverSettings
from securefl.runtime.process.ground_truth import LAB_FRAMES
from securefl.runtime.transcript.chain import read_transcript
from securefl.runtime.transport.base import ArrivedFrame, BrokerUrl
from tests.unit.wire.ends import ROSTER, RUN, A, B, outbox, sealed

ZERO = bytes(32)
ROUND = Place(4)


def hello(samples: int) -> Hello:
    limits = Limits(min_survivors=2, k_anonymity=2, leakage="veto", colluders=0, leverage=1_000_000)
    return Hello(samples=samples, model_digest=ZERO, config_digest=ZERO, commitment=ZERO, limits=limits)


def frames(sender: PartyId, place: Place, message: AnyMessage, to: PartyId = SERVER) -> list[bytes]:
    return list(outbox(sender).frames(to, place, message))


ADVERT = KeyAdvert(mask_key=ZERO, box_key=ZERO, seed_digest=ZERO, shares_root=ZERO)


def learned(*read: list[bytes]) -> list[str]:
    eavesdropper = Eavesdropper(ROSTER, RUN)
    for frame in (frame for message in read for frame in message):
        eavesdropper.read(frame)
    return list(eavesdropper.conclusions())


def test_nothing_is_concluded_from_nothing() -> None:
    assert learned() == ["an eavesdropper without keys can read 0 signed frames"]


def test_every_conclusion_comes_from_what_was_read() -> None:
    assert learned(
        frames(SERVER, ROUND, ModelAnnounce(params=bytes(1000)), EVERYONE),
        frames(A, ROUND, hello(119)),
        frames(B, ROUND, hello(7)),
        frames(A, Place(4, 0, 2), ADVERT),
        frames(B, Place(4, 0, 2), ADVERT),
        frames(B, Place(4, 0, 2, 1), ADVERT),
        frames(B, Place(5, 1, 0), ADVERT),
        frames(A, ROUND, Release(sealed=bytes(60))),
    ) == [
        "an eavesdropper without keys can read 8 signed frames",
        "it learns the parties of each round: a, b, in rounds 4 to 5",
        "it learns sample counts, from hellos: a 119, b 7",
        "it learns the members of 2 clusters, from 4 key adverts; cluster 2 of round 4: a, b",
        "it reads 1 global model in clear, 1,018 bytes",
        "it cannot open 1 sealed release",
    ]


@pytest.mark.parametrize(("masked", "verdict"), [(True, "look uniform"), (False, "do NOT look uniform")])
def test_masked_inputs_are_tested_whatever_number_of_frames_they_take(masked: bool, verdict: str) -> None:
    values = np.random.default_rng(3).integers(0, 2**32 if masked else 999, 50_000).astype(np.uint32)
    (line,) = (
        text for text in learned(frames(A, ROUND, MaskedInput(vector=values.tobytes()))) if "chi" in text
    )
    assert f"of 1 masked input {verdict}" in line


def test_frames_in_carriers_tell_what_they_tell_alone() -> None:
    out = outbox(frame_limit=64 * 1024)
    vector = np.random.default_rng(3).integers(0, 2**32, 15_000).astype(np.uint32)
    (frame,) = out.frames(SERVER, ROUND, MaskedInput(vector=vector.tobytes()))
    carriers = list(out.carriers(frame, 32 * 1024))
    assert len(carriers) == 2
    assert learned([frame])[1:] == learned(carriers)[1:]
    assert learned(carriers)[0] == "an eavesdropper without keys can read 2 signed frames"
    assert learned(carriers[:1])[1:] == []


def forged() -> bytes:
    """In the name of a, signed by b."""
    return sealed(by=B)


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        bytes(200),
        forged(),
        sealed(sender="stranger"),
        sealed(run="another"),
        sealed(b"no hello", kind="Hello"),
    ],
)
def test_what_nobody_signed_tells_nothing(frame: bytes) -> None:
    eavesdropper = Eavesdropper(ROSTER, RUN)
    with pytest.raises(PeerError):
        eavesdropper.read(frame)
    assert list(eavesdropper.conclusions()) == learned()


def observe(folder: Path, read: list[bytes], *, lab: bool) -> tuple[Observations, list[dict[str, Any]]]:
    write_roster(folder / "roster.toml", ROSTER)
    broker = BrokerUrl("mqtt", "127.0.0.1", 1)
    watch = ObserverSettings(run=RUN, broker=broker, roster_file=folder / "roster.toml", out=folder, lab=lab)
    observations = Observations(watch)
    for frame in read:
        observations.take(ArrivedFrame(topics.up(RUN, A), frame))
    observations.close()
    entries = read_transcript(folder / "transcripts" / "observer.jsonl").of_kind("frame")
    return observations, [dict(entry.fields) for entry in entries]


def test_frames_are_recorded_by_metadata_and_hash_and_whole_only_in_the_lab(tmp_path: Path) -> None:
    frame = frames(A, ROUND, hello(119))[0]
    for lab in (False, True):
        folder = tmp_path / str(lab)
        folder.mkdir()
        observations, entries = observe(folder, [frame, forged()], lab=lab)
        assert [entry["sha256"] for entry in entries] == [
            hashlib.sha256(one).hexdigest() for one in (frame, forged())
        ]
        assert (entries[0]["message"], entries[0]["from"], entries[0]["round"]) == ("Hello", "a", 4)
        assert "has a wrong signature" in entries[1]["unreadable"]
        assert "119" not in json.dumps({**entries[0], "time": 0, "sha256": ""})
        assert (folder / "lab" / LAB_FRAMES).exists() is lab
        assert next(observations.conclusions()).startswith("broker's view: 2 frames, 1 of them unreadable")


def test_only_the_servers_goodbye_to_all_ends_the_watch(tmp_path: Path) -> None:
    bye = Goodbye(reason="done", aborted=False)
    for number, (sender, to, over) in enumerate(
        [(A, EVERYONE, False), (SERVER, A, False), (SERVER, EVERYONE, True)]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        observations, _ = observe(folder, frames(sender, Place(-1), bye, to), lab=False)
        assert observations.over is over
