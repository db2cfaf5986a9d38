"""Next character of Shakespeare's plays, by speaking role: the task of LEAF (arXiv 1812.01097).

``plays.txt.gz`` is gzipped ASCII. A play begins with a line ``=== PLAY: <title> ===``; each speech is the
speaker's name and a colon, its lines, and an empty line.
"""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from securefl.base.arrays import I64
from securefl.base.errors import ConfigError
from securefl.training.data import dataset
from securefl.training.data.files import read_unpacked

ALPHABET = "\n !$&',-.234568:;?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz"
"""All characters of the speeches. The i-th, from 1, is token i; token 0 is any other character."""

CLASSES = len(ALPHABET) + 1

MIN_SPEECH = 1_000
"""Fewest characters of a speaking role that can be a party."""

TRAIN_SHARE = 0.8
"""Share of a role's text, from its beginning, for training."""

NOBODY = "UNKNOWN"
"""Unnamed speakers in the edition: not a role."""

_PLAYS = "118834f94c3ec391cb37a37d87c0ef519832c179223b4c76e8307eda649f3cd0"
"""SHA-256 of the unpacked file of Bosak's edition (37 plays)."""
_MARK, _END = "=== PLAY: ", " ==="
_TOKENS = np.zeros(256, dtype=np.int64)
_TOKENS[np.frombuffer(ALPHABET.encode(), dtype=np.uint8)] = np.arange(1, CLASSES)


@dataclass(frozen=True, slots=True)
class Role:
    """Speaker in one play; the same name in another play is another role."""

    play: str
    speaker: str
    speeches: list[str] = field(default_factory=list)

    @property
    def characters(self) -> int:
        """Number of characters of speech, without separators."""
        return sum(map(len, self.speeches))


def load_shakespeare(path: Path, length: int) -> dataset.Dataset:
    """Load the roles with enough text in the file ``path``, in the order of their first speech.

    Enough is :data:`MIN_SPEECH` characters, and a sequence (:func:`sequences_of`) each for training and test.
    No sequence crosses the border at 80 % of a role's text. Samples and labels are i64 ``(n, length)``.

    Raises:
        ConfigError: the file is missing, damaged or not in this format, or no role has enough text.
    """
    raw = read_unpacked(path)
    names: list[str] = []
    train: list[I64] = []
    test: list[I64] = []
    for role in roles_in(raw, path):
        if role.characters < MIN_SPEECH or role.speaker == NOBODY:
            continue
        tokens = tokens_of("\n".join(role.speeches))
        cut = int(TRAIN_SHARE * len(tokens))
        own, own_test = sequences_of(tokens[:cut], length), sequences_of(tokens[cut:], length)
        if len(own) and len(own_test):
            names.append(f"{role.speaker} ({role.play})")
            train.append(own)
            test.append(own_test)
    if not names:
        raise ConfigError(
            str(path),
            f"no role has {MIN_SPEECH:,} characters and a sequence of {length} to train and to test on",
            "set a smaller data.sequence_length",
        )
    (x_train, y_train, whose), (x_test, y_test, whose_test) = _join_sequences(train), _join_sequences(test)
    known = "" if hashlib.sha256(raw).hexdigest() == _PLAYS else " (unknown file)"
    title = f"Shakespeare's plays{known}, next character, sequences of {length}"
    roles = dataset.Roles(tuple(names), whose, whose_test)
    return dataset.Dataset(
        "shakespeare", x_train, y_train, x_test, y_test, CLASSES, (length,), 0.0, 1.0, title, roles
    )


def roles_in(raw: bytes, path: Path) -> list[Role]:
    """Return all roles of the plays in ``raw``, in the order of their first speech.

    Raises:
        ConfigError: not in this format; ``path`` names it, and the reason the line.
    """
    try:
        text = raw.decode("ascii")
    except UnicodeDecodeError as error:
        raise ConfigError(str(path), f"is not ASCII text (byte {error.start})") from None
    roles: dict[tuple[str, str], Role] = {}
    play, line = "", 1
    for block in text.split("\n\n"):
        first, _, speech = block.partition("\n")
        if first.startswith(_MARK) and first.endswith(_END) and not speech:
            play = first[len(_MARK) : -len(_END)]
        elif play and first.endswith(":") and first != ":":
            roles.setdefault((play, first[:-1]), Role(play, first[:-1])).speeches.append(speech.rstrip("\n"))
        elif block.strip():
            raise ConfigError(
                str(path),
                f"line {line} is neither a title nor a speaker with a colon: {first[:40]!r}",
                "fetch the file again",
            )
        line += block.count("\n") + 2
    return list(roles.values())


def tokens_of(text: str) -> I64:
    """Return the tokens of ASCII text, i64 ``(len(text),)`` in ``[0, CLASSES)``; 0 if unknown."""
    tokens: I64 = _TOKENS[np.frombuffer(text.encode("ascii"), dtype=np.uint8)]
    return tokens


def sequences_of(tokens: I64, length: int) -> I64:
    """Return all whole sequences of ``tokens``, each with the token after it: i64 ``(n, length + 1)``.

    Every token but the first is the label of exactly one position.
    """
    if len(tokens) <= length:
        return np.empty((0, length + 1), dtype=np.int64)
    return np.lib.stride_tricks.sliding_window_view(tokens, length + 1)[::length]


def _join_sequences(sequences: list[I64]) -> tuple[I64, I64, I64]:
    """Return samples, labels and the number of each sample's role."""
    whole = np.concatenate(sequences)
    sizes = [len(own) for own in sequences]
    return whole[:, :-1].copy(), whole[:, 1:].copy(), np.repeat(np.arange(len(sizes)), sizes)
