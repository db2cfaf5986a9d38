"""The tool that collects messages: places, files, samples."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from securefl.base.text import closest
from tools import messages


def test_every_raising_place_is_found_and_counts_as_missing_until_it_has_an_example() -> None:
    places = messages.raising()
    assert len(places) > 1000
    file, lines = places[0]
    everything = list(messages.missing([]))
    assert f"{file}:{lines.start}" in everything
    seen = messages.missing([{"place": f"{file}:{lines.stop - 1}", "kind": "ConfigError", "text": "x"}])
    assert f"{file}:{lines.start}" not in list(seen)


def test_a_text_has_the_innermost_place_of_the_package(tmp_path: Path) -> None:
    found = messages.Collector()

    class Names(list[str]):
        def __iter__(self):  # type: ignore[no-untyped-def]
            found.add("ConfigError", "name: is not a choice")
            found.add("ConfigError", "a second text of one place")
            return super().__iter__()

    closest("me", Names(["mean"]))
    found.add("ConfigError", "made outside of the package")
    found.write(tmp_path)
    (file,) = tmp_path.iterdir()
    (row,) = messages.read(file)
    assert row["place"].startswith("securefl/base/text.py:")
    assert row["text"] == "name: is not a choice"


def test_a_sample_follows_from_the_seed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "messages.jsonl"
    rows = [
        {"place": f"a.py:{n}", "kind": "line" if n % 2 else "ConfigError", "text": f"t{n}"} for n in range(60)
    ]
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")

    def drawn(*options: str) -> str:
        monkeypatch.setattr("sys.argv", ["messages", str(file), *options])
        assert messages.main() == 0
        return capsys.readouterr().out

    assert drawn("--draw", "40", "--seed", "1").count("[") == 40
    assert drawn("--draw", "40", "--seed", "1") == drawn("--draw", "40", "--seed", "1")
    assert drawn("--draw", "40", "--seed", "1") != drawn("--draw", "40", "--seed", "2")
    assert drawn("--all", "--errors").count("[ConfigError]") == 30
    assert "[line]" not in drawn("--all", "--errors")
