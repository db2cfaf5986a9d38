"""Small scenarios for live tests."""

from __future__ import annotations

from pathlib import Path

BASE = """
name = "live"
parties = {parties}
[data]
set = "digits"
train_limit = 600
test_limit = 200
[model]
type = "softmax"
[training]
epochs = 1
device = "cpu"
[clustering]
size = {size}
reclusterings = {reclusterings}
[secure_sum]
threshold = {threshold}
min_survivors = {min_survivors}
server = "{server}"
[deadlines]
join = 60
hello = 60
reveal = 60
keys = 60
shares = 60
training = 60
certify = 60
release = 60
[stop]
rounds = {rounds}
"""


def write_scenario(
    folder: Path,
    behaviours: str = "",
    *,
    parties: int = 6,
    size: int = 3,
    reclusterings: int = 1,
    threshold: int = 2,
    min_survivors: int = 2,
    server: str = "curious",
    verify: str = "off",
    rounds: int = 2,
) -> Path:
    text = BASE.format(
        parties=parties,
        size=size,
        reclusterings=reclusterings,
        threshold=threshold,
        min_survivors=min_survivors,
        server=server,
        rounds=rounds,
    )
    if server == "active":
        text = text.replace('server = "active"', f'server = "active"\nverify = "{verify}"')
    path = folder / "live.toml"
    path.write_text(text + behaviours)
    return path


def behaviour(kind: str, party: str, **fields: str | int | list[int]) -> str:
    lines = [
        f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {value}"
        for key, value in fields.items()
    ]
    return "\n".join(["[[behaviours]]", f'kind = "{kind}"', f'parties = ["{party}"]', *lines, ""])
