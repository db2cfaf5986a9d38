"""Lines for people."""

from __future__ import annotations

import pytest

from securefl.base.text import without_folders


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
