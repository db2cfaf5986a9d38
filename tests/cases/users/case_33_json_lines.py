"""Output for programs (``--json``) stays JSON lines although a site prints."""

from __future__ import annotations

import json
import subprocess

from tests.cases.users.common import WORK, scenario, verdict
from tests.cases.users.site_that_prints import Site

METRIC = """
[evaluation]
repeats = "accept"
[[evaluation.metrics]]
name = "mse"
kind = "mean"
upper = 9.0
"""
toml = scenario(Site("p00").parameters(), 2, METRIC)
SITE = ("--site", "tests.cases.users.site_that_prints:Site", "--json")
events = {}
for command in ("simulate", "run"):
    done = subprocess.run(
        ["securefl", command, toml, *SITE, "--out", WORK / command],
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        events[command] = [json.loads(line)["event"] for line in done.stdout.splitlines()]
    except ValueError:
        verdict(ok=False, got=done.stdout[:2000], right="each line of stdout is JSON")
    ok = done.returncode == 0 and events[command][0] == "start" and events[command][-1] == "summary"
    if not ok or (command == "simulate" and "written to the descriptor" not in done.stderr):
        verdict(ok=False, got=(done.returncode, events[command], done.stderr[-2000:]), right="JSON lines")
verdict(ok=True, got={command: len(lines) for command, lines in events.items()}, right="JSON lines")
