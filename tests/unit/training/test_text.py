from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from securefl.base.errors import ConfigError
from securefl.base.ids import PartyId
from securefl.scenario.data import Data
from securefl.training.data.datasets import load_dataset
from securefl.training.data.partitions.iid import Iid
from securefl.training.data.partitions.roles import ByRole
from securefl.training.data.shards import load_shard, write_shards
from securefl.training.data.text import ALPHABET, CLASSES, load_shakespeare, roles_in, sequences_of, tokens_of
from tests.unit.training.builders import real_data_dir

PLAYS = """=== PLAY: One ===

ANN:
Ho there!
Ho.

BOB & ANN:
Who?

ANN:
I.

=== PLAY: Two ===

ANN:
Nay.
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "plays.txt.gz"
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    return path


def play(*roles: tuple[str, int]) -> str:
    """A play in which each role speaks so many characters, in speeches of at most 70, in turn."""
    blocks = ["=== PLAY: Any ==="]
    for name, characters in roles:
        text = "The quick brown fox jumps over the lazy dog; and then again he does so. " * (
            characters // 70 + 1
        )
        blocks += [
            f"{name}:\n{text[start : min(start + 70, characters)]}" for start in range(0, characters, 70)
        ]
    return "\n\n".join(blocks) + "\n"


def test_a_role_is_a_speaker_in_one_play() -> None:
    roles = roles_in(PLAYS.encode(), Path("x"))
    assert [(role.play, role.speaker, role.speeches) for role in roles] == [
        ("One", "ANN", ["Ho there!\nHo.", "I."]),
        ("One", "BOB & ANN", ["Who?"]),
        ("Two", "ANN", ["Nay."]),
    ]
    assert roles[0].characters == 15


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ANN:\nHo.\n", "line 1 is neither"),
        ("=== PLAY: One ===\n\nANN:\nHo.\n\nHo.\n", "line 6 is neither .* 'Ho.'"),
        ("=== PLAY: One ===\n\n:\nHo.\n", "line 3 is neither"),
        ("=== PLAY: One ===\n\nANN:\nHö.\n", r"is not ASCII text \(byte 25"),
        ("", "no role has 1,000 characters"),
        (PLAYS, "no role has 1,000 characters"),
    ],
)
def test_other_texts_are_refused(tmp_path: Path, text: str, reason: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError, match=reason) as caught:
        load_shakespeare(path, 4)
    assert caught.value.path == str(path)


def test_missing_and_damaged_files(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="shakespeare is read from files"):
        load_dataset("shakespeare", None)
    with pytest.raises(ConfigError, match=r"file not found, the folder .* does not exist"):
        load_dataset("shakespeare", tmp_path)
    path = written(tmp_path, play(("ANN", 2000)))
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ConfigError, match="not an intact gzip file"):
        load_shakespeare(path, 4)


def test_tokens_number_the_alphabet_from_one_and_zero_is_any_other_character() -> None:
    assert tokens_of(ALPHABET).tolist() == list(range(1, CLASSES))
    assert tokens_of("a~b\t").tolist() == [CLASSES - 26, 0, CLASSES - 25, 0]


@given(size=st.integers(0, 100), length=st.integers(1, 30))
def test_sequences_predict_every_token_but_the_first_at_most_once(size: int, length: int) -> None:
    rows = sequences_of(np.arange(size, dtype=np.int64), length)
    assert rows.shape == (max(0, (size - 1) // length), length + 1)
    assert rows[:, 1:].ravel().tolist() == list(range(1, 1 + rows.shape[0] * length))
    assert rows[:, 0].tolist() == list(range(0, rows.shape[0] * length, length))


def test_roles_with_enough_text_in_the_order_of_their_first_speech(tmp_path: Path) -> None:
    path = written(tmp_path, play(("EVE", 1000), ("SHORT", 999), ("UNKNOWN", 5000), ("ANN", 2000)))
    data = load_shakespeare(path, 40)
    assert data.roles is not None
    assert data.roles.names == ("EVE (Any)", "ANN (Any)")
    # 1,000 characters and 14 line ends between the 15 speeches; 811 for training.
    assert np.bincount(data.roles.train).tolist() == [20, 40]
    assert np.bincount(data.roles.test).tolist() == [5, 10]
    assert data.title == "Shakespeare's plays (unknown file), next character, sequences of 40"
    assert (data.input_shape, data.classes) == ((40,), CLASSES)


def test_long_sequences_need_more_text(tmp_path: Path) -> None:
    path = written(tmp_path, play(("EVE", 1000), ("ANN", 2000)))
    roles = load_shakespeare(path, 300).roles
    assert roles is not None
    assert roles.names == ("ANN (Any)",)
    with pytest.raises(ConfigError, match="no role has 1,000 characters and a sequence of 3000") as caught:
        load_shakespeare(path, 3000)
    assert "data.sequence_length" in caught.value.remedy


def test_labels_are_the_next_characters_and_train_and_test_do_not_overlap(tmp_path: Path) -> None:
    data = load_shakespeare(written(tmp_path, play(("ANN", 3000))), 16)
    text = "\n".join(roles_in(play(("ANN", 3000)).encode(), Path("x"))[0].speeches)
    tokens = tokens_of(text)
    cut = int(0.8 * len(text))
    for x, y, own in ((data.x_train, data.y_train, tokens[:cut]), (data.x_test, data.y_test, tokens[cut:])):
        used = x.size
        assert len(own) - 16 <= used + 1 <= len(own) + 1
        assert x.ravel().tolist() == own[:used].tolist()
        assert y.ravel().tolist() == own[1 : used + 1].tolist()


def test_the_plays() -> None:
    data = load_dataset("shakespeare", real_data_dir("shakespeare"), 40)
    assert data.title == "Shakespeare's plays, next character, sequences of 40"
    assert data.roles is not None
    # 637 roles have 1,000 characters; three of them are the edition's nameless speakers.
    assert len(data.roles.names) == 634
    assert data.roles.names[:2] == (
        "COUNTESS (All's Well That Ends Well)",
        "BERTRAM (All's Well That Ends Well)",
    )
    assert len(np.unique(data.roles.train)) == len(np.unique(data.roles.test)) == 634
    # No unknown characters.
    assert min(data.x_train.min(), data.y_train.min(), data.y_test.min()) > 0
    assert max(data.x_train.max(), data.y_train.max(), data.y_test.max()) == CLASSES - 1


@pytest.mark.parametrize("kind", [ByRole(), Iid()])
def test_shards_of_a_text(tmp_path: Path, kind: ByRole | Iid) -> None:
    data = load_shakespeare(written(tmp_path, play(("EVE", 1500), ("ANN", 2000), ("BOB", 1200))), 40)
    parties = (PartyId("p0"), PartyId("p1"))
    config = Data(set="shakespeare", partition=kind, server_fraction=0.1, train_limit=60)
    files = write_shards(data, config, parties, 7, tmp_path)
    assert files.server is not None
    assert sum(files.counts.values()) + 6 == 60
    for path in (*files.parties.values(), files.test, files.server):
        shard = load_shard(path)
        assert shard.tokens
        assert shard.x.dtype == shard.y.dtype == np.int64
        assert shard.x.shape == shard.y.shape == (len(shard.y), 40)
        np.testing.assert_array_equal(shard.x[:, 1:], shard.y[:, :-1])
        assert (shard.classes, shard.input_shape) == (CLASSES, (40,))
