"""Lines for people."""

from __future__ import annotations

import pytest

from securefl.base.text import closest, split_words, without_folders


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/srv/fl/run 1/metrics.jsonl: cannot be written", "run 1/metrics.jsonl: cannot be written"),
        (
            "the disk is full: /home/alice/out/metrics.jsonl (No space left)",
            "the disk is full: metrics.jsonl (No space left)",
        ),
        ("'/home/alice/out' and ~/keys/north.key, ../x/y", "'out' and north.key, y"),
        (
            "gave up on mqtts://broker.example.org:8883 after 60 s",
            "gave up on mqtts://broker.example.org:8883 after 60 s",
        ),
        ("3/4 of 1 GiB, and/or none", "3/4 of 1 GiB, and/or none"),
        ("stopped by SIGTERM", "stopped by SIGTERM"),
    ],
)
def test_folders_of_this_machine_are_left_out(text: str, expected: str) -> None:
    assert without_folders(text) == expected


RULES = (
    "bulyan",
    "centred-clipping",
    "geometric-median",
    "krum",
    "mean",
    "median",
    "multi-krum",
    "trimmed-mean",
)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("trmean", "trimmed-mean"),  # by spelling alone: mean
        ("tm", "trimmed-mean"),
        ("trimmed_mean", "trimmed-mean"),
        ("TrimmedMean", "trimmed-mean"),
        ("gm", "geometric-median"),
        ("geomed", "geometric-median"),
        ("cclip", "centred-clipping"),
        ("me", "mean"),
        ("med", "median"),
        ("trim", "trimmed-mean"),
        ("mutli-krum", "multi-krum"),
        ("medain", "median"),
        ("", None),
        ("-", None),
        ("m", None),
        ("fedprox", None),
    ],
)
def test_a_prefix_or_an_abbreviation_is_closer_than_a_spelling(word: str, expected: str | None) -> None:
    assert closest(word, RULES) == expected


def test_without_names_no_name_is_close() -> None:
    assert closest("mean", ()) is None


def test_class_names_are_spaced() -> None:
    assert split_words("CollectingHellos") == "collecting hellos"
    assert split_words("Idle") == "idle"
